"""From RubberBand's decisions to a plan: timed stages that an executor can run, and a bill that adds up."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from optplan.contracts.conditions import AllEnded, Entry, IterationsDone, Promoted, Selection, Started
from optplan.contracts.plan import Binding, Expected, Plan, Segment, Semantics, Unit, UnitKind, limit_time_and_money
from optplan.contracts.resources import Billing, Resource
from optplan.contracts.result import Result, describe_origin, require_solution
from optplan.formulations.rubberband.data.experiment import Experiment, Stage, StagesExperiment
from optplan.formulations.rubberband.data.instance import (
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.judge.evaluation import evaluate, follow, growth
from optplan.formulations.rubberband.laws.lifetimes import StageRun, list_runs
from optplan.formulations.rubberband.laws.stages import trial_time
from optplan.schema import AtLeastZero, Count, CountOrZero
from optplan.units import SECONDS_PER_HOUR


class SearchStage(Segment):
    """One stage of a search."""

    #: bracket, stage: Numbers from 1.
    bracket: Count
    stage: Count
    iterations: Count  #: How many each trial adds in it.
    kept: Count  #: How many trials go on to the next stage; 1 after the last.
    #: added, released: Machines got before it, and given back before it.
    added: CountOrZero
    released: CountOrZero
    checkpoints: CountOrZero  #: Trials that store their state at its end: those that go on.
    #: Trials that go on at its beginning on other GPUs than they had: all of them where the GPUs of a trial change or
    #: trials wait for their turn. Where only machines are released, at most so many: which trials go on is known when
    #: the stage before ends, and those machines stay that most of them are on.
    moves: CountOrZero
    #: training_usd, growth_usd, minimum_charge_usd: Expected cost of training, of getting machines (their data
    #: included), and of what those given back at its end have not used up of their minimum charge; they add up to the
    #: stage's cost.
    training_usd: AtLeastZero
    growth_usd: AtLeastZero
    minimum_charge_usd: AtLeastZero


class RubberBandPlan(Plan):
    """Stages in the order of brackets; their costs add up to the expected cost."""

    formulation: Literal["rubberband"] = "rubberband"
    segments: tuple[SearchStage, ...]

    def paid_until_end_of(self, stage: SearchStage) -> float:
        """Return US dollars that a bracket is expected to have cost when a stage ends, without minimum charges."""
        upto = (each for each in self.segments if each.bracket == stage.bracket and each.stage <= stage.stage)
        return sum(each.training_usd + each.growth_usd for each in upto)


def build_plan(instance: RubberBandInstance, result: Result[RubberBandSolution]) -> RubberBandPlan:
    """Turn allocations into timed stages."""
    solution = require_solution(result)
    judged, limits = evaluate(instance, solution), instance.limits if instance.has_limit else {}
    cohorts, stages = [], []
    for bracket in range(len(instance.brackets)):
        planned = time_stages(instance, solution, bracket)
        cohorts += [stage for stage in planned if not isinstance(stage.enter, Promoted)]
        stages += planned
    return RubberBandPlan(
        **describe_origin(result),
        objective=judged.objective,
        limits=limit_time_and_money(limits, Binding.AVERAGE, instance.confidence),
        resources={_name_resource(instance): describe_resource(instance)},
        units=tuple(
            Unit(id=stage.unit, label=f"{stage.members:,} trials", kind=UnitKind.TRIALS, members=stage.members)
            for stage in cohorts
        ),
        segments=tuple(stages),
        semantics=SEMANTICS,
        expected=judged.measures,
    )


def allocations_of(plan: RubberBandPlan) -> tuple[tuple[StageAllocation, ...], ...]:
    """Return what a plan gives each stage, by bracket."""
    brackets: dict[int, list[StageAllocation]] = {}
    for stage in plan.segments:
        allocation = StageAllocation(instances=stage.nodes, gpus=stage.at_once * stage.workers)
        brackets.setdefault(stage.bracket, []).append(allocation)
    return tuple(tuple(chain) for _, chain in sorted(brackets.items()))


def experiment_of(instance: RubberBandInstance, plan: RubberBandPlan) -> Experiment:
    """Return the search as a plan has it: after failures with fewer trials than the instance's."""
    stages = tuple(Stage(trials=stage.members, iterations=stage.iterations) for stage in plan.segments)
    grows = any(after.trials > before.trials for before, after in pairwise(stages))
    return instance.experiment if grows or len(instance.brackets) > 1 else StagesExperiment(stages=stages)


def retime(instance: RubberBandInstance, plan: RubberBandPlan) -> RubberBandPlan:
    """Return the plan with what its stages take, and cost, under another instance's times and prices."""
    solution = RubberBandSolution(brackets=allocations_of(plan))
    instance = instance.replace(experiment=experiment_of(instance, plan))
    timed = [time_stages(instance, solution, bracket) for bracket in range(len(solution.brackets))]
    resources = dict.fromkeys(plan.resources, describe_resource(instance))
    return plan.replace(plan_id="", resources=resources, segments=tuple(stage for chain in timed for stage in chain))


SEMANTICS = Semantics(
    iteration="one call of the trial's step, as the instance's seconds per iteration were measured",
    origin="the first request for instances",
    rounding="GPUs of a stage are divided equally among its trials, rounded down",
    winner="the best trial of the last stages, the only ones that no stage follows",
)


