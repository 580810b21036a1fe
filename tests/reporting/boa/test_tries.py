"""Other budgets on a page, as data: plans that keep every limit, bounds that hold, and when there is no control."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from optplan.contracts import Frontier, Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.instances.library import build_named
from optplan.reporting.boa import tries
from optplan.reporting.boa.tries import build_control
from optplan.reporting.pages import Control
from optplan.reporting.phrases import fill
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, Others, gather
from optplan.reporting.sections import solve_again
from optplan.reporting.trying import AMOUNT
from optplan.solving import frontier, solve
from optplan.units import parse_budget

if TYPE_CHECKING:
    from tests.reporting.boa.conftest import ResultMaker


def ask(name: str, **changes: Any) -> tuple[BoaInstance, Result[Solution], Control | None]:  # noqa: ANN401 - any field
    """Return a library instance with changes, its result, and the control of its page."""
    instance = cast(BoaInstance, build_named(name)).replace(**changes)
    result = solve(instance)
    return instance, result, build_control(instance, result, frontier(instance), Beside(), 60, 60)


def test_a_textbook_instance_by_hand() -> None:
    """One job an hour of one GPU-hour: on 1, 2 and 4 GPUs it takes 1 h, 1 / 1.6 h and half an hour.

    So these use 1, 1.25 and 2 GPUs. Between the first two a GPU more is worth (3,600 - 2,250) / 0.25 = 5,400 s, then
    (2,250 - 1,800) / 0.75 = 600 s.
    """
    _, _, control = ask("boa-one-table")
    assert control is not None
    plans, bounds = control.data["plans"], control.data["bounds"]
    assert [(plan["used"], plan["objective"]) for plan in plans] == [(1.0, 3600.0), (1.25, 2250.0), (2.0, 1800.0)]
    assert [plan["ways"]["0"] for plan in plans] == [
        [[1.0, [[1, 1.0, 0, 3600.0]]]],
        [[1.0, [[1, 2.0, 0, 2250.0]]]],
        [[1.0, [[1, 4.0, 0, 1800.0]]]],
    ]
    at_two_thirds = max(bound - price * (1.75 - budget) for budget, bound, price in bounds)
    assert at_two_thirds == pytest.approx(2250.0 - 600.0 * 0.5)
    assert control.command == f"optplan solve instance.json --budget {AMOUNT}gpu --report report.html"
    assert "3 plans" in control.said
    assert "the best that is known there, and not proven" in control.said


def test_only_classes_that_change_are_written_again() -> None:
    """Following the plans from the first, each is the one that the frontier has there; neighbours differ in a class."""
    instance, result, control = ask("boa-two-classes")
    assert control is not None
    line, ways = frontier(instance), dict[str, Any]()
    for plan in control.data["plans"]:
        ways |= plan["ways"]
        solution = cast(BoaSolution, line.solution_at(plan["used"] * (1 + 1e-9)))
        if plan["objective"] == pytest.approx(result.objective):
            solution = cast(BoaSolution, result.solution)
        for place, branches in enumerate(solution.branches.values()):
            epochs = [(last, gpus) for _, ranges in ways[str(place)] for last, gpus, *_ in ranges]
            widths = branches[0].widths.tolist()
            assert [widths[last - 1] for last, _ in epochs] == [gpus for _, gpus in epochs]
    assert sum(len(plan["ways"]) for plan in control.data["plans"]) < 2 * len(control.data["plans"])


@pytest.mark.parametrize("changes", [{}, {"policy": "mixed"}, {"problem": "continuous"}, {"problem": "whole"}])
def test_plans_keep_their_budgets_and_bounds_hold(changes: dict[str, str]) -> None:
    """No plan uses more than what it stands for, each is better than all that use less, and none passes the bound."""
    instance, _, control = ask("boa-two-classes", **changes)
    assert control is not None
    plans, bounds = control.data["plans"], control.data["bounds"]
    assert control.data["mixes"] == instance.is_mixed
    for plan in plans:
        proven = max(bound - price * (plan["used"] - budget) for budget, bound, price in bounds)
        assert plan["objective"] >= proven * (1 - 1e-9)
    assert [plan["used"] for plan in plans] == sorted({plan["used"] for plan in plans})
    assert [plan["objective"] for plan in plans] == sorted({plan["objective"] for plan in plans}, reverse=True)


def test_a_pure_optimum_between_two_plans_is_among_them() -> None:
    """The plan of the page is no breakpoint of mixed plans, and the best that is known from its use on."""
    _, result, control = ask("boa-newtrace", budget=parse_budget("120gpu"))
    assert control is not None
    mine = min(control.data["plans"], key=lambda plan: abs(plan["objective"] - (result.objective or 0.0)))
    assert mine["objective"] == pytest.approx(result.objective)
    assert control.data["ceiling"] == [120.0, result.bound]
    assert len(json.dumps(control.data)) < 100_000


def test_plans_that_break_another_limit_are_left_out() -> None:
    """With at most 160 GPUs at once for 95 % of the time, plans that use more on average are none of the instance."""
    _, _, free = ask("boa-newtrace")
    _, _, control = ask("boa-newtrace-peak")
    assert free is not None
    assert control is not None
    assert control.data["plans"][-1]["used"] < 160.0 < free.data["plans"][-1]["used"]
    assert len(control.data["bounds"]) == len(free.data["bounds"])
    assert not control.data["mixes"]


def test_there_is_no_control_where_plans_are_not_the_instances() -> None:
    """Pure plans of the frontier with further limits are rare, so there is none; nor without a plan or a frontier."""
    instance, result, control = ask("boa-newtrace-floors")
    assert control is None
    assert build_control(instance, result, None, Beside(), 60, 60) is None
    short = cast(BoaInstance, build_named("boa-newtrace")).replace(budget=parse_budget("1gpu"))
    assert build_control(short, solve(short), frontier(short), Beside(), 60, 60) is None


def test_many_breakpoints_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends stay; with more classes than can be judged in time there is no control."""
    monkeypatch.setattr(tries, "_MOST_POINTS", 5)
    monkeypatch.setattr(tries, "_FEWEST_OF_MANY", 5)
    instance, result, control = ask("boa-two-epochs")
    assert control is not None
    line = frontier(instance)
    assert [bound[0] for bound in control.data["bounds"]][::4] == pytest.approx([line.budgets[0], line.budgets[-1]])
    monkeypatch.setattr(tries, "_MOST_JUDGED", 2)
    assert build_control(instance, result, line, Beside(), 60, 60) is None


