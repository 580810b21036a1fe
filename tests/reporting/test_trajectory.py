"""How a solve went: its steps, the same in the reports of all formulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Result, Solution, SolveEvent
from optplan.instances.library import build_named
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside
from optplan.reporting.reports import build_report
from optplan.reporting.sections import list_steps, tell_trajectory
from optplan.reporting.tables import Row, Table
from optplan.solving import solve

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.pages import Show, Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

#: A bound at once, a plan after a quarter of a second, both better in the end.
EVENTS = (
    SolveEvent(stage="bound", elapsed_s=0.1, bound=5400.0),
    SolveEvent(stage="<b>labels", elapsed_s=0.25, bound=5400.0, objective=21600.0),
    SolveEvent(stage="result", elapsed_s=0.5, bound=10800.0, objective=10800.0),
)


@pytest.fixture(scope="module")
def solved() -> Result[Solution]:
    """Return a result in seconds, whose trajectory is the one above."""
    return solve(build_named("boa-two-epochs")).replace(events=EVENTS)


def test_steps_are_listed_with_their_gap(solved: Result[Solution], show: Show) -> None:
    """At first no plan and no gap, then 5400 of 21600 s: (21600 - 5400) / 21600 = 75 %, then none."""
    lines = [line.split() for line in show(list_steps(solved)).splitlines() if " s" in line]
    assert lines == [
        ["100", "ms", "bound", "-", "5,400", "s", "-"],
        ["250", "ms", "<b>labels", "21,600", "s", "5,400", "s", "75", "%"],
        ["500", "ms", "result", "10,800", "s", "10,800", "s", "0", "%"],
    ]


def test_a_long_list_shows_its_ends(solved: Result[Solution]) -> None:
    """Of 20 steps the first four, the last four, and how many lie between them."""
    steps = tuple(SolveEvent(stage=f"s{n}", elapsed_s=n, bound=float(n)) for n in range(20))
    rows = list_steps(solved.replace(events=steps)).rows
    assert [row[1] for row in rows if not isinstance(row, Row)] == [
        "s0",
        "s1",
        "s2",
        "s3",
        "12 more",
        "s16",
        "s17",
        "s18",
        "s19",
    ]


def test_what_was_known_at_once_is_not_told(solved: Result[Solution]) -> None:
    """One event is no trajectory, and a result of an older file has none."""
    assert tell_trajectory(solved.replace(events=EVENTS[:1])) == []
    assert tell_trajectory(solved.replace(events=())) == []


@pytest.mark.parametrize("name", ["boa-two-classes", "rubberband-two-stages", "seer-paper-example", "srift-case2"])
def test_every_formulation_shows_it_behind_the_proof(name: str) -> None:
    """By the kit that all pages are made with."""
    instance = build_named(name)
    page = presenter_of(instance).build_page(instance, solve(instance).replace(events=EVENTS), Beside())
    places = [section.id for section in page.sections]
    assert places[places.index("proof") + 1] == "trajectory"
    said, table = page.sections[places.index("trajectory")].blocks
    assert isinstance(said, str)
    assert isinstance(table, Table)


def test_a_browser_shows_it(solved: Result[Solution], visit: Visitor, tmp_path: Path) -> None:
    """On a narrow window nothing is cut, and the stage is no HTML."""
    instance = build_named("boa-two-epochs")
    visited = visit(build_report(instance, solved), tmp_path, 400)
    assert visited.complaints == []
    assert visited.list_collisions() == []
    assert visited.list_narrow_cells("trajectory") == []
    assert "<b>labels" in visited.page.locator("#trajectory").inner_text()
