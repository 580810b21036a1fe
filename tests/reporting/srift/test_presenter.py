"""Srift in words and tables: fleets named as in the paper, and everything with its unit."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from optplan.contracts import Plan, Result, Solution
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.instances.library import build_named
from optplan.reporting.phrases import format_cost, format_least, format_limit, format_objective
from optplan.reporting.reports import draw_plan
from optplan.reporting.sections import name_status
from optplan.reporting.srift.presenter import PRESENTER
from optplan.reporting.srift.tables import compare_results, list_fleet, list_fleets, plan_of
from optplan.reporting.srift.words import (
    describe_limits,
    format_short,
    name_plan,
    require_fleet,
    require_job,
    state_answer,
)
from optplan.solving import solve

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(parts: Sequence[RenderableType]) -> str:
    """Return what a terminal of 160 columns shows."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=160)
    console.print(*parts, sep="\n")
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_answer_and_the_fleet(job: SriftInstance, result: Result[Solution]) -> None:
    """17.8 ms an iteration, a third of 16 ms forward; ranks follow one another, and each group pays for itself."""
    shown = show(PRESENTER.present_result(job, result))
    answer = "1 big@32 + 8 small@4 train two-layers in 1.78 s for $0.00672, if no spot VM is taken back"
    assert f"{answer}; the deadline is 2.5 s." in shown
    assert "note: small: spot VMs without interruption figures, planned as if none were ever taken back; " in shown
    assert (
        "No fleet can be better, as far as the predictions hold; that rests on a search that left no plan out" in shown
    )
    assert "17.8 ms (forward 5.33 ms, then backward 10.7 ms and exchange 12.5 ms together" in shown
    assert "3,596 (on 10 GPUs)" in shown
    assert list_fleet(job, plan_of(job, result)).rows == [
        ("big", "1", "1", "0 to 1", "32", "16", "5.33 ms", "10.7 ms", "0 %", "$0.00356"),
        ("small", "8", "8", "2 to 9", "4", "4", "5.33 ms", "10.7 ms", "0 %", "$0.00316"),
    ]


def test_what_is_asked_and_on_offer(job: SriftInstance) -> None:
    """Limits, rules, prices and choices of batches."""
    shown = show(PRESENTER.present_instance(job.replace(budget="3usd", mixed=False, bucket_bytes=25e6, launch_s=90.0)))
    assert "two-layers, 100 iterations of 64 samples; 2 MB of gradients in 2 layers" in shown
    assert "least cost, within 2.5 s and for at most $3.00" in shown
    assert "VMs of one type only; one batch for all VMs of a type" in shown
    assert "gradients are exchanged 25 MB at a time, at least" in shown
    assert "train after 1 min 30 s, which are not paid" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith(("big", "small"))]
    assert rows[0] == ["big", "2", "fast", "$7.20", "on", "demand", "1", "0", "8", "Gbit/s", "32,", "64"]
    assert rows[1] == ["small", "1", "slow", "$0.800", "spot", "8", "0", "8", "Gbit/s", "4,", "8"]


def test_losses_are_told(job: SriftInstance) -> None:
    """Expectations are called so, and what losses cost is told."""
    losses = {"checkpoint_every_s": 1.0, "checkpoint_s": 0.1, "restart_s": 10.0}
    types = {**job.types, "small": job.types["small"].replace(interruptions_per_hour=20.0)}
    risky = job.replace(types=types, interruptions=losses, deadline_s=60.0)
    shown = show(PRESENTER.present_result(risky, solve(risky, solver="enumeration")))
    assert "on average; the deadline is 1 min 00 s." in shown
    assert "expected cost" in shown
    told = show(PRESENTER.present_instance(risky))
    assert "a checkpoint every 1 s takes 0.1 s; a restart takes 10 s, which is paid" in told
    assert "least expected cost" in told


