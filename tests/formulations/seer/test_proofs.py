"""What the judge makes of bounds that lie above the objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import BoundProof, LagrangianCertificate, Result, Solution, Status
from optplan.contracts.result import EnumeratedCertificate
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.solving import solve
from optplan.verification import verify

BUDGET_ONLY = {"budget": 1.0, "deadline": 0.0}


def failed(instance: SeerInstance, result: Result[Solution]) -> set[str]:
    """Return the families and messages of the checks that fail."""
    return {f"{check.family}: {check.message}" for check in verify(instance, result).failures}


def test_the_budget_s_certificate_is_derived_again(example: SeerInstance) -> None:
    """Of the published plan, too: nothing about its bound is taken on trust."""
    result = solve(example, solver="published-seer")
    verification = verify(example, result)
    assert verification.ok
    assert result.gap == pytest.approx(80 / (480 / 7) - 1)
    assert verification.on_trust == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # Less than the budget is not proven: 79 < 80.
        ({"bound": 79.0}, "bound: a bound called lagrangian must follow from the result's certificates of that form"),
        ({"bound": 81.0}, "bound: the bound must be the best one of the result's certificates"),
        (
            {"certificates": (LagrangianCertificate(multipliers=BUDGET_ONLY, bound=79.0),)},
            "certificate: the certificate must prove exactly the bound that it states",
        ),
        (
            {"certificates": (LagrangianCertificate(multipliers={"budget": 0.9, "deadline": 0.0}, bound=80.0),)},
            "certificate: multipliers such as these prove no bound",
        ),
        (
            {
                "certificates": (EnumeratedCertificate(multipliers=BUDGET_ONLY, allowance=1.0, bound=80.0),),
                "bound_proof": BoundProof.ENUMERATED,
            },
            "certificate: a certificate of the form enumerated proves nothing about this problem",
        ),
        (
            {"certificates": (), "bound_proof": BoundProof.SEARCHED, "bound": 60.0},
            "bound: no bound can lie below the objective",
        ),
    ],
)
def test_false_claims_are_caught(example: SeerInstance, changes: dict[str, Any], message: str) -> None:
    """Each by its own check."""
    result = solve(example, solver="published-seer").replace(**changes)
    assert message in failed(example, result)


def test_a_bound_without_a_plan_needs_a_proof(example: SeerInstance) -> None:
    """Multipliers that prove nothing do not pass because there is no objective to compare with."""
    found = solve(example, solver="published-seer")
    certificate = LagrangianCertificate(multipliers={"budget": 0.5, "deadline": 0.0}, bound=40.0)
    fields: dict[str, Any] = {"solution": None, "objective": None, "measures": {}, "status": "unknown", "bound": 40.0}
    result = found.replace(**fields, certificates=(certificate,))
    wrong = "bound: a bound called lagrangian must follow from the result's certificates of that form"
    assert wrong in failed(example, result)


#: All trials end at once where the drawing says.
PRIOR: dict[str, Any] = {
    "form": "parametric",
    "start_loss": 1.0,
    "terminal_low_loss": 0.0,
    "terminal_high_loss": 1.0,
    "rate_low_per_min": 1e4,
    "rate_high_per_min": 1e4,
    "scaling": {"gpus": [1], "speedup": [1.0]},
    "samples": 20,
}


@pytest.mark.parametrize("form", ["lagrangian", "tree"])
def test_no_certificate_is_about_a_loss(make_instance: Callable[..., SeerInstance], form: str) -> None:
    """What bounds GPU-minutes of training bounds no expected loss, whatever figure it states."""
    spend = make_instance(deadline_min=7, budget="29gpu-min", resize_s=20)
    instance = spend.replace(objective="quality", prior=PRIOR)
    found = solve(instance, solver="published-seer")
    assert found.bound is None
    (tree,) = solve(spend).certificates
    multiplied = LagrangianCertificate(multipliers=BUDGET_ONLY, bound=0.0)
    certificate = {"lagrangian": multiplied, "tree": tree}[form]
    forged = found.replace(bound=0.0, bound_proof=form, certificates=(certificate.replace(bound=0.0),))
    message = f"certificate: a certificate of the form {form} proves nothing about this problem"
    assert message in failed(instance, forged)


def test_the_informed_search_claims_nothing(make_instance: Callable[..., SeerInstance]) -> None:
    """It has neither a bound nor anything on trust."""
    instance = make_instance(objective="quality", prior=PRIOR)
    result = solve(instance, solver="informed")
    assert (result.status, result.bound, result.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)
    assert verify(instance, result).ok


def test_a_search_that_cannot_spend_everything_is_proven(make_instance: Callable[..., SeerInstance]) -> None:
    """With pauses no choice of trials meets the budget; the lists prove that none trains for longer."""
    instance = make_instance(deadline_min=7, budget="29gpu-min", resize_s=20)
    result = solve(instance)
    assert (result.status, result.bound_proof, result.bound) == (Status.OPTIMAL, BoundProof.TREE, result.objective)
    verification = verify(instance, result)
    assert verification.ok
    assert verification.on_trust == ()
    assert result.objective is not None
    for share in (1e-6, 1e-3, 0.1):
        lower = result.objective * (1 - share)
        forged = result.replace(
            bound=lower, certificates=tuple(each.replace(bound=lower) for each in result.certificates)
        )
        assert any(text.startswith("certificate: the certificate does not prove") for text in failed(instance, forged))


@pytest.mark.parametrize(
    "fields", [{"deadline_min": 0.9}, {"budget": "0.9gpu-min"}, {"deadline_min": 0.5, "budget": "0.5gpu-min"}]
)
def test_that_nothing_fits_is_proven_and_so_is_what_helps(
    make_instance: Callable[..., SeerInstance], fields: dict[str, Any]
) -> None:
    """Nothing is on trust; a relaxation that asks for too little, and a limit that is said not to help, are refused."""
    instance = make_instance(**fields)
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert verify(instance, result).ok
    claim = result.infeasibility
    assert claim is not None
    assert {one.limit for one in claim.relaxations} | {one.limit for one in claim.hopeless} == {"budget", "deadline"}
    changed = claim.replace(factor=claim.factor * 1.01)
    assert not verify(instance, result.replace(infeasibility=changed)).ok
    for relaxation in claim.relaxations:
        less = relaxation.replace(least_feasible=relaxation.least_feasible * 0.99)
        assert not verify(instance, result.replace(infeasibility=claim.replace(relaxations=(less,)))).ok
    for hopeless in claim.hopeless:
        (other,) = {"budget", "deadline"} - {hopeless.limit}
        wrong = hopeless.replace(limit=other, multipliers={hopeless.limit: 1.0, other: 0.0})
        assert not verify(instance, result.replace(infeasibility=claim.replace(hopeless=(wrong,)))).ok


@pytest.mark.parametrize(("limit", "least"), [("deadline", 1.7), ("budget", 3.4)])
@pytest.mark.parametrize("steps", range(-3, 4))
def test_limits_an_ulp_from_the_least_have_one_answer(
    make_instance: Callable[..., SeerInstance], limit: str, least: float, steps: int
) -> None:
    """A relative 1e-9 below what one trial needs is the last amount that is enough; all around it verify."""
    amount = least / (1 + 1e-9)
    for _ in range(abs(steps)):
        amount = math.nextafter(amount, math.copysign(math.inf, steps))
    fields: dict[str, Any] = {"least_round_min": 1.7, "least_gpus": 2}
    fields |= {"deadline_min": amount} if limit == "deadline" else {"budget": f"{amount!r}gpu-min"}
    instance = make_instance(**fields)
    result = solve(instance)
    assert verify(instance, result).ok
    assert (result.status is Status.INFEASIBLE) == (least > amount * (1 + 1e-9))
