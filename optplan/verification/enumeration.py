"""Enumerating paths anew, to check what an enumerated certificate says; written without sight of any solver."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optplan.contracts import PathCosts
from optplan.contracts.judgement import UnlistedError
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.verification.findings import ROUNDING, TOLERANCE
from optplan.verification.loops import EndLists

#: Pairs of totals and paths that are formed at once: bounds the memory, 40 MB or so with two limits.
_MOST_PAIRS = 1_000_000
#: Numbers of all that is kept at a time; a certificate that leaves more to list proves nothing.
_MOST_NUMBERS = 1 << 23
_TOO_MANY = "the allowance leaves more plans than are listed"


def least_within(
    graphs: list[PathCosts],
    weights: FloatArray,
    allowance: float,
    amounts: FloatArray,
    stopwatch: Stopwatch | None = None,
) -> float:
    """Enumerate what lies within an allowance of the dual bound and return the least value that keeps the limits.

    Multipliers and limits are (L,). Infinity when nothing within the allowance, a total reduced cost above the graphs'
    best paths, keeps the limits. Raises OutOfTime when the stopwatch's limit passes before the end, and UnlistedError
    when there is too much to list.
    """
    stopwatch = stopwatch or Stopwatch()
    suffixes: list[FloatArray] = []
    for graph in graphs:
        suffixes.append(_suffixes_within(graph, weights, allowance, stopwatch))
        _require_room(suffixes)
    if not all(len(points) for points in suffixes):
        return float("inf")
    suffixes.sort(key=len)  # the longest one last, whose sums are not held against each other
    prices = np.concatenate(([1.0], weights))
    least_left = np.cumsum([np.zeros(weights.size), *(p[:, 1:].min(axis=0) for p in reversed(suffixes))], axis=0)[::-1]
    best_left = np.append(np.cumsum([(p @ prices).min() for p in reversed(suffixes)])[::-1], 0.0)
    ceiling = best_left[0] + allowance
    points = np.zeros((1, weights.size + 1))
    for number, more in enumerate(suffixes, start=1):
        kept = np.zeros((0, weights.size + 1))
        step = max(1, 2 * _MOST_PAIRS // (weights.size + 1) // max(1, len(more)))
        for start in range(0, len(points), step):
            stopwatch.require()
            sums = (points[start : start + step, None, :] + more[None, :, :]).reshape(-1, weights.size + 1)
            near = sums @ prices + best_left[number] <= ceiling
            fits = (sums[:, 1:] + least_left[number] <= amounts * (1 + TOLERANCE - ROUNDING)).all(axis=1)
            kept = np.concatenate([kept, sums[near & fits]])
            is_last = number == len(suffixes)
            kept = kept[kept[:, 0].argsort(kind="stable")[:1]] if is_last else _undominated(kept, stopwatch)
            _require_room([kept])
        points = kept
        if not len(points):
            return float("inf")
    return float(points[:, 0].min())


def _require_room(kept: Iterable[FloatArray]) -> None:
    """Raise when there are more numbers than are kept."""
    if sum(points.size for points in kept) > _MOST_NUMBERS:
        raise UnlistedError(_TOO_MANY)


def _suffixes_within(graph: PathCosts, weights: FloatArray, allowance: float, stopwatch: Stopwatch) -> FloatArray:
    """List undominated (value, consumptions) of a graph's paths within the allowance, from the last layer backwards."""
    steps = np.concatenate([graph.run_value[None], graph.run_consumption])
    entries = np.concatenate([graph.enter_value[None], graph.enter_consumption])
    ends = EndLists(
        np.ascontiguousarray(np.moveaxis(steps, 0, -1)),
        np.ascontiguousarray(np.moveaxis(entries, 0, -1)),
        np.ascontiguousarray(graph.group, dtype=np.intp),
        np.concatenate(([1.0], weights)),
        allowance,
        stopwatch,
    )
    for layer in range(len(graph.run_value) - 1, 0, -1):
        stopwatch.require()
        if ends.go_back(layer) * (1 + weights.size) > _MOST_NUMBERS:
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
