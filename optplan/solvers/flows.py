"""From flows through layered graphs, which is what linear programs return, to mixtures of paths.

A path that stays at its node pays nothing for it. Where entering a node costs the same whatever node a path leaves, the
cheapest of all ways to take a flow apart into paths are those in which as much as possible stays. Where it depends on
the group left, the linear program says who goes where, and paths follow that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optplan.errors import EngineError
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import BudgetedPaths, Choice, WeightedPath, least_path, path_totals
from optplan.solvers.limits import is_within, most_within
from optplan.speedup import lower_left_hull

#: Flows below this are rounding noise of a linear program.
_NO_FLOW = 1e-9
#: Fractions below this are rounding noise of a mixture.
_NO_FRACTION = 1e-12
#: Absolute tolerance of the linear program over paths, in which every limit is one.
_PATHS_TOLERANCE = 1e-10
#: Budgets may be larger by this where they cannot be kept otherwise; with that tolerance it is less than TOLERANCE.
_PATHS_SLACK = 8e-10


@dataclass(frozen=True, eq=False)
class Flow:
    """What flows through a graph.

    Parameters
    ----------
    at
        (E, K) Share at each node; the shares of a layer add up to one, to within an engine's tolerance.
    stay
        (E - 1, K) Share that stays at each node from one layer to the next.
    enter
        (E - 1, F, K) Share that comes to each node from other nodes, by the group that it leaves.
    group
        (K,) Group of each node.
    """

    at: FloatArray
    stay: FloatArray
    enter: FloatArray
    group: IntArray

    @classmethod
    def of_shares(cls, at: FloatArray) -> Flow:
        """Return the flow with given shares (E, K) at the nodes in which as much as possible stays; one group."""
        at = np.where(at < _NO_FLOW, 0.0, at)
        at = at / at.sum(axis=1, keepdims=True)
        stay = np.minimum(at[:-1], at[1:])
        return cls(at, stay, (at[1:] - stay)[:, None], np.zeros(at.shape[1], dtype=np.int64))


def choice_of_flows(problem: BudgetedPaths, flows: Sequence[Flow], *, mixed: bool) -> Choice | None:
    """Turn the flows of an engine into a choice that keeps the budgets.

    Parameters
    ----------
    flows
        One for each graph.
    mixed
        Whether mixtures are allowed; otherwise the shares are integer to within the engine's tolerance.

    Returns
    -------
    Choice or None
        Of mixtures the best one of the paths that the flows are made of; None when none keeps the budgets.

    Raises
    ------
    EngineError
        When a pure choice does not keep the budgets.
    """
    if mixed:
        paths = [take_apart(flow) for flow in flows]
        return mix_within_budget(
            problem, [[*frugal, *own] for frugal, own in zip(_frugal_paths(problem), paths, strict=True)]
        )
    choice = tuple((WeightedPath(1.0, flow.at.argmax(axis=1)),) for flow in flows)
    used = problem.totals(choice)[1]
    for limit, budget, amount in zip(problem.limits, problem.budgets.tolist(), used.tolist(), strict=True):
        if not is_within(amount, budget):
            message = f"the engine returned a choice that consumes {amount!r} of a limit ({limit}) of {budget!r}"
            raise EngineError(message)
    return choice


def _frugal_paths(problem: BudgetedPaths) -> list[list[IntArray]]:
    """Return for each graph the paths of least consumption of each limit, and of all of them together.

    With one limit every feasible budget can be kept by them; with several they help where rounding took a little of a
    flow away.
    """
    shares = 1.0 / problem.budgets
    weights = [shares] if shares.size == 1 else [*np.diag(shares), shares]
    frugal = []
    for graph in problem.graphs:
        costs = (graph.weighted(each, value=0.0) for each in weights)
        frugal.append([least_path(run, enter, graph.group)[1] for run, enter in costs])
    return frugal


def take_apart(flow: Flow) -> list[IntArray]:
    """Take a flow apart into paths, layer by layer: what stays stays, and the rest goes on by the group that it leaves.

    Parameters
    ----------
    flow
        Shares below a relative 1e-9 are taken for rounding noise.

    Returns
    -------
    list of IntArray
        Paths as columns (E,), in a fixed order.
    """
    return [path.columns for path in list_strands(flow)]


def list_strands(flow: Flow) -> tuple[WeightedPath, ...]:
    """Take a flow apart as :func:`take_apart` does, with the fraction of each path; they add up to one."""
    strands = [(float(share), [int(node)]) for node, share in enumerate(flow.at[0]) if share > _NO_FLOW]
    for stay, enter in zip(flow.stay, flow.enter, strict=True):
        room = stay.copy()
        kept: list[tuple[float, list[int]]] = []
        leaving: list[list[tuple[float, list[int]]]] = [[] for _ in enter]
        for share, path in strands:
            stays = min(share, float(room[path[-1]]))
            room[path[-1]] -= stays
            if stays > _NO_FLOW:
                kept.append((stays, [*path, path[-1]]))
            if share - stays > _NO_FLOW:
                leaving[flow.group[path[-1]]].append((share - stays, path))
        strands = kept
        for paths, shares in zip(leaving, enter, strict=True):
            strands = strands + _redirect(paths, shares)
    total = sum(share for share, _ in strands)
    return tuple(WeightedPath(share / total, np.array(path, dtype=np.int64)) for share, path in strands)


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
    """Return the best mixture of given paths, with at most one path more than graphs for each limit.

    Parameters
    ----------
    candidates
        For each graph some paths, as columns (E,).

    Returns
    -------
    Choice or None
        None when no mixture of the candidates keeps the budgets.
    """
    totals = [
        [path_totals(graph, columns) for columns in paths]
        for graph, paths in zip(problem.graphs, candidates, strict=True)
    ]
    value = [np.array([value for value, _ in each]) for each in totals]
    consumption = [np.array([consumption for _, consumption in each]).T for each in totals]
    if problem.budgets.size > 1:
        return _mix_by_program(problem, candidates, value, consumption)
    return _mix_along_hulls(problem, candidates, value, [each[0] for each in consumption])


def _mix_along_hulls(
    problem: BudgetedPaths,
    candidates: Sequence[Sequence[IntArray]],
    values: Sequence[FloatArray],
    consumptions: Sequence[FloatArray],
) -> Choice | None:
    """Walk each graph's lower hull of (consumption, value), steepest segments first, until the one budget is spent."""
    totals = list(zip(values, consumptions, strict=True))
    hulls = [_hull_order(value, consumption) for value, consumption in totals]
    at = [(int(hull[0]), int(hull[0]), 0.0) for hull in hulls]
    least = sum(float(consumption[hull[0]]) for (_, consumption), hull in zip(totals, hulls, strict=True))
    budget = float(problem.budgets[0])
    if least > most_within(budget):
        return None
    room = budget - least
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


