"""Trees: what is true is accepted, what is too good is not, and no content breaks the judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import BoundProof, Status, TreeCertificate
from optplan.formulations.rubberband.data.instance import BOTH, CHARGES, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.duality import (
    check_tree,
    dual_bound,
    least_consumption,
    least_within,
    list_proofs,
)
from optplan.formulations.rubberband.judge.evaluation import evaluate, on_time_probability
from optplan.formulations.rubberband.laws import confidence
from optplan.instances.files import read_instance
from optplan.progress import OutOfTime, Stopwatch
from optplan.solving import solve
from optplan.verification import verify

CASES = Path(__file__).parents[3] / "cases"
ListPlans = Callable[[RubberBandInstance], list[RubberBandSolution]]


def _draw_distribution(rng: np.random.Generator, scale_s: float) -> dict[str, Any]:
    form = str(rng.choice(["constant", "normal", "log-normal", "empirical"]))
    if form == "constant":
        return {"form": form, "value_s": scale_s * float(rng.choice([0.0, 1.0]))}
    if form == "empirical":
        return {"form": form, "values_s": [0.5 * scale_s, scale_s, 3.0 * scale_s]}
    return {"form": form, "mean_s": scale_s, "sd_s": scale_s * (0.1 if form == "normal" else 0.5)}


def _draw_search(seed: int) -> RubberBandInstance:
    """Draw a search of two stages, or of Hyperband side by side, with few plans."""
    rng = np.random.default_rng(seed)
    trials = sorted(rng.integers(1, 4, size=2).tolist(), reverse=True)
    stages = [{"trials": count, "iterations": int(rng.choice([1, 3, 10]))} for count in trials]
    experiment: dict[str, Any] = {"form": "stages", "stages": stages}
    if rng.random() < 0.25:
        experiment = {"form": "hyperband", "most_iterations": 3, "eta": 3, "order": "side-by-side"}
    noises = [{"form": "normal", "sd_fraction": 0.2}, {"form": "log-normal", "sd_fraction": 0.8}]
    fields = {
        "experiment": experiment,
        "training": {
            "seconds_per_iteration": [{1: 10, 2: 6}, {1: 5, 2: 4}][int(rng.integers(2))],
            "start_s": _draw_distribution(rng, 4.0),
            "iteration_noise": noises[int(rng.integers(2))],
        },
        "cloud": {
            "gpus_per_instance": int(rng.choice([1, 2])),
            "price_usd_per_hour": 3.6,
            "billing": str(rng.choice(["per-instance", "per-instance", "per-function"])),
            "minimum_charge_s": float(rng.choice([0, 20, 150])),
            "provision_s": _draw_distribution(rng, 10.0),
            "initialise_s": _draw_distribution(rng, 15.0),
            "most_instances": int(rng.integers(1, 3)),
        },
        "mode": str(rng.choice(["any", "fair"])),
    }
    return RubberBandInstance.parse(fields)


def _is_accepted(instance: RubberBandInstance, rule: str, **claim: Any) -> bool:  # noqa: ANN401
    try:
        check_tree(instance, TreeCertificate(rule=rule, **claim), Stopwatch())
    except RefutedError:
        return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_of_a_confidence_is_above_the_best_plan(seed: int, list_every_plan: ListPlans) -> None:
    """Against every plan: no multiplier, no allowance and no least consumption says more than is true."""
    instance, rng = _draw_search(seed), np.random.default_rng(seed)
    plans = list_every_plan(instance)
    measures = [evaluate(instance, plan).measures for plan in plans]
    usd = np.array([one["expected_usd"] for one in measures])
    deadline_s = float(np.quantile([one["expected_s"] for one in measures], rng.random()))
    instance = instance.replace(deadline_s=deadline_s, confidence=float(rng.choice([0.02, 0.5, 0.9])))
    asked = [(on_time_probability(instance, plan, deadline_s), evaluate(instance, plan).measures) for plan in plans]
    chances = np.array([chance for chance, _ in asked])
    best = usd[chances >= (instance.confidence or 0.0) - 1e-6].min(initial=math.inf)
    for multiplier in (0.0, *(usd.max() / deadline_s * np.array([1e-3, 0.1, 1.0, 10.0])).tolist()):
        multipliers = {"deadline": multiplier}
        dual, allowance = dual_bound(instance, multipliers), float(usd.max())
        assert dual <= best * (1 + 1e-9)
        assert min(dual + allowance, least_within(instance, multipliers, allowance)) <= best * (1 + 1e-9)
    quickest_s = min(one["confident_s"] for _, one in asked)
    assert sum(least_consumption(instance, np.ones(1)).values()) <= quickest_s * (1 + 1e-6)
    result = solve(instance)
    assert verify(instance, result).ok
    for factor in (1 + 1e-6, 1.1, 1e6):
        raised = [one.replace(bound=(one.bound or 0.0) * factor) for one in result.certificates]
        assert not raised or not verify(instance, result.replace(certificates=raised)).nothing_wrong
        for one in () if result.infeasibility is None else result.infeasibility.relaxations:
            more = one.replace(least_feasible=one.least_feasible * factor, parts={})
            claim = result.infeasibility.replace(relaxations=(more,)) if result.infeasibility else None
            assert not verify(instance, result.replace(infeasibility=claim)).nothing_wrong


@pytest.mark.parametrize("seed", range(30))
def test_the_least_cost_is_found_under_any_minimum_charge(seed: int, list_every_plan: ListPlans) -> None:
    """Against every plan: whether shorter than the deadline or many times as long, no charge hides the cheapest."""
    drawn, rng = _draw_search(100 + seed), np.random.default_rng(seed)
    cloud = {"billing": "per-instance", "minimum_charge_s": float(rng.choice([30, 300, 3000])), "most_instances": 3}
    instance = drawn.replace(cloud=drawn.cloud.replace(**cloud))
    measures = [evaluate(instance, plan).measures for plan in list_every_plan(instance)]
    usd, seconds = (np.array([one[name] for one in measures]) for name in ("expected_usd", "expected_s"))
    deadline_s = float(np.quantile(seconds, rng.random()))
    instance = instance.replace(deadline_s=deadline_s)
    for multiplier in (0.0, *(usd.max() / deadline_s * np.array([0.01, 1.0])).tolist()):
        multipliers = {"deadline": multiplier}
        allowance = float(usd.max()) - min(0.0, dual_bound(instance, multipliers))
        assert least_within(instance, multipliers, allowance) == pytest.approx(
            usd[seconds <= deadline_s].min(), rel=1e-9
        )


def _vary(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make the textbook's two stages with trials that vary by a fifth."""
    stages = [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]
    noise = {"form": "log-normal", "sd_fraction": 0.2}
    fields = {
        "experiment": {"form": "stages", "stages": stages},
        "training": {"seconds_per_iteration": {1: 10.0, 2: 6.0, 4: 4.0}, "trial_noise": noise},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "minimum_charge_s": 0.0},
        "deadline_s": 240.0,
    }
    return RubberBandInstance.parse(fields | changes)


