"""Budgeted paths by looking at every choice; for tiny problems, where it is the yardstick of all other engines."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import UnsupportedError
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths, PathsOutcome, WeightedPath

#: Most choices that are looked at: two arrays of this length are the working set.
MAX_CHOICES = 4_000_000


def enumerate_choices(problem: BudgetedPaths, request: SolveRequest) -> PathsOutcome:
    """Find the best pure choice by looking at all of them.

    Parameters
    ----------
    problem
        Graphs and budget.
    request
        Only its listener is used: the work is limited by :data:`MAX_CHOICES`, not by time.

    Returns
    -------
    PathsOutcome
        Optimal or infeasible; of equally good choices the first one, counting columns like digits.

    Raises
    ------
    UnsupportedError
        When there are more than :data:`MAX_CHOICES` choices.
    """
    numbers = [graph.nodes.size ** len(graph.run_value) for graph in problem.graphs]
    if math.prod(numbers) > MAX_CHOICES:
        message = (
            f"enumeration looks at {MAX_CHOICES:,} choices at most and this problem has {math.prod(numbers):.3g}; "
            "choose a solver that does not look at each of them"
        )
        raise UnsupportedError(message)
    request.stopwatch.emit("enumeration")
    value, consumption = np.zeros(1), np.zeros(1)
    for graph in problem.graphs:
        path_value, path_consumption = _all_paths(graph)
        value = (value[:, None] + path_value).ravel()
        consumption = (consumption[:, None] + path_consumption).ravel()
    counters = {"choices": float(value.size)}
    within = np.flatnonzero(consumption <= problem.most_consumption)
    if not within.size:
        return PathsOutcome(Status.INFEASIBLE, Termination.COMPLETED, counters=counters)
    best = within[value[within].argmin()]
    choice = tuple(
        (WeightedPath(1.0, np.array(np.unravel_index(number, graph.run_value.shape[::-1][:1] * len(graph.run_value)))),)
        for graph, number in zip(problem.graphs, np.unravel_index(best, numbers), strict=True)
    )
    return PathsOutcome(
        Status.OPTIMAL, Termination.COMPLETED, choice=choice, bound=problem.totals(choice)[0], counters=counters
    )


def _all_paths(graph: PathCosts) -> tuple[FloatArray, FloatArray]:
    """Total value and consumption of every path, in the order of their columns read as digits."""
    nodes = graph.nodes.size
    value = graph.run_value[0] + graph.enter_value[0]
    consumption = graph.run_consumption[0] + graph.enter_consumption[0]
    for layer in range(1, len(graph.run_value)):
        last = np.arange(value.size) % nodes
        entered = last[:, None] != np.arange(nodes)
        value = (value[:, None] + graph.run_value[layer] + entered * graph.enter_value[layer]).ravel()
        consumption = (
            consumption[:, None] + graph.run_consumption[layer] + entered * graph.enter_consumption[layer]
        ).ravel()
    return value, consumption
