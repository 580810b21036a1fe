"""A small problem worked out by hand, and results of every kind for it.

Two classes on widths 1, 2 and 4. There a job runs 1, 1.6 and 2 times as fast, except that the third epoch of vision has
1, 2 and 4. The plan gives vision the widths 2, 2, 4 and speech 2, 2:

=======  =================  ==========================  ==================  ===========================  ============
class    running, h         pauses, h                   completion time     GPUs running                 rescaling
=======  =================  ==========================  ==================  ===========================  ============
vision   1/1.6 + 1/4        2 x 0.05 (start, epoch 3)   0.975 h = 3,510 s   2 x (2 x 0.625 + 4 x 0.25)   2 x 0.05 x 6
         = 0.875                                                            = 4.5                        = 0.6
speech   2/1.6 = 1.25       0.1 (start)                 1.35 h = 4,860 s    1 x 2 x 1.25 = 2.5           0.1 x 2 = 0.2
=======  =================  ==========================  ==================  ===========================  ============

All of it is frozen, so every test gets the same objects.

Mean completion time: (2 x 0.975 + 1 x 1.35) / 3 h = 3,960 s. GPUs: 7 running + 0.8 rescaling = 7.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optplan.contracts import (
    BoundProof,
    Frontier,
    FrontierPoint,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    Result,
    ShadowPrice,
    Solution,
    Status,
    Termination,
)
from optplan.errors import UsageError
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.duality import dual_bound
from optplan.formulations.boa.evaluation import evaluate

ResultMaker = Callable[..., Result[Solution]]

#: The lower hull of all 243 pure plans; the plan above is the sixth point.
FRONTIER_BUDGETS = (6.2, 6.4, 6.6, 6.8, 7.4, 7.8, 9.1, 10.8)
FRONTIER_OBJECTIVES = (7440.0, 6360.0, 5760.0, 5340.0, 4440.0, 3960.0, 3540.0, 3240.0)
#: Seconds that one GPU more saves beyond the plan above, and one fewer costs.
MORE_S, LESS_S = 420.0 / 1.3, 480.0 / 0.4
PRICE_UNIT = "s of mean JCT per GPU"


@pytest.fixture(scope="session")
def instance() -> BoaInstance:
    """Two classes, eight GPUs at two dollars."""
    row = [1.0, 1.6, 2.0]
    vision = {"v100": {"form": "table", "gpus": [1, 2, 4], "speedup": [row, row, [1.0, 2.0, 4.0]]}}
    speech = {"v100": {"form": "table", "gpus": [1, 2, 4], "speedup": row}}
    return BoaInstance.parse(
        {
            "name": "by-hand",
            "description": "Worked out with a pencil.",
            "source": {"trace": "a pencil"},
            "formulation": "boa",
            "classes": {
                "vision": {
                    "arrival_rate_per_hour": 2.0,
                    "epoch_size_gpu_hours": [0.5, 0.5, 1.0],
                    "speedup": vision,
                    "rescale_s": 180.0,
                },
                "speech": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [1.0, 1.0],
                    "speedup": speech,
                    "rescale_s": 360.0,
                },
            },
            "gpu_types": {
                "v100": {"price_usd_per_hour": 2.0, "price_source": "price list", "price_date": "2025-01-31"}
            },
            "budget": "8gpu",
        }
    )


@pytest.fixture(scope="session")
def solution() -> BoaSolution:
    """Return the plan worked out above."""
    return BoaSolution(
        branches={
            "vision": (Branch(widths=np.array([2.0, 2.0, 4.0])),),
            "speech": (Branch(widths=np.array([2.0, 2.0])),),
        }
    )


@pytest.fixture(scope="session")
def mixed_solution() -> BoaSolution:
    """Return the plan worked out above, but a quarter of the vision jobs stay on one GPU."""
    return BoaSolution(
        branches={
            "vision": (
                Branch(fraction=0.75, widths=np.array([2.0, 2.0, 4.0])),
                Branch(fraction=0.25, widths=np.array([1.0, 1.0, 1.0])),
            ),
            "speech": (Branch(widths=np.array([2.0, 2.0])),),
        }
    )


@pytest.fixture(scope="session")
def make_result() -> ResultMaker:
    """Return a function that makes a result of a solution; keyword arguments change its fields."""

    def make(instance: BoaInstance, solution: BoaSolution | None, **changes: Any) -> Result[Solution]:  # noqa: ANN401
        fields: dict[str, Any] = {
            "formulation": "boa",
            "instance_name": instance.name,
            "instance_hash": instance.content_hash(),
            "solver": "layered-paths",
            "engine": "optplan",
            "engine_version": "1.2.3",
            "optplan_version": "1.2.3",
            "status": Status.UNKNOWN,
            "termination": Termination.COMPLETED,
            "objective_unit": "s",
            "gap_target": 1e-6,
            "solve_seconds": 0.123,
            "seed": 7,
        }
        if solution is not None:
            judged = evaluate(instance, solution)
            fields |= {
                "status": Status.FEASIBLE,
                "solution": solution,
                "objective": judged.objective,
                "measures": judged.measures,
            }
        return Result[Solution](**{**fields, **changes})

    return make


@pytest.fixture(scope="session")
def result(instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> Result[Solution]:
    """Return the plan worked out above, with the bound that its shadow price proves: 3,960 - 0.2 x 323 s."""
    certificate = LagrangianCertificate(multipliers={"budget": MORE_S}, bound=dual_bound(instance, {"budget": MORE_S}))
    return make_result(
        instance,
        solution,
        bound=certificate.bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={"budget": ShadowPrice(less=LESS_S, more=MORE_S, unit=PRICE_UNIT)},
        verify_seconds=0.004,
    )


@pytest.fixture(scope="session")
def optimal_result(instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> Result[Solution]:
    """Return the same plan, said to be optimal."""
    return make_result(instance, solution, status=Status.OPTIMAL, bound=3960.0, bound_proof=BoundProof.EXHAUSTIVE)


@pytest.fixture(scope="session")
def rival(instance: BoaInstance, make_result: ResultMaker) -> Result[Solution]:
    """Return a heuristic's result without a bound: (2 x 1.35 + 1.35) / 3 h = 4,860 s with 7.2 GPUs."""
    widths = BoaSolution(
        branches={
            "vision": (Branch(widths=np.array([1.0, 1.0, 4.0])),),
            "speech": (Branch(widths=np.array([2.0, 2.0])),),
        }
    )
    return make_result(instance, widths, solver="fixed-width")


