"""The page of a search and its figures: the cluster over time, the frontier, and all of it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Explanation, Result, Solution
from optplan.errors import UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.solving import pareto, solve
from optplan.verification import verify

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import format_least
from optplan.reporting.presenters import Beside, gather_background, plan_words_of
from optplan.reporting.reports import build_report
from optplan.reporting.rubberband.presenter import PRESENTER, draw_sizes, plan_of
from optplan.reporting.rubberband.words import say_answer

if TYPE_CHECKING:
    from tests.plugins.pages import Visit, Visitor

DESK, PHONE = 1280, 400
COMMAND = "optplan verify mine.json result.json"


def page_of(instance: RubberBandInstance, result: Result[Solution], *rivals: Result[Solution]) -> str:
    """Return the page of a result."""
    background = gather_background(instance, result, rivals)
    return build_report(instance, result, Beside(rivals, background, verify(instance, result), COMMAND))


def test_the_cluster_is_drawn_over_time(
    search: RubberBandInstance, found: Result[Solution], static: Result[Solution]
) -> None:
    """Two instances for 100 s, one until 280 s; static holds two for 220 s. Ours is the solid line."""
    figure = draw_sizes([("ours", plan_of(search, found)), ("static", plan_of(search, static))])
    ours, rival = figure.data
    assert list(ours.x) == pytest.approx([0.0, 100 / 60, 280 / 60])
    assert list(ours.y) == [2, 1, 0]
    assert list(rival.x) == pytest.approx([0.0, 100 / 60, 220 / 60])
    assert list(rival.y) == [2, 2, 0]
    assert (ours.line.dash, rival.line.dash) == ("solid", "dot")
    assert ours.hovertext[0] == "ours, at the start: 2 instances<br>stage 1: 4 trials on 1 GPU each, on 2 instances"
    assert figure.layout.xaxis.title.text == "expected time since the start (minutes)"


def test_brackets_are_drawn_together(side_by_side: RubberBandInstance) -> None:
    """The line is the sum of the clusters, and falls to nothing when the last of them ends."""
    result = solve(side_by_side)
    plan = plan_of(side_by_side, result)
    (line,) = PRESENTER.draw_plan(side_by_side, result).data
    assert line.y[0] == sum(stage.nodes for stage in plan.segments if stage.stage == 1)
    assert line.y[-1] == 0
    assert "stage 3.1: 3 trials" in line.hovertext[0]


def test_the_frontier_is_a_staircase(
    search: RubberBandInstance, found: Result[Solution], static: Result[Solution]
) -> None:
    """Every point of it, the solvers' plans on it or above, and the limit that was asked, in minutes."""
    line = pareto(search)
    figure = draw_pareto(search, line, plan_words_of(search), results=[(found, 280.0), (static, 220.0)], limit=280.0)
    steps, ours, rival = figure.data
    assert list(steps.x) == pytest.approx([point.limit / 60 for point in line.points])
    assert list(steps.y) == [point.objective for point in line.points]
    assert (steps.line.shape, steps.name) == ("hv", "best possible")
    assert (ours.x[0], ours.y[0]) == pytest.approx((280 / 60, 0.38))
    assert (rival.x[0], rival.y[0]) == pytest.approx((220 / 60, 0.44))
    assert figure.layout.shapes[0].x0 == pytest.approx(280 / 60)
    assert figure.layout.xaxis.title.text == "deadline (minutes)"
    assert figure.layout.yaxis.title.text == "expected cost ($)"
    fastest = search.replace(objective="time", deadline_s=None, budget="0.4usd")
    turned = draw_pareto(fastest, pareto(fastest), plan_words_of(fastest))
    assert turned.layout.xaxis.title.text == "budget ($)"
    assert turned.layout.yaxis.title.text == "expected time (minutes)"


def test_the_page_says_what_the_terminal_says(
    search: RubberBandInstance, found: Result[Solution], static: Result[Solution]
) -> None:
    """Answer, bill, rivals, what was asked, how to check it."""
    text = page_of(search, found, static)
    plain = text.replace("\N{NO-BREAK SPACE}", " ")
    assert say_answer(search, found) in plain
    assert "16 % more" in plain
    assert "GPUs a trial" in plain
    assert COMMAND in plain
    assert "Every such plan is shown." in plain
    assert "<img src=x" not in text


