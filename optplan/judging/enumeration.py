"""Enumerating paths anew, to check what a certificate says that leaves some open; written without sight of any solver.

A plan that keeps the limits b and is better than U has w0 value + w . consumption <= w0 U + w . b for any prices w from
0 on. So its paths exceed the graphs' least sums by no more than these leave room for together: the allowance.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optplan.contracts import PathCosts
from optplan.contracts.judgement import UnlistedError
from optplan.judging.loops import EndLists, find_least_path
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: Pairs of totals and paths that are formed at once: bounds the memory, 40 MB or so with two limits.
_MOST_PAIRS = 1_000_000
#: Numbers of all that is kept at a time; a certificate that leaves more to list proves nothing.
_MOST_NUMBERS = 1 << 23
#: Parts that are looked at apart.
_MOST_PARTS = 1_000
_TOO_MANY = "the allowance leaves more plans than are listed"


def least_path(graph: PathCosts, prices: FloatArray) -> float:
    """Return the least cost of a graph's paths at prices (1 + L,) of value and consumptions."""
    enter_value, enter_use = graph.enter_value, graph.enter_consumption
    if enter_value.strides[1] == enter_use.strides[2] == 0:  # the same in all layers
        enter_value, enter_use = enter_value[:, :1], enter_use[:, :, :1]
    nodes, groups = graph.group.size, len(enter_value)
    run = np.ascontiguousarray(graph.run_value), np.ascontiguousarray(graph.run_consumption)
    group = np.ascontiguousarray(graph.group, dtype=np.intp)
    room, entry = np.empty((2, nodes)), np.empty((groups + 1, max(nodes, groups)))
    prices = np.ascontiguousarray(prices, dtype=np.float64)
    return find_least_path(prices, *run, enter_value, enter_use, group, room, entry)


def least_within(
    graphs: list[PathCosts],
    prices: FloatArray,
    allowance: float,
    most: FloatArray,
    stopwatch: Stopwatch | None = None,
) -> float:
    """Return the least value of paths within an allowance of the best ones whose totals are at most ``most``."""
    stopwatch = stopwatch or Stopwatch()
    suffixes: list[FloatArray] = []
    for graph in graphs:
        suffixes.append(_suffixes_within(graph, prices, allowance, stopwatch))
        _require_room(suffixes)
    if not all(len(points) for points in suffixes):
        return float("inf")
    suffixes.sort(key=len)  # the longest one last, whose sums are not compared with each other
    least_left = np.cumsum([np.zeros(most.size), *(p[:, 1:].min(axis=0) for p in reversed(suffixes))], axis=0)[::-1]
    best_left = np.append(np.cumsum([(p @ prices).min() for p in reversed(suffixes)])[::-1], 0.0)
    ceiling = best_left[0] + allowance
    points = np.zeros((1, prices.size))
    for number, more in enumerate(suffixes, start=1):
        kept = np.zeros((0, prices.size))
        step = max(1, 2 * _MOST_PAIRS // prices.size // max(1, len(more)))
        for start in range(0, len(points), step):
            stopwatch.require()
            sums = (points[start : start + step, None, :] + more[None, :, :]).reshape(-1, prices.size)
            near = sums @ prices + best_left[number] <= ceiling
            fits = (sums[:, 1:] + least_left[number] <= most).all(axis=1)
            kept = np.concatenate([kept, sums[near & fits]])
            is_last = number == len(suffixes)
            kept = kept[kept[:, 0].argsort(kind="stable")[:1]] if is_last else _undominated(kept, stopwatch)
            _require_room([kept])
        points = kept
        if not len(points):
            return float("inf")
    return float(points[:, 0].min())


def least_divided(
    graphs: list[PathCosts],
    first: list[int],
    prices: FloatArray,
    ceilings: FloatArray,
    most: FloatArray,
    stopwatch: Stopwatch,
) -> float:
    """Return the least value of paths with totals of at most ``most`` and below ceilings (M,) at prices (M, 1 + L).

    Each path of the first graphs is looked at apart: so little of the ceilings is left to the others, beside what they
    take at least, that at one of the prices few of their paths have to be listed.
    """
    every, ceilings = np.concatenate([prices, np.eye(prices.shape[1])[1:]]), np.append(ceilings, most)
    least = np.array([[least_path(graph, each) for graph in graphs] for each in every])
    order = first + [graph for graph in range(len(graphs)) if graph not in first]
    parts = iter(range(_MOST_PARTS))

    def look(depth: int, taken: FloatArray) -> float:
        rooms = ceilings - every @ taken - least[:, order[depth:]].sum(axis=1)
        if not (rooms >= 0.0).all():
            return float("inf")
        if next(parts, None) is None:
            raise UnlistedError(_TOO_MANY)
        row = int(rooms[: len(prices)].argmin())
        if depth == len(first):
            others = [graphs[graph] for graph in order[depth:]]
            return float(taken[0]) + least_within(others, prices[row], rooms[row], most - taken[1:], stopwatch)
        paths = _suffixes_within(graphs[order[depth]], prices[row], rooms[row], stopwatch)
        return min((look(depth + 1, taken + path) for path in paths), default=float("inf"))

    return look(0, np.zeros(prices.shape[1]))


def _require_room(kept: Iterable[FloatArray]) -> None:
    """Raise when there are more numbers than are kept."""
    if sum(points.size for points in kept) > _MOST_NUMBERS:
        raise UnlistedError(_TOO_MANY)


def _suffixes_within(graph: PathCosts, prices: FloatArray, allowance: float, stopwatch: Stopwatch) -> FloatArray:
    """List undominated (value, consumptions) of a graph's paths within the allowance, from the last layer backwards."""
    steps = np.concatenate([graph.run_value[None], graph.run_consumption])
    entries = np.concatenate([graph.enter_value[None], graph.enter_consumption])
    ends = EndLists(
        np.ascontiguousarray(np.moveaxis(steps, 0, -1)),
        np.ascontiguousarray(np.moveaxis(entries, 0, -1)),
        np.ascontiguousarray(graph.group, dtype=np.intp),
        prices,
        allowance,
        stopwatch,
    )
    for layer in range(len(graph.run_value) - 1, 0, -1):
        stopwatch.require()
        if ends.go_back(layer) * prices.size > _MOST_NUMBERS:
            raise UnlistedError(_TOO_MANY)
    return _undominated(ends.list_paths(), stopwatch)


def _undominated(points: FloatArray, stopwatch: Stopwatch) -> FloatArray:
    """Keep the points (M, 1 + L) that no other has no more of anything than; of equal points the first."""
    order = np.lexsort(points.T[::-1])
    points = points[order]
    if points.shape[1] == 2:  # one limit: by increasing value, only falling consumption is worth keeping
        least_before = np.minimum.accumulate(np.concatenate(([np.inf], points[:, 1])))[:-1]
        return points[points[:, 1] < least_before]
    kept = np.ones(len(points), dtype=np.bool_)
    for position in range(len(points)):
        if kept[position]:
            stopwatch.require()
            later = points[position + 1 :]
            kept[position + 1 :] &= ~(later >= points[position]).all(axis=1)
    return points[kept]