def test_solvers_side_by_side(job: SriftInstance, result: Result[Solution], rival: Result[Solution]) -> None:
    """A policy whose fleet breaks the deadline has none to show, and a note says what it made."""
    ours, theirs = (row.cells for row in compare_results([result, rival]).set_rows)
    assert ours[:5] == ("enumeration", "$0.00672", "1.78 s", "-", "0 %")
    assert theirs[:4] == ("published-cost-aware", "unknown", "-", "-")
    shown = show(PRESENTER.present_comparison(job, [result, rival]))
    assert "1 big@32 + 8 small@4" in shown
    assert "published-cost-aware  the cost-aware policy makes 8 small@8, which breaks deadline" in shown
    late = job.replace(deadline_s=None)
    cheap, other = solve(late, solver="enumeration"), solve(late, solver="published-throughput-aware")
    assert compare_results([cheap, other]).set_rows[1].cells[3] == "10 % more"  # 0.66 against 0.6 cents
    assert list_fleets([cheap, other])[1] == (other.solver, "1 big@64")


def test_limits_and_objectives_have_units(job: SriftInstance, result: Result[Solution]) -> None:
    """The frontier of cost runs along the deadline, that of time along the budget."""
    fastest = job.replace(objective="time", budget="3usd")
    assert (format_limit(job, 90.0), format_objective(job, 1.5)) == ("1 min 30 s", "$1.50")
    assert (format_limit(fastest, 1.5), format_objective(fastest, 90.0)) == ("$1.50", "1 min 30 s")
    assert format_limit(job, 1.5, BUDGET) == "$1.50"
    assert result.solution is not None
    assert name_plan(job, result.solution) == "1 big@32 + 8 small@4"
    assert describe_limits(job.replace(deadline_s=None)) == "no limit"


@pytest.mark.parametrize(
    ("limit", "amount", "words"),
    [
        (DEADLINE, 1.7811, "1.79 s"),
        (DEADLINE, 412.2, "6 min 53 s"),
        (DEADLINE, 4000.0, "1 h 07 min"),
        (BUDGET, 2.7311, "$2.74"),
        (BUDGET, 0.3311, "$0.332"),
        (BUDGET, 0.0067201, "$0.00673"),
        (BUDGET, 1234.2, "$1,235"),
        ("global_batch", 1152.0, "1,152"),
    ],
)
def test_least_limits_are_rounded_up(limit: str, amount: float, words: str) -> None:
    """So that they are still enough when they are typed in again."""
    assert format_least(limit, amount) == words


def test_small_numbers_stay_readable() -> None:
    """A hundredth of a cent, and microseconds."""
    assert [format_cost(usd) for usd in (0.0, 0.00321, 0.38, 2.72, 1204.2)] == [
        "$0",
        "$0.00321",
        "$0.380",
        "$2.72",
        "$1,204",
    ]
    assert [format_short(s) for s in (0.0, 4.5e-5, 0.3721, 0.9156, 1.7771)] == [
        "0 s",
        "45 µs",
        "372 ms",
        "916 ms",
        "1.78 s",
    ]


def test_what_no_fleet_can_do_is_told(job: SriftInstance) -> None:
    """Why, and what would help: 1.78 s is the fastest."""
    poor = job.replace(deadline_s=1.5)
    result = solve(poor)
    assert name_status(result) == ("infeasible: proven", "bad")
    shown = show(PRESENTER.present_result(poor, result))
    assert "No fleet can do it: the fastest fleet, 1 big@32 + 8 small@4, takes 1.78 s; the deadline is 1.5 s." in shown
    assert "would help  a deadline of 1.78 s or more" in shown
    assert "That is proven: no fleet of the VMs on offer keeps all limits." in shown
    with pytest.raises(UsageError, match=r"the result has no plan to draw \(status infeasible\)"):
        draw_plan(poor, result)


def test_answers_are_stated_for_comparison(job: SriftInstance, result: Result[Solution]) -> None:
    """A result and a plan state the same figures, VMs by type and batch among them."""
    plan: Plan = plan_of(job, result)
    stated = {fact.path: fact.value for fact in state_answer(result)}
    planned = {fact.path: fact.value for fact in state_answer(plan)}
    assert (stated["big@32"], stated["small@4"]) == (1, 8)
    assert stated["time_s"] == pytest.approx(1.78)
    assert {path: stated[path] for path in planned} == planned


def test_other_formulations_are_refused() -> None:
    """By name."""
    with pytest.raises(UsageError, match="instance 'boa-one-table' is no training job on VMs"):
        require_job(build_named("boa-one-table"))
    with pytest.raises(UsageError, match="the solution is no fleet of VMs"):
        require_fleet(None)


def test_fleets_are_required(mixed: SriftSolution) -> None:
    """And returned."""
    assert require_fleet(mixed) is mixed
