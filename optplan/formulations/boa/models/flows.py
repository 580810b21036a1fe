"""From flows through layered graphs, which is what linear programs return, to mixtures of paths.

A path that stays at its node pays nothing for it. Where entering a node costs the same whatever node a path leaves, the
cheapest of all ways to take a flow apart into paths are those in which as much as possible stays. Where it depends on
the group left, the linear program says who goes where, and paths follow that. Source: Ahuja, Magnanti and Orlin,
Network Flows, theorem 3.5 (flow decomposition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.paths import write_branch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import least_path, path_totals

#: Flows below this are rounding noise of a linear program.
_NO_FLOW = 1e-9
#: Fractions below this are rounding noise of a mixture.
_NO_FRACTION = 1e-12
#: Absolute tolerance of the linear program over paths, in which every limit is one, and by how much limits may be
#: larger where they cannot be kept otherwise; together they are less than LIMIT_TOLERANCE.
_TOLERANCE, _SLACK = 1e-10, 8e-10


@dataclass(frozen=True)
class WeightedPath:
    """One path through a graph.

    Parameters
    ----------
    fraction
        Share of whatever flows through the graph; the fractions of a graph's paths add up to one.
    columns
        (E,) Column of the node in each layer; ``graph.labels`` says what the nodes mean.
    """

    fraction: float
    columns: IntArray


#: A mixture for each graph; a pure choice has one path per graph.
Choice = tuple[tuple[WeightedPath, ...], ...]


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


def list_strands(flow: Flow) -> tuple[WeightedPath, ...]:
    """Take a flow apart into paths, layer by layer: what stays stays, and the rest goes on by the group that it leaves.

    Shares below a relative 1e-9 are taken for rounding noise.
    """
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


def add_up(costs: Sequence[PathCosts], choice: Choice) -> tuple[float, FloatArray]:
    """Return total value and total consumption (L,) of a choice."""
    value, consumption = 0.0, np.zeros(len(costs[0].limits))
    for graph, mixture in zip(costs, choice, strict=True):
        for path in mixture:
            path_value, path_consumption = path_totals(graph, path.columns)
            value += path.fraction * path_value
            consumption += path.fraction * path_consumption
    return value, consumption


def mix_within(costs: Sequence[PathCosts], choice: Choice, limits: FloatArray) -> Choice | None:
    """Return the best mixture of a choice's paths, and of those that take least of a limit, within limits (L,).

    Near the least budget what an engine's tolerance takes beyond it may be worth far more than rounding: this linear
    program is small, and its vertices have one path per graph and one more per limit. None where it finds nothing.
    """
    from scipy.optimize import linprog

    paths = [
        [
            *(path.columns for path in mixture),
            *(
                least_path(*each, graph.group)[1]
                for each in zip(graph.run_consumption, graph.enter_consumption, strict=True)
            ),
        ]
        for graph, mixture in zip(costs, choice, strict=True)
    ]
    owner = np.repeat(np.arange(len(paths)), [len(own) for own in paths])
    totals = [path_totals(graph, each) for graph, own in zip(costs, paths, strict=True) for each in own]
    value, shares = np.array([value for value, _ in totals]), np.array([used for _, used in totals]).T / limits[:, None]
    for most in (1.0, 1.0 + _SLACK):
        found = linprog(
            value / (np.abs(value).max() or 1.0),
            A_ub=shares,
            b_ub=np.full(limits.size, most),
            A_eq=(owner == np.arange(len(paths))[:, None]).astype(float),
            b_eq=np.ones(len(paths)),
            method="highs-ds",
            options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
        )
        if found.x is not None:
            fractions = np.where(found.x > _NO_FRACTION, found.x, 0.0)
            return tuple(
                tuple(
                    WeightedPath(float(fraction / fractions[owner == number].sum()), columns)
                    for fraction, columns in zip(fractions[owner == number].tolist(), own, strict=True)
                    if fraction
                )
                for number, own in enumerate(paths)
            )
    return None


def write_solution(instance: BoaInstance, choice: Choice) -> BoaSolution:
    """Write a choice of paths as widths by class, with GPU types where there are several."""
    return BoaSolution(
        branches={
            name: tuple(write_branch(instance, name, path.columns, path.fraction) for path in mixture)
            for name, mixture in zip(instance.classes, choice, strict=True)
        }
    )