@pytest.mark.parametrize("confidence", [0.1, 0.3, 0.5])
def test_certificates_of_the_mean_alone_prove_nothing_of_a_quantile(confidence: float) -> None:
    """A plan whose mean is late may be on time in half of the runs, for less than the best within the mean's limit."""
    instance, means = _vary(confidence=confidence), _vary()
    honest, of_means = solve(instance), solve(means)
    assert honest.objective is not None
    assert of_means.objective is not None
    assert honest.objective < of_means.objective
    forged = honest.replace(
        certificates=of_means.certificates, bound=of_means.bound, bound_proof=of_means.bound_proof, status="feasible"
    )
    assert verify(instance, honest).ok
    assert not verify(instance, forged).nothing_wrong


def test_infeasibility_of_the_mean_alone_proves_nothing_of_a_quantile() -> None:
    """No mean is below 160 s and more, but three of ten runs are done by then; what is said of means is refused."""
    refused = solve(_vary(deadline_s=160.0))
    assert refused.status is Status.INFEASIBLE
    instance = _vary(deadline_s=160.0, confidence=0.3)
    assert solve(instance).objective is not None
    assert not verify(instance, refused.replace(instance_hash=instance.content_hash())).nothing_wrong


@pytest.mark.parametrize("objective", ["cost", "time"])
def test_forged_proofs_that_no_plan_keeps_both_so_often_are_refused(objective: str) -> None:
    """A budget that is proven too low for the confidence has a certificate of its own; a percent more has none."""
    instance = _vary(objective=objective, deadline_s=260.0, budget="0.37usd", confidence=0.9)
    result = solve(instance)
    claim = result.infeasibility
    assert claim is not None
    assert verify(instance, result).ok
    helped = [one for one in claim.relaxations if one.certificate is not None]
    assert helped
    for one in helped:
        assert one.certificate is not None
        assert one.certificate.bound is not None
        more = 1.01 * one.least_feasible
        forged = one.replace(least_feasible=more, certificate=one.certificate.replace(bound=more))
        others = tuple(forged if each is one else each for each in claim.relaxations)
        assert not verify(instance, result.replace(infeasibility=claim.replace(relaxations=others))).nothing_wrong
    enough = instance.replace(budget="0.6usd")
    assert not verify(enough, result.replace(instance_hash=enough.content_hash())).nothing_wrong


