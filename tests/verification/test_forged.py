"""Forged proofs: results that claim more than anybody proved, as they were once accepted."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from optplan.contracts import BoundProof, EnumeratedCertificate, Infeasibility, Result, Solution, Status
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import least_consumption
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.instances.files import read_instance
from optplan.instances.library import build_named
from optplan.solvers.paths import TUNING
from optplan.solving import solve
from optplan.verification import verify

#: By formulation: an instance, a rival whose plan is worse than the best, and the exact solver.
WORSE = {
    "boa": ("boa-newtrace", "fixed-width", "layered-paths"),
    "rubberband": ("rubberband-resnet101-20min", "static", "held-paths"),
    "seer": ("seer-resnet18-30min", "published-seer", "spend-exact"),
    "srift": ("srift-case2", "published-cost-aware", "best-first"),
}


def forge(name: str, rival: str, exact: str, **claims: Any) -> tuple[Any, Result[Solution]]:  # noqa: ANN401 - any field
    """Return an instance, and the rival's plan under the exact solver's name, called optimal."""
    instance = build_named(name)
    worse = solve(instance, solver=rival)
    assert worse.status is Status.FEASIBLE
    forged = {"solver": exact, "status": Status.OPTIMAL, "bound": worse.objective, "certificates": ()}
    return instance, worse.replace(**forged | claims)


@pytest.mark.parametrize("proof", [BoundProof.SEARCHED, BoundProof.ENGINE])
@pytest.mark.parametrize("formulation", list(WORSE))
def test_a_relabelled_bound_is_never_taken_for_checked(formulation: str, proof: BoundProof) -> None:
    """Without certificates a worse plan is wrong or on trust: 1723.94 s was called optimal, where 1616.69 s is."""
    instance, forged = forge(*WORSE[formulation], bound_proof=proof)
    verification = verify(instance, forged)
    assert not verification.ok
    if proof is BoundProof.ENGINE:  # no solver of ours takes an engine's word
        assert "solver" in {check.family for check in verification.failures}
    else:
        assert any(claim.startswith("bound") for claim in verification.on_trust)


def test_a_bound_rests_on_a_certificate_of_the_form_that_it_names() -> None:
    """Of 2,660 s proven in one pass and 2,816.5 s by enumerating, the second is no Lagrangian bound."""
    instance = build_named("boa-two-classes")
    result = solve(instance)
    assert [certificate.form for certificate in result.certificates] == ["lagrangian", "enumerated"]
    assert verify(instance, result).ok
    forged = result.replace(bound_proof=BoundProof.LAGRANGIAN)
    (failed,) = verify(instance, forged).failures
    assert (failed.family, failed.index) == ("bound", "")
    assert failed.right == pytest.approx(2659.7, rel=1e-4)


@pytest.mark.parametrize("formulation", list(WORSE))
def test_a_certificate_of_something_else_is_refused(formulation: str) -> None:
    """The true optimum's certificates prove the true bound, and not a worse one."""
    name, rival, exact = WORSE[formulation]
    best = solve(build_named(name), solver=exact)
    assert best.status is Status.OPTIMAL
    assert best.on_trust == ()
    instance, forged = forge(name, rival, exact, certificates=best.certificates, bound_proof=best.bound_proof)
    assert "bound" in {check.family for check in verify(instance, forged).failures}


@pytest.mark.parametrize("name", ["boa-newtrace", "rubberband-two-stages", "seer-paper-example", "srift-case3"])
def test_a_feasible_instance_is_not_called_infeasible(name: str) -> None:
    """Without a proof that is on trust, and never checked."""
    instance = build_named(name)
    result = solve(instance)
    gone: dict[str, Any] = {"solution": None, "objective": None, "bound": None, "bound_proof": BoundProof.NONE}
    claim = Infeasibility(reason="no plan exists", relaxations=())
    forged = result.replace(
        **gone, status=Status.INFEASIBLE, certificates=(), measures={}, shadow_prices={}, infeasibility=claim
    )
    verification = verify(instance, forged)
    assert not verification.ok
    assert "infeasibility: it has no certificate; that no plan keeps the limits" in verification.on_trust
    with_weights = claim.replace(multipliers=dict.fromkeys(instance.limits, 1.0), factor=2.0)
    assert not verify(instance, forged.replace(infeasibility=with_weights)).nothing_wrong


@pytest.mark.parametrize("name", ["boa-two-classes", "rubberband-two-stages", "seer-paper-example", "srift-case3"])
def test_certificates_of_every_other_formulation_fail_a_check(name: str) -> None:
    """They are refused by their kind or by what they hold; the judge itself never raises."""
    instance = build_named(name)
    result = solve(instance)
    for other in ("boa-two-classes", "rubberband-resnet101-20min", "seer-resnet18-30min", "srift-case3"):
        if formulation_of(build_named(other)) is formulation_of(instance):
            continue
        for certificate in solve(build_named(other)).certificates:
            forged = result.replace(certificates=(*result.certificates, certificate))
            assert "certificate" in {check.family for check in verify(instance, forged).failures}


def test_a_sampled_loss_takes_no_bound() -> None:
    """SEER's quality is a mean over samples: a bound of training time proves nothing about it."""
    instance = build_named("seer-informed-example")
    spent = solve(build_named("seer-paper-example"), solver="published-seer")
    result = solve(instance)
    assert result.bound is None
    (certificate,) = spent.certificates
    forged = result.replace(certificates=(certificate,), bound=0.0, bound_proof=BoundProof.LAGRANGIAN)
    families = {check.family for check in verify(instance, forged).failures}
    assert {"certificate", "solver"} <= families


