"""What other budgets and deadlines buy: of spending by budget, of expected quality by either.

A search that knows a prior is chosen anew for every amount of the limit, the other limit kept. All meet the same
samples, so that the curve is smoother than its intervals are wide.
"""

from __future__ import annotations

from collections.abc import Callable

from optplan.contracts.pareto import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.errors import DataError, UnsupportedError
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, Objective, SeerInstance
from optplan.formulations.seer.exact.informed import choose_plan
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.formulations.seer.study.budgets import build_budget_frontier
from optplan.units import Amount, BudgetUnit

#: Amounts of the limit relative to the instance's own: an eighth to four times, by the square root of two.
STEPS = tuple(2.0 ** (step / 2) for step in range(-6, 5))
#: What the choice of each plan may take, in trials trained for a round.
_MOST_WORK = 30_000_000.0


def build_pareto(instance: SeerInstance, request: SolveRequest) -> ParetoFrontier:
    """Find what amounts of a limit buy: training by budget, or expected final loss by budget or deadline."""
    limit = request.limit or BUDGET
    if instance.objective is Objective.QUALITY:
        return build_quality_frontier(instance, limit, request)
    if limit != BUDGET:
        raise UnsupportedError(
            f"the frontier of the objective spend is by {BUDGET}; that of quality is by {limit}, too, with a prior"
        )
    return build_budget_frontier(instance, request)


def build_quality_frontier(instance: SeerInstance, limit: str, request: SolveRequest) -> ParetoFrontier:
    """Choose a plan for each of some amounts of a limit, :data:`STEPS` times the instance's own, the other limit kept.

    Objectives are means over the report's samples, with 95 % intervals; the measures have what is gained over the
    published plan of the same amount. Amounts that buy nothing, that are too large to be sampled, or for which the time
    was too short are left out, so ``exact`` is false.
    """
    points = []
    for number, step in enumerate(STEPS):
        if request.stopwatch.expired:
            break
        point = _choose(instance, limit, instance.limits[limit] * step, request)
        if point is not None:
            points.append(point)
            request.stopwatch.emit(limit, objective=point.objective, fraction=(number + 1) / len(STEPS))
    unit = "GPU-min" if limit == BUDGET else "min"
    return ParetoFrontier.of(instance, (limit, unit), points, exact=False, seconds=request.stopwatch.elapsed_s)


def _choose(instance: SeerInstance, limit: str, amount: float, request: SolveRequest) -> ParetoPoint | None:
    """Choose a plan for one amount of a limit."""
    change: dict[str, Callable[[], SeerInstance]] = {
        BUDGET: lambda: instance.replace(budget=Amount(amount, BudgetUnit.GPU_MINUTE)),
        DEADLINE: lambda: instance.replace(deadline_min=amount),
    }
    try:
        other = change[limit]()
    except DataError:  # its published plan has more trials than can be sampled
        return None
    published = other.published
    if published is None:
        return None
    solution = choose_plan(other, published, request.stopwatch, most_work=_MOST_WORK).solution
    if solution is None:
        return None
    judged = evaluate(other, solution)
    return ParetoPoint(
        limit=judged.consumption[limit],
        objective=judged.objective,
        low=judged.measures["low_loss"],
        high=judged.measures["high_loss"],
        measures={f"{limit}_{'gpu_min' if limit == BUDGET else 'min'}": amount, **judged.measures},
        solution=solution,
    )
