"""What solvers are matched against."""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.seer.data.instance import MOST_SAMPLED_ROUNDS, Objective, Problem, SeerInstance


def describe(instance: SeerInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (bracket, row) choices, features.

    The problem is ``spend``, to spend the budget on SEER's own rounds and brackets, or ``informed``, to use a prior.
    The latter has as many choices as brackets and rounds could be tried; what counts there is the work of sampling one.
    """
    if instance.objective is Objective.QUALITY:
        return Description(problem=Problem.INFORMED.value, policy="brackets", cells=MOST_SAMPLED_ROUNDS)
    from optplan.formulations.seer.exact.rows import count_rows  # loads NumPy only where rows are counted

    return Description(problem=Problem.SPEND.value, policy="brackets", cells=count_rows(instance))
