"""The line where a limit ends: plans and least consumptions an ulp to either side of it, limits of nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Result, Solution, Status
from optplan.formulations import formulation_of
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.description import describe
from optplan.instances.generators import random_boa
from optplan.solving import solve
from optplan.units import Amount
from optplan.verification import verify

CASES = Path(__file__).parents[2] / "cases"
POLICIES = ("pure", "mixed")


def read_case(name: str, **changes: object) -> BoaInstance:
    """Return an input that broke something once."""
    return BoaInstance.parse(json.loads((CASES / f"{name}.json").read_text()) | changes)


def solvers_of(instance: BoaInstance, *, exact: bool = True) -> list[str]:
    """Return the solvers that take an instance."""
    told = describe(instance)
    entries = formulation_of(instance).solvers
    return [entry.name for entry in entries if entry.refusal(instance, told) is None and (entry.exact or not exact)]


def solve_by_all(instance: BoaInstance) -> dict[str, Result[Solution]]:
    """Solve by every exact solver; what is returned has passed the judge."""
    return {name: solve(instance, solver=name, time_limit_s=60.0) for name in solvers_of(instance)}


@pytest.mark.parametrize(
    ("name", "objectives"),
    [
        # The plan's use is the budget times 1 + 1e-9, but for an ulp.
        ("budget-an-ulp-below-a-plan", {"pure": 1220.0, "mixed": 1220.0}),
        ("budget-an-ulp-below-a-plan-2", {"pure": 225.0, "mixed": 225.0}),
        # The least consumption is an ulp above the budget.
        ("budget-an-ulp-below-the-least", {"pure": 5546.935, "mixed": 5546.935}),
    ],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_an_ulp_at_the_line_is_within_the_limit(name: str, objectives: dict[str, float], policy: str) -> None:
    """Every exact solver finds the plan on the line, nothing is called infeasible, and nothing fails the judge."""
    instance = read_case(name, policy=policy)
    for solver, result in solve_by_all(instance).items():
        assert result.objective == pytest.approx(objectives[policy], rel=1e-6), solver
        assert result.bound is not None
        assert result.bound <= objectives[policy] * (1 + 1e-6), solver
        assert verify(instance, result).nothing_wrong


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    ulps=st.integers(-3, 3),
    line=st.sampled_from([1.0, 1.0 - 1e-9, 1.0 / (1.0 + 1e-9), 1.0 + 1e-12]),
    policy=st.sampled_from(POLICIES),
)
def test_budgets_around_the_line_never_fail(seed: int, ulps: int, line: float, policy: str) -> None:
    """With a budget an ulp or two from a plan's use, or from 1e-9 below it, two engines agree and the judge does."""
    instance = random_boa(classes=2, epochs=2, widths=3, seed=seed).replace(policy=policy)
    used = 1.3 * sum(c.arrival_rate_per_hour * c.size_gpu_hours for c in instance.classes.values())
    plan = solve(instance.replace(budget=Amount(used, instance.budget_unit), policy="pure"), solver="layered-paths")
    if plan.solution is None:
        return
    budget = plan.measures["gpus"] * line
    for _ in range(abs(ulps)):
        budget = math.nextafter(budget, math.copysign(math.inf, ulps))
    asked = instance.replace(budget=Amount(budget, instance.budget_unit))
    found = [solve(asked, solver=solver) for solver in ("layered-paths", "linked-paths", "highs")]
    assert all(result.status is Status.OPTIMAL for result in found)
    values = [result.objective for result in found if result.objective is not None]
    assert values[:2] == pytest.approx([values[0]] * 2, rel=1e-6)
    # The general engine has a tolerance of its own, which may be less.
    assert values[2] >= values[0] * (1 - 1e-6)
