"""A deadline and a budget at once: the sheet's example by hand, what each solver says, and forged proofs."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts.result import Result, Status
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.instances.library import build_named
from optplan.reporting.rubberband.words import say_how_good
from optplan.solving import solve
from optplan.verification import verify


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make the two stages of docs/rubberband.md: 280 s cost 0.38 usd, 240 s 0.42, 180 s 0.48, and 160 s 0.56."""
    stages = [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {1: 10, 2: 6, 4: 4}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "minimum_charge_s": 0, "most_instances": 8},
    }
    return RubberBandInstance.parse({**fields, **changes})


@pytest.mark.parametrize("solver", ["held-paths", "highs", "cp-sat", "enumeration"])
@pytest.mark.parametrize(
    ("objective", "deadline_s", "budget", "best"),
    [("cost", 280, "0.4usd", 0.38), ("cost", 250, "0.42usd", 0.42), ("time", 300, "0.42usd", 240.0)],
)
def test_the_best_within_one_limit_keeps_the_other(
    solver: str, objective: str, deadline_s: float, budget: str, best: float
) -> None:
    """Whichever is least, the other limit is kept, exactly at it, too; a limit with room to spare is worth nothing."""
    instance = _make(objective=objective, deadline_s=deadline_s, budget=budget)
    result = solve(instance, solver=solver, gap=0.0)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best)
    assert verify(instance, result).nothing_wrong
    if solver == "held-paths":
        assert result.shadow_prices[instance.ceiling_name].more == 0.0


@pytest.mark.parametrize("solver", ["held-paths", "highs", "cp-sat", "enumeration", "static", "naive-elastic"])
def test_what_helps_is_said_for_either_limit(solver: str) -> None:
    """Within 250 s a plan costs 0.42 usd; for 0.39 usd it takes 280 s."""
    instance = _make(deadline_s=250, budget="0.39usd")
    result = solve(instance, solver=solver)
    assert result.infeasibility is not None
    assert {one.limit: pytest.approx(one.least_feasible) for one in result.infeasibility.relaxations} == {
        "deadline": 280.0,
        "budget": 0.42,
    }
    assert result.infeasibility.reason == (
        "within the deadline of 250 s a plan needs 0.42 usd at least; the budget is 0.39 usd; "
        "within 0.39 usd a plan needs 280 s"
    )
    for change in ({"deadline_s": 281.0}, {"budget": "0.421usd"}):
        assert solve(instance.replace(**change)).status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("deadline_s", "budget", "helps", "hopeless"),
    [
        (280, "0.37usd", {"budget": 0.38}, ["deadline"]),
        (150, "0.5usd", {"deadline": 180.0}, ["budget"]),
        (150, "0.37usd", {}, ["budget", "deadline"]),
    ],
)
def test_a_limit_that_cannot_help_is_named(
    deadline_s: float, budget: str, helps: dict[str, float], hopeless: list[str]
) -> None:
    """No plan costs less than 0.38 usd, and none is faster than 160 s, whatever the other limit."""
    result = solve(_make(deadline_s=deadline_s, budget=budget))
    claim = result.infeasibility
    assert claim is not None
    assert {one.limit: pytest.approx(one.least_feasible) for one in claim.relaxations} == helps
    assert sorted(one.limit for one in claim.hopeless) == hopeless


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("objective", ["cost", "time"])
def test_where_neither_limit_helps_pairs_that_do_are_named(objective: str, confidence: float | None) -> None:
    """160 s need 0.56 usd, and 0.38 usd need 280 s; that nothing is random makes a confidence ask for no more."""
    instance = _make(objective=objective, deadline_s=50, budget="0.1usd", confidence=confidence)
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    assert sorted(one.limit for one in claim.hopeless) == ["budget", "deadline"]
    for pair in ("a deadline of 160 s and a budget of 0.56 usd would do", "a budget of 0.38 usd and a deadline of 280"):
        assert pair in claim.reason
    for deadline_s, budget in ((160, "0.56usd"), (280, "0.38usd")):
        assert solve(instance.replace(deadline_s=deadline_s, budget=budget)).status is Status.OPTIMAL
    assert verify(instance, result).ok
    assert say_how_good(instance, result) == (
        "That is proven: no plan keeps the deadline, whatever it costs, nor the budget, however long it takes."
    )


