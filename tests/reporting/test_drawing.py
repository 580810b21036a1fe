"""Pictures by themselves: frontiers and plans as figures of plotly, and pages of nothing else."""

from __future__ import annotations

import pytest

import optplan
from optplan.errors import UnsupportedError, UsageError

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.drawing import build_figures
from optplan.reporting.pages import Page, build_page
from optplan.reporting.style import title_axis


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


def test_plans_are_drawn_where_they_have_a_picture() -> None:
    """A search has one, a stream has none, and without a plan there is nothing to draw."""
    search = optplan.read_instance("seer-paper-example")
    assert optplan.draw_plan(search, optplan.solve(search)).layout.yaxis.title.text == "GPUs"
    hasty = search.replace(deadline_min=0.5)
    with pytest.raises(UsageError, match=r"the result has no plan to draw \(status infeasible\)"):
        optplan.draw_plan(hasty, optplan.solve(hasty))
    stream = optplan.read_instance("boa-one-table")
    with pytest.raises(UnsupportedError, match="no figure of a plan of formulation 'boa'; write_report draws"):
        optplan.draw_plan(stream, optplan.solve(stream))


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
