"""Plans of jobs and fleets: BOA's widths and Srift's VMs, in version 1."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts import ExplainedChoice
from optplan.contracts.conditions import Arrived, EpochsDone, IterationsDone, Started
from optplan.contracts.plan import Binding, Expected, Limit, Segment
from optplan.contracts.resources import Billing, Resource
from optplan.formulations.boa import planning as boa
from optplan.formulations.srift import planning as srift
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Interruptions
from optplan.instances.earlier_plans.steps import EarlierPlan, EarlierStep, read_number
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_CountOrZero = Annotated[int, Field(ge=0)]


class EarlierBoaPlan(EarlierPlan):
    """Widths by class and epoch, in version 1."""

    width_table: ByName[tuple[boa.WidthRow, ...]]
    arrival_rate_per_hour: ByName[float]
    reasons: tuple[ExplainedChoice, ...] = ()


def read_boa(plan: EarlierBoaPlan) -> boa.BoaPlan:
    """Translate a plan, which is validated."""
    starts_s: dict[tuple[str, int], float] = {}
    segments = []
    for number, step in enumerate(plan.steps):
        way = (step.subject, step.branch)
        segments.append(_write_boa(plan, step, f"steps.{number}", starts_s.get(way, 0.0)))
        starts_s[way] = segments[-1].end_s
    return boa.BoaPlan(
        **plan.common(),
        resources={
            name: Resource(gpu_type=name, billing=Billing.GPUS, **plan.price_fields(name))
            for name in dict.fromkeys([*plan.prices, *(step.gpu_type for step in plan.steps)])
        },
        units=tuple(
            boa.JobClassUnit(
                id=name,
                label=f"jobs of class {name}",
                arrival_rate_per_hour=rate,
                epochs=plan.width_table[name][0].gpus.size,
            )
            for name, rate in plan.arrival_rate_per_hour.items()
        ),
        segments=tuple(segments),
        semantics=boa.SEMANTICS,
        reasons=plan.reasons,
    )


def _write_boa(plan: EarlierBoaPlan, step: EarlierStep, path: str, start_s: float) -> Segment:
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


class _Vms(FrozenModel):
    """A group of VMs, in version 1."""

    type: str
    instance_type: str = ""
    region: str = ""
    gpu: str
    gpus_per_vm: _Count
    count: _Count
    kept: _CountOrZero
    started: _CountOrZero
    spot: bool
    price_usd_per_hour: Annotated[float, Field(gt=0)]
    batch_per_vm: _Count
    batch_per_rank: _Count
    first_rank: _CountOrZero
    last_rank: _CountOrZero
    loss_weight: Annotated[float, Field(gt=0)]
    cost_usd: _Amount


class EarlierSriftPlan(EarlierPlan):
    """A fleet, in version 1."""

    fleet: tuple[_Vms, ...]
    world_size: _Count
    global_batch: _Count
    iterations: _Count
    network: str = ""
    iteration_s: _Amount
    training_s: _Amount
    launch_s: _Amount
    launch_billed: bool
    deadline_s: _Amount | None = None
    budget_usd: _Amount | None = None
    checkpoints: Interruptions | None = None
    price_usd_per_hour: _Amount
    total_usd: _Amount


def read_srift(plan: EarlierSriftPlan) -> srift.SriftPlan:
    """Translate a plan, which is validated."""
    binding = Binding.HARD if plan.checkpoints is None else Binding.AVERAGE
    given = {DEADLINE: (plan.deadline_s, "s"), BUDGET: (plan.budget_usd, "usd")}
    fleet = tuple(
        srift.PlannedVms(
            id=f"{vms.type}@{vms.batch_per_vm}",
            label=f"{vms.count:,} {vms.type}, {vms.batch_per_rank:,} samples on each GPU",
            **{name: getattr(vms, name) for name in type(vms).model_fields},
        )
        for vms in plan.fleet
    )
    names = ("world_size", "global_batch", "iterations", "network", "iteration_s", "training_s", "launch_s")
    return srift.SriftPlan(
        **plan.common(),
        limits={
            name: Limit(amount=amount, unit=unit, binding=binding)
            for name, (amount, unit) in given.items()
            if amount is not None
        },
        resources={vms.type: _describe(plan, vms) for vms in plan.fleet},
        units=fleet,
        segments=tuple(_write_fleet(plan, vms) for vms in fleet),
        semantics=srift.SEMANTICS,
        **{name: getattr(plan, name) for name in names},
        launch_billed=plan.launch_billed,
        checkpoints=plan.checkpoints,
    )


def _describe(plan: EarlierSriftPlan, vms: _Vms) -> Resource:
    price = plan.price_fields(vms.type, vms.gpus_per_vm) | {"price_usd_per_hour": vms.price_usd_per_hour}
    return Resource(
        gpu_type=vms.gpu,
        gpus_per_node=vms.gpus_per_vm,
        instance_type=vms.instance_type,
        region=vms.region,
        launch_s=plan.launch_s,
        launch_billed=plan.launch_billed,
        spot=vms.spot,
        **price,
    )


def _write_fleet(plan: EarlierSriftPlan, vms: srift.PlannedVms) -> Segment:
    gpus = vms.count * vms.gpus_per_vm
    billed_s = plan.training_s + (plan.launch_s if plan.launch_billed else 0.0)
    return Segment(
        id=f"train/{vms.id}",
        label=vms.label,
        unit=vms.id,
        resource=vms.type,
        pool=vms.id,
        nodes=vms.count,
        workers=gpus,
        batch_per_worker=vms.batch_per_rank,
        enter=Started(),
        exit=IterationsDone(iterations=plan.iterations),
        expected=Expected(
            seconds=plan.launch_s + plan.training_s,
            pause_s=plan.launch_s,
            launch_s=plan.launch_s,
            member_s=plan.training_s,
            iteration_s=plan.iteration_s,
            gpu_hours=gpus * billed_s / SECONDS_PER_HOUR,
            busy_gpu_hours=gpus * plan.training_s / SECONDS_PER_HOUR,
            cost_usd=vms.cost_usd,
        ),
    )
