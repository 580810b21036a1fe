"""Plans of searches: RubberBand's stages and SEER's rounds, in version 1.

RubberBand's minimum charges are those of the last stage: version 1 did not say whose they were.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts.conditions import AllEnded, Elapsed, Entry, IterationsDone, Promoted, Selection, Started
from optplan.contracts.plan import Expected, Unit, UnitKind
from optplan.contracts.resources import Billing, Resource
from optplan.formulations.rubberband import planning as rubberband
from optplan.formulations.seer import planning as seer
from optplan.formulations.seer.data.search_space import Hyperparameter
from optplan.instances.earlier_plans.steps import EarlierPlan
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_CountOrZero = Annotated[int, Field(ge=0)]


class _Stage(FrozenModel):
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

    stages: Annotated[tuple[_Stage, ...], Field(min_length=1)]
    instance_type: str = ""
    instance_price_usd_per_hour: Annotated[float, Field(gt=0)]
    gpus_per_instance: _Count
    billing: str
    minimum_charges_usd: _Amount
    total_usd: _Amount


def read_rubberband(plan: EarlierRubberBandPlan) -> rubberband.RubberBandPlan:
    """Translate a plan, which is validated."""
    name = plan.instance_type or "gpu"
    segments: list[rubberband.SearchStage] = []
    for stage in plan.stages:
        minimum_usd = plan.minimum_charges_usd if stage is plan.stages[-1] else 0.0
        last = segments[-1] if stage.stage > 1 and segments else None
        segments.append(_write_stage(plan, stage, last, name, minimum_usd))
    cohorts = [segment for segment in segments if not isinstance(segment.enter, Promoted)]
    per_instance = plan.billing == "per-instance"
    return rubberband.RubberBandPlan(
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
        semantics=rubberband.SEMANTICS,
    )


#: What a stage of version 2 says in the same words.
_STAGE_FIELDS = (
    *("bracket", "stage", "iterations", "kept", "added", "released", "checkpoints", "moves"),
    *("training_usd", "growth_usd"),
)


def _write_stage(
    plan: EarlierRubberBandPlan, stage: _Stage, last: rubberband.SearchStage | None, resource: str, minimum_usd: float
) -> rubberband.SearchStage:
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
    return rubberband.SearchStage(
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
        **{name: getattr(stage, name) for name in _STAGE_FIELDS},
        minimum_charge_usd=minimum_usd,
    )


class _Group(FrozenModel):
    """Trials of neighbouring ranks, in version 1."""

    first_rank: _Count
    last_rank: _Count
    trials: _Count
    gpus: _Count
    kept: Annotated[int, Field(ge=0)]


class _Round(FrozenModel):
    """A round of version 1."""

    number: _Count
    start_min: Annotated[float, Field(ge=0)]
    training_from_min: Annotated[float, Field(ge=0)]
    stop_min: Annotated[float, Field(ge=0)]
    groups: Annotated[tuple[_Group, ...], Field(min_length=1)]


class EarlierSeerPlan(EarlierPlan):
    """Skewed stages, in version 1."""

    stages: Annotated[tuple[_Round, ...], Field(min_length=1)]
    search_space: ByName[Hyperparameter] = Field(default_factory=dict)


def read_seer(plan: EarlierSeerPlan) -> seer.SeerPlan:
    """Translate a plan, which is validated."""
    gpu_type = next((step.gpu_type for step in plan.steps), "gpu")
    segments: list[seer.SkewedSegment] = []
    last: list[seer.SkewedSegment] = []
    for stage in plan.stages:
        last = _write_round(plan, stage, last, gpu_type)
        segments += last
    places = sum(segment.members for segment in segments if segment.round == 1)
    return seer.SeerPlan(
        **plan.common(),
        resources={gpu_type: Resource(gpu_type=gpu_type, billing=Billing.GPUS, **plan.price_fields(gpu_type))},
        units=(Unit(id=seer.TRIALS, kind=UnitKind.TRIALS, members=places),),
        segments=tuple(segments),
        semantics=seer.SEMANTICS,
        search_space=plan.search_space,
    )


def _write_round(
    plan: EarlierSeerPlan, stage: _Round, last: list[seer.SkewedSegment], gpu_type: str
) -> list[seer.SkewedSegment]:
    enter: Entry = Started()
    if last:
        enter = Promoted(of=tuple(Selection(segment=each.id, top=each.kept) for each in last if each.kept))
    nodes = sum(group.trials * group.gpus for group in stage.groups)
    seconds = (stage.stop_min - stage.start_min) * SECONDS_PER_MINUTE
    price = plan.prices.get(gpu_type)
    segments = []
    for group in stage.groups:
        held_h = group.trials * group.gpus * seconds / SECONDS_PER_HOUR
        segments.append(
            seer.SkewedSegment(
                id=f"r{stage.number}-g{group.gpus}",
                label=f"round {stage.number}, ranks {group.first_rank} to {group.last_rank}",
                unit=seer.TRIALS,
                first_rank=group.first_rank,
                last_rank=group.last_rank,
                at_once=group.trials,
                resource=gpu_type,
                pool="search",
                nodes=nodes,
                workers=group.gpus,
                enter=enter,
                exit=Elapsed(seconds=stage.stop_min * SECONDS_PER_MINUTE),
                expected=Expected(
                    start_s=stage.start_min * SECONDS_PER_MINUTE,
                    seconds=seconds,
                    pause_s=(stage.training_from_min - stage.start_min) * SECONDS_PER_MINUTE,
                    member_s=(stage.stop_min - stage.training_from_min) * SECONDS_PER_MINUTE,
                    gpu_hours=held_h,
                    busy_gpu_hours=held_h,
                    cost_usd=None if price is None else price.usd_per_hour * held_h,
                ),
                round=stage.number,
                kept=group.kept,
            )
        )
    return segments
