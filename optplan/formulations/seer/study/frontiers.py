"""What other budgets and deadlines buy: of spending by budget, of expected quality by either.

More budget does not only mean more trials to spend it on: R*, the number of rounds and the brackets change with it, in
jumps. So there is no single program whose budget could be varied; budgets around the instance's own, the deadline kept,
are spent exactly one by one.

A search that knows a prior is chosen anew for every amount of the limit, the other limit kept. All meet the same
samples, so that the curve is smoother than its intervals are wide.
"""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.errors import DataError, UnsupportedError
from optplan.formulations.seer.data.instance import BUDGET, Objective, SeerInstance
from optplan.formulations.seer.exact.informed import choose_plan
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.units import Amount, BudgetUnit

#: Budgets to spend relative to the instance's own: a sixteenth to four times, by the fourth root of two.
BUDGET_STEPS = tuple(2.0 ** (step / 4) for step in range(-16, 9))
#: Amounts of a loss's limit relative to the instance's own: an eighth to four times, by the square root of two.
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


def build_budget_frontier(instance: SeerInstance, request: SolveRequest) -> ParetoFrontier:
    """Spend each budget of a grid, :data:`BUDGET_STEPS` times the instance's; ``exact`` is false between them."""
    points = spend_budgets(instance, BUDGET_STEPS, request)
    seconds = request.stopwatch.elapsed_s
    return ParetoFrontier.of(instance, (BUDGET, "GPU-min"), points, exact=False, seconds=seconds)


def spend_budgets(instance: SeerInstance, steps: Sequence[float], request: SolveRequest) -> list[ParetoPoint]:
    """Spend some multiples of the budget, all within the time limit; ``budget_gpu_min`` is that of each point."""
    points = []
    for step in steps:
        amount = instance.budget_gpu_min * step
        other = instance.replace(budget=Amount(amount, BudgetUnit.GPU_MINUTE))
        answer = None if request.stopwatch.expired else solve_spend_exact(other, request)
        if answer is None or answer.solution is None:
            continue
        judged = evaluate(other, answer.solution)
        request.stopwatch.emit("budget", objective=judged.objective, bound=answer.bound)
        points.append(
            ParetoPoint(
                limit=judged.consumption[BUDGET],
                objective=judged.objective,
                bound=answer.bound,
                measures={"budget_gpu_min": amount, **judged.measures},
                solution=answer.solution,
            )
        )
    return points


def build_quality_frontier(instance: SeerInstance, limit: str, request: SolveRequest) -> ParetoFrontier:
    """Choose a plan for each of :data:`STEPS` times the instance's amount of a limit; not all may be found in time."""
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
    budget = Amount(amount, BudgetUnit.GPU_MINUTE)
    try:
        other = instance.replace(**{"budget": budget} if limit == BUDGET else {"deadline_min": amount})
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
