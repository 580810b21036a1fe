"""The judge: valid results pass, and what is not true of an instance is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import BoundProof, LagrangianCertificate, Status, Termination
from optplan.contracts.result import OPTIMAL_GAP, closes_gap
from optplan.errors import UnsupportedError, UsageError, VerificationError
from optplan.formulations.boa.data.instance import Policy
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.units import Amount, BudgetUnit
from optplan.verification import evaluate, verify

from .tampering import CASES, UNCHECKED, Case, changed, failed, leaves, named, reread


@pytest.mark.parametrize("key", list(CASES))
def test_valid_results_pass(cases: dict[str, Case], key: str) -> None:
    """As returned, and after a journey through JSON; nothing is required of what holds."""
    instance, result = cases[key]
    for each in (result, reread(result, result.to_json_data())):
        verification = verify(instance, each)
        assert verification.failures == ()
        verification.require()
        assert verification.nothing_wrong
        assert verification.ok is (key not in UNCHECKED)
        assert verification.seconds > 0.0


def test_what_cannot_be_checked_is_named(cases: dict[str, Case]) -> None:
    """An engine's word and a search's end are listed; certificates are not."""
    engine, searched = (verify(*cases[key]).on_trust for key in ("engine", "searched"))
    assert engine == ("bound: rests on a general engine's word, which has no certificate",)
    assert searched == ("bound: rests on a search, which has no certificate",)
    for key in ("enumerated", "lagrangian", "continuous", "heuristic"):
        assert verify(*cases[key]).on_trust == verify(*cases[key]).never_checked == ()
    words = "infeasibility: the words of the reason; its figures are checked"
    assert verify(*cases["infeasible"]).on_trust == ()
    assert verify(*cases["infeasible"]).never_checked == (words,)
    helps = [f"infeasibility: that {limit} of so much as is called enough is" for limit in ("budget", "quota.t4")]
    assert verify(*cases["quotas-infeasible"]).never_checked == (*helps, words)
    # Of pure plans the plans that are enough are there.
    assert verify(*cases["quotas-infeasible-pure"]).never_checked == (words,)


def test_a_result_of_another_instance_is_a_wrong_call(cases: dict[str, Case]) -> None:
    """Not a failed check: nothing can be said. A changed name or budget makes another instance."""
    instance, result = cases["engine"]
    for other in (
        named("boa-two-epochs"),
        instance.replace(name="b"),
        instance.replace(budget=Amount(9.0, BudgetUnit.GPU)),
    ):
        with pytest.raises(
            UsageError, match=r"the result was made for boa instance 'boa-two-classes' with hash [0-9a-f]{12}, this"
        ):
            verify(other, result)
    with pytest.raises(UsageError, match=r"the result was made for seer instance .* give the instance it was made"):
        verify(instance, result.replace(formulation="seer"))


@pytest.mark.parametrize("nothing", [None, "result.json"])
def test_something_else_is_neither_result_nor_instance(cases: dict[str, Case], nothing: Any) -> None:  # noqa: ANN401
    """A wrong call, with what is needed."""
    instance, result = next(iter(cases.values()))
    with pytest.raises(UsageError, match=rf"^result: got {nothing!r}; a Result is needed, such as read_result\('res"):
        verify(instance, nothing)
    with pytest.raises(UsageError, match=rf"^instance: got {nothing!r}; an Instance is needed, such as read_instance"):
        verify(nothing, result)


def test_require_names_everything(cases: dict[str, Case]) -> None:
    """Family, index, both sides and tolerance."""
    instance, result = cases["engine"]
    tampered = reread(result, changed(result.to_json_data(), ("objective",), 1000.0))
    with pytest.raises(
        VerificationError, match=r"^objective: the result's figure .* \(left 1000\.0, right 2816\.\d+, tol"
    ):
        verify(instance, tampered).require()


def test_failures_come_first(cases: dict[str, Case]) -> None:
    """Whatever the order in which things were checked."""
    instance, result = cases["enumerated"]
    tampered = reread(result, changed(result.to_json_data(), ("certificates", 0, "bound"), 2000.0))
    holds = [check.holds for check in verify(instance, tampered).checks]
    assert holds == sorted(holds)
    assert not holds[0]


def test_limits_left_out_of_the_relaxations_are_named(cases: dict[str, Case]) -> None:
    """With several limits nobody can check cheaply that one of them alone cannot help, and the judge says so."""
    instance, result = cases["quotas-infeasible"]
    data = result.to_json_data()
    data["infeasibility"]["relaxations"] = []
    verification = verify(instance, reread(result, data))
    assert not verification.ok
    assert verification.on_trust[:2] == tuple(
        f"infeasibility: that {limit} alone cannot mend it" for limit in ("budget", "quota.t4")
    )


@pytest.mark.parametrize("claimed", [0.9, 1.01, None])
def test_an_optimum_is_looked_for_no_further_than_needed(cases: dict[str, Case], claimed: float | None) -> None:
    """A thousandfold allowance is no thousandfold work, and hides no wrong optimum."""
    instance, result = cases["enumerated"]
    data = result.to_json_data()
    certificate = data["certificates"][-1]
    certificate["allowance"] = 900.0 * certificate["optimum"]
    assert failed((instance, result), data) == set()
    certificate["optimum"] = None if claimed is None else claimed * certificate["optimum"]
    assert "certificate" in failed((instance, result), data)


def test_measures_without_a_solution_are_noticed(cases: dict[str, Case]) -> None:
    """There is nothing that they could be figures of."""
    data = cases["infeasible"][1].to_json_data()
    assert failed(cases["infeasible"], data | {"measures": {"mean_jct_s": 1.0}}) == {"measure"}


def test_a_feasible_instance_is_not_called_infeasible(cases: dict[str, Case]) -> None:
    """The least consumption of any plan is recomputed, and compared with the limit."""
    instance, result = cases["infeasible"]
    enough = instance.replace(budget=Amount(10.0, BudgetUnit.GPU))
    wrong = result.replace(instance_hash=enough.content_hash())
    assert {check.index for check in verify(enough, wrong).failures} >= {"", "budget given"}


@pytest.mark.parametrize("other", [600.0, 5400.0])
def test_shadow_prices_are_multipliers(other: float) -> None:
    """One table at its kink (1.25 GPUs, 2250 s): from (1, 3600 s) the slope is 5400, to (2, 1800 s) it is 600."""
    instance = named("boa-one-table")
    result = solve(instance)
    price = result.shadow_prices["budget"]
    assert price.less == pytest.approx(5400.0)
    assert price.more == pytest.approx(600.0)
    for less, more in [(6000.0, 600.0), (5400.0, 500.0), (600.0, 5400.0), (-1.0, -1.0)]:
        wrong = result.replace(shadow_prices={"budget": price.replace(less=less, more=more)})
        assert {check.family for check in verify(instance, wrong).failures} == {"shadow-price"}
    inside = result.replace(shadow_prices={"budget": price.replace(less=other, more=other)})
    assert verify(instance, inside).nothing_wrong
    assert verify(instance, inside).on_trust == ("shadow price of budget: that no multiplier beyond it is as good",)
    gone = result.replace(shadow_prices={})
    assert {check.family for check in verify(instance, gone).failures} == {"shadow-price"}
    unknown = result.replace(shadow_prices={"deadline": price})
    assert {check.family for check in verify(instance, unknown).failures} == {"shadow-price"}


def test_whoever_verifies_says_within_which_gap_a_plan_is_optimal(cases: dict[str, Case]) -> None:
    """From (14,580 s, 4.05 GPUs) to a bound 1 % lower: feasible, within 2 % optimal, whatever the result asked for."""
    instance = named("boa-two-epochs", budget=Amount(4.05, BudgetUnit.GPU))
    result = solve(instance, check=False)
    bound = dual_bound(instance, {"budget": 0.0})
    certificate = LagrangianCertificate(multipliers={"budget": 0.0}, bound=bound)
    claims = {"bound": bound, "certificates": (certificate,), "shadow_prices": {}, "gap_target": 0.99}
    wide = result.replace(status=Status.FEASIBLE, bound_proof=BoundProof.LAGRANGIAN, **claims)
    gap = 1.0 - bound / 14580.0
    for asked, status in ((1e-6, Status.FEASIBLE), (0.99 * gap, Status.FEASIBLE), (1.01 * gap, Status.OPTIMAL)):
        found = verify(instance, wide, gap=asked)
        assert (found.ok, found.proven, found.status) == (True, True, status)
        assert found.gap == pytest.approx(gap)
    for key, status in (("infeasible", Status.INFEASIBLE), ("heuristic", Status.FEASIBLE), ("engine", Status.OPTIMAL)):
        found = verify(*cases[key])
        assert (found.status, found.proven) == (status, key != "engine")
    with pytest.raises(UsageError, match=r"^gap: got 1\.0; a relative gap from 0 to below 1 is needed"):
        verify(instance, wide, gap=1.0)


def test_changes_are_made_again_where_that_is_asked_for(cases: dict[str, Case]) -> None:
    """A result of other rates is refused for the instance as given; with as_given=False the answer names them."""
    instance, _ = cases["enumerated"]
    busier = apply_changes(instance, [parse_change("classes.*.arrival_rate*=0.5")])
    result = solve(busier).replace(changes=("classes.*.arrival_rate*=0.5",))
    with pytest.raises(
        UsageError, match=r"made for 'boa-two-classes' with changes \(classes\.\*\.arrival_rate\*=0\.5\)"
    ):
        verify(instance, result)
    found = verify(instance, result, as_given=False)
    assert (found.ok, found.changes) == (True, ("classes.*.arrival_rate*=0.5",))
    assert verify(busier, result, as_given=False).changes == ()
    with pytest.raises(UsageError, match=r"^result: got 'r.json'; a Result is needed"):
        verify(instance, "r.json", as_given=False)  # type: ignore[arg-type]


@given(factor=st.floats(0.0, 3.0), raised=st.sampled_from([1e-6, 1e-3, 0.1]))
@settings(max_examples=40)
def test_a_lagrangian_bound_that_is_too_high_is_refused(factor: float, raised: float) -> None:
    """Whatever the multiplier: what it proves is recomputed, and a bound above that is no bound."""
    instance = named("boa-two-epochs", policy=Policy.MIXED)
    result = solve(instance, check=False)
    mu = factor * result.certificates[0].multipliers["budget"]
    proven = dual_bound(instance, {"budget": mu})
    for bound, fits in ((proven, True), (proven + raised * 12264.6, False)):
        certificate = LagrangianCertificate(multipliers={"budget": mu}, bound=bound)
        closed = closes_gap(result.objective, bound, OPTIMAL_GAP)
        claims: dict[str, object] = {
            "status": Status.OPTIMAL if closed else Status.FEASIBLE,
            "bound": bound,
            "certificates": (certificate,),
            "shadow_prices": {},
            "termination": Termination.TIME_LIMIT,
        }
        assert verify(instance, result.replace(**claims)).ok is fits


def test_a_multiplier_out_of_proportion_buys_no_tolerance() -> None:
    """At the least budget every large multiplier is a best one; 1e20 must not hide a wrong bound in its rounding."""
    instance = named("boa-two-epochs", budget=Amount(4.05, BudgetUnit.GPU))
    result = solve(instance, check=False)
    assert verify(instance, result).ok
    assert result.objective == pytest.approx(14580.0)
    certificate = LagrangianCertificate(multipliers={"budget": 1e20}, bound=14570.0)
    claims = {
        "bound": 14570.0,
        "bound_proof": BoundProof.LAGRANGIAN,
        "certificates": (certificate,),
        "status": Status.FEASIBLE,
        "gap_target": 0.01,
    }
    assert not verify(instance, result.replace(**claims, shadow_prices={})).ok


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("policy", list(Policy))
def test_the_judge_is_as_strict_at_every_scale(scale: float, policy: Policy) -> None:
    """Sizes and pauses of nanoseconds or of billions of hours: valid results pass, a millionth more is noticed."""
    instance = random_boa(classes=3, epochs=4, widths=6, seed=5, policy=policy)
    classes = {
        name: c.replace(
            epoch_size_gpu_hours=c.epoch_size_gpu_hours * scale,
            rescale_s=c.rescale_s * scale,
            arrival_rate_per_hour=c.arrival_rate_per_hour / scale,
        )
        for name, c in instance.classes.items()
    }
    instance = instance.replace(classes=classes)
    result = solve(instance, gap=1e-4)
    assert verify(instance, result).ok
    data = result.to_json_data()
    for path in [("objective",), ("bound",), ("certificates", 0, "bound"), ("measures", "gpus")]:
        value = dict(leaves(data))[path]
        for factor in (1 + 1e-6, 1 - 1e-6):
            assert failed((instance, result), changed(data, path, value * factor)), (path, factor)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(list(Policy)))
def test_results_of_random_instances_pass(seed: int, policy: Policy) -> None:
    """Bounds, certificates and shadow prices of the exact solver hold up against the judge."""
    instance = random_boa(classes=2, epochs=5, widths=6, seed=seed, policy=policy)
    result = solve(instance, gap=0.0 if policy is Policy.PURE else 1e-9, check=False)
    assert verify(instance, result).failures == ()


def test_decisions_of_another_instance_are_evaluated() -> None:
    """Their objective there and which limits break, without a claim that anything is best."""
    instance = build_named("boa-two-classes")
    result = solve(instance)
    assert result.solution is not None
    assert evaluate(instance, result.solution).objective == pytest.approx(result.objective, rel=1e-12)
    tighter = evaluate(instance.replace(budget="1gpu"), result.solution)
    assert tighter.objective == pytest.approx(result.objective, rel=1e-12)
    assert any(not check.holds and check.family == "budget" for check in tighter.checks)


def test_decisions_of_another_problem_are_refused() -> None:
    """By the names of both kinds."""
    other = solve(build_named("throughputs-resnet50-gavel")).solution
    assert other is not None
    with pytest.raises(UnsupportedError, match=r"^boa: decisions are a BoaSolution, not a ThroughputsSolution$"):
        evaluate(build_named("boa-two-classes"), other)