def _mix_by_program(
    problem: BudgetedPaths,
    candidates: Sequence[Sequence[IntArray]],
    values: Sequence[FloatArray],
    consumptions: Sequence[FloatArray],
) -> Choice | None:
    """Solve the linear program over fractions of paths; a vertex has one path per graph, and one more per limit."""
    from scipy.optimize import linprog

    owner = np.repeat(np.arange(len(candidates)), [len(paths) for paths in candidates])
    value, shares = np.concatenate(values), np.concatenate(consumptions, axis=1) / problem.budgets[:, None]
    for most in (1.0, 1.0 + _PATHS_SLACK):
        found = linprog(
            value / (np.abs(value).max() or 1.0),
            A_ub=shares,
            b_ub=np.full(len(shares), most),
            A_eq=(owner == np.arange(len(candidates))[:, None]).astype(float),
            b_eq=np.ones(len(candidates)),
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": _PATHS_TOLERANCE,
                "dual_feasibility_tolerance": _PATHS_TOLERANCE,
            },
        )
        if found.x is not None:
            return _fractions(problem, candidates, owner, found.x)
    return None


def _fractions(
    problem: BudgetedPaths, candidates: Sequence[Sequence[IntArray]], owner: IntArray, fractions: FloatArray
) -> Choice | None:
    """Make fractions of all paths, which add up to one for each graph but for rounding, a choice."""
    fractions = np.where(fractions > _NO_FRACTION, fractions, 0.0)
    choice = []
    for number, paths in enumerate(candidates):
        own = fractions[owner == number]
        own = own / own.sum()
        choice.append(tuple(WeightedPath(float(own[k]), paths[k]) for k in np.flatnonzero(own).tolist()))
    return tuple(choice) if problem.keeps_budgets(problem.totals(tuple(choice))[1]) else None


def _hull_order(value: FloatArray, consumption: FloatArray) -> IntArray:
    """Return the vertices of the lower-left hull, by increasing consumption."""
    vertices = np.flatnonzero(lower_left_hull(consumption[None, :], value[None, :])[0])
    return vertices[np.argsort(consumption[vertices], kind="stable")]


def _mixture(paths: Sequence[IntArray], low: int, high: int, share: float) -> tuple[WeightedPath, ...]:
    if low == high:
        return (WeightedPath(1.0, paths[low]),)
    return (WeightedPath(1.0 - share, paths[low]), WeightedPath(share, paths[high]))
