"""BOA's plans of version 1 as plans of version 2."""

from __future__ import annotations

from typing import Any

from optplan.contracts.conditions import Arrived, EpochsDone
from optplan.contracts.earlier_plans import EarlierPlan, EarlierStep, read_number
from optplan.contracts.explanation import ExplainedChoice
from optplan.contracts.plan import Expected, Segment
from optplan.contracts.resources import Billing, Resource
from optplan.formulations.boa.planning import SEMANTICS, BoaPlan, JobClassUnit, WidthRow
from optplan.schema import ByName


class EarlierBoaPlan(EarlierPlan):
    """Widths by class and epoch, in version 1."""

    width_table: ByName[tuple[WidthRow, ...]]
    arrival_rate_per_hour: ByName[float]
    reasons: tuple[ExplainedChoice, ...] = ()


def translate(fields: dict[str, Any], path: str = "") -> BoaPlan:
    """Read a plan of version 1.

    Parameters
    ----------
    fields
        What the file holds.
    path
        Its name, for messages.

    Raises
    ------
    DataError
        When it is no such plan.
    """
    plan = EarlierBoaPlan.parse(fields, path=path)
    starts_s: dict[tuple[str, int], float] = {}
    segments = []
    for number, step in enumerate(plan.steps):
        way = (step.subject, step.branch)
        segments.append(_translate_step(plan, step, f"steps.{number}", starts_s.get(way, 0.0)))
        starts_s[way] = segments[-1].end_s
    return BoaPlan(
        **plan.common(),
        resources={
            name: Resource(gpu_type=name, billing=Billing.GPUS, **plan.price_fields(name))
            for name in dict.fromkeys([*plan.prices, *(step.gpu_type for step in plan.steps)])
        },
        units=tuple(
            JobClassUnit(
                id=name,
                label=f"jobs of class {name}",
                arrival_rate_per_hour=rate,
                epochs=plan.width_table[name][0].gpus.size,
            )
            for name, rate in plan.arrival_rate_per_hour.items()
        ),
        segments=tuple(segments),
        semantics=SEMANTICS,
        reasons=plan.reasons,
    )


def _translate_step(plan: EarlierBoaPlan, step: EarlierStep, path: str, start_s: float) -> Segment:
    first = 1
    if step.trigger != "arrival":
        first = read_number(r"start of epoch (\d+)", step.trigger, f"{path}.trigger")
    end = read_number(r"end of epoch (\d+)", step.until, f"{path}.until")
    price = plan.prices.get(step.gpu_type)
    return Segment(
        id=f"{step.subject}/{step.branch}/{first}",
        label=f"{step.subject}, epochs {first} to {end}: {step.gpus} GPUs",
        unit=step.subject,
        share=step.share,
        resource=step.gpu_type,
        pool=step.subject,
        nodes=step.gpus,
        workers=step.gpus,
        enter=Arrived() if first == 1 else EpochsDone(epochs=first - 1),
        exit=EpochsDone(epochs=end),
        expected=Expected(
            start_s=start_s,
            seconds=step.expected_duration_s,
            pause_s=step.expected_overhead_s,
            member_s=step.expected_duration_s,
            gpu_hours=step.expected_gpu_hours,
            busy_gpu_hours=step.expected_gpu_hours,
            cost_usd=None if price is None else price.usd_per_hour * step.expected_gpu_hours,
        ),
    )
