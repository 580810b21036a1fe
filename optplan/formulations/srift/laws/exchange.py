"""The exchange of gradients during the backward pass: transfers that start when a gradient is ready and share the bus.

The paper's event simulation (4.3). Equation 2 gives every active transfer its own bandwidth while their sum is below
the capacity, and otherwise the least of its own bandwidth and an equal share of the capacity. Transfers with the same
own bandwidth always run at the same pace, so what such a class has moved is counted once: an event costs a step for
each class and none for each transfer.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

import numpy as np

from optplan.schema import FloatArray


def exchange_seconds(
    ready_s: FloatArray, volumes_bytes: FloatArray, own_bytes_per_s: FloatArray, capacity_bytes_per_s: float
) -> float:
    """Return when the last transfer ends, t_pe, counted from the beginning of the backward pass.

    Parameters
    ----------
    ready_s
        (L,) When each gradient is ready, ascending.
    volumes_bytes
        (L,) What a rank sends and receives for it, V = 2 s (n - 1) / n.
    own_bytes_per_s
        (L,) Bus bandwidth of each transfer, were it alone.
    capacity_bytes_per_s
        Bus bandwidth of all together, b_cap.

    Returns
    -------
    float
        Seconds.
    """
    return _simulate(ready_s, volumes_bytes, own_bytes_per_s, capacity_bytes_per_s, None)


def exchange_times(
    ready_s: FloatArray, volumes_bytes: FloatArray, own_bytes_per_s: FloatArray, capacity_bytes_per_s: float
) -> FloatArray:
    """Return (L,) seconds at which each transfer ends; parameters as of :func:`exchange_seconds`."""
    ends = np.zeros(len(ready_s))
    _simulate(ready_s, volumes_bytes, own_bytes_per_s, capacity_bytes_per_s, ends)
    return ends


def _simulate(
    ready_s: FloatArray,
    volumes_bytes: FloatArray,
    own_bytes_per_s: FloatArray,
    capacity: float,
    ends: FloatArray | None,
) -> float:
    """Go from event to event; note each transfer's end where asked."""
    paces, classes = np.unique(own_bytes_per_s, return_inverse=True)
    own, kind = paces.tolist(), classes.tolist()
    ready, volume = np.asarray(ready_s).tolist(), np.asarray(volumes_bytes).tolist()
    # By class: bytes that each of its transfers has moved since it went live, at which count active ones end, how many.
    moved, number, rate = [0.0] * len(own), [0] * len(own), own.copy()
    waiting: list[list[tuple[float, int]]] = [[] for _ in own]
    live: list[int] = []
    started, active, now = 0, 0, 0.0
    while started < len(ready) or active:
        demand = 0.0
        for each in live:
            demand += own[each] * number[each]
        share = math.inf if demand < capacity or not active else capacity / active
        step, first = math.inf, -1
        for each in live:
            rate[each] = own[each] if own[each] < share else share
            lasting = (waiting[each][0][0] - moved[each]) / rate[each]
            if lasting < step:
                step, first = lasting, each
        arrives = started < len(ready) and ready[started] - now <= step
        if arrives:
            step = max(ready[started] - now, 0.0)
        for each in live:
            moved[each] += step * rate[each]
        if arrives:
            now = max(now, ready[started])
            each = kind[started]
            if not number[each]:
                live.append(each)
                moved[each] = 0.0
            heappush(waiting[each], (moved[each] + volume[started], started))
            number[each] += 1
            started, active = started + 1, active + 1
            continue
        now += step
        moved[first] = waiting[first][0][0]  # exactly, whatever rounding left
        while waiting[first] and waiting[first][0][0] <= moved[first]:
            _, done = heappop(waiting[first])
            number[first], active = number[first] - 1, active - 1
            if ends is not None:
                ends[done] = now
        if not number[first]:
            live.remove(first)
    return now
