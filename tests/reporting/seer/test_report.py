"""The picture of a search and its page: every trial a bar, and nothing else runs in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

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


def test_every_trial_is_a_bar(example: SeerInstance, result: Result[Solution]) -> None:
    """By bracket and round: 10 + 5 + 2 on one GPU, 4 + 2 + 1 on two, 1 on four. Together they are the whole budget."""
    figure = PRESENTER.draw_plan(example, result)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [trace.name for trace in bars] == ["1 GPU a trial", "2 GPUs a trial", "4 GPUs a trial"]
    assert [len(trace.y) for trace in bars] == [17, 7, 1]
    # The axis is in minutes: 10 min are more than three of them, and less than three hours.
    area = sum(height * width for trace in bars for height, width in zip(trace.width, trace.x, strict=True))
    assert area == pytest.approx(80.0)
    # In round 1 the widest bracket lies at the bottom: 1 x 4, then 4 x 2 from 4 on, then 10 x 1 from 12 to 22.
    first = [sorted(y - w / 2 for b, y, w in zip(t.base, t.y, t.width, strict=True) if b == 0) for t in bars]
    assert first == [[*map(float, range(12, 22))], [4.0, 6.0, 8.0, 10.0], [0.0]]
    (line,) = (trace for trace in figure.data if trace.type == "scatter")
    assert list(line.y) == [8.0, 8.0]


def test_the_eliminated_are_pale(example: SeerInstance, result: Result[Solution]) -> None:
    """Of 10, 5 and 2 trials on one GPU 5, 2 and 2 keep their colour; of the one on four GPUs none."""
    bars = [trace for trace in PRESENTER.draw_plan(example, result).data if trace.type == "bar"]
    strong = [sum(color == "#56B4E9" for color in bars[0].marker.color), sum("goes on" in w for w in bars[0].hovertext)]
    assert strong == [9, 7]
    assert bars[2].marker.color[0] != "#D55E00"
    assert "A trial on 4 GPUs is eliminated" in bars[2].hovertext[0]


def test_thousands_of_trials_are_few_bars(example: SeerInstance) -> None:
    """Those that go on and those that do not, in one bar each."""
    large = example.replace(budget="80000gpu-min", most_gpus=2.0)
    bars = [trace for trace in PRESENTER.draw_plan(large, solve(large)).data if trace.type == "bar"]
    assert all(len(trace.y) <= 6 for trace in bars)
    assert "Each of " in bars[0].hovertext[0]


def test_pauses_are_drawn(pausing: SeerInstance) -> None:
    """Before every round but the first."""
    (pauses,) = (trace for trace in PRESENTER.draw_plan(pausing, solve(pausing)).data if trace.name == "resizing")
    assert len(pauses.y) == 2
    assert list(pauses.x) == pytest.approx([0.1, 0.1])


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
    """Both plans are drawn, trial by trial; no name runs, nothing is asked of the network, nothing overflows."""
    pytest.importorskip("playwright", reason='playwright is not installed; pip install "optplan[test]" brings it')
    source = make_page(tmp_path, example, result, rival).read_text(encoding="utf-8")
    opened = visit(source, tmp_path, width)
    page = opened.page
    assert opened.complaints == []
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # By bracket, and the line: 10 + 5 + 2, 4 + 2 + 1 and 1 trials of the optimum; 8 + 4 + 2 and 4 + 2 + 1 published.
    # The bound is there at once, the plan at the end.
    charts = {"chart-search-1": [17, 7, 1, 2], "chart-search-2": [14, 7, 2], "chart-trajectory-1": [1, 2]}
    assert opened.drawn_points() == charts
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
    with pytest.raises(UsageError, match="reports of searches show none"):
        write_text(build_report(example, result, Beside(explanation=explain(boa, solve(boa)))), tmp_path / "x.html")
