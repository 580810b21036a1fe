"""Pictures by themselves: frontiers and plans as figures of plotly, and pages of nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import optplan
from optplan.errors import UsageError

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.pages import Page, build_page
from optplan.reporting.reports import build_figures
from optplan.reporting.segments import draw_segments
from optplan.reporting.style import title_axis

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor


@pytest.mark.parametrize(
    ("name", "across", "up"),
    [
        ("rubberband-two-stages", "deadline (minutes)", "expected cost ($)"),
        ("seer-paper-example", "budget (GPU-min)", "training (GPU-min)"),
        ("srift-interruption", "deadline (seconds)", "cost ($)"),
    ],
)
def test_a_frontier_of_plans_says_what_its_axes_show(name: str, across: str, up: str) -> None:
    """Its steps are the frontier's own points; the axes name limit and objective, dollars by their sign."""
    instance = optplan.read_instance(name)
    frontier = optplan.pareto(instance)
    figure = optplan.draw_frontier(instance, frontier)
    assert len(figure.data[0].x) == len(frontier.points)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == (across, up)


def test_a_frontier_of_mixed_plans_is_a_line() -> None:
    """Of BOA's plans: one GPU for each hour of an hour's work at least, then faster with more."""
    instance = optplan.read_instance("boa-one-table")
    figure = optplan.draw_frontier(instance, optplan.frontier(instance))
    assert figure.layout.xaxis.title.text == "GPUs on average (the budget)"
    assert figure.layout.yaxis.title.text.startswith("mean completion time (")


def test_a_frontier_is_drawn_with_its_own_instance() -> None:
    """Another one is refused by name."""
    frontier = optplan.pareto(optplan.read_instance("seer-paper-example"))
    with pytest.raises(UsageError, match=r"that of 'seer-paper-example' \(formulation seer\), not of 'boa-one-table'"):
        optplan.draw_frontier(optplan.read_instance("boa-one-table"), frontier)


def test_plans_are_drawn_where_there_is_one() -> None:
    """A search over time; without a plan there is nothing to draw."""
    search = optplan.read_instance("seer-paper-example")
    assert optplan.draw_plan(search, optplan.solve(search)).layout.yaxis.title.text == "GPUs held"
    hasty = search.replace(deadline_min=0.5)
    with pytest.raises(UsageError, match=r"the result has no plan to draw \(status infeasible\)"):
        optplan.draw_plan(hasty, optplan.solve(hasty))


def test_a_stream_is_drawn_class_by_class() -> None:
    """Vision trains on 4 GPUs for two of its three epochs, then on 8; speech on 3: the darker, the more."""
    stream = optplan.read_instance("boa-two-classes")
    figure = optplan.draw_plan(stream, optplan.solve(stream))
    bars = figure.data[0]
    assert list(figure.layout.yaxis.ticktext) == ["vision", "speech"]
    drawn = [
        (row, round(base), round(x), text)
        for row, base, x, text in zip(bars.y, bars.base, bars.x, bars.text, strict=True)
    ]
    assert drawn == [(0, 0, 67, "4"), (0, 67, 33, "8"), (1, 0, 100, "3")]
    assert bars.hovertext[1] == "epochs 3 to 3: 8 GPUs of v100, 12 min 22 s"
    brightness = {text: int(color[1:3], 16) for text, color in zip(bars.text, bars.marker.color, strict=True)}
    assert brightness["8"] < brightness["4"] < brightness["3"]


@pytest.mark.parametrize("name", ["boa-two-classes", "rubberband-two-stages", "seer-paper-example", "srift-case2"])
def test_a_browser_draws_plans_as_their_files_have_them(visit: Visitor, tmp_path: Path, name: str) -> None:
    """Without the instance: what the segments of a plan's file say, and nothing else."""
    instance = optplan.read_instance(name)
    plan = optplan.build_plan(instance, optplan.solve(instance, ranges=False))
    opened = visit(build_figures(name, name, [("Segments", draw_segments(plan))]), tmp_path, 800)
    assert sum(opened.drawn_points()["chart-figure-1-1"]) >= len(plan.segments)
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_gpu_types_and_shares_of_jobs_are_told_apart() -> None:
    """A colour for each type, with its name; a class whose jobs are treated in two ways has two rows with shares."""
    typed = optplan.read_instance("boa-newtrace-types")
    bars, *named = optplan.draw_plan(typed, optplan.solve(typed)).data
    assert [trace.name for trace in named] == ["t4", "rtx-2080-ti", "a100"]
    assert set(bars.marker.color) == {trace.marker.color for trace in named}
    mixed = optplan.read_instance("boa-two-classes").replace(budget="9gpu", policy="mixed")
    rows = optplan.draw_plan(mixed, optplan.solve(mixed)).layout.yaxis.ticktext
    assert len(rows) == 3
    assert sum("%" in row for row in rows) == 2


def test_a_page_of_figures_is_as_small_as_a_report() -> None:
    """Packed, the script that draws takes well under a megabyte, and each figure has its heading."""
    search = optplan.read_instance("seer-paper-example")
    figure = optplan.draw_frontier(search, optplan.pareto(search))
    page = build_figures("<mine>", "Two pictures", [("The first", figure), ("The second", figure)])
    assert "&lt;mine&gt;" in page
    assert [page.count(f"<h2>The {name}</h2>") for name in ("first", "second")] == [1, 1]
    assert page.count('class="chart"') == 2
    assert len(page) < 2_500_000  # all of plotly.js by itself has 4.8 million characters


def test_units_stand_behind_what_an_axis_shows() -> None:
    """Dollars as a sign, words for underscores, and no unit that the words have already."""
    assert title_axis("cost", "usd") == "cost ($)"
    assert title_axis("most_gpus_held", "GPUs") == "most gpus held (GPUs)"
    assert title_axis("expected loss", "loss") == "expected loss"
    assert title_axis("a < b", "") == "a &lt; b"


def test_commands_in_sentences_are_set_as_code() -> None:
    """What stands in backticks is code on a page, and markup from users is text there as everywhere."""
    page = build_page(Page("mine", "Title", lead="Run `optplan list` for 5 s, not <b>`<i>`</b>."))
    assert "Run <code>optplan list</code> for 5\N{NO-BREAK SPACE}s" in page
    assert "&lt;b&gt;<code>&lt;i&gt;</code>&lt;/b&gt;" in page
