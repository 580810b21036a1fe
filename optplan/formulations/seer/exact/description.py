"""What solvers are matched against."""

from __future__ import annotations

from optplan.contracts.parts import Description
from optplan.formulations.seer.data.instance import MOST_SAMPLED_ROUNDS, Objective, Problem, SeerInstance
from optplan.formulations.seer.laws.nodes import divide_evenly

#: Whole nodes are paid, and trials do not divide them evenly.
UNEVEN_NODES = "uneven-nodes"


def describe(instance: SeerInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (bracket, row) choices, features.

    The problem is ``spend``, to spend the budget on SEER's own rounds and brackets, or ``informed``, to use a prior.
    The latter has as many choices as brackets and rounds could be tried; what counts there is the work of sampling one.
    """
    if instance.objective is Objective.QUALITY:
        return Description(problem=Problem.INFORMED.value, policy="brackets", cells=MOST_SAMPLED_ROUNDS)
    from optplan.formulations.seer.exact.rows import count_rows  # loads NumPy only where rows are counted

    features = frozenset[str]()
    if instance.nodes_paid is not None and instance.brackets is not None:
        evenly = divide_evenly(instance.nodes_paid, [each.gpus for each in instance.brackets.brackets])
        features = frozenset() if evenly else frozenset({UNEVEN_NODES})
    cells = count_rows(instance)
    return Description(problem=Problem.SPEND.value, policy="brackets", cells=cells, features=features)
