"""From RubberBand's decisions to a plan: timed stages that an executor can run, and a bill that adds up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts.explanation import Explanation
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import Result
from optplan.errors import UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate, growth
from optplan.formulations.rubberband.laws.execution import StageRun, list_runs
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.schema import FrozenModel
from optplan.units import SECONDS_PER_HOUR

_Time = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]


class SearchStage(FrozenModel):
    """One stage of a search, with what it is expected to take.

    Parameters
    ----------
    bracket, stage
        Numbers from 1.
    trials, iterations
        How many trials run, and for how many iterations more each.
    kept
        How many of them go on to the next stage; 1 after the last.
    instances, added, released
        Held in the stage, got before it, and given back before it.
    gpus_per_trial, trials_at_once
        GPUs of each trial, and how many run at a time; the others wait for their turn.
    starts_s, trains_s, ends_s
        Expected seconds since the search began: the stage begins with getting instances, trains, and ends with a
        barrier.
    checkpoints
        Trials that store their state at its end: those that go on.
    moves
        Trials that go on at its beginning on other GPUs than they had: all of them where the GPUs of a trial change or
        trials wait for their turn. Where only instances are released, at most so many: which trials go on is known when
        the stage before ends, and those instances stay that most of them are on. For given ones
        :func:`~optplan.formulations.rubberband.published.stage_placement.place_stages` says which move, and where to.
    training_usd, growth_usd
        Expected cost of training, and of getting instances (their data included).
    cost_so_far_usd
        Of the bracket until the stage ends, without minimum charges.
    """

    bracket: Annotated[int, Field(ge=1)]
    stage: Annotated[int, Field(ge=1)]
    trials: Annotated[int, Field(ge=1)]
    iterations: Annotated[int, Field(ge=1)]
    kept: Annotated[int, Field(ge=1)]
    instances: Annotated[int, Field(ge=1)]
    added: _Count
    released: _Count
    gpus_per_trial: Annotated[int, Field(ge=1)]
    trials_at_once: Annotated[int, Field(ge=1)]
    starts_s: _Time
    trains_s: _Time
    ends_s: _Time
    checkpoints: _Count
    moves: _Count
    training_usd: _Time
    growth_usd: _Time
    cost_so_far_usd: _Time


class RubberBandPlan(Plan):
    """Stages with their times, and what each costs.

    Parameters
    ----------
    stages
        In the order of brackets and stages. Their training and growth costs, and the minimum charges, add up to the
        expected cost.
    instance_type, instance_price_usd_per_hour, gpus_per_instance
        What is rented.
    billing
        ``per-instance`` or ``per-function``.
    minimum_charges_usd
        Expected, of instances that are given back before what they are paid for at least.
    total_usd
        Expected cost of the search.
    """

    stages: tuple[SearchStage, ...]
    instance_type: str = ""
    instance_price_usd_per_hour: Annotated[float, Field(gt=0)]
    gpus_per_instance: Annotated[int, Field(ge=1)]
    billing: str
    minimum_charges_usd: _Time
    total_usd: _Time


def build_plan(
    instance: RubberBandInstance, result: Result[RubberBandSolution], *, explanation: Explanation | None = None
) -> RubberBandPlan:
    """Turn allocations into timed stages.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution.
    explanation
        There are none for searches.

    Raises
    ------
    UsageError
        When the result has no solution, or there is an explanation.
    """
    if result.solution is None or result.objective is None:
        message = f"the result has no solution to plan (status {result.status})"
        raise UsageError(message)
    if explanation is not None:
        raise UsageError("explanation: plans of searches have none; leave it out")
    judged = evaluate(instance, result.solution)
    stages = tuple(
        stage for bracket in range(len(instance.brackets)) for stage in _time_stages(instance, result.solution, bracket)
    )
    cloud = instance.cloud
    name = cloud.instance_type or "gpu"
    return RubberBandPlan(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=result.instance_hash,
        solver=result.solver,
        objective=judged.objective,
        objective_unit=result.objective_unit,
        bound=result.bound,
        prices={
            name: Price(
                usd_per_hour=cloud.price_usd_per_hour / cloud.gpus_per_instance,
                source=cloud.price_source,
                date=cloud.price_date,
            )
        },
        expected=judged.measures,
        steps=tuple(step for stage in stages for step in _list_steps(instance, stage, name)),
        stages=stages,
        instance_type=cloud.instance_type,
        instance_price_usd_per_hour=cloud.price_usd_per_hour,
        gpus_per_instance=cloud.gpus_per_instance,
        billing=cloud.billing,
        minimum_charges_usd=judged.measures["minimum_charge_usd"],
        total_usd=judged.measures["expected_usd"],
    )


def _time_stages(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int) -> list[SearchStage]:
    """Put the stages of a bracket one after another."""
    cloud, runs = instance.cloud, list_runs(instance, solution, bracket)
    stages: list[SearchStage] = []
    now, cost, before = 0.0, 0.0, None
    following: list[StageRun | None] = [*runs[1:], None]
    for run, after, allocation in zip(runs, following, solution.brackets[bracket], strict=True):
        held_before = before.held if before else 0
        growth_s, growth_usd = (float(part) for part in growth(instance, held_before, run.held))
        option = option_of(instance, bracket, run.stage, allocation.gpus)
        train_s = float(option.expected_s[0])
        if cloud.is_per_instance:
            training_usd = run.held * train_s * cloud.price_usd_per_s
        else:
            training_usd = float(option.busy_gpu_s[0]) * cloud.gpu_price_usd_per_s
        cost += growth_usd + training_usd
        # Trials of a new bracket, in sequence on the same cluster, go on from nothing.
        goes_on = before is not None and run.trials <= before.trials
        kept = after.trials if after and after.trials <= run.trials else 1
        stages.append(
            SearchStage(
                bracket=bracket + 1,
                stage=run.stage + 1,
                trials=run.trials,
                iterations=run.iterations,
                kept=kept,
                instances=run.held,
                added=run.added,
                released=max(0, held_before - run.held),
                gpus_per_trial=run.gpus_per_trial,
                trials_at_once=run.slots,
                starts_s=now,
                trains_s=now + growth_s,
                ends_s=now + growth_s + train_s,
                checkpoints=kept if after else 1,
                moves=_count_moves(before, run, cloud.gpus_per_instance) if before and goes_on else 0,
                training_usd=training_usd,
                growth_usd=growth_usd,
                cost_so_far_usd=cost,
            )
        )
        now, before = now + growth_s + train_s, run
    return stages


def _count_moves(before: StageRun, run: StageRun, per_instance: int) -> int:
    """Count the trials that go on on other GPUs, at most; see :class:`SearchStage`."""
    if run.gpus_per_trial != before.gpus_per_trial or run.waves > 1 or before.waves > 1:
        return run.trials
    if run.nodes_per_trial > 1:
        return 0  # each has instances of its own, which stay with it
    used = -(-before.slots // (per_instance // run.gpus_per_trial))
    # At worst those that go on are spread evenly over the instances, so that those that stay have as few as can be.
    each, more = divmod(run.trials, used)
    staying = min(run.held, used)
    return run.trials - staying * each - min(more, staying)


def _list_steps(instance: RubberBandInstance, stage: SearchStage, name: str) -> list[PlanStep]:
    """Write what an executor does with the cluster at the beginning of a stage."""
    duration = stage.ends_s - stage.starts_s
    gpus = stage.instances * instance.cloud.gpus_per_instance
    action = Action.START if stage.stage == 1 else Action.RESIZE if stage.added or stage.released else Action.CONTINUE
    several = len(instance.brackets) > 1
    return [
        PlanStep(
            subject=f"bracket {stage.bracket}" if several else "search",
            trigger="start" if stage.stage == 1 else f"end of stage {stage.stage - 1}",
            until=f"end of stage {stage.stage}",
            action=action,
            gpu_type=name,
            gpus=gpus,
            expected_overhead_s=stage.trains_s - stage.starts_s,
            expected_duration_s=duration,
            expected_gpu_hours=gpus * duration / SECONDS_PER_HOUR,
        )
    ]
