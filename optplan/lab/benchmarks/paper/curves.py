"""What policies reach at equal use: curves of completion times over GPU-hours, and factors between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Point:
    """One replay of what ``label`` says: what was held and rented, completion times, the most GPUs at once."""

    label: str
    gpu_hours: float
    node_gpu_hours: float
    mean_s: float
    p95_s: float
    most_gpus: int


@dataclass(frozen=True)
class Curve:
    """A policy's replays on one trace, at least one, by what they used."""

    name: str
    points: Sequence[Point]

    def at(self, hours: float, what: str = "mean_s", use: str = "node_gpu_hours") -> float | None:
        """Return a figure at so many GPU-hours: the least that the policy reaches with as many or fewer.

        Between two points both completion times and hours follow a line of powers; None where all points need more.
        """
        ordered = sorted((getattr(point, use), getattr(point, what)) for point in self.points)
        hours_of = np.array([one for one, _ in ordered])
        values = np.minimum.accumulate(np.array([value for _, value in ordered]))
        if not hours_of.size or hours < hours_of[0] * (1 - 1e-9):
            return None
        return float(np.exp(np.interp(np.log(hours), np.log(hours_of), np.log(values))))

    def hours_for(self, seconds: float) -> float | None:
        """Return the GPU-hours for a mean completion time; None where the policy does not reach it."""
        ordered = sorted((point.node_gpu_hours, point.mean_s) for point in self.points)
        values = np.minimum.accumulate(np.array([value for _, value in ordered]))
        if not values.size or seconds < values[-1] or seconds > values[0]:
            return None
        hours_of = np.array([one for one, _ in ordered])
        return float(np.exp(np.interp(-np.log(seconds), -np.log(values), np.log(hours_of))))

    def nearest(self, hours: float) -> Point:
        """Return the point whose GPU-hours are nearest, as a factor."""
        return min(self.points, key=lambda point: abs(np.log(point.node_gpu_hours / hours)))


def compare(curve: Curve, rival: Curve, what: str = "mean_s", use: str = "node_gpu_hours") -> list[tuple[Point, float]]:
    """Return by which factor each point of a rival is above the curve at the same GPU-hours.

    Points at which the curve has none as cheap are left out, and those that a cheaper one of the rival's beats: nobody
    would choose them.
    """
    found = []
    for point in rival.points:
        hours, value = getattr(point, use), getattr(point, what)
        own, best = curve.at(hours, what, use), rival.at(hours, what, use)
        if own is not None and best is not None and value <= best * (1 + 1e-9):
            found.append((point, value / own))
    return found


def largest_factor(curve: Curve, rival: Curve) -> float | None:
    """Return the largest of :func:`compare`; None without any."""
    return max((factor for _, factor in compare(curve, rival)), default=None)
