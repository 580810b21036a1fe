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
from optplan.solvers.layered_graphs import path_totals

#: Flows below this are rounding noise of a linear program.
_NO_FLOW = 1e-9


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


def write_solution(instance: BoaInstance, choice: Choice) -> BoaSolution:
    """Write a choice of paths as widths by class, with GPU types where there are several."""
    return BoaSolution(
        branches={
            name: tuple(write_branch(instance, name, path.columns, path.fraction) for path in mixture)
            for name, mixture in zip(instance.classes, choice, strict=True)
        }
    )
