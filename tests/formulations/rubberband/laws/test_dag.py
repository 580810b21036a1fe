"""The execution graph, by which the simulator is tested: which tasks there are, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from optplan.errors import DataError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from tests.conftest import Later

from .execution_graphs import Node, Task, build_dag

if TYPE_CHECKING:
    import networkx
else:
    networkx = Later("networkx")

FinishTimes = Callable[[Any, Mapping[Node, float]], dict[Node, float]]


def build(*stages: tuple[int, int], **cloud: Any) -> RubberBandInstance:  # noqa: ANN401 - fields of the cloud
    """Return a search of (trials, iterations) on instances of one GPU; an iteration takes 8 s on 1 GPU, 5 s on 2."""
    listed = [{"trials": trials, "iterations": iterations} for trials, iterations in stages]
    fields = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": listed},
        "training": {"seconds_per_iteration": {1: 8.0, 2: 5.0}, "start_s": 3.0},
        "cloud": {"gpus_per_instance": 1, "price_usd_per_hour": 3.6, "provision_s": 20.0, "initialise_s": 30.0} | cloud,
    }
    return RubberBandInstance.parse(fields)


def allocate(*stages: tuple[int, int]) -> RubberBandSolution:
    """Return a solution of one bracket from (instances, GPUs)."""
    return RubberBandSolution.parse({"brackets": [[{"instances": m, "gpus": a} for m, a in stages]]})


def of_kind(graph: networkx.DiGraph, kind: Task) -> list[Node]:
    """Return the tasks of a kind."""
    return [node for node, data in graph.nodes(data=True) if data["kind"] is kind]


def test_tasks_and_edges_of_a_small_plan() -> None:
    """Five trials on two GPUs, two trials on three, one on two: every edge is written out."""
    graph = build_dag(build((5, 1), (2, 2), (1, 4)), allocate((2, 2), (4, 4), (2, 2)))
    expected = {
        ("SCALE", 0): [("INIT_INSTANCE", 0, 0), ("INIT_INSTANCE", 0, 1)],
        ("INIT_INSTANCE", 0, 0): [("TRAIN", 0, 0), ("TRAIN", 0, 1)],
        ("INIT_INSTANCE", 0, 1): [("TRAIN", 0, 0), ("TRAIN", 0, 1)],
        # chains 0-2-4 and 1-3
        ("TRAIN", 0, 0): [("TRAIN", 0, 2)],
        ("TRAIN", 0, 1): [("TRAIN", 0, 3)],
        ("TRAIN", 0, 2): [("TRAIN", 0, 4)],
        ("TRAIN", 0, 3): [("SYNC", 0)],
        ("TRAIN", 0, 4): [("SYNC", 0)],
        ("SYNC", 0): [("SCALE", 1)],
        ("SCALE", 1): [("INIT_INSTANCE", 1, 0), ("INIT_INSTANCE", 1, 1)],
        ("INIT_INSTANCE", 1, 0): [("TRAIN", 1, 0), ("TRAIN", 1, 1)],
        ("INIT_INSTANCE", 1, 1): [("TRAIN", 1, 0), ("TRAIN", 1, 1)],
        ("TRAIN", 1, 0): [("SYNC", 1)],
        ("TRAIN", 1, 1): [("SYNC", 1)],
        # nothing is added for the last stage, so nothing is provisioned
        ("SYNC", 1): [("TRAIN", 2, 0)],
        ("TRAIN", 2, 0): [("SYNC", 2)],
        ("SYNC", 2): [],
    }
    assert {node: sorted(graph.successors(node)) for node in graph} == expected


def test_tasks_carry_what_they_are() -> None:
    """A trial knows its chain, its place there, its GPUs, its iterations and what its time is made of."""
    graph = build_dag(build((5, 1), (1, 4)), allocate((2, 2), (2, 2)))
    trial = graph.nodes[("TRAIN", 0, 4)]
    assert {name: trial[name] for name in ("stage", "trial", "chain", "wave", "gpus", "iterations")} == {
        "stage": 0,
        "trial": 4,
        "chain": 0,
        "wave": 2,
        "gpus": 1,
        "iterations": 1,
    }
    assert {name: part.expected_s for name, part in graph.nodes[("TRAIN", 1, 0)]["latency"].items()} == {
        "start_s": 3.0,
        "pace_s": 5.0,
        "iteration_s": 5.0,
    }
    assert graph.nodes[("SCALE", 0)]["latency"]["provision_s"].expected_s == 20.0
    assert graph.nodes[("INIT_INSTANCE", 0, 1)]["latency"]["initialise_s"].expected_s == 30.0
    assert graph.nodes[("INIT_INSTANCE", 0, 1)]["instance"] == 1
    assert graph.nodes[("SYNC", 1)]["latency"] == {}
    assert graph.graph["bracket"] == 0


def test_one_gpu_runs_trials_one_after_another() -> None:
    """An allocation of one GPU links all trials of the stage (paper, section 4.2)."""
    graph = build_dag(build((4, 1)), allocate((1, 1)))
    assert networkx.dag_longest_path_length(graph) == 6  # SCALE, INIT_INSTANCE, four times TRAIN, SYNC
    assert len(of_kind(graph, Task.TRAIN)) == 4


def test_walking_the_graph_finds_the_completion_time(finish_times: FinishTimes) -> None:
    """Each task ends after the last of those it waits for; worked out by hand."""
    graph = build_dag(build((3, 1), (1, 4)), allocate((2, 2), (2, 2)))
    latencies: dict[Node, float] = {
        ("SCALE", 0): 5.0,
        ("INIT_INSTANCE", 0, 0): 10.0,
        ("INIT_INSTANCE", 0, 1): 7.0,
        ("TRAIN", 0, 0): 4.0,  # 15 to 19
        ("TRAIN", 0, 1): 9.0,  # 15 to 24
        ("TRAIN", 0, 2): 3.0,  # 19 to 22
        ("TRAIN", 1, 0): 6.0,  # 24 to 30
    }
    ends = finish_times(graph, latencies)
    assert (ends[("INIT_INSTANCE", 0, 1)], ends[("TRAIN", 0, 2)]) == (12.0, 22.0)
    assert (ends[("SYNC", 0)], ends[("SYNC", 1)]) == (24.0, 30.0)
    assert list(ends)[-1] == ("SYNC", 1)


def test_each_bracket_has_its_graph() -> None:
    """Brackets side by side: the second one's graph has its own stages only."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}
    instance = build((1, 1)).replace(experiment=experiment)
    chains = [[{"instances": 1, "gpus": 1} for _ in chain] for chain in instance.brackets]
    solution = RubberBandSolution.parse({"brackets": chains})
    for bracket, chain in enumerate(instance.brackets):
        graph = build_dag(instance, solution, bracket)
        assert len(of_kind(graph, Task.SYNC)) == len(chain)
        assert len(of_kind(graph, Task.TRAIN)) == sum(stage.trials for stage in chain)
    with pytest.raises(DataError, match="bracket: got 3; numbers from 0 to 2 are allowed"):
        build_dag(instance, solution, 3)
