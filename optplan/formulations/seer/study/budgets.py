"""What other budgets would buy before the same deadline: the published rounds and brackets of each, spent exactly.

More budget does not only mean more trials: R*, the number of rounds and the brackets change with it, in jumps. So there
is no single program whose budget could be varied; a grid of budgets around the instance's own is solved one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts.pareto import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.formulations.seer.data.instance import BUDGET, SeerInstance
from optplan.formulations.seer.exact.spending import solve_spend_exact
from optplan.formulations.seer.judge.evaluation import evaluate
from optplan.units import Amount, BudgetUnit

#: Budgets of the grid relative to the instance's own: a sixteenth to four times, by the fourth root of two.
STEPS = tuple(2.0 ** (step / 4) for step in range(-16, 9))


def build_budget_frontier(instance: SeerInstance, request: SolveRequest) -> ParetoFrontier:
    """Spend each budget of a grid, :data:`STEPS` times the instance's own, the deadline kept.

    By GPU-minutes spent, as many points as there are feasible budgets that spend different amounts. Each is the best of
    its own budget; budgets between them are not looked at, so ``exact`` is false.
    """
    points = spend_budgets(instance, STEPS, request)
    seconds = request.stopwatch.elapsed_s
    return ParetoFrontier.of(instance, (BUDGET, "GPU-min"), points, exact=False, seconds=seconds)


def spend_budgets(instance: SeerInstance, steps: Sequence[float], request: SolveRequest) -> list[ParetoPoint]:
    """Spend some multiples of an instance's budget, the deadline kept; infeasible ones are left out.

    The measures have the budget as ``budget_gpu_min``; the time limit is for all together.
    """
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
