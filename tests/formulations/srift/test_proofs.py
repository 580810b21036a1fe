"""Results as a whole: solver and judge find each other's errors, and nothing forged holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optplan import solve, verify
from optplan.contracts import Result, Solution, Verification
from optplan.contracts.result import BoundProof, Infeasibility, LagrangianCertificate, Status
from optplan.errors import VerificationError
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.bounds import bound_training
from optplan.formulations.srift.exact.goals import FleetJudge, JudgedFleet
from optplan.formulations.srift.judge.bounds import Needs, StragglerFloor
from optplan.formulations.srift.judge.evaluation import measure_fleet
from optplan.formulations.srift.judge.exchanges import Group
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray

DrawInstance = Callable[[int], SriftInstance]
Golden = Callable[[str], SriftInstance]
#: What is asked of the paper's cases.
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("case1", {}),
    ("case2", {"one_batch_per_type": False}),
    ("case3", {}),
    ("case3", {"deadline_s": 300.0}),
    ("case3", {"deadline_s": 375.0, "budget": "2.7usd"}),
    ("case1", {"global_batch": 1025}),
    ("case3", {"global_batch": 6145}),
    ("interruption", {"objective": "time", "budget": "0.4usd"}),
    ("interruption-replan", {}),
    ("resnet50-aws", {}),
    ("spot-or-on-demand", {}),
    ("spot-or-on-demand", {"deadline_s": 3600.0}),
)


@pytest.mark.parametrize(("name", "changes"), QUESTIONS)
def test_nothing_is_on_trust(golden: Golden, name: str, changes: dict[str, Any]) -> None:
    """Optimum, infeasibility, relaxations, and that no relaxation helps: all of it is checked."""
    instance = golden(name).replace(**changes)
    verification = verify(instance, solve(instance))
    assert verification.ok
    assert not verification.on_trust


@pytest.mark.parametrize("solver", ["highs", "published-cost-aware"])
def test_infeasibility_is_proven_whoever_finds_it(golden: Golden, solver: str) -> None:
    """Also the paper's planners hand on the exact search's certificate."""
    instance = golden("case3").replace(deadline_s=300.0)
    result = solve(instance, solver=solver)
    assert result.status is Status.INFEASIBLE
    assert verify(instance, result).ok


def test_a_wrong_price_of_the_solver_is_noticed(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its fleets take or cost a thousandth more than the judge says; a thousandth less leaves a gap of that."""
    honest = FleetJudge.judge
    for field in ("time_s", "cost_usd"):
        for factor in (0.999, 1.001):

            def price(self: FleetJudge, groups: Any, field: str = field, factor: float = factor) -> JudgedFleet:  # noqa: ANN401
                found = honest(self, groups)
                changed = replace(found, **{field: getattr(found, field) * factor})
                cheapest = self.instance.objective.value == "cost"
                return replace(changed, objective=changed.cost_usd if cheapest else changed.time_s)

            monkeypatch.setattr(FleetJudge, "judge", price)
            instance = golden("case1").replace(objective="time" if field == "time_s" else "cost")
            if factor > 1:
                with pytest.raises(VerificationError):
                    solve(instance)
            else:
                assert solve(instance).status is Status.FEASIBLE


