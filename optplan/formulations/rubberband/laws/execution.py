"""What a solution makes happen: trials side by side or in line in each stage, and what waits for what (section 4.2).

The graph and the sampled simulator both start from the runs of stages. The graph has SCALE, INIT_INSTANCE, TRAIN and
SYNC tasks, stage by stage: where instances are added, one SCALE and then one INIT_INSTANCE for each of them, side by
side; a TRAIN for each trial, the first of each chain after the last INIT_INSTANCE, every other one after the trial
before it in its chain; one SYNC after all chains. Releasing instances takes no time and is not in the graph.

Nodes are tuples: ``("SCALE", stage)``, ``("INIT_INSTANCE", stage, instance)``, ``("TRAIN", stage, trial)`` and
``("SYNC", stage)``, all counted from 0. A stage that adds m instances and runs c chains has m*c edges between the two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import DataError, MissingExtraError
from optplan.formulations.rubberband.data.allocations import explain_refusal, read_allocations
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation

if TYPE_CHECKING:
    from networkx import DiGraph


@dataclass(frozen=True)
class StageRun:
    """One stage as it is executed; trial i waits for trial i - ``slots``."""

    stage: int
    trials: int
    iterations: int
    gpus_per_trial: int
    nodes_per_trial: int
    seconds_per_iteration: float
    slots: int
    held: int
    added: int

    @property
    def waves(self) -> int:
        """Trials in the longest chain."""
        return -(-self.trials // self.slots)


@dataclass(frozen=True)
class Cohort:
    """Instances that are added in one stage and released after the barrier of another."""

    count: int
    first: int
    last: int


def list_runs(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int = 0) -> tuple[StageRun, ...]:
    """List a bracket's stages as the solution executes them; refuse what cannot be executed so."""
    if len(solution.brackets) != len(instance.brackets):
        problem = f"got {len(solution.brackets)} chains of stages; the experiment has {len(instance.brackets)}"
        raise DataError("brackets", problem, "give one for each cluster")
    if not 0 <= bracket < len(instance.brackets):
        raise DataError("bracket", f"got {bracket}; numbers from 0 to {len(instance.brackets) - 1} are allowed")
    stages, allocations = instance.brackets[bracket], solution.brackets[bracket]
    if len(allocations) != len(stages):
        problem = f"got {len(allocations)} stages; the experiment has {len(stages)}"
        raise DataError(f"brackets.{bracket}", problem, "give an allocation for each stage")
    runs: list[StageRun] = []
    for number, (stage, allocation) in enumerate(zip(stages, allocations, strict=True)):
        before = runs[-1].held if runs else 0
        runs.append(_plan_run(instance, (bracket, number), stage, allocation, before))
    return tuple(runs)


def _plan_run(
    instance: RubberBandInstance, place: tuple[int, int], stage: Stage, allocation: StageAllocation, before: int
) -> StageRun:
    """Work out how an allocation executes a stage, where ``before`` instances are held already."""
    path = f"brackets.{place[0]}.{place[1]}"
    gpus = allocation.gpus
    refusal = explain_refusal(instance, stage, gpus)
    if refusal:
        raise DataError(f"{path}.gpus", f"got {gpus}; {refusal}")
    read = read_allocations(instance, stage.trials, np.array([gpus], dtype=np.int64))
    needed = int(read.instances[0])
    if allocation.instances < needed:
        problem = f"got {allocation.instances}; {gpus} GPUs for {stage.trials} trials are on {needed} instances"
        raise DataError(f"{path}.instances", problem, f"hold at least {needed}, or use fewer GPUs")
    return StageRun(
        stage=place[1],
        trials=stage.trials,
        iterations=stage.iterations,
        gpus_per_trial=int(read.gpus_per_trial[0]),
        nodes_per_trial=int(read.spanned[0]),
        seconds_per_iteration=float(instance.training.seconds(read.gpus_per_trial, read.spanned)[0]),
        slots=int(read.slots[0]),
        held=allocation.instances,
        added=max(0, allocation.instances - before),
    )


