"""Where no fleet will do, the answer says why and what would, and what it says is feasible."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.contracts.result import Infeasibility, SolveRequest, Status
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.best_first import explain_shortfall, solve_best_first
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Stopwatch

Golden = Callable[[str], SriftInstance]
MakeInstance = Callable[..., SriftInstance]


def explain(instance: SriftInstance) -> Infeasibility:
    """Return why there is no fleet."""
    answer = solve_best_first(instance, SolveRequest())
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    return answer.infeasibility


def test_one_limit_by_hand(make_instance: MakeInstance) -> None:
    """The fastest fleet takes 1.6 s, 8 small VMs and the big one; the cheapest costs 0.0064 usd, 8 small ones or it."""
    late = explain(make_instance(objective="cost", deadline_s=1.0))
    assert late.reason == "the fastest fleet, 1 big@32 + 8 small@4, takes 1.6 s; the deadline is 1 s"
    assert late.relaxations[0].limit == "deadline"
    assert late.relaxations[0].least_feasible == pytest.approx(1.6)
    dear = explain(make_instance(objective="time", budget="0.0032usd"))
    assert "costs 0.0064 usd; the budget is 0.0032 usd" in dear.reason
    assert dear.relaxations[0].least_feasible == pytest.approx(0.0064)


def test_either_of_two_limits_may_mend_it(golden: Golden) -> None:
    """5.4: within 70 s fleets cost .589 usd or more, for .34 usd they take 82.4 s or more; both relaxations do."""
    instance = golden("interruption").replace(deadline_s=75.0, budget="0.4usd")
    found = explain(instance)
    amounts = {one.limit: one.least_feasible for one in found.relaxations}
    assert amounts["deadline"] == pytest.approx(82.43, abs=0.01)
    assert amounts["budget"] == pytest.approx(0.5892, abs=1e-4)
    assert "the fastest fleet within 0.4 usd, 4 p3.8xlarge@256, takes 82.43 s; the deadline is 75 s" in found.reason
    for limit, field, unit in (("deadline", "deadline_s", ""), ("budget", "budget", "usd")):
        amount = amounts[limit]
        mended = instance.replace(**{field: f"{amount:.17g}{unit}" if unit else amount})
        assert solve_best_first(mended, SolveRequest()).status is Status.OPTIMAL
        short = amount * (1 - 1e-6)
        still = instance.replace(**{field: f"{short:.17g}{unit}" if unit else short})
        assert solve_best_first(still, SolveRequest()).status is Status.INFEASIBLE


def test_a_limit_that_cannot_mend_it_is_named(golden: Golden) -> None:
    """Case 3 has one fleet within both limits: below its time no budget helps, and below both nothing alone."""
    only = explain(golden("case3").replace(deadline_s=300.0))
    assert [one.limit for one in only.relaxations] == ["deadline"]
    assert [one.limit for one in only.hopeless] == ["budget"]
    assert "no budget alone would do: no fleet keeps the deadline" in only.reason
    both = explain(golden("case3").replace(deadline_s=375.0, budget="2.7usd"))
    assert both.relaxations == ()
    assert "375 s and 2.7 usd would both have to grow by a factor of 1.014" in both.reason
    assert [one.limit for one in both.hopeless] == ["deadline", "budget"]


def test_a_batch_that_nothing_adds_up_to_has_neighbours(golden: Golden) -> None:
    """16 VMs with a power of two up to 128 each and all the same: 1024 and 1152 = 9 * 128 are next to 1025."""
    assert explain(golden("case1").replace(global_batch=1025)).reason == (
        "no fleet has a global batch of exactly 1025: the nearest are 1024 and 1152"
    )


def test_too_few_vms_are_counted(golden: Golden) -> None:
    """16 VMs take 2048 samples at most; 4096 need 16 more."""
    assert explain(golden("case1").replace(global_batch=4096)).reason == (
        "no fleet has a global batch of exactly 4096: all that is available has 2048 at most; "
        "16 more g4dn.8xlarge would do"
    )


def test_neighbours_of_the_largest_batch_are_beyond_it(golden: Golden) -> None:
    """16 VMs of up to 128 have 2048 at most, and what is next is looked for up to twice the largest batch there is."""
    reason = explain(golden("case1").replace(global_batch=1_000_000)).reason
    assert reason.startswith("no fleet has a global batch of exactly 1000000: all that is available has 2048 at most;")


def test_vms_that_are_missing_are_left_out_when_time_is_over(golden: Golden) -> None:
    """Which ones would do takes many sums; that none is there is said, and so is that more would be known later."""
    instance = golden("case1").replace(global_batch=4096)
    answer = explain_shortfall(FleetSpace(instance), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert answer.infeasibility is not None
    assert answer.infeasibility.reason.endswith("all that is available has 2048 at most")
    assert "give it more time" in answer.warnings[-1]


def test_a_run_that_never_ends_is_named(make_instance: MakeInstance) -> None:
    """Ten thousand interruptions an hour and an hour between checkpoints: nothing is ever done."""
    spot = {"available": 8, "spot": True, "interruptions_per_hour": 1e4, "gpu": "slow"}
    rules = {"checkpoint_every_s": 36000, "restart_s": 60}
    instance = make_instance(types={"spot": spot}, interruptions=rules, iterations=1_000_000)
    assert "no fleet ever ends" in explain(instance).reason


def test_without_time_what_is_not_proven_is_left_out(golden: Golden) -> None:
    """That no fleet keeps the deadline needs no search; the fastest one within the budget does, and is not named."""
    instance = golden("case3").replace(deadline_s=300.0)
    answer = explain_shortfall(FleetSpace(instance), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert answer.infeasibility is not None
    assert answer.infeasibility.relaxations == ()
    assert answer.infeasibility.reason == "no budget alone would do: no fleet keeps the deadline"
    assert answer.infeasibility.certificate is not None
    assert "give it more time" in answer.warnings[0]
