"""Words and tables of searches: answers, limits, stages, rivals, and what differs between two answers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from optplan.contracts import Result, ShadowPrice, Solution, Status
from optplan.errors import UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.instances.library import build_named
from optplan.reporting.comparison import Compared, compare
from optplan.reporting.pareto import pareto_table
from optplan.reporting.phrases import format_cost, format_least, format_limit
from optplan.reporting.presenters import plan_words_of
from optplan.reporting.rubberband.presenter import (
    PRESENTER,
    compare_results,
    list_facts,
    list_stages,
    plan_of,
)
from optplan.reporting.rubberband.words import describe_experiment, describe_limit, name_plan, say_answer, say_how_good
from optplan.reporting.sections import name_status
from optplan.solving import build_plan, pareto, solve

if TYPE_CHECKING:
    from rich.console import RenderableType

SHA = {"form": "sha", "trials": 32, "least_iterations": 1, "most_iterations": 50, "eta": 3}
HYPERBAND = {"form": "hyperband", "most_iterations": 81, "eta": 3, "order": "in-sequence"}


def shown(parts: Sequence[RenderableType]) -> str:
    """Return what a wide terminal shows."""
    console = Console(file=io.StringIO(), width=200)
    for part in parts:
        console.print(part)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def test_the_answer_of_the_textbook(search: RubberBandInstance, found: Result[Solution]) -> None:
    """280 s, 38 cents, the bound, and the two stages one below the other."""
    text = shown(PRESENTER.present_result(search, found))
    assert "The search takes 4 min 40 s and costs $0.380 on average; the deadline is 4 min 40 s." in text
    assert "No plan of stage sizes can be better: proven." in text
    assert "4 min 40 s (280 s)" in text
    assert "$0.380 (gap 0 %; lagrangian)" in text
    assert list_stages(plan_of(search, found)).rows == [
        ("1", "4", "10", "2", "1", "all", "0 s", "1 min 40 s", "$0.200"),
        ("2", "1", "30", "1", "2", "all", "1 min 40 s", "4 min 40 s", "$0.380"),
    ]


def test_use_and_minimum_charges_are_told(search: RubberBandInstance) -> None:
    """All GPUs are in use all the time: 4 x 100 + 2 x 180 GPU-seconds. The one that goes is charged for 50 s more."""
    charged = search.replace(cloud=search.cloud.replace(minimum_charge_s=150.0))
    facts = dict(PRESENTER.list_found(charged, solve(charged)))
    assert facts["minimum charges"] == "$0.050 (part of the cost)"
    assert facts["use of held GPUs"] == "100 % (trials keep so much of what is held busy)"
    assert "minimum charges" not in dict(PRESENTER.list_found(search, solve(search)))


def test_no_plan_says_why_and_what_would_help(search: RubberBandInstance, infeasible: Result[Solution]) -> None:
    """The least deadline is rounded up, so that it is enough when typed in."""
    hurried = search.replace(deadline_s=120.0)
    text = shown(PRESENTER.present_result(hurried, infeasible))
    assert "No cluster can do it: the fastest this search can run is 160 s; the deadline is 120 s" in text
    assert "That is proven: every plan takes longer, whatever it costs." in text
    assert "would help  a deadline of 2 min 40 s or more" in text
    poor = search.replace(objective="time", deadline_s=None, budget="0.1usd")
    broke = solve(poor)
    assert broke.status is Status.INFEASIBLE
    assert say_how_good(poor, broke) == "That is proven: every plan costs more, however long it takes."
    assert dict(PRESENTER.list_found(poor, broke))["would help"] == "a budget of $0.380 or more"


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (3.14159, "3.15 s"),
        (824.335, "13 min 45 s"),
        (824.0, "13 min 44 s"),
        (3600.0, "1 h 00 min"),
        (5000.0, "1 h 24 min"),
        (90000.5, "1 d 02 h"),
    ],
)
def test_least_deadlines_are_rounded_up(amount: float, written: str) -> None:
    """To what is shown of them."""
    assert format_least("deadline", amount) == written


@pytest.mark.parametrize(
    ("amount", "written"), [(0.1234, "$0.124"), (12.341, "$12.35"), (12.34, "$12.34"), (1203.2, "$1,204")]
)
def test_least_budgets_are_rounded_up(amount: float, written: str) -> None:
    """To cents, or whole dollars."""
    assert format_least("budget", amount) == written


def test_a_budget_turns_the_question_around(search: RubberBandInstance) -> None:
    """Within 40 cents, four instances and then one take too much (42): 100 + 180 s is the fastest."""
    fastest = search.replace(objective="time", deadline_s=None, budget="0.4usd")
    result = solve(fastest)
    assert say_answer(fastest, result).endswith("4 min 40 s and costs $0.380 on average; the budget is $0.400.")
    assert describe_limit(fastest) == "within $0.400"
    assert format_limit(fastest, 0.42) == "$0.420"
    for asked, more, saved in ((fastest, 12.0, ("dollar", "12 s")), (search, 0.001, ("minute", "$0.060"))):
        prices = {asked.limit_name: ShadowPrice(more=more, unit="a unit")}
        assert PRESENTER.cards(asked, result.replace(shadow_prices=prices))[-1][:2] == (
            f"one more {saved[0]} saves",
            saved[1],
        )


def test_proofs_are_told_apart(search: RubberBandInstance, found: Result[Solution], static: Result[Solution]) -> None:
    """Proven, said by an engine, with a gap, without a bound, with one that every plan keeps."""
    assert name_status(found) == ("proven optimal", "good")
    assert name_status(static) == ("no bound", "fair")
    assert say_how_good(search, static).startswith("This solver proves nothing")
    engine = solve(search, solver="enumeration").replace(bound_proof="engine")
    assert name_status(engine) == ("optimal, says optplan 0.1.0", "fair")
    open_gap = found.replace(status=Status.FEASIBLE, bound=0.361)
    assert name_status(open_gap) == ("within 5 % of the bound", "fair")
    assert (
        "No plan of stage sizes can be better than $0.361, so the best possible is at most 5 % lower."
        in say_how_good(search, open_gap)
    )
    idle = found.replace(status=Status.FEASIBLE, bound=0.0)
    assert name_status(idle) == ("no bound", "fair")
    assert say_how_good(search, idle) == (
        "How far the plan of stage sizes is from the best possible is not known: the bound, $0, excludes nothing."
    )


def test_instances_are_described(search: RubberBandInstance) -> None:
    """What is searched, on what, within which limit."""
    assert describe_experiment(search) == "2 stages as given"
    sha = search.replace(experiment=SHA)
    assert describe_experiment(sha) == "successive halving SHA(32, 1, 50, 3), 4 stages"
    hyperband = search.replace(experiment=HYPERBAND)
    assert describe_experiment(hyperband) == "Hyperband(81, 3) in sequence, 15 stages"
    cloud = search.cloud.to_json_data() | {
        "provision_s": 15.0,
        "initialise_s": {"form": "log-normal", "mean_s": 90.0, "sd_s": 30.0},
        "data_gb": 150.0,
        "data_price_usd_per_gb": 0.01,
        "most_instances": 1024,
        "price_source": "a list",
        "price_date": "2021-11",
    }
    facts = dict(list_facts(search.replace(cloud=cloud, mode="fair", confidence=0.95)))
    assert facts["asked"] == "least expected cost within 4 min 40 s with a probability of 95 %"
    assert facts["two-gpus"] == "$3.60 an hour, 2 GPUs, billed per instance"
    assert facts["getting instances"] == "15 s, then 1 min 30 s ± 30 s each"
    assert facts["allocations"] == "fair shares, as in the paper"
    assert facts["data"] == "$1.50 for every new instance"
    assert facts["most instances"] == "1,024"
    assert facts["source of the price"] == "a list (2021-11)"
    text = shown(PRESENTER.present_instance(search))
    assert text.startswith("Four trials, the best of which goes on.")
    assert "getting instances  at once, then at once each" in text
    assert describe_limit(search.replace(deadline_s=None)) == "no limit"


def test_money_is_written_as_price_tags() -> None:
    """Tenths of a cent below a dollar, whole dollars from a thousand."""
    assert [format_cost(usd) for usd in (0.0, 0.38, 12.824, 1204.4)] == ["$0", "$0.380", "$12.82", "$1,204"]


def test_rivals_stand_below_ours(search: RubberBandInstance, found: Result[Solution], static: Result[Solution]) -> None:
    """44 cents are 16 % more than 38; the same plan by another solver is the same."""
    table = compare_results(search, [found, static, solve(search, solver="published-greedy-instances")])
    assert [row.cells[:6] for row in table.set_rows] == [
        ("held-paths", "$0.380", "4 min 40 s", "-", "2 → 1", "1 → 2"),
        ("static", "$0.440", "3 min 40 s", "16 % more", "2 → 2", "1 → 4"),
        ("published-greedy-instances", "$0.380", "4 min 40 s", "the same", "2 → 1", "1 → 2"),
    ]
    assert "16 % more" in shown(PRESENTER.present_comparison(search, [found, static]))


def test_brackets_are_numbered(side_by_side: RubberBandInstance) -> None:
    """Bracket and stage, and a plan's sizes bracket by bracket."""
    result = solve(side_by_side)
    assert result.solution is not None
    assert [row.cells[0] for row in list_stages(plan_of(side_by_side, result)).set_rows] == [
        "1.1",
        "1.2",
        "1.3",
        "2.1",
        "2.2",
        "3.1",
    ]
    assert name_plan(side_by_side, result.solution).count(";") == 4
    assert "3.1" in shown(PRESENTER.present_instance(side_by_side))


