"""Tables for the terminal say the same as the data, and read no markup in names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console, RenderableType

from optplan.contracts import (
    Check,
    Frontier,
    Infeasibility,
    Instance,
    Relaxation,
    Result,
    Solution,
    Status,
    Verification,
)
from optplan.errors import UsageError
from optplan.formulations.boa.data.gpu_types import Spot
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.reporting.boa import tables
from optplan.reporting.boa.presenter import PRESENTER
from optplan.reporting.tables import record_table
from optplan.reporting.verification_tables import verification_table

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker


def render(*parts: RenderableType) -> list[list[str]]:
    """Render for a wide terminal and return the cells of every line that has any."""
    console = Console(width=250, color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in capture.get().splitlines()]
    return [cells for cells in lines if cells and not cells[0].startswith("──")]


def test_instance_summary(instance: BoaInstance) -> None:
    """What is asked comes first, then a row for each class."""
    rows = render(*PRESENTER.present_instance(instance))
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["instance"] == "by-hand"
    assert facts["budget"] == "8 GPUs on average"
    assert facts["load"] == "6 GPUs"
    assert facts["price of v100"] == "$2.00 an hour (price list, 2025-01-31)"
    assert facts["hash"] == instance.content_hash()
    assert ["vision", "2", "3", "2 h 00 min", "a table", "1, 2, 4", "3 min 00 s", "1"] in rows


def test_instance_without_budget_and_with_two_types(instance: BoaInstance) -> None:
    """A class that runs on one of two types has its widths named with the type."""
    two = instance.replace(budget=None, gpu_types={**instance.gpu_types, "a100": {}})
    facts = {row[0]: row[1] for row in render(*PRESENTER.present_instance(two)) if len(row) == 2}
    assert facts["budget"] == "-"
    assert facts["price of a100"] == "none given"
    assert facts["load"] == "6 GPUs, where sizes were measured"
    assert [row[5] for row in render(*PRESENTER.present_instance(two)) if row[0] == "vision"] == ["v100: 1, 2, 4"]


def test_instance_with_types(typed_instance: BoaInstance) -> None:
    """Quotas, interruptions, and what differs by type: widths, pauses, changes of the type."""
    spot = Spot(interruptions_per_gpu_hour=0.1, restart_s=120.0, lost_work_s=300.0, restart_billed=False)
    types = {**typed_instance.gpu_types, "t4": typed_instance.gpu_types["t4"].replace(spot=spot)}
    speech = typed_instance.classes["speech"].replace(
        rescale_s_on={"a100": 0.0}, type_change_s_from={"t4": {"a100": 9}}
    )
    changed = typed_instance.replace(gpu_types=types, classes={**typed_instance.classes, "speech": speech})
    rows = render(*PRESENTER.present_instance(changed))
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["limits"] == "$5,256 a month ($7.20 an hour) and at most 1.30 a100 on average"
    assert facts["quota of a100"] == "1.30 on average"
    assert facts["interruptions of t4"] == (
        "0.1 per GPU and hour; a restart takes 2 min 00 s (not billed) and 5 min 00 s of work are lost"
    )
    by_class = {row[0]: row for row in rows if len(row) == 8}
    assert by_class["speech"][5:7] == [
        "t4, a100: 1 to 2",
        "t4: 3 min 00 s; a100: none (+ up to 3 min 00 s to another type)",
    ]
    assert by_class["text"][5:7] == ["t4: 1 to 2", "3 min 00 s"]


def test_other_formulations_are_refused() -> None:
    """Tables of BOA show BOA."""
    with pytest.raises(UsageError, match="tables and reports show 'boa' only"):
        tables.list_budgets(Instance(name="x"), [])


def test_result_summary(instance: BoaInstance, result: Result[Solution]) -> None:
    """The answer in words, then the figures."""
    rows = render(*PRESENTER.present_result(instance, result))
    assert rows[0] == ["With 8 GPUs on average, jobs finish in 1 h 06 min on average."]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts == {
        "status": "within 1.7 % of the bound (stopped: completed)",
        "mean completion time": "1 h 06 min (3,960 s)",
        "GPUs in use, on average": "7.80 (7 running + 0.80 rescaling)",
        "cost a month": "$11,388 (at $2.00 per GPU-hour)",
        "changes of width a job": "0.67 (1.67 pauses with the first start)",
        "one more GPU on average saves": "5 min 23 s (one fewer costs 20 min 00 s)",
        "bound": "3,895.38 s (gap 1.6 %; lagrangian)",
        "solver": "layered-paths (engine optplan 1.2.3, seed 7)",
        "time": "123 ms, verified in 4 ms",
    }


def test_summary_of_an_infeasible_result(instance: BoaInstance, infeasible_result: Result[Solution]) -> None:
    """The least that works, and what each class needs of it."""
    rows = render(*PRESENTER.present_result(instance.replace(budget="5gpu"), infeasible_result))
    assert rows[0] == ["No plan keeps to 5 GPUs on average."]
    assert ["budget", "5 GPUs", "6.2 GPUs"] in rows
    assert ["of which vision", "4.1 GPUs"] in rows
    assert not [row for row in rows if row[0] == "mean completion time"]


def test_width_table_joins_epochs(instance: BoaInstance, result: Result[Solution]) -> None:
    """A row for each range of epochs; the class is named once."""
    assert render(tables.list_plan(instance, result)) == [
        ["class", "epochs", "GPUs", "expected time"],
        ["vision", "1 to 2", "2", "40 min 30 s"],
        ["3", "4", "18 min 00 s"],
        ["speech", "1 to 2", "2", "1 h 21 min"],
    ]


def test_width_table_of_a_mixed_plan(
    instance: BoaInstance, mixed_solution: BoaSolution, make_result: ResultMaker
) -> None:
    """Shares of the jobs get a column of their own."""
    mixed = instance.replace(policy="mixed")
    assert render(tables.list_plan(mixed, make_result(mixed, mixed_solution))) == [
        ["class", "share of jobs", "epochs", "GPUs", "expected time"],
        ["vision", "75 %", "1 to 2", "2", "40 min 30 s"],
        ["3", "4", "18 min 00 s"],
        ["25 %", "1 to 3", "1", "2 h 03 min"],
        ["speech", "100 %", "1 to 2", "2", "1 h 21 min"],
    ]


def test_class_table(instance: BoaInstance, result: Result[Solution]) -> None:
    """GPUs and times by class: 5.1 of 7.8 GPUs, 2,340 of 3,960 s."""
    rows = render(tables.list_classes(instance, result))
    assert rows[1] == ["vision", "4.50", "0.60", "65 %", "58 min 30 s", "59 %"]
    assert rows[2] == ["speech", "2.50", "0.20", "35 %", "1 h 21 min", "41 %"]


def test_tables_of_a_plan_with_types(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """Widths have their types, classes their GPUs by type and their share of the cost, $3.90 of $7.20 for vision."""
    assert render(tables.list_plan(typed_instance, typed_result))[:4] == [
        ["class", "epochs", "GPUs", "expected time"],
        ["vision", "1", "1 t4", "33 min 00 s"],
        ["2", "1 a100", "21 min 00 s"],
        ["speech", "1", "2 a100", "18 min 00 s"],
    ]
    rows = render(tables.list_classes(typed_instance, typed_result))
    assert rows[1] == ["vision", "1.50", "0.30", "1.10 t4, 0.70 a100", "55 %", "54 %", "54 min 00 s", "71 %"]
    shown = [line[0] for line in render(*PRESENTER.present_result(typed_instance, typed_result))]
    first = shown.index("GPU type")
    assert shown[first : first + 9] == [
        *("GPU type", "t4", "a100", "all types"),
        *("limit", "budget", "quota of a100"),
        "One more dollar an hour saves 1 min 30 s, one less costs 2 min 00 s.",
        "One more a100 in the quota saves 2 min 30 s of mean completion time, worth $40.00 a day at the budget's own "
        "price; one fewer costs 3 min 20 s.",
    ]


def test_summary_of_a_result_with_types(typed_instance: BoaInstance, typed_result: Result[Solution]) -> None:
    """The answer names all limits, and money is worth what a dollar an hour saves."""
    rows = render(*PRESENTER.present_result(typed_instance, typed_result))
    assert rows[0] == [
        "With $5,256 a month ($7.20 an hour) and at most 1.30 a100 on average, jobs finish in 38 min 15 s on average."
    ]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["cost a month"] == "$5,256 ($7.20 an hour, $173 a day)"
    assert facts["one more dollar an hour saves"] == "1 min 30 s (one less costs 2 min 00 s)"


def test_comparison_by_cost(
    typed_instance: BoaInstance, typed_result: Result[Solution], typed_rival: Result[Solution]
) -> None:
    """Where GPUs cost different prices, their number says little, and their cost stands beside it."""
    rows = render(tables.compare_results(typed_instance, [typed_result, typed_rival]))
    assert rows[0][3:5] == ["GPUs", "cost an hour"]
    assert rows[2][:5] == ["fixed-width", "57 min 00 s", "49 % longer", "3.80", "$3.80"]


def test_least_quota_that_works(typed_instance: BoaInstance, make_result: ResultMaker) -> None:
    """Quotas that would have to be raised are called what readers call them."""
    relaxation = Relaxation(limit="quota.a100", given=1.3, least_feasible=2.5, enough=2.5, unit="gpu")
    found = Infeasibility(reason="too little", relaxations=(relaxation,), multipliers={"budget": 1.0, "quota.a100": 2})
    result = make_result(typed_instance, None, status=Status.INFEASIBLE, infeasibility=found)
    assert ["quota of a100", "1.3 GPUs", "2.5 GPUs"] in render(*PRESENTER.present_result(typed_instance, result))


def test_comparison_table(
    instance: BoaInstance, result: Result[Solution], rival: Result[Solution], unknown_result: Result[Solution]
) -> None:
    """The first result is the reference; what is not known is a dash, never a zero."""
    rows = render(tables.compare_results(instance, [result, rival, unknown_result]))
    assert rows[1:] == [
        ["layered-paths", "1 h 06 min", "-", "7.80", "1 h 05 min", "1.6 %", "certificate", "123 ms"],
        ["fixed-width", "1 h 21 min", "23 % longer", "7.20", "-", "-", "none", "123 ms"],
        ["highs", "no plan found", "-", "-", "1 h 00 min", "-", "engine's word", "123 ms"],
    ]


def test_frontier_table(instance: BoaInstance, frontier: Frontier) -> None:
    """Each budget with its price, what it buys, and what one more GPU would save."""
    points = [frontier.at(budget) for budget in (6.2, 8.0, 100.0)]
    assert render(tables.list_budgets(instance, points, reference=3960.0))[1:] == [
        ["6.2", "$9,052", "2 h 04 min", "88 % longer", "1 h 30 min", "the least that works"],
        ["8", "$11,680", "1 h 05 min", "1.6 % shorter", "5 min 23 s", "the budget"],
        ["10.8", "$15,768", "54 min 00 s", "18 % shorter", "nothing", "more buys nothing"],
    ]
    assert render(tables.list_budgets(instance.replace(gpu_types={"v100": {}}), points))[2] == [
        "8",
        "1 h 05 min",
        "5 min 23 s",
        "the budget",
    ]


def make_check(family: str, index: str, *, holds: bool = True) -> Check:
    """Make a check that compares one with two."""
    return Check(family=family, index=index, left=1.0, right=2.0, tolerance=0.0, holds=holds, message="one, two")


def test_verification_table_gathers_what_holds() -> None:
    """Checks of one kind that hold share a row; what nobody checked is named."""
    checks = (make_check("row", "a"), make_check("row", "b"), make_check("budget", ""))
    rows = render(verification_table(Verification(checks=checks, on_trust=("bound: engine",), seconds=0.5)))
    assert rows[1:] == [
        ["holds", "row (2 times)", "one, two"],
        ["holds", "budget", "1", "2", "one, two"],
        ["taken on trust: bound: engine"],
        ["all 3 checks hold, but not all that is claimed could be checked (500 ms)"],
    ]


def test_verification_table_shows_every_failure() -> None:
    """Failures come first and one by one."""
    checks = (make_check("row", "a", holds=False), make_check("row", "b", holds=False), make_check("budget", ""))
    rows = render(verification_table(Verification(checks=checks)))
    assert rows[1:3] == [["FAILS", "row a", "1", "2", "one, two"], ["FAILS", "row b", "1", "2", "one, two"]]
    assert rows[-1][0].startswith("2 of 3 checks fail")


def test_record_table() -> None:
    """Records of any kind: what is empty everywhere is left out, the rest is written for readers."""
    records = [
        {"name": "a", "exact": True, "needs": None, "max_cells": 60, "extra": {"n": 2.0}, "of": ["x", "y"]},
        {"name": "b", "exact": False, "needs": "", "max_cells": None, "extra": {}, "of": []},
    ]
    assert render(record_table("solvers", records)) == [
        ["solvers (2)"],
        ["name", "exact", "max cells", "extra", "of"],
        ["a", "yes", "60", "n=2", "x, y"],
        ["b", "no", "-", "-", "-"],
    ]
    assert render(record_table("nothing", [])) == [["nothing: none"]]


def test_names_are_not_markup(nasty_instance: BoaInstance, nasty_result: Result[Solution]) -> None:
    """Brackets in a class's name are shown, not obeyed."""
    rows = render(tables.list_plan(nasty_instance, nasty_result))
    assert rows[-1][0] == "[red]</script><img src=x onerror=alert(2)>[/red]"