def group_held(counts: Sequence[int]) -> tuple[Cohort, ...]:
    """Group instances by when they come and go, from how many each stage holds; no order costs less minimum charge."""
    cohorts: list[Cohort] = []
    held: deque[tuple[int, int]] = deque()  # (first stage, count), the oldest first
    for stage, (before, now, after) in enumerate(zip([0, *counts], counts, [*counts[1:], 0], strict=False)):
        if now > before:
            held.append((stage, now - before))
        surplus = now - after
        while surplus > 0:
            first, count = held.popleft()
            gone = min(count, surplus)
            cohorts.append(Cohort(gone, first, stage))
            if count > gone:
                held.appendleft((first, count - gone))
            surplus -= gone
    return tuple(cohorts)


#: A task's name: its kind, its stage, and its number where a stage has several of the kind.
Node = tuple[str, int] | tuple[str, int, int]


class Task(StrEnum):
    """Kinds of node."""

    SCALE = "SCALE"
    INIT_INSTANCE = "INIT_INSTANCE"
    TRAIN = "TRAIN"
    SYNC = "SYNC"


def build_dag(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int = 0) -> DiGraph:
    """Build the execution graph of one bracket, from 0: edges lead from a task to those that wait for it.

    Nodes have ``kind`` (Task), ``stage``; ``instance`` of INIT_INSTANCE; ``trial``, ``chain``, ``wave`` (position in
    the chain), ``gpus`` and ``iterations`` of TRAIN; ``latency``: the distributions that the task's time is made of, by
    name (:mod:`optplan.formulations.rubberband.data.training` says how they are put together); ``x`` and ``y``: a place
    in a drawing in which time goes to the right. The graph has ``runs`` (:class:`StageRun`) and ``bracket``.
    """
    try:
        import networkx
    except ImportError:
        raise MissingExtraError("networkx", "graphs") from None
    runs = list_runs(instance, solution, bracket)
    graph = networkx.DiGraph(runs=runs, bracket=bracket)
    frontier: list[Node] = []
    x = 0
    for run in runs:
        if run.added:
            frontier = _add_growth(graph, instance, run, frontier, x)
            x += 2
        frontier = _add_trials(graph, instance, run, frontier, x)
        x += run.waves
        sync: Node = (Task.SYNC, run.stage)
        graph.add_node(sync, kind=Task.SYNC, stage=run.stage, latency={}, x=x, y=0.0)
        graph.add_edges_from((node, sync) for node in frontier)
        frontier = [sync]
        x += 1
    return graph


def _add_growth(
    graph: DiGraph, instance: RubberBandInstance, run: StageRun, frontier: list[Node], x: int
) -> list[Node]:
    scale: Node = (Task.SCALE, run.stage)
    latency = {"provision_s": instance.cloud.provision_s}
    graph.add_node(scale, kind=Task.SCALE, stage=run.stage, latency=latency, x=x, y=0.0)
    graph.add_edges_from((node, scale) for node in frontier)
    added: list[Node] = [(Task.INIT_INSTANCE, run.stage, number) for number in range(run.added)]
    latency = {"initialise_s": instance.cloud.initialise_s}
    for number, node in enumerate(added):
        y = _spread(number, run.added)
        graph.add_node(node, kind=Task.INIT_INSTANCE, stage=run.stage, instance=number, latency=latency, x=x + 1, y=y)
        graph.add_edge(scale, node)
    return added


def _add_trials(
    graph: DiGraph, instance: RubberBandInstance, run: StageRun, frontier: list[Node], x: int
) -> list[Node]:
    """Add the trials in chains; return the last one of each chain."""
    training = instance.training
    latency = {
        "start_s": training.start(run.gpus_per_trial),
        "pace_s": training.pace(run.seconds_per_iteration),
        "iteration_s": training.iteration(run.seconds_per_iteration),
    }
    for trial in range(run.trials):
        wave, chain = divmod(trial, run.slots)
        node: Node = (Task.TRAIN, run.stage, trial)
        graph.add_node(
            node,
            kind=Task.TRAIN,
            stage=run.stage,
            trial=trial,
            chain=chain,
            wave=wave,
            gpus=run.gpus_per_trial,
            iterations=run.iterations,
            latency=latency,
            x=x + wave,
            y=_spread(chain, run.slots),
        )
        before: list[Node] = [(Task.TRAIN, run.stage, trial - run.slots)] if wave else frontier
        graph.add_edges_from((earlier, node) for earlier in before)
    return [(Task.TRAIN, run.stage, trial) for trial in range(max(0, run.trials - run.slots), run.trials)]


def _spread(number: int, count: int) -> float:
    """Return the height of one of several parallel tasks, which lie around 0."""
    return (count - 1) / 2.0 - number