def test_frontiers_name_limit_and_plan(search: RubberBandInstance) -> None:
    """The textbook plan is one of the rows."""
    line = pareto(search)
    text = shown([pareto_table(search, line, line.points, plan_words_of(search))])
    assert any(row.split()[:5] == ["4", "min", "40", "s", "$0.380"] for row in text.splitlines())
    assert "2 → 1 instances, 1 → 2 GPUs a trial" in text


def test_answers_are_compared_stage_by_stage(
    search: RubberBandInstance, found: Result[Solution], static: Result[Solution]
) -> None:
    """Two answers by time, cost and sizes; two instances field by field; a plan against a result by what both have."""
    both = compare(Compared("a", answer=found), Compared("b", answer=static))
    rows: dict[str, tuple[Any, Any]] = {row.path: (row.a, row.b) for row in both.rows}
    assert rows["expected_s"] == (280.0, 220.0)
    assert rows["expected_usd"] == pytest.approx((0.38, 0.44))
    assert rows["brackets.0.1.instances"] == (1, 2)
    assert rows["brackets.0.1.gpus"] == (2, 4)
    assert rows["status"] == ("optimal", "feasible")
    plan = build_plan(search, found)
    both = compare(Compared("a", answer=plan), Compared("b", answer=static))
    assert all(row.a is not None and row.b is not None for row in both.rows)
    assert len(both.notes) == 1
    changed = search.replace(deadline_s=300.0, cloud=search.cloud.replace(price_usd_per_hour=4.0))
    data = compare(Compared("a", instance=search), Compared("b", instance=changed))
    assert {row.path: (row.a, row.b) for row in data.differing} == {
        "deadline_s": (280.0, 300.0),
        "cloud.price_usd_per_hour": (3.6, 4.0),
    }
    hurried = Compared("b", answer=solve(search.replace(deadline_s=120.0)))
    relaxed = {row.path: (row.a, row.b) for row in compare(Compared("a", answer=found), hurried).rows}
    assert relaxed["relaxations.deadline"] == (None, 160.0)


def test_what_has_nothing_in_common_is_not_compared(search: RubberBandInstance, found: Result[Solution]) -> None:
    """Another formulation, or an instance and an answer."""
    boa = Compared("boa-one-table", instance=build_named("boa-one-table"))
    with pytest.raises(UsageError, match="mine is of formulation 'rubberband' and boa-one-table of 'boa'; give two"):
        compare(Compared("mine", instance=search), boa)
    with pytest.raises(UsageError, match=r"mine \(instance\) and r.json \(result\) have nothing in common to compare"):
        compare(Compared("mine", instance=search), Compared("r.json", answer=found))


def test_other_formulations_are_refused() -> None:
    """Tables of searches show searches."""
    with pytest.raises(UsageError, match="instance 'boa-one-table' is no search on a cluster"):
        PRESENTER.present_instance(build_named("boa-one-table"))