def _name_resource(instance: RubberBandInstance) -> str:
    return instance.cloud.instance_type or "gpu"


def describe_resource(instance: RubberBandInstance) -> Resource:
    """Describe the machines that are rented."""
    cloud = instance.cloud
    return Resource.of(
        cloud,
        gpu_type=_name_resource(instance),
        gpus_per_node=cloud.gpus_per_instance,
        billing=Billing.NODES if cloud.is_per_instance else Billing.GPUS,
        minimum_charge_s=cloud.minimum_charge_s if cloud.is_per_instance else 0.0,
        start_usd=cloud.data_usd_per_instance,
        request_s=cloud.provision_s.expected_s,
        request_sd_s=cloud.provision_s.deviation_s,
        launch_s=cloud.initialise_s.expected_s,
        launch_sd_s=cloud.initialise_s.deviation_s,
    )


def time_stages(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int) -> list[SearchStage]:
    """Put the stages of a bracket, counted from zero, one after another."""
    runs, chain, cloud = list_runs(instance, solution, bracket), solution.brackets[bracket], instance.cloud
    stages: list[SearchStage] = []
    following: list[StageRun | None] = [*runs[1:], None]
    for number, (run, figures, after) in enumerate(zip(runs, follow(instance, bracket, chain), following, strict=True)):
        before, last = (runs[number - 1], stages[-1]) if number else (None, None)
        held_before = before.held if before else 0
        # Trials of a new bracket, in sequence on the same cluster, go on from nothing.
        goes_on = before is not None and run.trials <= before.trials
        kept = after.trials if after and after.trials <= run.trials else 1
        growth_usd = float(growth(instance, held_before, run.held)[1])
        minimum_usd = figures.price(cloud)["minimum_charge_usd"]
        training_usd = figures.busy_gpu_s * cloud.gpu_price_usd_per_s
        if cloud.is_per_instance:
            training_usd = run.held * figures.training_s * cloud.price_usd_per_s
        trial = trial_time(instance, instance.brackets[bracket][run.stage], run.gpus_per_trial)
        enter: Entry = Started()
        if last is not None:
            enter = AllEnded(segments=(last.id,))
        done = run.iterations
        if last is not None and goes_on:
            enter = Promoted(of=(Selection(segment=last.id, top=run.trials),))
            done += last.exit.iterations if isinstance(last.exit, IterationsDone) else 0
        name = f"b{bracket + 1}-s{run.stage + 1}"
        stages.append(
            SearchStage(
                id=name,
                label=_label(instance, bracket, run),
                unit=last.unit if last is not None and goes_on else f"{name}-trials",
                last_rank=run.trials,
                at_once=run.slots,
                resource=_name_resource(instance),
                pool=f"bracket-{bracket + 1}",
                nodes=run.held,
                workers=run.gpus_per_trial,
                enter=enter,
                exit=IterationsDone(iterations=done),
                expected=Expected(
                    start_s=last.end_s if last else 0.0,
                    seconds=figures.expected_s,
                    pause_s=figures.growth_s,
                    launch_s=figures.growth_s,
                    member_s=trial.expected_s,
                    member_sd_s=trial.deviation_s,
                    iteration_s=run.seconds_per_iteration,
                    gpu_hours=cloud.gpus_per_instance * figures.held_s / SECONDS_PER_HOUR,
                    busy_gpu_hours=figures.busy_gpu_s / SECONDS_PER_HOUR,
                    cost_usd=training_usd + growth_usd + minimum_usd,
                ),
                bracket=bracket + 1,
                stage=run.stage + 1,
                iterations=run.iterations,
                kept=kept,
                added=run.added,
                released=max(0, held_before - run.held),
                checkpoints=kept if after else 1,
                moves=_count_moves(before, run, cloud.gpus_per_instance) if before and goes_on else 0,
                training_usd=training_usd,
                growth_usd=growth_usd,
                minimum_charge_usd=minimum_usd,
            )
        )
    return stages


def _label(instance: RubberBandInstance, bracket: int, run: StageRun) -> str:
    where = f"bracket {bracket + 1}, " if len(instance.brackets) > 1 else ""
    gpus = f"{run.gpus_per_trial} GPU{'s' if run.gpus_per_trial > 1 else ''}"
    trials = f"{run.trials:,} trials of {gpus}" if run.trials > 1 else f"a trial of {gpus}"
    return f"{where}stage {run.stage + 1}: {trials} on {run.held:,} node{'s' if run.held > 1 else ''}"


def _count_moves(before: StageRun, run: StageRun, per_instance: int) -> int:
    """Count the trials that go on on other GPUs, at most; see :class:`SearchStage`."""
    if run.gpus_per_trial != before.gpus_per_trial or run.waves > 1 or before.waves > 1:
        return run.trials
    if run.nodes_per_trial > 1:
        return 0  # each has machines of its own, which stay with it
    used = -(-before.slots // (per_instance // run.gpus_per_trial))
    # At worst those that go on are spread evenly over the machines, so that those that stay have as few as can be.
    each, more = divmod(run.trials, used)
    staying = min(run.held, used)
    return run.trials - staying * each - min(more, staying)