@pytest.mark.parametrize(
    "changes",
    [
        {"measures": {}},
        {"shadow_prices": {}},
        {"status": Status.FEASIBLE},
        {"solver": "nobody"},
        {"instance_name": "another"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_must_be_there_is_required(changes: dict[str, Any]) -> None:
    """Emptied measures, removed prices, a status that says too little, a solver that does not exist."""
    instance = build_named("boa-newtrace")
    assert not verify(instance, solve(instance).replace(**changes)).nothing_wrong


def test_without_certificates_a_bound_rests_on_the_search() -> None:
    """As asked for: and the result says so."""
    result = solve(build_named("srift-case3"), certify=False)
    assert (result.status, result.bound_proof) == (Status.OPTIMAL, BoundProof.SEARCHED)
    assert result.certificates == ()
    assert result.rests_on_trust
    assert result.on_trust == ("bound: rests on a search, which has no certificate",)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("boa-newtrace", {}),
        ("rubberband-two-stages", {}),
        ("srift-case3", {}),
        ("boa-two-classes", {"budget": "1gpu"}),
        ("srift-interruption", {"deadline_s": 1.0}),
    ],
)
def test_without_time_nothing_is_called_checked(name: str, changes: dict[str, Any]) -> None:
    """What is left when the time is over is named; what was looked at before holds."""
    instance = build_named(name).replace(**changes)
    verification = verify(instance, solve(instance), time_limit_s=1e-9)
    assert verification.nothing_wrong
    assert not verification.ok
    assert all("not checked within 1e-09 s of processor time" in claim for claim in verification.on_trust)


def test_an_allowance_is_in_proportion_to_the_best_plan_within_it() -> None:
    """A minimum charge makes plans 1,978 times as dear as the relaxation; nobody else proves so much."""
    data = {
        "formulation": "rubberband",
        "experiment": {"form": "sha", "trials": 8, "least_iterations": 2, "most_iterations": 16, "eta": 4},
        "training": {
            "seconds_per_iteration": {
                "form": "scaled",
                "base_s": 0.134,
                "speedup": {"form": "amdahl", "serial_fraction": 0.1},
            },
            "most_gpus": 2,
            "iteration_noise": {"form": "log-normal", "sd_fraction": 0.3},
            "trial_noise": {"form": "log-normal", "sd_fraction": 0.3},
        },
        "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 14.6, "minimum_charge_s": 3600.0, "most_instances": 16},
        "objective": "cost",
        "deadline_s": 1.76,
        "confidence": 0.99,
    }
    instance = RubberBandInstance.parse(data)
    result = solve(instance)
    assert result.objective is None
    assert verify(instance, result).ok
    *others, enumerated = result.certificates
    assert isinstance(enumerated, EnumeratedCertificate)
    for optimum, bound in ((None, 14.61), (1e6, 1e6)):
        certificate = enumerated.replace(optimum=optimum, bound=bound, allowance=max(bound, enumerated.allowance))
        forged = result.replace(certificates=[*others, certificate], bound=bound)
        assert "certificate" in {check.family for check in verify(instance, forged).failures}


def test_a_divided_proof_claims_no_more_than_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 % above the least budget each path of one class is looked at apart; what claims more by that is refused."""
    monkeypatch.setattr("optplan.solvers.paths.single.TUNING", replace(TUNING, labels_undivided=0, labels_of_sides=1e9))
    instance = read_instance("boa-filtertrace", BoaInstance)
    least = sum(least_consumption(instance, np.ones(1)).values())
    instance = instance.replace(budget=f"{1.02 * least!r}gpu")
    result = solve(instance)
    *others, proof = result.certificates
    assert isinstance(proof, EnumeratedCertificate)
    assert proof.divided
    assert result.bound == proof.optimum == pytest.approx(result.objective, rel=1e-12)
    assert verify(instance, result).ok
    worse = solve(instance.replace(budget=f"{1.015 * least!r}gpu"))
    assert worse.objective is not None
    objective = worse.objective
    assert objective > 1.0005 * proof.bound
    more = {"optimum": objective, "bound": objective, "allowance": objective}
    further = [(), proof.further, ({"budget": 0.0},), ({"budget": 1e300},)]
    names = [proof.divided, tuple(instance.classes)[::-1]]
    for multipliers, divided in product(further, names):
        forged = proof.replace(**more, further=multipliers, divided=divided)
        plan = {"solution": worse.solution, "objective": objective, "bound": objective}
        claimed = result.replace(**plan, certificates=(*others, forged))
        assert "certificate" in {check.family for check in verify(instance, claimed).failures}
        # What is true stays proven, however little the multipliers help.
        assert verify(instance, result.replace(certificates=(*others, proof.replace(further=multipliers)))).ok
    for wrong, words in (
        ({"divided": ("nobody",)}, "classes are divided once each"),
        ({"divided": proof.divided * 2}, "classes are divided once each"),
        ({"further": ({"budget": 1e308},)}, "multipliers that leave a bound"),
        ({"further": ({"quota": 1.0},)}, "must name exactly"),
    ):
        failures = verify(instance, result.replace(certificates=(*others, proof.replace(**wrong)))).failures
        assert any(words in check.message for check in failures)