def test_bounds_of_the_solver_that_are_too_high_are_noticed(
    draw_instance: DrawInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they lose, the judge does not believe that it is not there."""
    lost = 0
    optima = {seed: solve(draw_instance(seed)) for seed in range(100)}

    def exaggerate(*asked: Any) -> tuple[FloatArray, FloatArray]:  # noqa: ANN401
        total_s, billed_s = bound_training(*asked)
        return total_s * 2, billed_s * 2

    for module in ("branches", "search"):
        monkeypatch.setattr(f"optplan.formulations.srift.exact.{module}.bound_training", exaggerate)
    for seed, optimum in optima.items():
        result = solve(draw_instance(seed), check=False)
        if result.objective != optimum.objective:
            lost += 1
            assert not verify(draw_instance(seed), result).nothing_wrong
    assert lost >= 2


@pytest.mark.parametrize("field", ["time_s", "cost_usd"])
def test_a_wrong_price_of_the_judge_shows(golden: Golden, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """A true result then fails, by its objective, its measures, or the fleet that refutes its bound."""
    instance = golden("case1").replace(objective="time" if field == "time_s" else "cost")
    result = solve(instance)

    def underestimate(model: IterationModel, groups: Sequence[VmGroup]) -> dict[str, float]:
        return {name: 0.999 * value for name, value in measure_fleet(model, groups).items()}

    monkeypatch.setattr("optplan.formulations.srift.judge.parts.measure_fleet", underestimate)
    assert any(check.family == "certificate" for check in verify(instance, result).failures)


@pytest.mark.parametrize(("part", "method"), [(StragglerFloor, "seconds"), (Group, "iteration_s"), (Needs, "least")])
def test_bounds_of_the_judge_that_are_too_low_show(
    draw_instance: DrawInstance, golden: Golden, monkeypatch: pytest.MonkeyPatch, part: type, method: str
) -> None:
    """True certificates then prove nothing, in one of several cases at least."""
    instances = [golden(name) for name in ("case3", "resnet50-aws", "spot-or-on-demand")]
    instances += [draw_instance(seed) for seed in range(100)]
    results = [(instance, solve(instance)) for instance in instances]
    honest = getattr(part, method)
    monkeypatch.setattr(part, method, lambda self, *asked, **more: 0.2 * honest(self, *asked, **more))
    assert not all(verify(instance, result).nothing_wrong for instance, result in results)


def test_a_feasible_instance_cannot_be_called_infeasible(golden: Golden) -> None:
    """Neither with an empty tree, nor with that of another instance, nor with any missing relaxation."""
    instance = golden("case3")
    true = solve(instance)
    infeasible = solve(instance.replace(deadline_s=300.0)).infeasibility
    assert infeasible is not None
    empty = infeasible.replace(reason="no fleet exists", relaxations=(), hopeless=())
    for claim in (infeasible, empty, empty.replace(certificate=None)):
        assert not _relabel(instance, true, claim).ok
    free = instance.replace(deadline_s=None, budget=None)
    nothing = Infeasibility(reason="no fleet exists", relaxations=())
    assert _relabel(free, solve(free), nothing).on_trust
    assert not _relabel(free, solve(free), nothing.replace(certificate=infeasible.certificate)).nothing_wrong


def _relabel(instance: SriftInstance, result: Result[Solution], claim: Infeasibility) -> Verification:
    """Verify a result of which somebody says that there is none."""
    none: dict[str, Any] = {
        "solution": None,
        "objective": None,
        "bound": None,
        "bound_proof": "none",
        "certificates": (),
        "measures": {},
    }
    return verify(instance, result.replace(status="infeasible", infeasibility=claim, **none))


def test_certificates_of_other_kinds_fail_a_check(golden: Golden) -> None:
    """Multipliers prove nothing about fleets, and neither does a tree about something else; no error is raised."""
    instance = golden("case3")
    result = solve(instance)
    (tree,) = result.certificates
    other = LagrangianCertificate(multipliers={"deadline": 0.0, "budget": 0.0}, bound=result.bound or 0.0)
    for forged in (
        result.replace(certificates=(other,)),
        result.replace(certificates=(other,), bound_proof=BoundProof.LAGRANGIAN),
        result.replace(certificates=(tree.replace(rule="seer-rows"),)),
        result.replace(certificates=(tree.replace(limit="deadline"),)),
        result.replace(certificates=()),
        result.replace(bound=(result.bound or 0.0) * (1 - 1e-7), certificates=(tree, other)),
    ):
        verification = verify(instance, forged)
        assert not verification.nothing_wrong or verification.on_trust
        assert not verification.ok


def test_a_verification_is_over_in_time(golden: Golden) -> None:
    """What cannot be checked in the time given is named, and taken on trust."""
    verification = verify(golden("case3"), solve(golden("case3")), time_limit_s=0.0)
    assert verification.nothing_wrong
    assert "not checked within 0 s of processor time" in verification.on_trust[0]
    assert np.isfinite(verification.seconds)
