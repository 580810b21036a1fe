"""What pages show besides a result: why, wrong estimates, frontiers, comparisons."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Explanation, Result, Sensitivity, Solution
from optplan.errors import OutputError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.explanation_tables import list_explanations, tell_explanation
from optplan.reporting.boa.figures import FrontierAnswer, FrontierCurve
from optplan.reporting.boa.frontier_tables import DERIVED, list_asked, list_budgets, list_reached, tell_curves
from optplan.reporting.boa.ranges import tell_sensitivity
from optplan.reporting.comparison import Compared, Comparison, compare, tell_comparison
from optplan.reporting.pages import Page, build_page, write_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside
from optplan.reporting.tables import Cell, Table
from optplan.units import format_duration

if TYPE_CHECKING:
    pass


def words(page: str) -> str:
    """Return the text of a page without its elements, with plain single spaces."""
    body = page[page.index("<main") : page.index("</main>")]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split()).replace("&#39;", "'")


def write_cells(table: Table | None) -> list[list[str]]:
    """Return the texts of a table, row by row."""
    assert table is not None
    return [[cell.text if isinstance(cell, Cell) else str(cell) for cell in row.cells] for row in table.set_rows]


def test_explanations_need_their_result(
    instance: BoaInstance, result: Result[Solution], explanation: Explanation, sensitivity: Sensitivity
) -> None:
    """What was said of one result is not shown beside another one."""
    presenter = presenter_of(instance)
    with pytest.raises(UsageError, match=r"the explanation is for 'by-type' with hash .*, the result for 'by-hand'"):
        presenter.build_page(instance, result, Beside(explanation=explanation))
    with pytest.raises(UsageError, match=r"the sensitivity is for 'by-type' .*; give what belongs together"):
        presenter.build_page(instance, result, Beside(sensitivity=sensitivity))


def test_long_explanations_are_cut(
    typed_instance: BoaInstance, typed_result: Result[Solution], explanation: Explanation
) -> None:
    """A page shows three hundred rows and says how many more there are."""
    long = explanation.replace(choices=explanation.choices[1:2] * 310)
    tables = [one for one in tell_explanation(typed_instance, typed_result, long).blocks if isinstance(one, Table)]
    assert [len(table.rows) for table in tables] == [300]
    assert [table.rest for table in tables] == ["10 more rows are in the JSON of optplan explain."]


def test_frontiers_are_looked_up_at_the_same_budgets(curves: tuple[FrontierCurve, FrontierCurve]) -> None:
    """From the least budget of all to three times the largest least one: 8 GPUs at $2 are $16 an hour for the first."""
    table = list_budgets(curves)
    assert [column.name for column in table.columns] == ["US dollars an hour", "one type", "two types"]
    rows = write_cells(table)
    # The least budgets are 6.2 GPUs at $2, $12.40, and $3.50; three times the larger one is $37.20.
    assert rows[0] == ["3.50", "no plan", "56 min 40 s"]
    assert rows[-1] == ["37.2", "54 min 00 s", "35 min 00 s"]
    # 3,420 s against the frontier's 2,250 s.
    _, reached = list_reached(curves[1])
    assert isinstance(reached, Table)
    assert [column.name for column in reached.columns][:2] == ["US dollars an hour", "best possible"]
    assert write_cells(reached) == [["7.20", "37 min 30 s", "57 min 00 s", "52 % longer", "123 ms"]]


def test_answers_stand_beside_the_frontier(curves: tuple[FrontierCurve, FrontierCurve]) -> None:
    """What was asked, with its proven bound; without questions there is no such table."""
    assert list_asked(curves[0]) == []
    point = curves[0].frontier.at(8.0)
    first = replace(curves[0], asked=(FrontierAnswer({"at": "8gpu"}, curves[0].instance, point, 3599.5),))
    heading, table, derived = list_asked(first)
    assert (heading, derived) == ("As asked:", DERIVED)
    assert isinstance(table, Table)
    (row,) = write_cells(table)
    assert row == ["8gpu", "8", "$11,680", format_duration(point.objective), "3599.5 s", "5 min 23 s", "the budget"]
    told = [block for block in tell_curves((first, curves[1])).blocks if isinstance(block, str)]
    assert told == ["one type: As asked:", DERIVED, "two types: fixed-width at these budgets:"]


def test_one_curve_names_its_solvers_only(curves: tuple[FrontierCurve, FrontierCurve]) -> None:
    """With one curve it goes without saying whose the solver's points are."""
    assert [block for block in tell_curves(curves[1:]).blocks if isinstance(block, str)] == [
        "fixed-width at these budgets:"
    ]


def test_equal_things_have_no_table(typed_instance: BoaInstance) -> None:
    """A thing compared with itself differs in nothing, and the page says so."""
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    same = compare(Compared("a", typed_instance), Compared("b", typed_instance))
    page = build_page(Page("", "a and b", sections=[tell_comparison(same)]))
    assert "Nothing differs: all" in words(page)
    assert "<table" not in page


def test_a_page_of_views(
    sensitivity: Sensitivity, curves: tuple[FrontierCurve, FrontierCurve], comparison: Comparison, tmp_path: Path
) -> None:
    """Frontiers, samples and differences make a page of their own, which is written like a report."""
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    path = tmp_path / "page.html"
    sections = [tell_curves(curves), tell_sensitivity(sensitivity), tell_comparison(comparison)]
    shown = Page("", "A & B", sections=sections)
    write_page(path, shown)
    page = path.read_text(encoding="utf-8")
    text = words(page)
    for part in (
        "A &amp; B Frontiers Wrong estimates What differs What every budget buys",
        "3.50 no plan 56 min 40 s",
        "two types: fixed-width at these budgets: What the solver reaches US dollars an hour Best possible",
        "200 samples in which the estimates are wrong: speedups by 10 % and arrival rates by 20 %",
        "quota of a100, GPUs: exceeded in none none",
        "A fixed.json, an instance 'by-type', solved by fixed-width",
        "mean completion time 57 min 00 s 38 min 15 s -18 min 45 s -33",
    ):
        assert part in text, part
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert set(figures) == {"chart-frontiers-1", "chart-estimates-1", "chart-estimates-2"}
    with pytest.raises(OutputError, match="exists; give another path"):
        write_page(path, shown)


def test_mixed_plans_explain_each_share(explanation: Explanation) -> None:
    """Of a class whose jobs are divided, each share has its own rows."""
    speech = explanation.choices[2]
    other = speech.alternatives[0].replace(label="any a100", forced_cost=5.0)
    choices = (speech.replace(share=0.5), speech.replace(branch=2, share=0.5, label="2 t4", alternatives=(other,)))
    rows = write_cells(list_explanations(explanation.replace(choices=choices)))
    assert [row[0] for row in rows] == ["speech (50 %)"] * 2
    assert [row[-1] for row in rows] == ["no plan fits", "+5"]
