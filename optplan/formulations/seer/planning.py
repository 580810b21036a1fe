"""From SEER's trials to a plan: skewed stages, in which trials hold different numbers of GPUs by their rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from pydantic import Field

from optplan.contracts.conditions import Elapsed, Entry, Promoted, Selection, Started
from optplan.contracts.plan import Binding, Expected, Limit, Plan, Segment, Semantics, Unit, UnitKind
from optplan.contracts.resources import Billing, Resource
from optplan.contracts.result import Result, describe_origin, require_solution
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import DEADLINE, SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import Hyperparameter
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.laws.rounds import Round, count_nodes, list_rounds
from optplan.schema import ByName, Count, CountOrZero
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE


class SkewedSegment(Segment):
    """Trials of neighbouring ranks that hold as many GPUs each in a round."""

    round: Count  #: From 1; the segments of a round begin and end together.
    kept: CountOrZero  #: How many of its trials, the best, go on to the next round; after the last one all of them.


class SeerPlan(Plan):
    """Skewed stages: rounds that end by the clock, in which trials hold different numbers of GPUs by their rank."""

    formulation: Literal["seer"] = "seer"
    segments: tuple[SkewedSegment, ...]
    #: What trials are drawn from, none of them twice; empty where it is not stated.
    search_space: ByName[Hyperparameter] = Field(default_factory=dict)

    @property
    def rounds(self) -> tuple[tuple[SkewedSegment, ...], ...]:
        """The segments by round."""
        return tuple(tuple(group) for _, group in groupby(self.segments, key=lambda segment: segment.round))

    def totals(self) -> dict[str, float]:
        """Recompute what the search takes; its segments of a round run side by side."""
        return {**super().totals(), "spent_gpu_min": 60.0 * sum(each.expected.gpu_hours for each in self.segments)}


def build_plan(instance: SeerInstance, result: Result[SeerSolution]) -> SeerPlan:
    """Turn numbers of trials into skewed stages; trials that hold fractions of GPUs are refused."""
    solution = require_solution(result)
    fraction = next((b.gpus for b in solution.brackets if b.gpus != round(b.gpus)), None)
    if fraction is not None:
        message = f"a trial holds {fraction:g} GPUs, and executors have whole ones; set whole_gpus and solve again"
        raise UsageError(message)
    judged = evaluate(instance, solution)
    held_gpu_min = judged.measures["training_gpu_min"] + judged.measures["resize_gpu_min"]
    rounds = list_rounds(instance, solution)
    segments: list[SkewedSegment] = []
    last: list[SkewedSegment] = []
    for each in rounds:
        last = write_round(instance, solution, each, last)
        segments += last
    per_node, price = instance.gpus_per_node or 1, instance.price_usd_per_gpu_hour
    resource = Resource(
        gpu_type=instance.gpu_type,
        gpus_per_node=per_node,
        price_usd_per_hour=None if price is None else price * per_node,
        price_source=instance.price_source,
        price_date=instance.price_date,
        billing=Billing.GPUS,  # while trials hold them, as a budget of GPU-minutes counts them
    )
    places = sum(segment.members for segment in segments if segment.round == 1)
    return SeerPlan(
        **describe_origin(result),
        objective=judged.objective,
        limits=_limits(instance),
        resources={instance.gpu_type: resource},
        units=(Unit(id=TRIALS, label=f"{places:,} trials", kind=UnitKind.TRIALS, members=places),),
        segments=tuple(segments),
        semantics=SEMANTICS,
        # An executor counts the GPUs that trials hold, whatever the budget counts.
        expected=judged.measures | {"spent_gpu_min": held_gpu_min},
        search_space=instance.search_space,
    )


def retime(instance: SeerInstance, plan: SeerPlan) -> SeerPlan:  # noqa: ARG001 - the contract names the parameter
    """Return the plan as it is: rounds end by the clock, wherever they run."""
    return plan


TRIALS = "trials"
SEMANTICS = Semantics(
    iteration="one call of the trial's step, as long as it takes: rounds end by the clock",
    origin="the nodes of the first round are ready",
    rounding="GPUs and trials are whole; brackets of equal GPUs are one",
    winner="the trial that ranks first after the last round",
)


def _limits(instance: SeerInstance) -> dict[str, Limit]:
    limits = {}
    for name in instance.limits:
        amount, unit = instance.limit_as_given(name)
        if name == DEADLINE:
            amount, unit = amount * SECONDS_PER_MINUTE, "s"
        limits[name] = Limit(amount=amount, unit=unit, binding=Binding.HARD)
    return limits


def write_round(
    instance: SeerInstance, solution: SeerSolution, now: Round, last: Sequence[SkewedSegment], *, done: int = 0
) -> list[SkewedSegment]:
    """Write the segments of a round, the best first, after the ``last`` one and ``done`` earlier rounds."""
    place = now.number - 1 - done
    nodes = count_nodes(instance.gpus_per_node or 1, now.groups)
    enter: Entry = Started()
    if last:
        enter = Promoted(of=tuple(Selection(segment=each.id, top=each.kept) for each in last if each.kept))
    seconds, pause_s = now.duration_min * SECONDS_PER_MINUTE, now.pause_min * SECONDS_PER_MINUTE
    segments: list[SkewedSegment] = []
    for bracket in reversed(solution.brackets):
        trials, gpus = bracket.trials[place], round(bracket.gpus)
        if not trials:
            continue
        first = segments[-1].last_rank + 1 if segments else 1
        held_h = trials * gpus * seconds / SECONDS_PER_HOUR
        price = instance.price_usd_per_gpu_hour
        ranks = f"rank {first}" if trials == 1 else f"ranks {first} to {first + trials - 1}"
        segments.append(
            SkewedSegment(
                id=f"r{now.number}-g{gpus}",
                label=f"round {now.number}, {ranks}: {gpus} GPU{'s' if gpus > 1 else ''} each",
                unit=TRIALS,
                first_rank=first,
                last_rank=first + trials - 1,
                at_once=trials,
                resource=instance.gpu_type,
                pool="search",
                nodes=nodes,
                workers=gpus,
                enter=enter,
                exit=Elapsed(seconds=now.stop_min * SECONDS_PER_MINUTE),
                expected=Expected(
                    start_s=now.start_min * SECONDS_PER_MINUTE,
                    seconds=seconds,
                    pause_s=pause_s,
                    member_s=now.training_min * SECONDS_PER_MINUTE,
                    gpu_hours=held_h,
                    busy_gpu_hours=held_h,
                    cost_usd=None if price is None else price * held_h,
                ),
                round=now.number,
                kept=bracket.trials[place + 1] if place + 1 < solution.rounds else trials,
            )
        )
    return segments
