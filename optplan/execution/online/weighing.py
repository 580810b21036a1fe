"""What a width table amounts to under estimates that it was not made for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from optplan.contracts import Result
from optplan.contracts.judgement import Evaluation
from optplan.execution.online.events import Run
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.planning import WidthRow
from optplan.units import SECONDS_PER_HOUR


def solution_of(table: WidthTable) -> BoaSolution:
    """Return a table's rows as decisions."""
    return BoaSolution(
        branches={
            name: tuple(
                Branch(fraction=row.share, widths=row.gpus.astype(float), gpu_types=row.gpu_types) for row in rows
            )
            for name, rows in table.classes.items()
        }
    )


def rows_of(branches: tuple[Branch, ...]) -> tuple[WidthRow, ...]:
    """Return decisions of a class on whole widths as rows of a table."""
    return tuple(WidthRow(share=b.fraction, gpus=b.widths.astype(int), gpu_types=b.gpu_types) for b in branches)


def weigh(instance: BoaInstance, solution: BoaSolution) -> Evaluation:
    """Evaluate decisions on whole widths, rows by shares; the objective is NaN where they do not fit the instance."""
    problem = Problem.WHOLE if instance.problem is Problem.CONTINUOUS else instance.problem
    return evaluate(instance.replace(problem=problem, policy=Policy.MIXED), solution)


def find_excess(limits: Mapping[str, float], takes: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the limit that is exceeded most, and by which part of it; None where all are kept."""
    excess = {name: takes[name] / amount - 1.0 for name, amount in limits.items() if amount > 0}
    worst = max(excess, key=lambda name: excess[name])
    return (worst, excess[worst]) if excess[worst] > 0 else None


def find_needed(instance: BoaInstance, result: Result[BoaSolution], probed: float) -> float | None:
    """Return the least budget that carries the load beside what probing takes; None where the budget alone is no help.

    Both are in the unit that limits count in.
    """
    relaxed = () if result.infeasibility is None else result.infeasibility.relaxations
    least = next((one.least_feasible for one in relaxed if one.limit == BUDGET), None)
    return None if least is None else instance.count_limit(BUDGET, least) + probed * instance.budget_amount()


def count_held(instance: BoaInstance, runs: Iterable[Run]) -> float:
    """Return what was held in the budget's unit times hours."""
    amounts = list[float]()
    for run in runs:
        gpu_type = run.gpu_type or next(iter(instance.gpu_types))
        paid = float(instance.paid_gpus(gpu_type, np.array([float(run.gpus)]))[0])
        amounts.append(paid * instance.prices_on_demand[gpu_type] * run.seconds / SECONDS_PER_HOUR)
    return math.fsum(amounts)
