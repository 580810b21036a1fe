"""Other budgets that a page has plans for, as data: which ones, in which unit, and when there are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.library import build_named
from optplan.reporting import trying
from optplan.reporting.pages import Page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, Others, gather
from optplan.reporting.sections import solve_again
from optplan.solving import frontier, solve
from optplan.units import parse_budget


@pytest.fixture(scope="module", autouse=True)
def time_enough() -> Iterator[None]:
    """Let all budgets be solved for, however long a machine takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trying, "_LIMIT_S", 3600.0)
        yield


def ask(name: str, **changes: Any) -> tuple[BoaInstance, Result[Solution], Beside]:  # noqa: ANN401 - any field
    """Return a library instance with changes, its result, and what its page's readers may try."""
    instance = cast(BoaInstance, build_named(name)).replace(**changes)
    result = solve(instance)
    return instance, result, gather(instance, result, Beside())


def build(instance: BoaInstance, result: Result[Solution], beside: Beside) -> Page:
    """Build a page."""
    return presenter_of(instance).build_page(instance, result, beside)


def test_a_textbook_instance_by_hand() -> None:
    """One job an hour of one GPU-hour: on 1, 2 and 4 GPUs it takes 1 h, 1 / 1.6 h and half an hour.

    So these use 1, 1.25 and 2 GPUs, and the budgets between are solved for in steps of 0.05.
    """
    instance, result, beside = ask("boa-one-table")
    assert beside.others is not None
    reached = {round(amount, 9): found.objective for amount, _, found in beside.others.results}
    assert list(reached) == pytest.approx([1.0 + 0.05 * number for number in range(21)])
    assert [reached[1.0], reached[1.2], reached[1.25], reached[1.95], reached[2.0]] == [3600, 3600, 2250, 2250, 1800]
    control = build(instance, result, beside).control
    assert control is not None
    assert control.command == "optplan solve instance.json --budget AMOUNTgpu --report report.html"
    assert "21 plans, each solved for and checked" in control.said
    assert "one that keeps the limits, not proven best there" in control.said


def test_budgets_are_round_from_the_least_to_the_last_that_buys_something() -> None:
    """From 74.61 to 227.2 GPUs steps of 5 are at most 36; the least budget itself is among them."""
    instance, result, beside = ask("boa-newtrace", budget=parse_budget("120gpu"))
    least, most = frontier(instance).budgets[[0, -1]]
    assert beside.others is not None
    amounts = [amount for amount, _, _ in beside.others.results]
    assert amounts == [least, *(5.0 * number for number in range(15, 47))]
    assert amounts[-2] < most < amounts[-1]
    assert all(found.status.value == "optimal" for _, _, found in beside.others.results)
    assert [found.objective for amount, _, found in beside.others.results if amount == 120.0] == [result.objective]


@pytest.mark.parametrize("changes", [{}, {"policy": "mixed"}, {"problem": "continuous"}, {"problem": "whole"}])
def test_more_is_never_worse(changes: dict[str, str]) -> None:
    """No plan uses more than its budget, and none is worse than one for less."""
    _, _, beside = ask("boa-two-classes", **changes)
    assert beside.others is not None
    objectives = [found.objective or 0.0 for _, _, found in beside.others.results]
    assert objectives == sorted(objectives, reverse=True)
    for amount, _, found in beside.others.results:
        assert found.measures["gpus"] <= amount * (1 + 1e-9)


def test_with_further_limits_few_budgets_are_solved_for() -> None:
    """Those of nine from half to twice the own one that have a plan, as each may take long."""
    instance, _, beside = ask("boa-newtrace-floors")
    own = instance.limit_as_given("budget")[0]
    assert beside.others is not None
    amounts = [amount for amount, _, _ in beside.others.results]
    assert own in amounts
    assert set(amounts) <= {own * step for step in trying.NEAR}


def test_there_is_no_control_without_a_plan() -> None:
    """Nor where there was no time for three; then the page says how to ask."""
    instance, result, beside = ask("boa-newtrace", budget=parse_budget("1gpu"))
    assert beside.others is None
    assert build(instance, result, beside).control is None
    instance, result, beside = ask("boa-two-epochs")
    assert beside.others is not None
    page = build(instance, result, replace(beside, others=Others("budget", beside.others.results[:2])))
    assert page.control is None
    (said,) = [str(each.blocks[-1]) for each in page.sections if each.id == "next"]
    assert said.startswith("Another budget cannot be tried on this page, as too few were solved for")
    assert "`optplan report INSTANCE RESULT --serve`" in said


def test_budgets_in_money_are_in_the_unit_as_given() -> None:
    """A budget by the month is tried by the month."""
    instance, result, beside = ask("boa-newtrace", budget=parse_budget("60000usd/month"))
    control = build(instance, result, beside).control
    assert control is not None
    assert (control.unit, control.data["own"]) == ("usd/month", 60000.0)
    assert control.data["per"] * instance.limits["budget"] == pytest.approx(60000.0)
    assert control.data["words"]["amount"] == "{given:cost} a month"
    assert beside.others is not None
    assert 60000.0 in [amount for amount, _, _ in beside.others.results]


@pytest.mark.parametrize(
    ("verified", "solved"),
    [
        ("optplan verify a.yaml r.json", "optplan solve a.yaml -o x"),
        (
            "optplan solve a -q && optplan verify a r.json --budget 3gpu --policy mixed",
            "optplan solve a --policy mixed -o x",
        ),
        ("optplan verify 'my a.yaml' r.json < instance.json", "optplan solve 'my a.yaml' -o x"),
        ("see the wiki's page", "optplan solve instance.json -o x"),
    ],
)
def test_the_command_that_solves_again(verified: str, solved: str) -> None:
    """Its instance and its changes are those of the command that verifies, but for one that is left out."""
    assert solve_again(verified, "-o", "x", but="--budget") == solved
