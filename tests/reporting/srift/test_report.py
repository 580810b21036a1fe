"""The page of a training job: what it says, and all of it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from optplan.contracts import Explanation, Result, Solution
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.study.replanning import FleetStanding, build_timeline, continue_run
from optplan.instances.files import write_text
from optplan.reporting.pages import Charts, Definitions, Page, Section
from optplan.reporting.tables import Table
from optplan.solving import solve
from optplan.verification import verify

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.pages import build_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, gather_background
from optplan.reporting.reports import build_report, write_report
from optplan.reporting.srift.presenter import build_continuation_page

if TYPE_CHECKING:
    from tests.plugins.pages import Visit, Visitor

Block = TypeVar("Block", Charts, Definitions, Table)
DESK, PHONE = 1280, 400
COMMAND = "optplan verify mine.json result.json"


def page_of(instance: SriftInstance, result: Result[Solution], *rivals: Result[Solution]) -> Page:
    """Return the page of a result."""
    background = gather_background(instance, result, rivals)
    beside = Beside(rivals, background, verify(instance, result), COMMAND)
    return presenter_of(instance).build_page(instance, result, beside)


def find_block(found: Section, kind: type[Block]) -> Block:
    """Return the first block of a kind in a section."""
    return next(one for one in found.blocks if isinstance(one, kind))


def section(page: Page, place: str) -> Section:
    """Return a section of a page."""
    return next(one for one in page.sections if one.id == place)


def test_the_page_of_an_answer(job: SriftInstance, result: Result[Solution], rival: Result[Solution]) -> None:
    """The fleet, its bill, its rivals, every fleet that no other beats, what was asked, how to check it."""
    page = page_of(job, result, rival)
    answer = "1 big@32 + 8 small@4 train two-layers in 1.78 s for $0.00672, if no spot VM is taken back"
    trust = "That nothing is better rests on trust: a search says so, without a certificate."
    assert page.title == f"{answer}; the deadline is 2.5 s. {trust}"
    assert [one.id for one in page.sections] == [
        *("iteration", "fleet", "bill", "next", "solvers", "frontier", "more"),
        *("question", "proof", "assumptions", "provenance"),
    ]
    assert [text for _, text in find_block(section(page, "bill"), Definitions).pairs] == [
        "$0.00356",
        "$0.00316",
        "$0.00672, $13.60 an hour",
    ]
    assert "which breaks deadline" in find_block(section(page, "solvers"), Definitions).pairs[-1][1]
    charts = find_block(section(page, "frontier"), Charts)
    (label, figure) = charts.figures[0]
    assert label == "Least cost for every deadline: 3 fleets."
    assert list(figure.data[0].x) == pytest.approx([1.78, 3.3, 3.375])
    assert charts.reading.endswith("Every such fleet is shown.")
    assert {card.name: card.value for card in page.cards}["spare time"] == "0.72 s"


def test_one_more_vm(job: SriftInstance, result: Result[Solution]) -> None:
    """Two large ones take 17.5 ms at 14.4 usd/h: 0.7 cents, no better; nine small ones make no 64 samples.

    With seven small VMs and no deadline, 1 big@64 is best, 0.66 cents; an eighth makes 8 small@8 possible, 0.6 cents.
    """
    rows = find_block(section(page_of(job, result), "more"), Table).rows
    assert rows == [("big", "1", "1", "nothing", ""), ("small", "8", "8", "nothing", "")]
    fewer = job.replace(deadline_s=None, types={**job.types, "small": job.types["small"].replace(available=7)})
    rows = find_block(section(page_of(fewer, solve(fewer)), "more"), Table).rows
    assert rows == [("big", "1", "1", "nothing", ""), ("small", "7", "0", "$0.0006", "8 small@8")]
    free = job.replace(types={name: vm.replace(available=None) for name, vm in job.types.items()})
    assert "more" not in [one.id for one in page_of(free, solve(free)).sections]


def test_the_page_of_no_answer(job: SriftInstance) -> None:
    """Why, what would help, and the fleets that there are."""
    poor = job.replace(deadline_s=1.5)
    page = page_of(poor, solve(poor))
    assert page.title.startswith("No fleet can do it: ")
    assert page.badge == "infeasible: proven"
    assert find_block(section(page, "help"), Table).rows[0] == ("deadline", "1.5 s", "1.78 s or more")
    assert [one.id for one in page.sections][:2] == ["help", "frontier"]


def test_reports_are_written(job: SriftInstance, result: Result[Solution], tmp_path: Path) -> None:
    """Names are escaped; explanations there are none."""
    write_report(tmp_path / "page.html", job, result)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img src=x" not in text
    assert "<b>last" not in text
    explanation = Explanation(
        formulation="srift",
        instance_name="x",
        instance_hash="x",
        solver="x",
        objective=1.0,
        objective_unit="usd",
        budget_unit="usd",
        multipliers={},
        choices=(),
    )
    with pytest.raises(UsageError, match="explanation: reports of formulation 'srift' show none; leave it out"):
        write_text(build_report(job, result, Beside(explanation=explanation)), tmp_path / "no.html")


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_page_in_a_browser(
    job: SriftInstance,
    result: Result[Solution],
    rival: Result[Solution],
    visit: Visitor,
    tmp_path: Path,
    width: int,
) -> None:
    """Every chart is drawn, no text lies on another, and nothing complains."""
    text = build_page(page_of(job, result, rival))
    opened: Visit = visit(text, tmp_path, width)
    assert opened.complaints == []
    assert {"chart-iteration-1", "chart-frontier-1"} <= set(opened.drawn_points())
    assert opened.read_back() == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    assert opened.page.locator("h1").inner_text().startswith("1 big@32")
    if width == DESK:
        assert opened.list_collisions() == []


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_rest_of_a_run_in_a_browser(job: SriftInstance, visit: Visitor, tmp_path: Path, width: int) -> None:
    """A small VM is lost after 50 of 100 iterations: the whole run is drawn above the answer."""
    small = job.types["small"].replace(batches=[2, 4, 8])
    whole = job.replace(launch_s=2.0, deadline_s=8.0, global_batch=60, types={**job.types, "small": small})
    vms = {"big": 1, "small": 7}
    state = FleetStanding(elapsed_s=2.89, iterations_done=50, running=vms, lost={"small": 1}, detach_s=0.5, ready_s=2.0)
    continuation = continue_run(whole, state, solve)
    rest, result = continuation.remainder.instance, continuation.result
    timeline = build_timeline(whole, state, continuation.remainder, new=result.solution)
    beside = Beside((), gather_background(rest, result), verify(rest, result), COMMAND)
    opened: Visit = visit(build_page(build_continuation_page(continuation, timeline, beside)), tmp_path, width)
    assert opened.complaints == []
    assert {"chart-run-1", "chart-iteration-1"} <= set(opened.drawn_points())
    assert opened.read_back() == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    if width == DESK:
        assert opened.list_collisions() == []
