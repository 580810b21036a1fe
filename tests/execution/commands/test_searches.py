"""The page of a run: planned beside what happened, on narrow and wide windows, with nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Plan
from optplan.execution.cli.kinds import Told
from optplan.execution.cli.searches import (
    KIND,
    build_comparison_page,
    comparison_table,
    describe_clock,
    segment_table,
)
from optplan.execution.running import run
from optplan.instances.files import read_instance
from optplan.reporting.pages import build_page
from optplan.solving import build_plan, solve

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"
#: The second descends fastest.
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]


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
    run(plan, out=tmp_path / "run")
    visited = visit(build_page(KIND.build_page(KIND.look(tmp_path / "run"))), tmp_path, width)
    assert visited.complaints == []
    assert visited.list_collisions() == []
    assert visited.list_narrow_cells("segments") == []
    assert visited.drawn_points().keys() == {"chart-places-1", "chart-use-1", "chart-use-2"}
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= width


def test_bars_are_when_segments_were_planned_and_when_they_went_on() -> None:
    """The textbook search, twice as slow, stopped by its budget after the first of 200 s: the second did not go on."""
    outcome = run(plan_of("rubberband-two-stages"), budget_usd=0.4, slower=2.0, replan_above=None)
    figure = outcome.plot()
    spans = {(bar.name, bar.marker.color): list(zip(bar.base, bar.x, strict=True)) for bar in figure.data}
    assert [(60 * base, round(60 * length)) for base, length in spans["planned", "#6b7785"]] == [(0, 100), (100, 180)]
    assert [(60 * base, round(60 * length)) for base, length in spans["virtual", "#0072B2"]] == [(0, 200), (200, 0)]


def test_the_page_says_why_a_run_stopped() -> None:
    """And shows the best so far, as there is no winner; on a virtual clock it says that first."""
    outcome = run(plan_of("rubberband-two-stages"), QUADRATIC, space=RATES, budget_usd=0.2)
    page = KIND.build_page(Told(outcome, "textbook"))
    assert page.title.startswith("Virtual run: best so far: b1-s1-trials-0002 with ")
    assert (page.badge, page.lead.endswith("the budget is $0.20")) == ("paused", True)
    assert [section.heading for section in page.sections] == ["As planned", "Best so far"]
    page = KIND.build_page(Told(outcome.replace(virtual=False), "textbook"))
    assert page.title.startswith("Best so far: b1-s1-trials-0002 with ")
    assert [section.heading for section in page.sections] == ["Planned against actual", "Best so far"]


def test_a_virtual_run_says_so_first() -> None:
    """Title, first words and the window's name; nothing is compared where the clock showed what the plan says."""
    plan = plan_of("rubberband-two-stages")
    outcome = run(plan)
    page = KIND.build_page(Told(outcome, "textbook"))
    assert (page.title, page.window_title) == ("Virtual run: nothing was trained", "virtual run of textbook")
    assert page.lead == "virtual run: nothing was trained; times and costs are those that the plan expects"
    assert [card.note for card in page.cards] == [""] * 3
    assert [row[1] for row in segment_table(outcome).rows] == ["planned"] * 3
    assert [row[1] for row in segment_table(run(plan, lucky=True)).rows] == ["planned", "virtual"] * 3
    assert describe_clock(run(plan, slower=2.0)).endswith("are calculated, as they were to differ from it")
    trained = describe_clock(run(plan, QUADRATIC, space=RATES))
    assert trained.startswith("virtual run: trials were trained here and at once; times and costs are those that")
    assert describe_clock(outcome.replace(virtual=False)) == ""


def test_runs_stand_beside_one_another(tmp_path: Path) -> None:
    """The textbook search followed to its end for 38 cents; and twice as slow, stopped by its budget after 40."""
    plan = plan_of("rubberband-two-stages")
    folders = {name: tmp_path / name for name in ("whole", "stopped")}
    less: dict[str, Any] = {"budget_usd": 0.4, "slower": 2.0, "replan_above": None}
    runs = {name: run(plan, out=out, **(less if name == "stopped" else {})) for name, out in folders.items()}
    rows = [[str(cell) for cell in row] for row in comparison_table(runs).rows]
    assert [row[:5] for row in rows] == [
        ["whole", "virtual", "4", "4 min 40 s", "$0.3800"],
        ["stopped", "planned", "4", "4 min 40 s", "$0.3800"],
        ["", "virtual", "", "3 min 20 s", "$0.4000"],
    ]
    page = build_comparison_page(folders, name="textbook")
    assert (page.title, page.badge) == ("whole cost $0.3800, stopped $0.4000", "not all done")
    assert [section.heading for section in page.sections] == ["All of them", "whole", "stopped"]
    assert "chart-run-1-1" in build_page(page)


def test_a_printed_run_says_what_it_came_to() -> None:
    """In at most 15 lines, the whole of it last: the winner, the time and the cost; it has a picture."""
    outcome = run(plan_of("rubberband-two-stages"), QUADRATIC, space=RATES, slower=2.0, replan_above=None)
    lines = str(outcome).splitlines()
    assert len(lines) <= 15
    said = "\n".join(lines)
    assert [word for word in ("in all", "status", "winner", "9 min 20 s", "$0.7600") if word not in said] == []
    assert [trace.name for trace in outcome.plot().data if trace.showlegend] == ["planned", "virtual"]
    assert "<iframe" in outcome._repr_html_()
    many = outcome.replace(notes=tuple(f"note {number}" for number in range(40)))
    assert str(many).splitlines()[-1].endswith("note 39")
    assert len(str(many).splitlines()) == 15
