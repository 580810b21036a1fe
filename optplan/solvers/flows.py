"""From flows through layered graphs, which is what linear programs return, to mixtures of paths.

A path that stays at its node pays nothing for it, and what entering a node costs does not depend on where a path comes
from. So of all ways to take a flow apart into paths, those are cheapest in which as much as possible stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from optplan.errors import EngineError
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import BudgetedPaths, Choice, WeightedPath, least_path, path_totals
from optplan.speedup import lower_left_hull

#: Flows below this are rounding noise of a linear program.
_NO_FLOW = 1e-9
#: Fractions below this are rounding noise of a mixture.
_NO_FRACTION = 1e-12


def choice_of_flows(problem: BudgetedPaths, flows: Sequence[FloatArray], *, mixed: bool) -> Choice | None:
    """Turn the flows of an engine into a choice that keeps the budget.

    Parameters
    ----------
    problem
        Graphs and budget.
    flows
        For each graph (E, K), the share at each node.
    mixed
        Whether mixtures are allowed; otherwise the flows are integer to within the engine's tolerance.

    Returns
    -------
    Choice or None
        Of mixtures the best one of the paths that the flows are made of; None when none keeps the budget.

    Raises
    ------
    EngineError
        When a pure choice does not keep the budget.
    """
    if mixed:
        # With the paths of least consumption among the candidates every feasible budget can be kept.
        least = [least_path(graph.run_consumption, graph.enter_consumption)[1] for graph in problem.graphs]
        return mix_within_budget(
            problem, [[columns, *take_apart(flow)] for columns, flow in zip(least, flows, strict=True)]
        )
    choice = tuple((WeightedPath(1.0, flow.argmax(axis=1)),) for flow in flows)
    used = problem.totals(choice)[1]
    if used > problem.most_consumption:
        message = f"the engine returned a choice that consumes {used!r} of a budget of {problem.budget!r}"
        raise EngineError(message)
    return choice


def take_apart(flow: FloatArray) -> list[IntArray]:
    """Take a flow apart into paths: at each node as much as possible stays, the rest goes where something is missing.

    Parameters
    ----------
    flow
        (E, K) Share at each node; the shares of a layer add up to one, to within an engine's tolerance.

    Returns
    -------
    list of IntArray
        Paths as columns (E,), in a fixed order.
    """
    flow = np.where(flow < _NO_FLOW, 0.0, flow)
    flow = flow / flow.sum(axis=1, keepdims=True)
    strands = [(float(share), [int(node)]) for node, share in enumerate(flow[0]) if share > 0.0]
    for shares in flow[1:]:
        missing = shares.copy()
        kept: list[tuple[float, list[int]]] = []
        leaving: list[tuple[float, list[int]]] = []
        for share, path in strands:
            stays = min(share, float(missing[path[-1]]))
            missing[path[-1]] -= stays
            if stays > _NO_FLOW:
                kept.append((stays, [*path, path[-1]]))
            if share - stays > _NO_FLOW:
                leaving.append((share - stays, path))
        strands = kept + _redirect(leaving, missing)
    return [np.array(path, dtype=np.int64) for _, path in strands]


def _redirect(leaving: list[tuple[float, list[int]]], missing: FloatArray) -> list[tuple[float, list[int]]]:
    """Send what leaves its nodes to the nodes where something is missing, both in order."""
    strands = []
    entered = iter(np.flatnonzero(missing > _NO_FLOW).tolist())
    node, room = next(entered, None), 0.0
    room = float(missing[node]) if node is not None else 0.0
    for share, path in leaving:
        left = share
        while left > _NO_FLOW and node is not None:
            step = min(left, room)
            strands.append((step, [*path, node]))
            left, room = left - step, room - step
            if room <= _NO_FLOW:
                node = next(entered, None)
                room = float(missing[node]) if node is not None else 0.0
    return strands


def mix_within_budget(problem: BudgetedPaths, candidates: Sequence[Sequence[IntArray]]) -> Choice | None:
    """Return the best mixture of given paths; at most one graph gets two of them.

    Each graph's lower hull of (consumption, value) is walked from its least consumption on, steepest segments of all
    graphs first, until the budget is spent.

    Parameters
    ----------
    problem
        Graphs and budget.
    candidates
        For each graph some paths, as columns (E,).

    Returns
    -------
    Choice or None
        None when even the candidates of least consumption exceed the budget.
    """
    totals = [
        np.array([path_totals(graph, columns) for columns in paths]).T
        for graph, paths in zip(problem.graphs, candidates, strict=True)
    ]
    hulls = [_hull_order(value, consumption) for value, consumption in totals]
    at = [(int(hull[0]), int(hull[0]), 0.0) for hull in hulls]
    least = sum(float(consumption[hull[0]]) for (_, consumption), hull in zip(totals, hulls, strict=True))
    if least > problem.most_consumption:
        return None
    room = problem.budget - least
    segments = [
        ((value[low] - value[high]) / (consumption[high] - consumption[low]), number, int(low), int(high))
        for number, ((value, consumption), hull) in enumerate(zip(totals, hulls, strict=True))
        for low, high in pairwise(hull)
    ]
    for _, number, low, high in sorted(segments, key=lambda segment: -segment[0]):
        step = totals[number][1][high] - totals[number][1][low]
        share = min(1.0, room / step)
        if share < _NO_FRACTION:
            break
        at[number] = (high, high, 0.0) if share > 1.0 - _NO_FRACTION else (low, high, float(share))
        room -= share * step
        if share < 1.0:
            break
    return tuple(_mixture(paths, *place) for paths, place in zip(candidates, at, strict=True))


def _hull_order(value: FloatArray, consumption: FloatArray) -> IntArray:
    """Return the vertices of the lower-left hull, by increasing consumption."""
    vertices = np.flatnonzero(lower_left_hull(consumption[None, :], value[None, :])[0])
    return vertices[np.argsort(consumption[vertices], kind="stable")]


def _mixture(paths: Sequence[IntArray], low: int, high: int, share: float) -> tuple[WeightedPath, ...]:
    if low == high:
        return (WeightedPath(1.0, paths[low]),)
    return (WeightedPath(1.0 - share, paths[low]), WeightedPath(share, paths[high]))
