"""What the judge makes of bounds that lie above the objective."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import BoundProof, LagrangianCertificate, Result, Solution
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
        ({"bound": 79.0}, "bound: a bound called lagrangian must follow from the result's certificates"),
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
    assert "certificate: multipliers such as these prove no bound" in failed(example, result)