@pytest.mark.parametrize(
    ("deadline_s", "budget"), [(280, "0.38usd"), (180, "0.48usd"), (160, "1usd"), (300, "0.38usd")]
)
@pytest.mark.parametrize("objective", ["cost", "time"])
def test_that_nothing_less_is_feasible_is_proven(objective: str, deadline_s: float, budget: str) -> None:
    """Limits at a corner of the frontier have no room below; the judge derives that from weights of both."""
    instance = _make(objective=objective, deadline_s=deadline_s, budget=budget)
    result = solve(instance)
    assert verify(instance, result).ok
    tight = [limit for limit, price in result.shadow_prices.items() if price.less is None]
    assert tight
    price = result.shadow_prices[tight[0]]
    # Weights by which plans may need less of it, and none, prove nothing.
    forged = {limit: float(limit != tight[0]) for limit in instance.limits}
    for weights in (forged, dict(price.less_multipliers) | {tight[0]: 0.5}):
        claims = dict(result.shadow_prices) | {tight[0]: price.replace(less_multipliers=weights)}
        assert not verify(instance, result.replace(shadow_prices=claims)).nothing_wrong
    claims = dict(result.shadow_prices) | {tight[0]: price.replace(less_multipliers={})}
    found = verify(instance, result.replace(shadow_prices=claims))
    assert found.on_trust == (f"shadow price of {tight[0]}: that nothing less is feasible",)


def test_minimum_charges_count_towards_the_ceiling() -> None:
    """Each of two instances pays 300 s at least, 0.6 usd, where 0.38 would do without minimum charges.

    One instance takes two waves of 100 s and then 180 s: 380 s for 0.38 usd.
    """
    cloud = {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "minimum_charge_s": 300, "most_instances": 8}
    refused = solve(_make(cloud=cloud, deadline_s=280, budget="0.5usd"))
    assert refused.infeasibility is not None
    helps = {one.limit: pytest.approx(one.least_feasible) for one in refused.infeasibility.relaxations}
    assert helps == {"budget": 0.6, "deadline": 380.0}


def test_without_time_the_bound_is_of_both_limits() -> None:
    """Where time ends with a plan beyond the ceiling, nothing is claimed but a bound, whose proof holds."""
    instance = build_named("rubberband-resnet101-20min").replace(budget="13usd")
    result = solve(instance, time_limit_s=1e-9)
    assert (result.status, result.objective) == (Status.UNKNOWN, None)
    assert result.certificates
    assert verify(instance, result).nothing_wrong


def test_rivals_say_that_other_plans_keep_both() -> None:
    """The best static cluster within 280 s costs 0.44 usd, beyond a budget that elastic plans keep."""
    result = solve(_make(deadline_s=280, budget="0.4usd"), solver="static")
    assert result.status is Status.UNKNOWN
    assert result.warnings == ("the plan found needs 0.44 usd, and the budget is 0.4 usd; other plans keep it",)


def test_a_budget_alone_asks_for_the_other_problem() -> None:
    """Without a deadline there is nothing that the least cost is traded against."""
    with pytest.raises(Exception, match=r"has no deadline; give one, .* what the budget alone buys: --problem fastest"):
        solve(_make(budget="0.4usd"))


def _forge(result: Result[Any], **content: Any) -> Result[Any]:  # noqa: ANN401 - of any kind
    claim = result.infeasibility
    assert claim is not None
    assert claim.certificate is not None
    forged = claim.certificate.replace(content={**claim.certificate.content, **content})
    return result.replace(infeasibility=claim.replace(certificate=forged))


@pytest.mark.parametrize(
    "content",
    [
        {"limit": "gpus"},
        {"limit": "deadline"},
        {"multiplier": -1.0},
        {"multiplier": 1e9},
        {"allowance": 0.0, "multiplier": 0.0},
        {"allowance": True},
    ],
    ids=str,
)
def test_forged_proofs_that_no_plan_keeps_both_are_refused(content: dict[str, Any]) -> None:
    """The least cost within 250 s is 0.42 usd, but a mixture of 240 s (0.42) and 280 s (0.38) takes 250 s for 0.41.

    So no multiplier proves that 0.415 usd are too few: an enumeration has to.
    """
    instance = _make(deadline_s=250, budget="0.415usd")
    result = solve(instance)
    assert verify(instance, result).nothing_wrong
    assert not verify(instance, _forge(result, **content)).nothing_wrong


def test_relaxations_that_ask_for_more_than_needed_or_less_are_refused() -> None:
    """What would help is neither more nor less than what its certificate proves."""
    instance = _make(deadline_s=250, budget="0.39usd")
    result = solve(instance)
    assert result.infeasibility is not None
    for factor in (0.97, 1.03):
        one, *others = result.infeasibility.relaxations
        assert one.certificate is not None
        least = one.least_feasible * factor
        changed = one.replace(least_feasible=least, certificate=one.certificate.replace(bound=least))
        claim = result.infeasibility.replace(relaxations=(changed, *others))
        assert not verify(instance, result.replace(infeasibility=claim)).nothing_wrong
