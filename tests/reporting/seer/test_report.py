"""The picture of a search and its page: the GPUs of every round, and nothing else runs in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Result, Solution
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.instances.files import write_text
from optplan.instances.library import build_named
from optplan.reporting.presenters import Beside, gather_background
from optplan.reporting.reports import build_report
from optplan.reporting.seer.presenter import PRESENTER
from optplan.solving import explain, solve
from optplan.verification import verify

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')


def area(line: Any) -> float:  # noqa: ANN401 - plotly ships no types
    """Return the area under a line of steps."""
    return float(sum(held * (until - since) for held, since, until in zip(line.y, line.x, line.x[1:], strict=False)))


def test_the_gpus_of_every_round_are_drawn(example: SeerInstance, result: Result[Solution]) -> None:
    """10 x 1 + 4 x 2 + 1 x 4, then 5 x 1 + 2 x 2, then 2 x 1 + 1 x 2; together the whole budget, 8 for 10 minutes."""
    search, constant = PRESENTER.draw_plan(example, result).data
    # The axis is in minutes: 10 min are more than three of them, and less than three hours.
    assert list(search.y) == [22.0, 9.0, 4.0, 0.0]
    assert area(search) == pytest.approx(80.0)
    assert "round 1: 1 x4, 4 x2, 10 x1" in search.hovertext[0]
    assert (list(constant.x), list(constant.y)) == ([0.0, 10.0], [8.0, 8.0])


def test_pauses_hold_gpus(pausing: SeerInstance) -> None:
    """Before every round but the first nothing trains, and the GPUs of the round are held."""
    found = solve(pausing)
    search, _ = PRESENTER.draw_plan(pausing, found).data
    assert found.measures["resize_gpu_min"] > 0.0
    assert area(search) == pytest.approx(found.measures["training_gpu_min"] + found.measures["resize_gpu_min"])


def make_page(folder: Path, instance: SeerInstance, found: Result[Solution], *rivals: Result[Solution]) -> Path:
    """Write a report and return its file."""
    path = folder / "report.html"
    background = gather_background(instance, found, rivals)
    write_text(
        build_report(instance, found, Beside(rivals, background, verify(instance, found), "optplan verify a b")), path
    )
    return path


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_in_a_browser(
    visit: Visitor,
    example: SeerInstance,
    result: Result[Solution],
    rival: Result[Solution],
    tmp_path: Path,
    width: int,
) -> None:
    """Both plans are drawn, round by round; no name runs, nothing is asked of the network, nothing overflows."""
    pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')
    source = make_page(tmp_path, example, result, rival).read_text(encoding="utf-8")
    opened = visit(source, tmp_path, width)
    page = opened.page
    assert opened.complaints == []
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Three rounds and the end of both plans, and the line of a constant cluster.
    assert opened.drawn_points() == {"chart-search-1": [4, 4, 2]}
    assert opened.read_back() == []
    assert opened.list_collisions() == []
    assert "15 trials start" in (page.locator("h1").text_content() or "")
    assert "proven optimal" in (page.locator("header").text_content() or "")
    for section, rows in (("solvers", 2), ("rounds", 6), ("budgets", 9)):
        assert page.locator(f"section#{section} tbody tr").count() == rows
        assert opened.list_narrow_cells(section) == []


def test_who_rents_whole_nodes_is_told_what_is_paid(
    example: SeerInstance, pausing: SeerInstance, tmp_path: Path
) -> None:
    """Idle GPUs are a part of the bill, and nodes are given back whole; else GPUs are paid while trials hold them."""
    text = make_page(tmp_path, pausing, solve(pausing)).read_text(encoding="utf-8")
    assert "idle on whole nodes" in text
    assert "given back as soon as fewer are needed" in text
    (tmp_path / "other").mkdir()
    text = make_page(tmp_path / "other", example, solve(example)).read_text(encoding="utf-8")
    assert "paid for only while a trial holds them" in text
    assert "idle on whole nodes" not in text


def test_a_page_without_a_plan(example: SeerInstance, tmp_path: Path) -> None:
    """It says what would help; where both limits fall short, that neither does alone."""
    poor = example.replace(deadline_min=0.5)
    text = make_page(tmp_path, poor, solve(poor)).read_text(encoding="utf-8")
    assert "What would help" in text
    assert re.search(r"deadline</th>\s*<td[^>]*>0.5[\s\xa0]min</td>\s*<td[^>]*>1[\s\xa0]min<", text)
    poorer = poor.replace(budget="0.1gpu-min")
    (tmp_path / "other").mkdir()
    text = make_page(tmp_path / "other", poorer, solve(poorer)).read_text(encoding="utf-8")
    assert "Neither limit alone helps" in text


def test_explanations_are_refused(example: SeerInstance, result: Result[Solution], tmp_path: Path) -> None:
    """Searches have none; one of another formulation is none of theirs."""
    boa = build_named("boa-one-table")
    with pytest.raises(UsageError, match="reports of formulation 'seer' show none"):
        write_text(build_report(example, result, Beside(explanation=explain(boa, solve(boa)))), tmp_path / "x.html")
