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
from optplan.formulations.seer.exact.informed import solve_informed
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
    limit, is_quality = request.limit or BUDGET, instance.objective is Objective.QUALITY
    if limit != BUDGET and not is_quality:
        raise UnsupportedError(
            f"the frontier of the objective spend is by {BUDGET}; that of quality is by {limit}, too, with a prior"
        )
    points = plan_amounts(instance, limit, STEPS if is_quality else BUDGET_STEPS, request)
    unit = "GPU-min" if limit == BUDGET else "min"
    return ParetoFrontier.of(instance, (limit, unit), points, exact=False, seconds=request.stopwatch.elapsed_s)


def plan_amounts(
    instance: SeerInstance, limit: str, steps: Sequence[float], request: SolveRequest
) -> list[ParetoPoint]:
    """Plan for some multiples of the instance's amount of a limit, which measures name; all within the time limit."""
    points = []
    for number, step in enumerate(steps, start=1):
        if request.stopwatch.expired:
            break
        amount = instance.limits[limit] * step
        budget = Amount(amount, BudgetUnit.GPU_MINUTE)
        try:
            other = instance.replace(**{"budget": budget} if limit == BUDGET else {"deadline_min": amount})
        except DataError:  # its published plan has more trials than can be sampled
            continue
        if instance.objective is Objective.SPEND:
            answer = solve_spend_exact(other, request)
        else:
            answer = solve_informed(other, request, most_work=_MOST_WORK)
        if answer.solution is None:
            continue
        judged = evaluate(other, answer.solution)
        request.stopwatch.emit(limit, objective=judged.objective, bound=answer.bound, fraction=number / len(steps))
        points.append(
            ParetoPoint(
                limit=judged.consumption[limit],
                objective=judged.objective,
                bound=answer.bound,
                low=judged.measures.get("low_loss"),
                high=judged.measures.get("high_loss"),
                measures={f"{limit}_{'gpu_min' if limit == BUDGET else 'min'}": amount, **judged.measures},
                solution=answer.solution,
            )
        )
    return points