def test_nothing_is_proven_where_durations_vary_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not known of the mean is not claimed, and what is claimed all the same is refused."""
    proven = solve(_vary(confidence=0.9))
    assert proven.certificates
    monkeypatch.setattr(confidence, "_MOST_DURATIONS", 1)
    instance = _vary(confidence=0.9)
    assert solve(instance).bound is None
    assert not verify(instance, proven).nothing_wrong
    assert least_consumption(instance, np.ones(1)) == {"search": 0.0}
    with pytest.raises(RefutedError, match="durations vary so much that nothing about means proves anything"):
        check_tree(instance, TreeCertificate(rule=CHARGES), Stopwatch())


def test_claims_must_make_sense() -> None:
    """Rules that do not exist, limits that are not there, and bounds of nothing are refused."""
    instance = _draw_search(1).replace(deadline_s=60.0, confidence=0.5)
    for rule in ("srift-fleets", CHARGES, BOTH):
        assert not _is_accepted(instance, rule, bound=1e-9)
        assert not _is_accepted(instance, rule, bound=1e-9, limit="budget")
    assert list_proofs(instance) == {BoundProof.LAGRANGIAN, BoundProof.ENUMERATED}
    for bound in (None, 0.0, -1.0):
        assert not _is_accepted(_charged(0.5), CHARGES, bound=bound, limit="budget")


def _charged(budget_usd: float) -> RubberBandInstance:
    instance = read_instance(CASES / "verify-without-end-infeasible.json")
    assert isinstance(instance, RubberBandInstance)
    return instance.replace(budget=f"{budget_usd!r}usd")


def test_a_budget_with_minimum_charges_is_proven_too_low() -> None:
    """The least cost, minimum charges included, is proven; a millionth more is not, and no plan is denied."""
    result = solve(_charged(0.5))
    assert result.status is Status.INFEASIBLE
    assert result.infeasibility is not None
    least = result.infeasibility.relaxations[0].least_feasible
    assert verify(_charged(0.5), result).ok
    assert _is_accepted(_charged(0.5), CHARGES)
    assert _is_accepted(_charged(0.5), CHARGES, bound=least, limit="budget")
    for factor in (1 + 1e-6, 1.1, 100.0):
        assert not _is_accepted(_charged(0.5), CHARGES, bound=least * factor, limit="budget")
        assert not _is_accepted(_charged(least * factor), CHARGES)
    assert not _is_accepted(_charged(0.5), CHARGES, bound=1e-9)
    assert solve(_charged(least)).status is Status.OPTIMAL


@pytest.mark.parametrize("name", ["verify-without-end", "verify-without-end-infeasible"])
def test_what_took_without_end_is_checked_or_left(name: str) -> None:
    """Log-normal noise of twice the mean and a long minimum charge; without time the claims are taken on trust."""
    instance = read_instance(CASES / f"{name}.json")
    result = solve(instance)
    verification = verify(instance, result)
    assert verification.nothing_wrong
    assert not any("within" in claim for claim in verification.on_trust)
    hurried = verify(read_instance(CASES / f"{name}.json"), result, time_limit_s=1e-9)
    assert hurried.nothing_wrong
    assert any("not checked within" in claim for claim in hurried.on_trust)


def test_the_judge_of_trees_looks_at_the_clock() -> None:
    """Its loops end when the time is over."""
    with pytest.raises(OutOfTime):
        check_tree(_charged(0.5), TreeCertificate(rule=CHARGES), Stopwatch(limit_s=0.0))
    instance = _vary(confidence=0.9, budget="0.37usd")
    with pytest.raises(OutOfTime):
        check_tree(instance, TreeCertificate(rule=BOTH, content={"limit": "budget"}), Stopwatch(limit_s=0.0))
