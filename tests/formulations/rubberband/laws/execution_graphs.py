"""The paper's execution graph (section 4.2), of which the simulator takes the critical paths without building it.

SCALE, INIT_INSTANCE, TRAIN and SYNC tasks, stage by stage: where instances are added, one SCALE and then one
INIT_INSTANCE for each of them, side by side; a TRAIN for each trial, the first of each chain after the last
INIT_INSTANCE, every other one after the trial before it in its chain; one SYNC after all chains.

Nodes are tuples: ``("SCALE", stage)``, ``("INIT_INSTANCE", stage, instance)``, ``("TRAIN", stage, trial)`` and
``("SYNC", stage)``, all counted from 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.lifetimes import StageRun, list_runs
from tests.conftest import Later

if TYPE_CHECKING:
    import networkx
    from networkx import DiGraph
else:
    networkx = Later("networkx")

#: A task's name: its kind, its stage, and its number where a stage has several of the kind.
Node = tuple[str, int] | tuple[str, int, int]


class Task(StrEnum):
    """Kinds of node."""

    SCALE = "SCALE"
    INIT_INSTANCE = "INIT_INSTANCE"
    TRAIN = "TRAIN"
    SYNC = "SYNC"


def build_dag(instance: RubberBandInstance, solution: RubberBandSolution, bracket: int = 0) -> DiGraph:
    """Build the graph of one bracket, from 0: edges lead from a task to those that wait for it.

    Nodes have ``kind`` (Task), ``stage``; ``instance`` of INIT_INSTANCE; ``trial``, ``chain``, ``wave`` (position in
    the chain), ``gpus`` and ``iterations`` of TRAIN; ``latency``: the distributions that the task's time is made of.
    """
    runs = list_runs(instance, solution, bracket)
    graph = networkx.DiGraph(bracket=bracket)
    frontier: list[Node] = []
    for run in runs:
        if run.added:
            frontier = _add_growth(graph, instance, run, frontier)
        frontier = _add_trials(graph, instance, run, frontier)
        sync: Node = (Task.SYNC, run.stage)
        graph.add_node(sync, kind=Task.SYNC, stage=run.stage, latency={})
        graph.add_edges_from((node, sync) for node in frontier)
        frontier = [sync]
    return graph


def _add_growth(graph: DiGraph, instance: RubberBandInstance, run: StageRun, frontier: list[Node]) -> list[Node]:
    scale: Node = (Task.SCALE, run.stage)
    latency = {"provision_s": instance.cloud.provision_s}
    graph.add_node(scale, kind=Task.SCALE, stage=run.stage, latency=latency)
    graph.add_edges_from((node, scale) for node in frontier)
    added: list[Node] = [(Task.INIT_INSTANCE, run.stage, number) for number in range(run.added)]
    latency = {"initialise_s": instance.cloud.initialise_s}
    for number, node in enumerate(added):
        graph.add_node(node, kind=Task.INIT_INSTANCE, stage=run.stage, instance=number, latency=latency)
        graph.add_edge(scale, node)
    return added


def _add_trials(graph: DiGraph, instance: RubberBandInstance, run: StageRun, frontier: list[Node]) -> list[Node]:
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
        )
        before: list[Node] = [(Task.TRAIN, run.stage, trial - run.slots)] if wave else frontier
        graph.add_edges_from((earlier, node) for earlier in before)
    return [(Task.TRAIN, run.stage, trial) for trial in range(max(0, run.trials - run.slots), run.trials)]