def test_of_many_classes_some_budgets_are_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets around the own one instead of the frontier's; where there was no time for them the page says so."""
    monkeypatch.setattr(tries, "_MOST_JUDGED", 2)
    monkeypatch.setattr(tries, "_FEWEST_OF_MANY", 5)
    instance = cast(BoaInstance, build_named("boa-two-epochs"))
    result = solve(instance)
    beside = gather(instance, result, Beside())
    assert beside.others is not None
    build_page = presenter_of(instance).build_page
    control = build_page(instance, result, beside).control
    assert control is not None
    assert "each solved for and checked" in control.said
    page = build_page(instance, result, replace(beside, others=Others("budget", beside.others.results[:2])))
    assert page.control is None
    (said,) = [str(each.blocks[-1]) for each in page.sections if each.id == "next"]
    assert said.startswith("Another budget cannot be tried on this page, as too few were solved for")
    assert "`optplan report INSTANCE RESULT --serve`" in said


def test_budgets_in_money_are_in_the_unit_as_given() -> None:
    """A budget by the month is tried by the month, and said with the GPUs that it pays."""
    instance, _, control = ask("boa-newtrace", budget=parse_budget("60000usd/month"))
    assert control is not None
    assert (control.unit, control.data["own"]) == ("usd/month", 60000.0)
    assert control.data["per"] * instance.limits["budget"] == pytest.approx(60000.0)
    figures = {"given": 60000.0, "budget": instance.limits["budget"]}
    assert fill(control.data["words"]["limits"], figures) == "$60,000 a month (84.0 GPUs on average)"


def test_names_stay_data(nasty_instance: BoaInstance, nasty_result: Result[Solution]) -> None:
    """A fill takes places that it knows and leaves braces of others; names of classes are no part of a frame."""
    control = build_control(nasty_instance, nasty_result, frontier(nasty_instance), Beside(), 60, 60)
    assert control is not None
    assert control.data["classes"] == list(nasty_instance.classes)


def test_frontiers_without_decisions_give_no_control(
    instance: BoaInstance, frontier: Frontier, make_result: ResultMaker, solution: BoaSolution
) -> None:
    """What the judge does not take is no plan."""
    assert build_control(instance, make_result(instance, solution), frontier, Beside(), 60, 60) is None


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
