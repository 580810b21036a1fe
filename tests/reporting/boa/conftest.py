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

A second problem has two GPU types: a t4 for $1 an hour and an a100 for $4, of which 1.3 may be used on average; text
cannot run on the a100. A start takes 0.05 h, a change of the type 0.05 h more. The plan:

=======  =================  ==================  =============  ===========================  =====================
class    GPUs               running, h          pauses, h      completion time              GPUs
=======  =================  ==================  =============  ===========================  =====================
vision   1 t4, then 1 a100  0.5 / 1 + 0.5 / 2   0.05 + 0.1     0.9 h = 3,240 s, 2 an hour   2 x 0.55 t4,
                                                                                            2 x 0.35 a100
speech   2 a100             1 / 4               0.05           0.3 h = 1,080 s, 1 an hour   2 x 0.3 a100
text     2 t4               0.6 / 1.5           0.05           0.45 h = 1,620 s, 1 an hour  2 x 0.45 t4
=======  =================  ==================  =============  ===========================  =====================

Mean completion time: (2 x 0.9 + 0.3 + 0.45) / 4 h = 2,295 s. GPUs: 2 t4 + 1.3 a100, which cost $2 + $5.20 = $7.20 an
hour, $172.80 a day, $5,256 a month: both limits are used up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optplan.contracts import (
    Alternative,
    BoundProof,
    Direction,
    ExplainedChoice,
    Explanation,
    Frontier,
    FrontierPoint,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    Result,
    SampledPlan,
    Sensitivity,
    ShadowPrice,
    Solution,
    Status,
    Termination,
)
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.reporting.boa.figures import FrontierCurve, SweepPoint
from optplan.reporting.boa.frontier_tables import tell_curves
from optplan.reporting.comparison import Compared, Comparison, compare, tell_comparison
from optplan.reporting.pages import build_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside
from optplan.schema import FloatArray

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
    return make_result(instance, solution, status=Status.OPTIMAL, bound=3960.0, bound_proof=BoundProof.ENUMERATED)


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
        limit="budget", given=5.0, least_feasible=6.2, enough=6.2, unit="gpu", parts={"vision": 4.1, "speech": 2.1}
    )
    reason = "the least budget for which the rescaling problem has a plan is 6.2 GPUs; the budget is 5"
    return make_result(
        instance.replace(budget="5gpu"),
        None,
        status=Status.INFEASIBLE,
        infeasibility=Infeasibility(reason=reason, relaxations=(relaxation,), multipliers={"budget": 1.0}, factor=1.24),
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
    return _make_frontier(instance, np.array(FRONTIER_BUDGETS), np.array(FRONTIER_OBJECTIVES))


def _make_frontier(instance: BoaInstance, budgets: FloatArray, objectives: FloatArray) -> Frontier:
    """Make the frontier that has these breakpoints."""
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
            shadow_price=ShadowPrice(less=less, more=more, unit=instance.price_unit("budget")),
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
        budget_unit=instance.budget_unit.value,
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


@pytest.fixture(scope="session")
def typed_instance() -> BoaInstance:
    """Three classes, two GPU types, a quota on the dearer one, and a budget in money."""

    def table(*speeds: float) -> dict[str, Any]:
        return {"form": "table", "gpus": [1, 2], "speedup": list(speeds)}

    both = {"t4": table(1.0, 1.6), "a100": table(2.0, 4.0)}
    pauses = {"rescale_s": 180.0, "type_change_s": 180.0}
    return BoaInstance.parse(
        {
            "name": "by-type",
            "formulation": "boa",
            "classes": {
                "vision": {
                    "arrival_rate_per_hour": 2.0,
                    "epoch_size_gpu_hours": [0.5, 0.5],
                    "speedup": both,
                    **pauses,
                },
                "speech": {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": both, **pauses},
                "text": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [0.6],
                    "speedup": {"t4": table(1.0, 1.5)},
                    **pauses,
                },
            },
            "gpu_types": {
                "t4": {"price_usd_per_hour": 1.0, "price_source": "price list", "price_date": "2025-01-31"},
                "a100": {"price_usd_per_hour": 4.0, "quota_gpus": 1.3},
            },
            "budget": "5256usd/month",
        }
    )


@pytest.fixture(scope="session")
def typed_solution() -> BoaSolution:
    """Return the plan with two types that is worked out above."""
    return BoaSolution(
        branches={
            "vision": (Branch(widths=np.array([1.0, 1.0]), gpu_types=("t4", "a100")),),
            "speech": (Branch(widths=np.array([2.0]), gpu_types=("a100",)),),
            "text": (Branch(widths=np.array([2.0]), gpu_types=("t4",)),),
        }
    )


@pytest.fixture(scope="session")
def typed_result(
    typed_instance: BoaInstance, typed_solution: BoaSolution, make_result: ResultMaker
) -> Result[Solution]:
    """Return the plan with two types; an a100 saves as much as 150 / 90 dollars an hour, $40 a day."""
    multipliers = {"budget": 90.0, "quota.a100": 150.0}
    certificate = LagrangianCertificate(multipliers=multipliers, bound=dual_bound(typed_instance, multipliers))
    return make_result(
        typed_instance,
        typed_solution,
        solver="linked-paths",
        bound=certificate.bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={
            "budget": ShadowPrice(less=120.0, more=90.0, unit=typed_instance.price_unit("budget")),
            "quota.a100": ShadowPrice(less=200.0, more=150.0, unit=typed_instance.price_unit("quota.a100")),
        },
    )


@pytest.fixture(scope="session")
def typed_rival(typed_instance: BoaInstance, make_result: ResultMaker) -> Result[Solution]:
    """Return a result that has all jobs on one t4: 2 x (1 + 0.05) + 1.05 + 0.65 h for 4 jobs, 3,420 s, for $3.80."""
    one = Branch(widths=np.array([1.0]), gpu_types=("t4",))
    two = Branch(widths=np.array([1.0, 1.0]), gpu_types=("t4", "t4"))
    widths = BoaSolution(branches={"vision": (two,), "speech": (one,), "text": (one,)})
    return make_result(typed_instance, widths, solver="fixed-width")


@pytest.fixture(scope="session")
def typed_frontier(typed_instance: BoaInstance) -> Frontier:
    """Return a frontier in US dollars an hour that no plan of these tests lies below."""
    return _make_frontier(typed_instance, np.array([3.5, 5.0, 7.2, 12.0]), np.array([3400.0, 2600.0, 2250.0, 2100.0]))


@pytest.fixture(scope="session")
def explanation(typed_instance: BoaInstance, typed_result: Result[Solution]) -> Explanation:
    """Return what might be said of the plan with two types; the figures are made up."""

    def other(gpu_type: str, cost: float | None) -> Alternative:
        return Alternative(direction=Direction.OTHER_TYPE, label=f"any {gpu_type}", forced_cost=cost)

    wider = Alternative(
        direction=Direction.WIDER, label="2 t4", objective_change=-50.0, budget_change=0.5, forced_cost=12.0
    )
    choices = (
        ExplainedChoice(subject="vision", first=1, last=1, label="1 t4", alternatives=(wider, other("a100", 31.0))),
        ExplainedChoice(subject="vision", first=2, last=2, label="1 a100", alternatives=(other("t4", 1234.5),)),
        ExplainedChoice(subject="speech", first=1, last=1, label="2 a100", alternatives=(other("t4", None),)),
        ExplainedChoice(subject="text", first=1, last=1, label="2 t4", alternatives=()),
    )
    return Explanation(
        formulation="boa",
        instance_name=typed_instance.name,
        instance_hash=typed_result.instance_hash,
        solver=typed_result.solver,
        objective=typed_result.objective or 0.0,
        objective_unit="s",
        budget_unit=typed_instance.budget_unit.value,
        multipliers={"budget": 90.0, "quota.a100": 150.0},
        choices=choices,
    )


@pytest.fixture(scope="session")
def sensitivity(
    typed_instance: BoaInstance, typed_result: Result[Solution], typed_solution: BoaSolution
) -> Sensitivity:
    """Return what might become of two plans for two types in 200 samples."""
    rng = np.random.default_rng(1)

    def sample(name: str, level: float) -> SampledPlan:
        spread = rng.normal(size=200)
        return SampledPlan(
            name=name,
            expected_objective=2295.0 * level,
            expected_consumption={"budget": 7.2, "quota.a100": 1.3},
            objective=2295.0 * level * (1.02 + 0.08 * spread),
            consumption={"budget": 7.2 * (1.0 + 0.05 * spread), "quota.a100": np.full(200, 1.2)},
            cost_usd_per_hour=7.2 * (1.0 + 0.05 * spread),
            best_objective=np.full(200, 2200.0),
            solution=typed_solution,
        )

    return Sensitivity(
        formulation="boa",
        instance_name=typed_instance.name,
        instance_hash=typed_result.instance_hash,
        objective_unit="s",
        limits=typed_instance.limits,
        limit_units={"budget": "usd/hour", "quota.a100": "gpu"},
        errors={"speedup": 0.1, "arrival": 0.2},
        samples=200,
        robust_samples=20,
        seed=0,
        plans=(sample("planned", 1.0), sample("robust", 1.04)),
    )


@pytest.fixture(scope="session")
def curves(
    instance: BoaInstance,
    frontier: Frontier,
    typed_instance: BoaInstance,
    typed_frontier: Frontier,
    typed_rival: Result[Solution],
) -> tuple[FrontierCurve, FrontierCurve]:
    """Return two frontiers, the second with what a solver reaches."""
    reached = [SweepPoint(typed_frontier.at(7.2), typed_rival)]
    return (
        FrontierCurve("one type", instance, frontier),
        FrontierCurve("two types", typed_instance, typed_frontier, {"fixed-width": reached}),
    )


@pytest.fixture(scope="session")
def comparison(
    typed_instance: BoaInstance, typed_result: Result[Solution], typed_rival: Result[Solution]
) -> Comparison:
    """Return what differs between a plan and a better one."""
    return compare(
        Compared("fixed.json", typed_instance, typed_rival), Compared("best.json", typed_instance, typed_result)
    )


@pytest.fixture(scope="session")
def typed_report(
    typed_instance: BoaInstance,
    typed_result: Result[Solution],
    typed_rival: Result[Solution],
    typed_frontier: Frontier,
    explanation: Explanation,
    sensitivity: Sensitivity,
    curves: tuple[FrontierCurve, FrontierCurve],
    comparison: Comparison,
) -> str:
    """Return the report of a plan with two GPU types, with everything that a page can show."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')
    beside = Beside([typed_rival], typed_frontier, explanation=explanation, sensitivity=sensitivity)
    page = presenter_of(typed_instance).build_page(typed_instance, typed_result, beside)
    return build_page(page._replace(sections=[*page.sections, tell_curves(curves), tell_comparison(comparison)]))
