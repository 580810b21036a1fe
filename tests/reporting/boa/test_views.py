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
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.reporting.boa.frontier_figures import AskedPoint
from optplan.reporting.boa.views import PlaceCell, Views, gather_views, list_places
from optplan.reporting.comparison import Compared, compare
from optplan.units import format_duration

if TYPE_CHECKING:
    from tests.reporting.conftest import ResultMaker


def words(page: str) -> str:
    """Return the text of a page without its elements, with plain single spaces."""
    body = page[page.index("<main") : page.index("</main>")]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split()).replace("&#39;", "'")


def test_places_have_a_cell_for_each_type(
    typed_instance: BoaInstance, typed_result: Result[Solution], explanation: Explanation
) -> None:
    """Where a class runs, what other types would cost, and where it cannot run."""
    rows = list_places(typed_instance, typed_result, explanation)
    assert [(row.subject, row.epochs) for row in rows] == [("vision", "1"), ("", "2"), ("speech", "1"), ("text", "1")]
    assert [row.cells for row in rows] == [
        (PlaceCell("1 GPU", "own"), PlaceCell("+31 s", "other")),
        (PlaceCell("+1,234 s", "other"), PlaceCell("1 GPU", "own")),
        (PlaceCell("no plan fits", "other"), PlaceCell("2 GPUs", "own")),
        (PlaceCell("2 GPUs", "own"), PlaceCell("cannot run", "never")),
    ]


def test_one_type_has_no_places(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> None:
    """Where there is one type there is no elsewhere."""
    assert list_places(instance, result, explanation) == []


def test_explanations_need_their_result(
    typed_instance: BoaInstance,
    typed_result: Result[Solution],
    instance: BoaInstance,
    result: Result[Solution],
    explanation: Explanation,
    sensitivity: Sensitivity,
) -> None:
    """What was said of one result is not shown beside another one."""
    with pytest.raises(UsageError, match="beside the result that it explains; give instance and result"):
        gather_views(Views(explanation=explanation))
    with pytest.raises(UsageError, match=r"the explanation is for 'by-type' with hash .*, the result for 'by-hand'"):
        gather_views(Views(explanation=explanation), instance, result)
    with pytest.raises(UsageError, match=r"the sensitivity is for 'by-type' .*; give what belongs together"):
        gather_views(Views(sensitivity=sensitivity), instance, result)
    assert gather_views(Views(), typed_instance, typed_result) == gather_views(Views())


def test_long_explanations_are_cut(
    typed_instance: BoaInstance, typed_result: Result[Solution], explanation: Explanation
) -> None:
    """A page shows three hundred rows and says how many more there are."""
    long = explanation.replace(choices=explanation.choices[1:2] * 310)
    told = gather_views(Views(explanation=long), typed_instance, typed_result).explanation
    assert told is not None
    assert len(told.rows) == len(told.places) == 300
    assert told.rest == "10 more rows are in the JSON of optplan explain."


def test_frontiers_are_looked_up_at_the_same_budgets(views: Views) -> None:
    """From the least budget of all to three times the largest least one: 8 GPUs at $2 are $16 an hour for the first."""
    told = gather_views(Views(curves=views.curves)).curves
    assert told is not None
    assert (told.budget_name, told.labels) == ("US dollars an hour", ("one type", "two types"))
    # The least budgets are 6.2 GPUs at $2, $12.40, and $3.50; three times the larger one is $37.20.
    assert [row[0] for row in told.rows][:: len(told.rows) - 1] == ["3.50", "37.2"]
    assert told.rows[0][1] == ("no plan", "56 min 40 s")
    assert told.rows[-1][1] == ("54 min 00 s", "35 min 00 s")
    (reached,) = told.reached
    # 3,420 s against the frontier's 2,250 s.
    assert (reached.name, reached.budget) == ("two types: fixed-width", "7.20")
    assert (reached.objective, reached.above) == ("57 min 00 s", "52 % longer")


def test_answers_stand_beside_the_frontier(views: Views) -> None:
    """What was asked, in the chart's unit: 8 GPUs at $2 are $16 an hour; without questions there is no such table."""
    assert not views.curves[0].asked
    point = views.curves[0].frontier.at(8.0)
    first = replace(views.curves[0], asked=(AskedPoint("8gpu", point, 3599.5),))
    told = gather_views(Views(curves=(first, views.curves[1]))).curves
    assert told is not None
    (row,) = told.asked
    assert (row.name, row.question, row.budget) == ("one type", "8gpu", "16")
    assert (row.objective, row.proven) == (format_duration(point.objective), "3,599.5 s")


def test_one_curve_names_its_solvers_only(views: Views) -> None:
    """With one curve it goes without saying whose the solver's points are."""
    told = gather_views(Views(curves=views.curves[1:])).curves
    assert told is not None
    assert [row.name for row in told.reached] == ["fixed-width"]


def test_equal_things_have_no_table(typed_instance: BoaInstance) -> None:
    """A thing compared with itself differs in nothing, and the page says so."""
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    from optplan.reporting.boa.html import build_page

    same = compare(Compared("a", typed_instance), Compared("b", typed_instance))
    page = build_page("a and b", Views(comparison=same))
    assert "Nothing differs: all" in words(page)
    assert "<table" not in page


def test_a_page_of_views(views: Views, tmp_path: Path) -> None:
    """Frontiers, samples and differences make a page of their own, which is written like a report."""
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    from optplan.reporting.boa.html import write_page

    path = tmp_path / "page.html"
    shown = Views(sensitivity=views.sensitivity, curves=views.curves, comparison=views.comparison)
    write_page(path, "A & B", shown)
    page = path.read_text(encoding="utf-8")
    text = words(page)
    for part in (
        "A &amp; B What every budget buys",
        "3.50 no plan 56 min 40 s",
        "What solvers reach Solver US dollars an hour Mean completion time Against the best two types: fixed-width",
        "200 samples in which the estimates are wrong: speedups by 10 % and arrival rates by 20 %",
        "quota of a100, GPUs: exceeded in none none",
        "A fixed.json, an instance 'by-type', solved by fixed-width",
        "mean completion time 57 min 00 s 38 min 15 s -18 min 45 s -33",
    ):
        assert part in text
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert set(figures) == {"chart-curves-1", "chart-sensitivity-1", "chart-sensitivity-2"}
    with pytest.raises(OutputError, match="exists; give another path"):
        write_page(path, "A & B", shown)


def test_mixed_plans_explain_each_share(
    typed_instance: BoaInstance, typed_solution: BoaSolution, explanation: Explanation, make_result: ResultMaker
) -> None:
    """Of a class whose jobs are divided, each share has its own place."""
    (whole,) = typed_solution.branches["speech"]
    halves = (whole.replace(fraction=0.5), whole.replace(fraction=0.5, gpu_types=("t4",)))
    mixed = typed_instance.replace(policy="mixed")
    found = make_result(mixed, BoaSolution(branches={**typed_solution.branches, "speech": halves}))
    speech = explanation.choices[2]
    other = speech.alternatives[0].replace(label="any a100", forced_cost=5.0)
    choices = (speech.replace(share=0.5), speech.replace(branch=2, share=0.5, label="2 t4", alternatives=(other,)))
    rows = list_places(mixed, found, explanation.replace(choices=choices))
    assert [row.subject for row in rows] == ["speech (50 %)"] * 2
    assert [[cell.text for cell in row.cells] for row in rows] == [["no plan fits", "2 GPUs"], ["2 GPUs", "+5 s"]]
