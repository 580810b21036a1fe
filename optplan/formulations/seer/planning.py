"""From SEER's trials to a plan: skewed stages, in which trials hold different numbers of GPUs by their rank."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts.explanation import Explanation
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import Result
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.data.search_space import Hyperparameter
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.laws.rounds import Round, list_rounds
from optplan.schema import ByName, FrozenModel
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE


class StageGroup(FrozenModel):
    """Trials of neighbouring ranks that hold as many GPUs each in a stage.

    Parameters
    ----------
    first_rank, last_rank
        Of the trials; rank 1 has the least loss so far. Before the first stage ranks are those of drawing, any order.
    trials
        How many.
    gpus
        Of each.
    kept
        How many of them, the best, go on to the next stage; after the last one all of them.
    """

    first_rank: Annotated[int, Field(ge=1)]
    last_rank: Annotated[int, Field(ge=1)]
    trials: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=1)]
    kept: Annotated[int, Field(ge=0)]


class SkewedStage(FrozenModel):
    """One round as an executor runs it.

    Parameters
    ----------
    number
        From 1.
    start_min, training_from_min, stop_min
        Minutes from the start of the search: when the GPUs are there, when trials train, when they stop by the clock,
        write a checkpoint and are evaluated, wherever in an epoch they are.
    groups
        By rank, the best first.
    """

    number: Annotated[int, Field(ge=1)]
    start_min: float
    training_from_min: float
    stop_min: float
    groups: tuple[StageGroup, ...]


class SeerPlan(Plan):
    """Skewed stages; a step is one group of one of them, its GPUs those of all its trials together.

    Parameters
    ----------
    stages
        In order. After each of them every group keeps its best trials; these are ranked anew, all groups together.
    search_space
        What trials are drawn from, none of them twice; empty where it is not stated.
    """

    stages: tuple[SkewedStage, ...]
    search_space: ByName[Hyperparameter] = Field(default_factory=dict)


def build_plan(
    instance: SeerInstance,
    result: Result[SeerSolution],
    *,
    explanation: Explanation | None = None,  # noqa: ARG001 - SEER has no explanations; the contract names the parameter
) -> SeerPlan:
    """Turn numbers of trials into skewed stages.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution.
    explanation
        Not used.

    Raises
    ------
    UsageError
        When the result has no solution, or trials hold fractions of GPUs.
    """
    solution = result.solution
    if solution is None or result.objective is None:
        message = f"the result has no solution to plan (status {result.status})"
        raise UsageError(message)
    fraction = next((b.gpus for b in solution.brackets if b.gpus != round(b.gpus)), None)
    if fraction is not None:
        message = f"a trial holds {fraction:g} GPUs, and executors have whole ones; set whole_gpus and solve again"
        raise UsageError(message)
    judged = evaluate(instance, solution)
    rounds = list_rounds(instance, solution)
    stages = [_write_stage(each, solution) for each in rounds]
    return SeerPlan(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=result.instance_hash,
        solver=result.solver,
        objective=judged.objective,
        objective_unit=result.objective_unit,
        bound=result.bound,
        prices=_prices(instance),
        expected=judged.measures,
        steps=tuple(
            _write_step(instance, each, stage, group)
            for each, stage in zip(rounds, stages, strict=True)
            for group in stage.groups
        ),
        stages=tuple(stages),
        search_space=instance.search_space,
    )


def _prices(instance: SeerInstance) -> dict[str, Price]:
    if instance.price_usd_per_gpu_hour is None:
        return {}
    price = Price(usd_per_hour=instance.price_usd_per_gpu_hour, source=instance.price_source, date=instance.price_date)
    return {instance.gpu_type: price}


def _write_stage(now: Round, solution: SeerSolution) -> SkewedStage:
    groups, rank = [], 1
    for bracket in reversed(solution.brackets):
        trials = bracket.trials[now.number - 1]
        if trials:
            groups.append(
                StageGroup(
                    first_rank=rank,
                    last_rank=rank + trials - 1,
                    trials=trials,
                    gpus=round(bracket.gpus),
                    kept=bracket.trials[now.number] if now.number < solution.rounds else trials,
                )
            )
            rank += trials
    return SkewedStage(
        number=now.number,
        start_min=now.start_min,
        training_from_min=now.start_min + now.pause_min,
        stop_min=now.stop_min,
        groups=tuple(groups),
    )


def _write_step(instance: SeerInstance, now: Round, stage: SkewedStage, group: StageGroup) -> PlanStep:
    ranks = f"rank {group.first_rank}" if group.trials == 1 else f"ranks {group.first_rank} to {group.last_rank}"
    gpus, seconds = group.trials * group.gpus, now.duration_min * SECONDS_PER_MINUTE
    return PlanStep(
        subject=f"{ranks}, {group.gpus} GPU{'s' if group.gpus > 1 else ''} each",
        trigger="start" if stage.number == 1 else f"end of round {stage.number - 1}",
        until=f"end of round {stage.number}",
        action=Action.START if stage.number == 1 else Action.RESIZE,
        gpu_type=instance.gpu_type,
        gpus=gpus,
        expected_overhead_s=now.pause_min * SECONDS_PER_MINUTE,
        expected_duration_s=seconds,
        expected_gpu_hours=gpus * seconds / SECONDS_PER_HOUR,
    )
