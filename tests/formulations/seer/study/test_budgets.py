"""What other budgets buy: each one spent exactly, and all of them judged."""

from __future__ import annotations

import pytest

from optplan.contracts import SolveRequest
from optplan.formulations.seer.data.instance import BUDGET, SeerInstance, SeerSolution
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.study.frontiers import BUDGET_STEPS, build_pareto, plan_amounts
from optplan.progress import Stopwatch
from optplan.solving import solve


def test_each_budget_is_spent_as_if_it_were_asked_for(example: SeerInstance) -> None:
    """The same plan as the instance with that budget has, and no check of the judge fails."""
    for step, point in zip(
        (0.5, 1.0, 2.0), plan_amounts(example, BUDGET, (0.5, 1.0, 2.0), SolveRequest()), strict=True
    ):
        asked = example.replace(budget=f"{80 * step}gpu-min")
        assert isinstance(point.solution, SeerSolution)
        assert point.solution == solve(asked).solution
        assert all(check.holds for check in evaluate(asked, point.solution).checks)
        assert point.measures["budget_gpu_min"] == 80.0 * step


def test_the_frontier_rises(example: SeerInstance) -> None:
    """By spend, each point trains for longer; the instance's own budget is among them."""
    found = build_pareto(example, SolveRequest())
    assert not found.exact
    assert (found.limit_name, found.limit_unit, found.objective_unit) == ("budget", "GPU-min", "GPU-min")
    assert [p.limit for p in found.points] == sorted({p.limit for p in found.points})
    objectives = [p.objective for p in found.points]
    assert objectives == sorted(set(objectives))
    assert 80.0 in [pytest.approx(p.measures["budget_gpu_min"]) for p in found.points]
    assert len(found.points) <= len(BUDGET_STEPS)


def test_budgets_that_buy_nothing_are_left_out(example: SeerInstance) -> None:
    """Half a GPU-minute pays no shortest round; out of time, nothing is looked at."""
    assert len(plan_amounts(example.replace(budget="1gpu-min"), BUDGET, (0.5, 1.0), SolveRequest())) == 1
    assert plan_amounts(example, BUDGET, (1.0,), SolveRequest(stopwatch=Stopwatch(0.0))) == []
