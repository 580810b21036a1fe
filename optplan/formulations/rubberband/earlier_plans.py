"""RubberBand's plans of version 1 as plans of version 2."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.conditions import AllEnded, Entry, IterationsDone, Promoted, Selection, Started
from optplan.contracts.earlier_plans import EarlierPlan
from optplan.contracts.plan import Expected, Unit, UnitKind
from optplan.contracts.resources import Billing, Resource
from optplan.formulations.rubberband.planning import SEMANTICS, RubberBandPlan, SearchStage
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_CountOrZero = Annotated[int, Field(ge=0)]


class EarlierStage(FrozenModel):
    """A stage of version 1."""

    bracket: _Count
    stage: _Count
    trials: _Count
    iterations: _Count
    kept: _Count
    instances: _Count
    added: _CountOrZero
    released: _CountOrZero
    gpus_per_trial: _Count
    trials_at_once: _Count
    starts_s: _Amount
    trains_s: _Amount
    ends_s: _Amount
    checkpoints: _CountOrZero
    moves: _CountOrZero
    training_usd: _Amount
    growth_usd: _Amount
    cost_so_far_usd: _Amount


class EarlierRubberBandPlan(EarlierPlan):
    """Stages with their times, in version 1."""

    stages: Annotated[tuple[EarlierStage, ...], Field(min_length=1)]
    instance_type: str = ""
    instance_price_usd_per_hour: Annotated[float, Field(gt=0)]
    gpus_per_instance: _Count
    billing: str
    minimum_charges_usd: _Amount
    total_usd: _Amount


def translate(fields: dict[str, Any], path: str = "") -> RubberBandPlan:
    """Read a plan of version 1, whose minimum charges are those of the last stage: it did not say whose they were.

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
    plan = EarlierRubberBandPlan.parse(fields, path=path)
    name = plan.instance_type or "gpu"
    segments: list[SearchStage] = []
    for stage in plan.stages:
        minimum_usd = plan.minimum_charges_usd if stage is plan.stages[-1] else 0.0
        last = segments[-1] if stage.stage > 1 and segments else None
        segments.append(_translate_stage(plan, stage, last, name, minimum_usd))
    cohorts = [segment for segment in segments if not isinstance(segment.enter, Promoted)]
    per_instance = plan.billing == "per-instance"
    return RubberBandPlan(
        **plan.common(),
        resources={
            name: Resource(
                gpu_type=name,
                gpus_per_node=plan.gpus_per_instance,
                instance_type=plan.instance_type,
                billing=Billing.NODES if per_instance else Billing.GPUS,
                **plan.price_fields(name, plan.gpus_per_instance),
            )
        },
        units=tuple(Unit(id=each.unit, kind=UnitKind.TRIALS, members=each.members) for each in cohorts),
        segments=tuple(segments),
        semantics=SEMANTICS,
    )


def _translate_stage(
    plan: EarlierRubberBandPlan, stage: EarlierStage, last: SearchStage | None, resource: str, minimum_usd: float
) -> SearchStage:
    goes_on = last is not None and stage.trials <= last.members
    enter: Entry = Started()
    if last is not None:
        best = Selection(segment=last.id, top=stage.trials)
        enter = Promoted(of=(best,)) if goes_on else AllEnded(segments=(last.id,))
    done = stage.iterations
    if goes_on and last is not None and isinstance(last.exit, IterationsDone):
        done += last.exit.iterations
    name, train_s = f"b{stage.bracket}-s{stage.stage}", stage.ends_s - stage.trains_s
    member_s = train_s / -(-stage.trials // stage.trials_at_once)
    held = stage.instances * plan.gpus_per_instance
    return SearchStage(
        id=name,
        label=f"bracket {stage.bracket}, stage {stage.stage}",
        unit=last.unit if last is not None and goes_on else f"{name}-trials",
        last_rank=stage.trials,
        at_once=stage.trials_at_once,
        resource=resource,
        pool=f"bracket-{stage.bracket}",
        nodes=stage.instances,
        workers=stage.gpus_per_trial,
        enter=enter,
        exit=IterationsDone(iterations=done),
        expected=Expected(
            start_s=stage.starts_s,
            seconds=stage.ends_s - stage.starts_s,
            pause_s=stage.trains_s - stage.starts_s,
            launch_s=stage.trains_s - stage.starts_s,
            member_s=member_s,
            iteration_s=member_s / stage.iterations,
            gpu_hours=held * (stage.ends_s - stage.starts_s) / SECONDS_PER_HOUR,
            busy_gpu_hours=stage.trials * stage.gpus_per_trial * member_s / SECONDS_PER_HOUR,
            cost_usd=stage.training_usd + stage.growth_usd + minimum_usd,
        ),
        bracket=stage.bracket,
        stage=stage.stage,
        iterations=stage.iterations,
        kept=stage.kept,
        added=stage.added,
        released=stage.released,
        checkpoints=stage.checkpoints,
        moves=stage.moves,
        training_usd=stage.training_usd,
        growth_usd=stage.growth_usd,
        minimum_charge_usd=minimum_usd,
    )
