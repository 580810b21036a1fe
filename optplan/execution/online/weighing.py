"""What a width table amounts to under estimates that it was not made for."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts.judgement import Evaluation
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.planning import WidthRow


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
