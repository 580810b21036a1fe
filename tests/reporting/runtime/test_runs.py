"""The page of a run: planned beside what happened, on narrow and wide windows, with nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Plan
from optplan.instances.files import read_instance
from optplan.reporting.pages import build_page
from optplan.reporting.runtime.runs import build_comparison_page, build_run_page, comparison_table, draw_run
from optplan.runtime.running import run
from optplan.solving import build_plan, solve

if TYPE_CHECKING:
    from tests.reporting.conftest import Visitor


def plan_of(name: str, solver: str = "auto") -> Plan:
    """Return the plan of an instance of the library."""
    instance = read_instance(name)
    return build_plan(instance, solve(instance, solver=solver, gap=1e-2))


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("name", ["rubberband-resnet101-20min", "seer-paper-example", "srift-case3"])
@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_shows_the_page(name: str, width: int, visit: Visitor, tmp_path: Path) -> None:
    """Of searches of both kinds and of a fleet; nothing lies on anything else, and nothing is loaded."""
    plan = plan_of(name, "published-seer" if name.startswith("seer") else "auto")
    visited = visit(build_page(build_run_page(run(plan), name=name)), tmp_path, width)
    assert visited.complaints == []
    assert visited.list_collisions() == []
    assert visited.list_narrow_cells("segments") == []
    assert all(points == len(plan.segments) for points in visited.drawn_points()["chart-segments-1"])
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= width


def test_bars_are_when_segments_were_planned_and_when_they_went_on() -> None:
    """The textbook search, 100 s and 180 s, stopped by its budget after the first: the second did not go on."""
    outcome = run(plan_of("rubberband-two-stages"), budget_usd=0.2)
    figure = draw_run(outcome.segments, end_s=outcome.time_s)
    spans = {(bar.name, bar.marker.color): list(zip(bar.base, bar.x, strict=True)) for bar in figure.data}
    assert [(60 * base, 60 * length) for base, length in spans["planned", "#6b7785"]] == [(0, 100), (100, 180)]
    assert [(60 * base, 60 * length) for base, length in spans["actual", "#0072B2"]] == [(0, 100), (100, 0)]


def test_the_page_says_why_a_run_stopped() -> None:
    """And shows the best so far, as there is no winner."""
    outcome = run(plan_of("rubberband-two-stages"), budget_usd=0.2)
    page = build_run_page(outcome, name="textbook")
    assert page.title.startswith("Best so far: b1-s1-trials-0001 with ")
    assert (page.badge, page.lead.endswith("the budget is $0.20")) == ("paused", True)
    assert [section.heading for section in page.sections] == ["Best so far", "Planned against actual"]


def test_runs_stand_beside_one_another() -> None:
    """The textbook search followed to its end for 38 cents, and stopped by its budget after 20."""
    plan = plan_of("rubberband-two-stages")
    runs = {"whole": run(plan), "stopped": run(plan, budget_usd=0.2)}
    rows = [[str(cell) for cell in row] for row in comparison_table(runs).rows]  # type: ignore[union-attr]
    assert [row[:5] for row in rows] == [
        ["whole", "planned", "4", "4 min 40 s", "$0.3800"],
        ["", "actual", "", "4 min 40 s", "$0.3800"],
        ["stopped", "planned", "4", "4 min 40 s", "$0.3800"],
        ["", "actual", "", "1 min 40 s", "$0.2000"],
    ]
    page = build_comparison_page(runs, name="textbook")
    assert (page.title, page.badge) == ("stopped cost $0.2000, whole $0.3800", "not all done")
    assert [section.heading for section in page.sections] == ["All of them", "whole", "stopped"]
    assert "chart-run-1-1" in build_page(page)
