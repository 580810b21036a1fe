"""What proves what: certificates of one kind of plan say nothing of another, and forged prices are caught."""

from __future__ import annotations

import pytest

from optplan.contracts import BoundProof, Result, Solution, Status
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import list_proofs
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.verification import verify


def of_library(name: str, **changes: object) -> BoaInstance:
    """Return a library instance with changes."""
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        ({"policy": "pure"}, True),
        ({"policy": "mixed"}, False),
        ({"problem": "whole", "policy": "pure"}, True),
        ({"problem": "whole", "policy": "mixed"}, False),
        ({"problem": "continuous", "policy": "pure"}, False),
        ({"problem": "continuous", "policy": "mixed"}, False),
    ],
)
def test_only_pure_whole_plans_can_be_listed(changes: dict[str, str], listed: bool) -> None:
    """Enumerations and divisions prove something about pure plans on whole GPUs; multipliers about all."""
    expected = {BoundProof.LAGRANGIAN} | ({BoundProof.ENUMERATED, BoundProof.TREE} if listed else set())
    assert list_proofs(of_library("boa-two-classes", **changes)) == expected


def test_a_pure_optimum_is_no_bound_on_mixtures() -> None:
    """The pure optimum of boa-two-epochs, 14,580 s, with its certificate is refused as a mixed one (12,264.6 s)."""
    pure, mixed = of_library("boa-two-epochs", policy="pure"), of_library("boa-two-epochs", policy="mixed")
    own, true = solve(pure), solve(mixed)
    assert own.objective == pytest.approx(14_580.0)
    assert true.objective == pytest.approx(12_264.6, abs=0.05)
    assert "enumerated" in [certificate.form for certificate in own.certificates]
    forged = own.replace(instance_hash=true.instance_hash, instance_name=true.instance_name)
    failed = verify(mixed, forged).failures
    assert any("proves nothing about this problem" in check.message for check in failed)


def at_the_least(**changes: object) -> tuple[BoaInstance, Result[Solution]]:
    """Return boa-two-classes at a budget of exactly the least consumption, and a result without a solution for it."""
    instance = of_library("boa-two-classes", budget="6.1499999999999995gpu")
    result = solve(instance)
    assert result.objective == pytest.approx(7380.0)
    gone: dict[str, object] = {"solution": None, "objective": None, "measures": {}, "shadow_prices": {}}
    fields = gone | {"status": Status.UNKNOWN}
    return instance, result.model_copy(update=fields | changes)


@pytest.mark.parametrize("multiplier", [1e10, 1e14, 1e18, 1e100])
def test_no_multiplier_out_of_proportion_buys_a_bound(multiplier: float) -> None:
    """Without a solution, too: at the least budget 1e18 s per GPU proved 1.2e10 s, and the optimum is 7,380 s."""
    (certificate,) = [c for c in solve(at_the_least()[0]).certificates if c.form == "lagrangian"]
    for bound in (7381.0, 8000.0, 1.2e10):
        forged = certificate.replace(multipliers={"budget": multiplier}, bound=bound)
        update = {"bound": bound, "certificates": (forged,), "bound_proof": BoundProof.LAGRANGIAN}
        assert verify(*at_the_least(**update)).failures


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["budget", "quota.rtx-2080-ti", "quota.a100"])
@pytest.mark.parametrize("end", ["less", "more"])
@pytest.mark.parametrize("price", [0.0, 1e308])
def test_a_forged_price_is_caught(limit: str, end: str, price: float) -> None:
    """With several limits, a price that is none fails with its multipliers as they are, forged as well, or left out."""
    instance = of_library("boa-newtrace-quotas", policy="mixed")
    result = solve(instance)
    assert verify(instance, result).ok
    true = result.shadow_prices[limit]
    for multipliers in (
        getattr(true, f"{end}_multipliers"),
        getattr(true, f"{end}_multipliers") | {limit: price},
        dict.fromkeys(instance.limits, price),
        {},
    ):
        forged = true.model_copy(update={end: price, f"{end}_multipliers": multipliers})
        changed = result.replace(shadow_prices=result.shadow_prices | {limit: forged})
        assert not verify(instance, changed).ok
