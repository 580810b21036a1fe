"""Trees: what is true is accepted, what is too good is not, and no content breaks the judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import BoundProof, EnumeratedCertificate, Status, TreeCertificate
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.data.rules import CHARGES, LABELS
from optplan.formulations.rubberband.judge.completion import on_time_probability
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.judge.trees import check_tree, list_proofs
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


def _is_accepted(instance: RubberBandInstance, rule: str = LABELS, **claim: Any) -> bool:  # noqa: ANN401
    try:
        check_tree(instance, TreeCertificate(rule=rule, **claim), Stopwatch())
    except RefutedError:
        return False
    return True


@pytest.mark.parametrize("seed", range(30))
def test_no_forged_bound_of_a_confidence_is_accepted(seed: int, list_every_plan: ListPlans) -> None:
    """Against every plan: the true optimum is proven, none too high by 1e-6, 1e-3, a tenth, or more, on any grid."""
    instance, rng = _draw_search(seed), np.random.default_rng(seed)
    plans = list_every_plan(instance)
    measures = [evaluate(instance, plan).measures for plan in plans]
    usd = np.array([one["expected_usd"] for one in measures])
    deadline_s = float(np.quantile([one["expected_s"] for one in measures], rng.random()))
    instance = instance.replace(deadline_s=deadline_s, confidence=float(rng.choice([0.02, 0.5, 0.9])))
    assert list_proofs(instance) == {BoundProof.TREE}
    wanted = (instance.confidence or 0.0) - 1e-6
    chances = np.array([on_time_probability(instance, plan, deadline_s) for plan in plans])
    best = usd[chances >= wanted].min(initial=math.inf)
    result = solve(instance)
    verification = verify(instance, result)
    assert verification.ok
    if result.status is Status.INFEASIBLE:
        assert best == math.inf
        quickest_s = min(evaluate(instance, plan).measures["confident_s"] for plan in plans)
        for factor in (1.001, 1.1, 10.0):
            assert not _is_accepted(instance, bound=factor * quickest_s, limit="deadline", content={"points": 256})
        return
    assert result.bound == pytest.approx(best, rel=1e-6)
    for points in (2, 7, 64, 512):
        for factor in (1 + 1e-6, 1 + 1e-3, 1.1, 1e6):
            assert not _is_accepted(instance, bound=best * factor, content={"points": points})
        assert not _is_accepted(instance, content={"points": points})
    assert _is_accepted(instance, bound=best * (1 - 1e-6), content={"points": 2048})


JUNK: list[dict[str, Any]] = [
    {},
    {"points": None},
    {"points": True},
    {"points": 64.0},
    {"points": "64"},
    {"points": [64]},
    {"points": {"points": 64}},
    {"points": -5},
    {"points": 1},
    {"points": 10**30},
    {"points": 1e300},
    {"point": 64},
]


@pytest.mark.parametrize("content", JUNK, ids=str)
def test_junk_proves_nothing(content: dict[str, Any]) -> None:
    """Whatever stands in a certificate, the judge refuses it and does nothing else."""
    instance = _draw_search(1).replace(deadline_s=60.0, confidence=0.5)
    for claim in ({"bound": 1e-9}, {"bound": None}, {"bound": 1.0, "limit": "deadline"}):
        assert not _is_accepted(instance, content=content, **claim)


def test_claims_must_make_sense() -> None:
    """Rules that do not exist, limits that are not there, and bounds of nothing are refused."""
    instance = _draw_search(1).replace(deadline_s=60.0, confidence=0.5)
    points = {"points": 64}
    assert _is_accepted(instance, bound=1e-9, content=points)
    assert not _is_accepted(instance, "srift-fleets", bound=1e-9, content=points)
    assert not _is_accepted(instance, CHARGES, bound=1e-9, content=points)
    assert not _is_accepted(instance, bound=1e-9, limit="budget", content=points)
    for bound in (None, 0.0, -1.0):
        assert not _is_accepted(instance, bound=bound, limit="deadline", content=points)
    assert not _is_accepted(instance, bound=-1.0, content=points)
    of_means = instance.replace(confidence=None)
    assert list_proofs(of_means) == {BoundProof.LAGRANGIAN, BoundProof.ENUMERATED}
    assert not _is_accepted(of_means, bound=1e-9, content=points)


def test_certificates_about_the_mean_prove_nothing_of_a_quantile() -> None:
    """Below the mean's quantile they exclude cheaper plans (issue 10): 0.5461 was accepted, 0.4864 is the optimum."""
    instance = RubberBandInstance.parse(
        {
            "experiment": {
                "form": "stages",
                "stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}],
            },
            "training": {
                "seconds_per_iteration": {1: 10.0, 2: 6.0, 4: 4.0},
                "trial_noise": {"form": "log-normal", "sd_fraction": 0.8},
            },
            "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
            "deadline_s": 240.0,
            "confidence": 0.02,
        }
    )
    honest, of_mean = solve(instance), solve(instance.replace(confidence=None, deadline_s=400.0))
    assert verify(instance, honest).ok
    bound = 1.1 * (honest.objective or 0.0)
    certificate = EnumeratedCertificate(multipliers={"deadline": 0.0}, allowance=1.0, optimum=bound, bound=bound)
    forged = of_mean.replace(
        instance_hash=instance.content_hash(), certificates=(certificate,), bound_proof=BoundProof.ENUMERATED
    )
    messages = [check.message for check in verify(instance, forged).failures]
    assert "a certificate of the form enumerated proves nothing about this problem" in messages


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


def test_the_judge_of_labels_looks_at_the_clock() -> None:
    """Its loops end when the time is over."""
    instance = _draw_search(1).replace(deadline_s=60.0, confidence=0.5)
    with pytest.raises(OutOfTime):
        check_tree(instance, TreeCertificate(rule=LABELS, bound=1.0, content={"points": 64}), Stopwatch(limit_s=0.0))
