"""What the page and its figures derive from simulations: efficiency over time, and means over the seeds of bursts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper.experiments import EXACT, PUBLISHED
from paper.gathering import Gathered
from paper.running import Curve, Curves


def own_curve(curves: Curves) -> Curve | None:
    """Return BOA's curve: exact widths, or Algorithm 1's where there are no exact ones."""
    return curves.get(EXACT) or curves.get(PUBLISHED)


def list_efficiency(cell: Mapping[str, Any]) -> list[float]:
    """Return the efficiency of rented GPUs in each stretch of time: work on the fewest GPUs over GPU-time rented."""
    told = cell["over_time"]
    rows = zip(told["efficiency"], told["gpus_used"], told["gpus_rented"], strict=True)
    return [(efficiency or 0.0) * used / rented if rented else 0.0 for efficiency, used, rented in rows]


def average_efficiency(cell: Mapping[str, Any]) -> tuple[float, float]:
    """Return the efficiency of rented GPUs, averaged over the time in which there are any, and over their GPU-hours."""
    rented = np.array(cell["over_time"]["gpus_rented"])
    efficiency = np.array(list_efficiency(cell))
    return float(efficiency[rented > 0].mean()), float(efficiency @ rented / rented.sum())


def average_arrivals(told: Gathered) -> list[tuple[float, dict[str, float]]]:
    """Return by C^2 each policy's mean over the seeds; those that did not complete every job are left out."""
    found: list[tuple[float, dict[str, float]]] = []
    for variation in dict.fromkeys(row["variation"] for row in told.arrivals):
        rows = [row["policies"] for row in told.arrivals if row["variation"] == variation]
        means = {}
        for name in rows[0]:
            own = [row[name] for row in rows if row.get(name) is not None]
            if own and all(one["completed"] == one["num_jobs"] for one in own):
                means[name] = float(np.mean([one["mean_jct_s"] for one in own]))
        found.append((variation, means))
    return found
