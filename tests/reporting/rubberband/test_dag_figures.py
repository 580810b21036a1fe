"""The execution graph drawn and written: small stages task by task, large ones folded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx
import pytest

from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.execution import Task, build_dag

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.drawing import build_figures
from optplan.reporting.rubberband.dag_figures import describe_latency, draw_dag, fold_dag, write_dag

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor


def build_graph(*stages: tuple[int, int, int, int], **training: Any) -> networkx.DiGraph:  # noqa: ANN401
    """Return the graph of stages of (trials, iterations, instances, GPUs) on instances of four GPUs."""
    listed = [{"trials": trials, "iterations": iterations} for trials, iterations, _, _ in stages]
    fields = {
        "formulation": "rubberband",
        "experiment": {"form": "stages", "stages": listed},
        "training": {"seconds_per_iteration": {1: 8.0, 2: 5.0, 4: 3.0}} | training,
        "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 12.0, "initialise_s": 90.0},
    }
    chain = [{"instances": held, "gpus": gpus} for _, _, held, gpus in stages]
    return build_dag(RubberBandInstance.parse(fields), RubberBandSolution.parse({"brackets": [chain]}))


#: 64 trials at once on 16 instances, 32 in two waves, 30 in eight, 6 in six, one alone.
SEARCH = ((64, 4, 16, 64), (32, 8, 4, 16), (30, 16, 1, 4), (6, 1, 1, 1), (1, 250, 2, 4))


def test_large_stages_are_folded() -> None:
    """Many tasks side by side become one for each wave, long chains one for each chain; nothing is lost."""
    graph = build_graph(*SEARCH)
    folded = fold_dag(graph)
    counts = [
        [data["count"] for _, data in folded.nodes(data=True) if data["stage"] == stage and data["kind"] is Task.TRAIN]
        for stage in range(5)
    ]
    assert counts == [[64], [16, 16], [8, 8, 7, 7], [6], [1]]
    assert sum(count for _, count in folded.nodes(data="count")) == len(graph)
    assert folded.nodes[("INIT_INSTANCE", 0, 0)]["count"] == 16


def test_folds_keep_what_waits_for_what() -> None:
    """Folds are connected where their tasks are, time still goes to the right, and no two are in one place."""
    folded = fold_dag(build_graph(*SEARCH))
    assert networkx.is_directed_acyclic_graph(folded)
    assert set(folded.edges) >= {
        (("SCALE", 0), ("INIT_INSTANCE", 0, 0)),
        (("INIT_INSTANCE", 0, 0), ("TRAIN", 0, 0)),
        (("TRAIN", 1, 0), ("TRAIN", 1, 16)),
        (("TRAIN", 1, 16), ("SYNC", 1)),
        (("SYNC", 2), ("TRAIN", 3, 0)),
    }
    x = dict(folded.nodes(data="x"))
    assert all(x[before] < x[after] for before, after in folded.edges)
    assert sorted(set(x.values())) == list(range(len(set(x.values()))))
    assert len({(data["x"], data["y"]) for _, data in folded.nodes(data=True)}) == len(folded)


def test_small_stages_are_not_folded() -> None:
    """A small plan is drawn as it is."""
    graph = build_graph((4, 2, 1, 2), (2, 4, 2, 8))
    folded = fold_dag(graph)
    assert set(folded.edges) == set(graph.edges)
    assert {count for _, count in folded.nodes(data="count")} == {1}


def test_figure_shows_each_kind_of_task() -> None:
    """Each kind is a trace with its tasks' counts, and hovering says what they do and how long they take."""
    figure = draw_dag(build_graph(*SEARCH, iteration_noise={"form": "normal", "sd_s": 0.5}))
    traces = {trace.name: trace for trace in figure.data if trace.name}
    assert list(traces) == ["SCALE", "INIT_INSTANCE", "TRAIN", "SYNC"]
    assert traces["TRAIN"].text[0] == "64 x"
    assert traces["TRAIN"].text[-1] == ""
    assert traces["TRAIN"].hovertext[0] == (
        "<b>64 x TRAIN</b>, stage 1<br>1 GPU and 4 iterations for each trial<br>start: 0 s<br>"
        "an iteration: 8 s on average, standard deviation 0.5 s (normal)"
    )
    assert "initialisation: 1 min 30 s" in traces["INIT_INSTANCE"].hovertext[0]
    assert [note.text for note in figure.layout.annotations] == [f"stage {number}" for number in range(1, 6)]
    assert draw_dag(build_graph(*[(1, 1, 1, 1)] * 9)).layout.annotations[8].text == "9"


def test_a_browser_draws_the_graph(visit: Visitor, tmp_path: Path) -> None:
    """Each task is where the figure has it."""
    opened = visit(build_figures("graph", "Graph", [("Its tasks", draw_dag(build_graph(*SEARCH)))]), tmp_path, 1400)
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_noise_is_described() -> None:
    """Every part of a trial's time that varies is named with its spread."""
    noise = {"form": "empirical", "factors": [0.5, 1.5]}
    graph = build_graph((1, 1, 1, 1), trial_noise=noise, start_s={"form": "log-normal", "mean_s": 20, "sd_s": 5})
    assert describe_latency(graph.nodes[("TRAIN", 0, 0)]["latency"]) == [
        "start: 20 s on average, standard deviation 5 s (log-normal)",
        "pace of the trial, an iteration: 8 s on average, standard deviation 4 s (empirical, 2 values)",
        "an iteration: 8 s",
    ]


def test_text_has_a_line_for_each_stage() -> None:
    """The text says what is added, how many trials train on what, and how they wait."""
    assert write_dag(build_graph(*SEARCH)) == [
        "stage 1: SCALE > 16 x INIT_INSTANCE > 64 x TRAIN (1 GPU, 4 iterations) > SYNC",
        "stage 2: 32 x TRAIN (1 GPU, 8 iterations; 16 at a time) > SYNC",
        "stage 3: 30 x TRAIN (1 GPU, 16 iterations; 4 at a time) > SYNC",
        "stage 4: 6 x TRAIN (1 GPU, 1 iteration; 1 at a time) > SYNC",
        "stage 5: SCALE > INIT_INSTANCE > TRAIN (4 GPUs, 250 iterations) > SYNC",
    ]
