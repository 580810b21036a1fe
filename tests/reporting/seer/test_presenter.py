"""SEER in words and tables: more is better, and everything has its unit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Result, Solution
from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.instances.library import build_named
from optplan.reporting.reports import draw_plan
from optplan.reporting.seer.presenter import PRESENTER
from optplan.reporting.seer.tables import (
    compare_results,
    list_brackets,
    list_costs,
    list_rest_of_spending,
    list_rounds_of,
)
from optplan.reporting.seer.words import format_limit, format_objective, name_plan, require_brackets, say_how_good
from optplan.solving import solve

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(parts: Sequence[RenderableType]) -> str:
    """Return what a terminal of 140 columns shows."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=140)
    console.print(*parts, sep="\n")
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def solution_of(result: Result[Solution]) -> SeerSolution:
    """Return the solution that a result has."""
    assert result.solution is not None
    return require_brackets(result.solution)


def test_the_answer_of_the_example(example: SeerInstance, result: Result[Solution]) -> None:
    """15 trials for 22 GPUs in the first round, and the whole budget: 80 GPU-minutes."""
    shown = show(PRESENTER.present_result(example, result))
    first = " ".join(shown.split())
    assert "15 trials start, and 3 of them are trained to the end: 3 rounds, 10 min 00 s, 80 of 80 GPU-min, up" in first
    assert "up to 22 GPUs at once (without most_gpus_held there is no limit on these)." in first
    assert "It trains for the whole budget: no plan can spend more on training." in shown
    assert "80 GPU-min (gap 0 %; lagrangian)" in shown
    assert "cost" not in shown
    rows = [row.cells for row in list_rounds_of(example, solution_of(result)).set_rows]
    assert rows[0] == ("1", "15", "1 x4, 4 x2, 10 x1", "7", "22", "0 s", "1 min 26 s", "31.43")
    assert rows[2][3:] == ("the best wins", "4", "4 min 17 s", "10 min 00 s", "22.86")


def test_the_published_plan_could_spend_more(example: SeerInstance, rival: Result[Solution]) -> None:
    """The bound is above: 80 / (480/7) = 7/6."""
    assert (
        say_how_good(example, rival)
        == "No plan can spend more on training than the budget, 80 GPU-min, 17 % above this one."
    )


def test_pauses_and_money(pausing: SeerInstance) -> None:
    """Pauses are part of what is spent, so less than the budget is proven; money and nodes are told."""
    found = solve(pausing)
    shown = show(PRESENTER.present_result(pausing, found))
    assert "No plan of these rounds and brackets can spend more on training, whatever its accuracy: proven." in shown
    assert "resizing" in shown
    assert "in whole nodes" in shown
    # On nodes of 4 the budget pays 74 GPU-minutes, of which 71.4 are training and 1.2 pauses: $3.70 in all.
    bill = dict(list_rest_of_spending(pausing, found.measures)) | dict(list_costs(pausing, found.measures))
    assert (bill["resizing"], bill["idle on whole nodes"], bill["cost"]) == ("1.2 GPU-min", "1.4 GPU-min", "$3.70")
    held = pausing.replace(budget_counts="held")
    other = solve(held).measures
    assert [name for name, _ in list_rest_of_spending(held, other)] == ["resizing"]
    assert dict(list_costs(held, other))["cost"] == f"${other['cost_usd']:.4g}"
    told = show(PRESENTER.present_instance(pausing))
    assert "$4.00 (80 GPU-min)" in told
    assert "6 s without training" in told
    assert "$3.00 an hour of one gpu (a list, 2026-01)" in told
    assert format_limit(pausing, 40.0) == "$2.00"


def test_what_does_not_fit(example: SeerInstance) -> None:
    """The reason, and what is proven."""
    poor = example.replace(deadline_min=0.5)
    shown = show(PRESENTER.present_result(poor, solve(poor)))
    assert "No search fits: one trial for the shortest round" in shown
    assert "That is proven" in shown


def test_solvers_side_by_side(example: SeerInstance, result: Result[Solution], rival: Result[Solution]) -> None:
    """Less is worse here."""
    ours, theirs = (row.cells for row in compare_results([result, rival]).set_rows)
    assert ours[:7] == ("spend-exact", "80", "-", "15", "3", "1 x4, 4 x2, 10 x1", "0 %")
    assert theirs[:7] == ("published-seer", "68.57", "14 % less", "12", "3", "4 x2, 8 x1", "17 %")
    assert "published-seer" in show(PRESENTER.present_comparison(example, [result, rival]))


def test_brackets_and_plans_have_names(example: SeerInstance, result: Result[Solution]) -> None:
    """The budget of each bracket as published, and what became of it."""
    solution = solution_of(result)
    (brackets,) = list_brackets(example, solution)
    assert brackets.rows == [
        ("1", "34.29 GPU-min", "8", "10", "2"),
        ("2", "34.29 GPU-min", "4", "4", "1"),
        ("4", "11.43 GPU-min", "0", "1", "0"),
    ]
    assert name_plan(example, solution) == "1 x4, 4 x2, 10 x1; 3 rounds"
    assert format_objective(example, 1234.5) == "1,234 GPU-min"


def test_an_instance_shows_its_rounds(example: SeerInstance) -> None:
    """R*, the rounds and the brackets follow from deadline and budget."""
    shown = show(PRESENTER.present_instance(example))
    assert "5.7142857" in shown
    assert "3, of 1 min 26 s, 2 min 51 s, 5 min 43 s" in shown
    space = show(PRESENTER.present_instance(build_named("seer-bert-120min")))
    assert "720 configurations: learning_rate (9 values), weight_decay (4 values), momentum (4 values)" in space


def test_answers_say_what_rests_on_no_pause_and_on_nodes(example: SeerInstance) -> None:
    """A pause left out stands in the first lines, one that was measured among the facts; so do nodes."""
    said = " ".join(show(PRESENTER.present_result(example, solve(example))).split())
    assert "Pauses for resizing are not counted: resize_s is 0." in said
    usual = example.replace(resize_s=22.0, gpus_per_node=4)
    said = show(PRESENTER.present_result(usual, solve(usual)))
    assert "not counted" not in said
    assert "of 80 GPU-min on whole nodes, up to" in " ".join(said.split())
    facts = show(PRESENTER.present_instance(usual))
    assert "22 s without training (the default, as measured)" in facts
    assert "of 4 GPUs, paid whole by the budget" in facts


def test_other_formulations_are_refused(example: SeerInstance) -> None:
    """By name."""
    boa = build_named("boa-one-table")
    with pytest.raises(UsageError, match="instance 'boa-one-table' is no search by deadline and budget"):
        PRESENTER.present_instance(boa)
    with pytest.raises(UsageError, match="the solution has no brackets"):
        solution_of(solve(boa))
    infeasible = example.replace(deadline_min=0.5)
    with pytest.raises(UsageError, match="status infeasible"):
        draw_plan(infeasible, solve(infeasible))