@pytest.fixture(scope="session")
def infeasible_result(instance: BoaInstance, make_result: ResultMaker) -> Result[Solution]:
    """Return what a solver says of a budget of five GPUs, where 6.2 are needed."""
    relaxation = Relaxation(
        limit="budget", given=5.0, least_feasible=6.2, unit="gpu", parts={"vision": 4.1, "speech": 2.1}
    )
    reason = "the least budget for which the rescaling problem has a plan is 6.2 GPUs; the budget is 5"
    return make_result(
        instance.replace(budget="5gpu"),
        None,
        status=Status.INFEASIBLE,
        infeasibility=Infeasibility(reason=reason, relaxations=(relaxation,)),
    )


@pytest.fixture(scope="session")
def unknown_result(instance: BoaInstance, make_result: ResultMaker) -> Result[Solution]:
    """Return what an engine says that ran out of time with a bound and without a plan."""
    return make_result(
        instance,
        None,
        solver="highs",
        engine="HiGHS",
        termination=Termination.TIME_LIMIT,
        bound=3600.0,
        bound_proof=BoundProof.ENGINE,
    )


@pytest.fixture(scope="session")
def frontier(instance: BoaInstance) -> Frontier:
    """Return the problem's frontier."""
    budgets, objectives = np.array(FRONTIER_BUDGETS), np.array(FRONTIER_OBJECTIVES)
    slopes = -np.diff(objectives) / np.diff(budgets)

    def at(budget: float) -> FrontierPoint:
        if budget < budgets[0]:
            raise UsageError(f"{budget} GPUs are too few")
        inside = min(budget, float(budgets[-1]))
        right = int(np.searchsorted(budgets, inside, side="right")) - 1
        left = int(np.searchsorted(budgets, inside, side="left")) - 1
        more = float(slopes[right]) if right < slopes.size else 0.0
        less = None if left < 0 else float(slopes[left])
        objective = float(np.interp(inside, budgets, objectives))
        return FrontierPoint(
            budget=inside,
            objective=objective,
            shadow_price=ShadowPrice(less=less, more=more, unit=PRICE_UNIT),
            certificate=LagrangianCertificate(multipliers={"budget": more}, bound=objective),
        )

    def budget_for(objective: float) -> FrontierPoint:
        return at(float(np.interp(-objective, -objectives, budgets)))

    def solution_at(_: float) -> Solution:
        return BoaSolution(branches={})

    return Frontier(
        formulation="boa",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        budget_unit="gpu",
        objective_unit="s",
        budgets=budgets,
        objectives=objectives,
        at=at,
        budget_for=budget_for,
        solution_at=solution_at,
        exact_between=True,
    )


@pytest.fixture(scope="session")
def nasty_instance(instance: BoaInstance) -> BoaInstance:
    """Return the problem with class names that are HTML, plotly's template syntax, and rich's markup."""
    names = {
        "vision": "<script>alert(1)</script>&<b>%{x}</b>",
        "speech": "[red]</script><img src=x onerror=alert(2)>[/red]",
    }
    return instance.replace(
        name='"><script>alert(3)</script>', classes={names[name]: c for name, c in instance.classes.items()}
    )


@pytest.fixture(scope="session")
def nasty_result(nasty_instance: BoaInstance, solution: BoaSolution, make_result: ResultMaker) -> Result[Solution]:
    """Return the plan worked out above, for the classes with nasty names."""
    rows = dict(zip(nasty_instance.classes, solution.branches.values(), strict=True))
    return make_result(nasty_instance, BoaSolution(branches=rows), solver="</script><script>alert(4)</script>")
