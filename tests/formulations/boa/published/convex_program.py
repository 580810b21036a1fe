"""The convex program (6), which the paper hands to CVXPY: a second way to solve what Algorithm 1 solves by sorting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optplan.formulations.boa.judge.evaluation import TOLERANCE
from optplan.formulations.boa.published.algorithm1 import SuperEpochs
from optplan.schema import FloatArray


def compile_program(epochs: SuperEpochs) -> Callable[[float], FloatArray | None]:
    """State the glued problem as the convex program (6): values within range, consumption above the hull's segments."""
    import cvxpy as cp
    import scipy.sparse as sp

    rows, columns = np.nonzero(epochs.vertex)
    order = np.lexsort((epochs.consumption[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    v, c = epochs.value[rows, columns], epochs.consumption[rows, columns]
    number = len(epochs.value)
    is_first = np.diff(rows, prepend=-1) > 0
    dearest, least_use = v[is_first], c[is_first]
    cheapest = v[np.append(is_first[1:], True)]
    inside = np.flatnonzero(~is_first) - 1
    slope = (c[inside + 1] - c[inside]) / (v[inside + 1] - v[inside])
    # GPU use above the least one of the row, on the line through two neighbouring vertices: slope * (value - anchor).
    anchor = v[inside] - (c[inside] - least_use[rows[inside]]) / slope
    pick = sp.csr_array((np.ones(inside.size), (np.arange(inside.size), rows[inside])), shape=(inside.size, number))
    scale_v, scale_c = dearest.sum(), least_use.sum()
    value, extra = cp.Variable(number), cp.Variable(number, nonneg=True)
    room = cp.Parameter(nonneg=True)
    constraints = [value >= cheapest / scale_v, value <= dearest / scale_v, cp.sum(extra) <= room]
    if inside.size:
        steep = slope * scale_v / scale_c
        constraints.append(pick @ extra >= cp.multiply(steep, pick @ value - anchor / scale_v))
    program = cp.Problem(cp.Minimize(cp.sum(value)), constraints)

    def solve(budget: float) -> FloatArray | None:
        if budget < scale_c * (1 - TOLERANCE):
            return None
        if budget <= scale_c * (1 + TOLERANCE):  # nothing to decide, and no interior for an interior-point method
            return np.column_stack((dearest, least_use))
        room.value = budget / scale_c - 1.0
        program.solve(solver=cp.CLARABEL)
        assert program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
        point = np.clip(value.value * scale_v, cheapest, dearest)
        # Where the budget leaves room, the program may give any consumption above the hull; the hull's own is meant.
        use = least_use.copy()
        np.maximum.at(use, rows[inside], least_use[rows[inside]] + slope * (point[rows[inside]] - anchor))
        return np.column_stack((point, use))

    return solve
