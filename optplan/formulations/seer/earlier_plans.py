"""SEER's plans of version 1 as plans of version 2."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.conditions import Elapsed, Entry, Promoted, Selection, Started
from optplan.contracts.earlier_plans import EarlierPlan
from optplan.contracts.plan import Expected, Unit, UnitKind
from optplan.contracts.resources import Billing, Resource
from optplan.formulations.seer.data.search_space import Hyperparameter
from optplan.formulations.seer.planning import SEMANTICS, TRIALS, SeerPlan, SkewedSegment
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

_Count = Annotated[int, Field(ge=1)]


class EarlierGroup(FrozenModel):
    """Trials of neighbouring ranks, in version 1."""

    first_rank: _Count
    last_rank: _Count
    trials: _Count
    gpus: _Count
    kept: Annotated[int, Field(ge=0)]


class EarlierStage(FrozenModel):
    """A round of version 1."""

    number: _Count
    start_min: Annotated[float, Field(ge=0)]
    training_from_min: Annotated[float, Field(ge=0)]
    stop_min: Annotated[float, Field(ge=0)]
    groups: Annotated[tuple[EarlierGroup, ...], Field(min_length=1)]


class EarlierSeerPlan(EarlierPlan):
    """Skewed stages, in version 1."""

    stages: Annotated[tuple[EarlierStage, ...], Field(min_length=1)]
    search_space: ByName[Hyperparameter] = Field(default_factory=dict)


def translate(fields: dict[str, Any], path: str = "") -> SeerPlan:
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
    plan = EarlierSeerPlan.parse(fields, path=path)
    gpu_type = next((step.gpu_type for step in plan.steps), "gpu")
    segments: list[SkewedSegment] = []
    last: list[SkewedSegment] = []
    for stage in plan.stages:
        last = _translate_stage(plan, stage, last, gpu_type)
        segments += last
    places = sum(segment.members for segment in segments if segment.round == 1)
    return SeerPlan(
        **plan.common(),
        resources={gpu_type: Resource(gpu_type=gpu_type, billing=Billing.GPUS, **plan.price_fields(gpu_type))},
        units=(Unit(id=TRIALS, kind=UnitKind.TRIALS, members=places),),
        segments=tuple(segments),
        semantics=SEMANTICS,
        search_space=plan.search_space,
    )


def _translate_stage(
    plan: EarlierSeerPlan, stage: EarlierStage, last: list[SkewedSegment], gpu_type: str
) -> list[SkewedSegment]:
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
            SkewedSegment(
                id=f"r{stage.number}-g{group.gpus}",
                label=f"round {stage.number}, ranks {group.first_rank} to {group.last_rank}",
                unit=TRIALS,
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