def test_a_page_says_how_likely_both_limits_are_kept(search: RubberBandInstance) -> None:
    """The frontier is of expected times and costs, as without a confidence, and the page says so."""
    noise = {"form": "normal", "sd_fraction": 0.1}
    varying = search.training.to_json_data() | {"iteration_noise": noise}
    asked = search.replace(training=varying, deadline_s=290.0, budget="0.4usd", confidence=0.95)
    page = page_of(asked, solve(asked))
    assert "are both kept with probability 0.95" in page
    assert "(asked: 0.95)" in page
    assert "to be kept with a confidence, a limit has to leave some room" in page


def test_a_page_without_a_plan_says_what_would_help(search: RubberBandInstance, infeasible: Result[Solution]) -> None:
    """The title is short, the reasons stand below it, and the frontier shows what there is instead."""
    hurried = search.replace(deadline_s=120.0)
    plain = page_of(hurried, infeasible).replace("\N{NO-BREAK SPACE}", " ")
    assert "160 s; the deadline is 120 s" in plain
    assert "2 min 40 s" in plain
    assert "this solver proves nothing" not in plain
    assert "The cluster over time" not in plain


def test_a_limit_to_relax_is_written_in_its_own_unit(search: RubberBandInstance) -> None:
    """Within 2 min 45 s no plan costs a cent: the budget has to grow, and is money although the deadline is traded."""
    both = search.replace(deadline_s=165.0, budget="0.01usd")
    result = solve(both)
    assert result.infeasibility is not None
    (relaxed,) = result.infeasibility.relaxations
    assert relaxed.limit == "budget"
    text = page_of(both, result)
    assert ">$0.010<" in text
    assert f">{format_least('budget', relaxed.least_feasible)}<" in text


def test_explanations_are_refused(search: RubberBandInstance, found: Result[Solution]) -> None:
    """Searches have none, and a page that drops one would be a lie."""
    explanation = Explanation(
        formulation="rubberband",
        instance_name=search.name,
        instance_hash=search.content_hash(),
        solver="by-hand",
        objective=0.38,
        objective_unit="usd",
        budget_unit="s",
        multipliers={},
        choices=(),
    )
    with pytest.raises(UsageError, match="explanation: reports of formulation 'rubberband' show none; leave it out"):
        build_report(search, found, Beside(explanation=explanation))


@pytest.fixture(scope="module")
def opened(
    visit: Visitor,
    search: RubberBandInstance,
    found: Result[Solution],
    static: Result[Solution],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[int, Visit]:
    """Open the page with a rival in a wide and in a narrow window."""
    source = page_of(search, found, static)
    return {width: visit(source, tmp_path_factory.mktemp(str(width)), width) for width in (DESK, PHONE)}


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_page_opens_in_a_browser(opened: dict[int, Visit], width: int) -> None:
    """Both charts are drawn with all their points, nothing overflows or collides, and nobody complains."""
    seen = opened[width]
    drawn = seen.drawn_points()
    assert drawn["chart-sizes-1"] == [3, 3]
    assert len(drawn["chart-frontier-1"]) == 3
    assert drawn["chart-frontier-1"][0] > 2
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    for section in ("stages", "solvers"):
        assert seen.list_narrow_cells(section) == []
    assert seen.list_collisions() == []
    assert seen.read_back() == []
    assert seen.page.locator("main img").count() == 0
    assert "<img src=x" in (seen.page.locator("body").text_content() or "")
    assert seen.complaints == []


@pytest.fixture(scope="module")
def other_pages(
    side_by_side: RubberBandInstance, search: RubberBandInstance, infeasible: Result[Solution]
) -> tuple[str, ...]:
    """Return the pages of several clusters beside their rival, and of no plan."""
    return (
        page_of(side_by_side, solve(side_by_side), solve(side_by_side, solver="static")),
        page_of(search.replace(deadline_s=120.0), infeasible),
    )


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_pages_of_brackets_and_without_a_plan_open(
    visit: Visitor, other_pages: tuple[str, ...], tmp_path: Path, width: int
) -> None:
    """Several clusters and their rival, and the page that says why there is none."""
    for source in other_pages:
        seen = visit(source, tmp_path, width)
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        assert seen.list_collisions() == []
        assert seen.complaints == []
