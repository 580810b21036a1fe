"""The judge of measured speeds: broken choices, and forged proofs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import BoundProof, Result, Solution, Status, TreeCertificate
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.judge import evaluate
from optplan.solving import solve
from optplan.verification import verify

MakeInstance = Callable[..., ThroughputsInstance]
_RULE = "throughputs-enumeration"


@pytest.mark.parametrize(
    ("choice", "broken"),
    [
        (("small", 4, ""), set()),
        (("none", 4, ""), {"type", "measured"}),
        (("small", 3, ""), {"measured"}),
        (("small", 4, "dp8"), {"measured"}),
        (("large", 2, "tp8 pp2"), {"availability", "budget"}),  # one can be had; 6 usd
        (("small", 1, ""), {"deadline"}),  # 10 h
    ],
)
def test_each_broken_rule_is_named(make_instance: MakeInstance, choice: tuple[str, int, str], broken: set[str]) -> None:
    """By its family, and no other."""
    types = {
        "small": {"price_usd_per_hour": 0.5},
        "large": {"price_usd_per_hour": 3.0, "gpus": 8, "available": 1},
    }
    instance = make_instance(types=types, deadline_s="3h", budget="5.9usd")
    name, vms, configuration = choice
    judged = evaluate(instance, ThroughputsSolution(type=name, vms=vms, configuration=configuration))
    assert {check.family for check in judged.checks if not check.holds} == broken


def test_interpolation_ends_where_measurements_end(make_instance: MakeInstance) -> None:
    """Three VMs lie between two and four, at 270 samples a second; five lie beyond."""
    instance = make_instance(interpolate=True)
    between = evaluate(instance, ThroughputsSolution(type="small", vms=3))
    assert (between.measures["samples_per_s"], between.measures["is_interpolated"]) == (270.0, 1.0)
    beyond = evaluate(instance, ThroughputsSolution(type="small", vms=5))
    assert [check.family for check in beyond.checks if not check.holds] == ["measured"]


def _forge(instance: ThroughputsInstance, **claims: Any) -> Result[Solution]:  # noqa: ANN401 - any field
    """Return the result of a worse choice, four small VMs, that calls it optimal."""
    best = solve(instance)
    worse = ThroughputsSolution(type="small", vms=4)
    judged = evaluate(instance, worse)
    forged: dict[str, Any] = {
        "solution": worse,
        "objective": judged.objective,
        "measures": judged.measures,
        "bound": judged.objective,
        "certificates": (TreeCertificate(rule=_RULE, bound=judged.objective),),
    }
    return best.replace(**forged | claims)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({}, "1 small keeps the limits, with 5"),
        ({"certificates": (TreeCertificate(rule="srift-fleets", bound=5.0),)}, "are read by the rule"),
        ({"certificates": (TreeCertificate(rule=_RULE, bound=5.0, content={"x": 1}),)}, "content must be empty"),
    ],
)
def test_forged_optima_are_refuted(make_instance: MakeInstance, claims: dict[str, Any], message: str) -> None:
    """By the choice that is better, or by what the certificate lacks."""
    instance = make_instance()
    verification = verify(instance, _forge(instance, **claims))
    assert any(message in check.message for check in verification.failures)
    trusted = _forge(instance, certificates=(), bound_proof=BoundProof.SEARCHED)
    assert any(claim.startswith("bound") for claim in verify(instance, trusted).on_trust)


def test_forged_infeasibility_is_refuted(make_instance: MakeInstance) -> None:
    """A feasible instance is not called infeasible, no relaxation claims too much, and none is called hopeless."""
    tight, loose = make_instance(deadline_s=3000), make_instance(deadline_s=4000)
    told = solve(tight)
    assert told.status is Status.INFEASIBLE
    assert verify(tight, told).ok
    assert not verify(loose, told.replace(instance_hash=loose.content_hash())).nothing_wrong
    found = told.infeasibility
    assert found is not None
    (one,) = found.relaxations
    more = one.replace(least_feasible=3700.0, certificate=TreeCertificate(rule=_RULE, bound=3700.0, limit="deadline"))
    forged = found.replace(relaxations=(more,), reason=found.reason.replace("3,600", "3,700"))
    failures = verify(tight, told.replace(infeasibility=forged)).failures
    assert any("2 large tp8 pp2 keeps the limits, with 3600" in check.message for check in failures)
    unknown = more.replace(certificate=TreeCertificate(rule=_RULE, bound=3700.0, limit="budget"))
    forged = forged.replace(relaxations=(unknown,))
    assert not verify(tight, told.replace(infeasibility=forged)).nothing_wrong
