"""Budgeted paths by looking at every choice; for tiny problems, where it is the yardstick of all other engines."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import UnsupportedError
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths, PathsOutcome, WeightedPath

#: Most choices that are looked at: a few arrays of this length, one for each limit among them, are the working set.
MAX_CHOICES = 4_000_000


def enumerate_choices(problem: BudgetedPaths, request: SolveRequest) -> PathsOutcome:
    """Find the best pure choice by looking at all of them.

    Parameters
    ----------
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
    numbers = [len(graph.labels) ** len(graph.run_value) for graph in problem.graphs]
    if math.prod(numbers) > MAX_CHOICES:
        raise UnsupportedError(
            f"enumeration looks at {MAX_CHOICES:,} choices at most and this problem has {math.prod(numbers):.3g}; "
            "choose a solver that does not look at each of them"
        )
    request.stopwatch.emit("enumeration")
    value, consumption = np.zeros(1), np.zeros((len(problem.limits), 1))
    for graph in problem.graphs:
        path_value, path_consumption = _all_paths(graph)
        value = (value[:, None] + path_value).ravel()
        consumption = (consumption[:, :, None] + path_consumption[:, None]).reshape(len(consumption), -1)
    counters = {"choices": float(value.size)}
    within = np.flatnonzero((consumption <= problem.most_consumption[:, None]).all(axis=0))
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
    """Total value (N,) and consumption (L, N) of every path, in the order of their columns read as digits."""
    nodes = np.arange(len(graph.labels))
    value = graph.run_value[0] + graph.enter_value[graph.group, 0, nodes]
    consumption = graph.run_consumption[:, 0] + graph.enter_consumption[:, graph.group, 0, nodes]
    for layer in range(1, len(graph.run_value)):
        last = np.arange(value.size) % nodes.size
        left = graph.group[last]
        entered = last[:, None] != nodes
        value = (value[:, None] + graph.run_value[layer] + entered * graph.enter_value[left, layer]).ravel()
        steps = graph.run_consumption[:, None, layer] + entered * graph.enter_consumption[:, left, layer]
        consumption = (consumption[:, :, None] + steps).reshape(len(consumption), -1)
    return value, consumption
