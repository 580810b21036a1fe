"""What an infeasible instance is told to change: each remedy is applied, and a little less of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Relaxation, Result, Status
from optplan.formulations.boa.data.instance import FLOOR, BoaInstance
from optplan.formulations.boa.exact import linked_limits
from optplan.formulations.boa.exact.feasibility import say_wishes
from optplan.solving import solve
from optplan.verification import verify

from .any_instance import draw_instance
from .set_limit import set_limit

pytestmark = pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")

CASES = Path(__file__).parents[2] / "cases"
#: By how much less of a limit is tried than the least that may do, relatively.
_LESS = 1e-5


def read_case(name: str) -> BoaInstance:
    """Return an input of which remedies were wrong once."""
    return BoaInstance.parse(json.loads((CASES / f"{name}.json").read_text()))


def check_remedies(instance: BoaInstance, result: Result[Any]) -> tuple[int, int]:
    """Assert that what is called enough is, that no less is, and that what is hopeless is; return how many of each."""
    claim = result.infeasibility
    assert claim is not None
    assert verify(instance, result).ok
    for one in claim.relaxations:
        assert one.enough is not None
        assert solve(set_limit(instance, one.limit, one.enough)).status is Status.OPTIMAL, one.limit
        less = one.least_feasible * (1.0 + _LESS if one.limit.startswith(FLOOR) else 1.0 - _LESS)
        assert solve(set_limit(instance, one.limit, less)).status is Status.INFEASIBLE, one.limit
    for lost in claim.hopeless:
        amount = 1e-9 if lost.limit.startswith(FLOOR) else 1e9
        assert solve(set_limit(instance, lost.limit, amount)).status is Status.INFEASIBLE, lost.limit
    return len(claim.relaxations), len(claim.hopeless)


@pytest.mark.parametrize("seed", [70085, 70148, 70211])
def test_a_floor_lowered_to_what_is_enough_has_a_plan(seed: int) -> None:
    """The last plan that is left is over the floor by less than the tolerance: it is found, and not cut off."""
    instance = draw_instance(seed, policy="pure")
    claim = solve(instance).infeasibility
    assert claim is not None
    floor = next(one for one in claim.relaxations if one.limit.startswith(FLOOR))
    assert floor.enough is not None
    check = set_limit(instance, floor.limit, floor.enough)
    assert solve(check).status is Status.OPTIMAL


def test_a_remedy_that_is_lost_in_rounding_is_not_stated() -> None:
    """Beside a budget of 1e9 dollars an hour weights show that a due date has to be 0 s at least: that says nothing."""
    instance = set_limit(draw_instance(70018, policy="mixed"), "budget", 1e9)
    result = solve(instance)
    assert result.infeasibility is not None
    assert [one.limit for one in result.infeasibility.relaxations] == ["floor.c2"]
    assert verify(instance, result).on_trust == ("infeasibility: that due.c2 alone cannot mend it",)


@pytest.mark.parametrize("policy", ["pure", "mixed"])
def test_remedies_of_random_instances_are_true(policy: str) -> None:
    """Over 30 random instances: enough is enough, the least is the least, and no amount of what is hopeless helps."""
    helping = lost = 0
    for seed in range(30):
        instance = draw_instance(seed, policy=policy)
        result = solve(instance)
        if result.infeasibility is not None:
            found = check_remedies(instance, result)
            helping, lost = helping + found[0], lost + found[1]
    assert helping > 10
    assert lost > 10


@pytest.mark.parametrize(
    ("name", "helping", "hopeless"),
    [
        # Within the quota of 0.216 GPUs of a, c0's jobs run on 3 of b, which takes 3,600 s at best, whatever is due.
        ("due-date-that-cannot-help", {"quota.a"}, {"budget", "due.c0"}),
        ("remedies-of-pure-plans", {"budget", "quota.b", "due.c0"}, {"due.c1"}),
        # What multipliers prove is lost in rounding: the search divides all the same.
        ("part-of-which-nothing-is-proven", set(), {"budget", "quota.a", "quota.c", "due.c0", "floor.c0", "floor.c2"}),
        # Of c1's plans some miss its floor by 1.5e-9 of it: weights of both floors hide that, those of its own do not.
        ("floors-missed-by-a-hair", {"budget", "floor.c2"}, {"quota.b", "due.c1", "floor.c1"}),
    ],
)
def test_remedies_are_those_of_the_policy(name: str, helping: set[str], hopeless: set[str]) -> None:
    """What mixed plans need was told to pure ones; a due date that helps no pure plan is no remedy."""
    instance = read_case(name)
    result = solve(instance)
    check_remedies(instance, result)
    claim = result.infeasibility
    assert claim is not None
    assert {one.limit for one in claim.relaxations} == helping
    assert {one.limit for one in claim.hopeless} == hopeless


def test_decisions_that_are_not_enough_are_refused() -> None:
    """What is called enough is what the decisions beside it take, and they keep all else; none is called enough."""
    instance = read_case("remedies-of-pure-plans")
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    first = claim.relaxations[0]
    assert first.enough is not None
    wide = json.loads(json.dumps(dict(first.solution)))
    wide["branches"]["c2"][0]["widths"] = [8.0]
    wide["branches"]["c2"][0]["gpu_types"] = ["a"]
    for change, message in (
        ({"enough": first.enough * 1.01}, "what is called enough must be what its decisions take"),
        ({"solution": {}, "enough": first.enough * 1.01}, "without decisions that show it no more than the least"),
        ({"enough": None}, "decisions show what is enough, and that is not said"),
        ({"solution": {"branches": 1}}, "its decisions cannot be read"),
        ({"solution": {"branches": {}}}, "its decisions do not keep everything else"),
        ({"solution": wide}, "what is called enough must be what its decisions take"),
    ):
        forged = claim.replace(relaxations=(first.replace(**change), *claim.relaxations[1:]))
        failures = verify(instance, result.replace(infeasibility=forged)).failures
        assert any(check.message.startswith(message) for check in failures), message


def test_what_is_not_known_to_be_enough_is_said_so() -> None:
    """One limit would do, of one it is known between which amounts, and one may do; a floor is to be lowered."""
    sure = Relaxation(limit="quota.a", given=1.0, least_feasible=2.0, enough=2.0, unit="gpu")
    between = Relaxation(limit="due.c", given=60.0, least_feasible=70.0, enough=80.0, unit="s")
    maybe = Relaxation(limit="floor.c", given=3.0, least_feasible=2.5, unit="gpu")
    assert say_wishes([sure, between, maybe]) == (
        "one of these would do: a quota of a of at least 2 GPUs (given: 1); a due date of c of at least 80 s "
        "(given: 60; no less than 70 can); one of these may do, and no less: a floor of c of at most 2.5 GPUs "
        "(given: 3)"
    )
    assert say_wishes([maybe]).startswith("one of these may do, and no less: ")
    assert say_wishes([]) == "no single limit can mend that"
    assert [one.describe(str) for one in (sure, between, maybe)] == ["2.0", "70.0 to 80.0", "at most 2.5"]


def test_without_time_a_remedy_of_pure_plans_is_open() -> None:
    """General engines say what mixed plans need: that pure plans need as much, and not that it is enough for them."""
    instance = read_case("remedies-of-pure-plans")
    result = solve(instance, solver="highs")
    claim = result.infeasibility
    assert claim is not None
    assert all(one.enough is None for one in claim.relaxations)
    assert "one of these may do, and no less: a budget of at least 12.3 usd/hour" in claim.reason
    assert "would have to grow by at least 0.3056 %" in claim.reason
    assert verify(instance, result).ok


def test_a_limit_on_gpus_at_once_leaves_remedies_open() -> None:
    """A budget that is enough without most_gpus need not be with it."""
    instance = read_case("remedies-of-pure-plans").replace(most_gpus={"gpus": 50.0, "probability": 0.9})
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    assert "one of these may do, and no less: a budget of" in claim.reason
    assert verify(instance, result).nothing_wrong
    assert all(one.enough is None for one in claim.relaxations)
    assert claim.reason.endswith("; whether the limit on the GPUs in use at once is kept then is not known")


@pytest.mark.parametrize("parts", [1, 5])
def test_a_search_for_a_remedy_that_is_cut_short_states_what_is_proven(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few parts a division proves less than the optimum: limits are told by what it proves."""
    monkeypatch.setattr(linked_limits, "_MOST_PARTS", parts)
    instance = draw_instance(5176)
    result = solve(instance, check=False)
    assert result.status is Status.INFEASIBLE
    assert verify(instance, result).nothing_wrong
