"""Lower bounds of what fleets take, from what is known of them so far, and of what the rest of a fleet needs.

Fleets are sorted by their slowest VM: of all pairs of a type and a batch, that with the largest raw time, which must be
there, while all others may be as slow at most. For each bound the reason why no fleet can pass it stands with it.

The least price, ranks and VMs with which the rest of a fleet reaches the global batch follow from a bounded knapsack by
dynamic programming (Bellman, "Dynamic Programming", 1957; counts by binary splitting) over samples, in units of their
greatest common divisor: table j holds, for every number of samples, the least that the types from level j on can give
them for. With one batch per type the price that it finds is that of a fleet; the three quantities are made least one by
one, so that together they are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.interruptions import expect_training
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import ROUNDING
from optplan.units import SECONDS_PER_HOUR

#: Panels of the quadrature in standard deviations from the slowest VM's mean, and the nodes of each.
_PANELS = (-6.5, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5, 8.0)
_PANEL_NODES = (6, 10, 10, 10, 10, 10, 10, 10, 8)
#: Deviations below this share of the largest are too sharp for those nodes.
_SHARP = 0.5
#: Error of the quadrature in the largest deviation, with so many VMs of a choice (measured with five times as many:
#: 1.4e-5).
_QUADRATURE_ERROR = 2e-5
MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    """A type of VM with one of its batches."""

    name: str
    batch: int
    number: int
    raw_s: float  # forward and backward seconds without deviation
    forward_s: float  # the part of it that is forward
    deviation_s: float  # standard deviation of the sum


def list_choices(instance: SriftInstance, model: IterationModel) -> list[Choice]:
    """List the pairs of a type and a batch, the quickest first, so that the last one of a fleet is its slowest."""
    # Of equals the evaluator takes the longest backward pass, the last GPU by name, the first type, the largest batch.
    found = []
    for number, (name, vm) in enumerate(instance.types.items()):
        share = instance.job.devices[vm.gpu].deviation
        for batch in instance.batches_of[name] if instance.most_of(name) else ():
            forward, backward = model.passes_s(name, batch)
            raw = forward + backward
            found.append(Choice(name, batch, number, raw, forward, share * raw))
    gpus = [vm.gpu for vm in instance.types.values()]
    return sorted(found, key=lambda each: (each.raw_s, -each.forward_s, gpus[each.number], -each.number, each.batch))


def _place_nodes() -> tuple[FloatArray, FloatArray]:
    points, weights = [], []
    for start, end, count in zip(_PANELS[:-1], _PANELS[1:], _PANEL_NODES, strict=True):
        at, weight = np.polynomial.legendre.leggauss(count)
        points.append(start + (end - start) / 2.0 * (at + 1.0))
        weights.append(weight * (end - start) / 2.0)
    return np.concatenate(points), np.concatenate(weights)


_POINTS, _WEIGHTS = _place_nodes()


class StragglerBound:
    """Bounds the mean time of the straggler from below, for fleets with one slowest choice.

    ``E[max] = a + integral from a of (1 - F)``, where F is the distribution of the largest of all VMs and F(a) is as
    good as zero. Its logarithm adds up over VMs. Three things may be left out, as each makes E[max] no larger:

    * VMs: the largest of fewer variables is nowhere larger.
    * What a VM deviates: by Jensen's inequality, max being convex, ``E[max(X, Y)] >= E[max(E[X], Y)]`` for independent
      X and Y. So a slowest choice without or with a sharp deviation stands for its mean, at which the integral starts.
    * The tail above the last node.
    """

    def __init__(self, slowest: Choice, others: Sequence[Choice]) -> None:
        largest = max(choice.deviation_s for choice in (slowest, *others))
        self._margin_s = _QUADRATURE_ERROR * largest + ROUNDING * slowest.raw_s
        self._at = slowest.raw_s + largest * _POINTS
        self._weights = largest * _WEIGHTS
        self._sharp = _SHARP * largest
        if slowest.deviation_s <= self._sharp:
            # Above the mean only; the nodes below it are dropped with their panels.
            above = _POINTS > 0.0
            self._at, self._weights = self._at[above], self._weights[above]
            self._start_s = slowest.raw_s
        else:
            self._start_s = slowest.raw_s + largest * _PANELS[0]

    def logarithms(self, choice: Choice, counts: IntArray) -> FloatArray:
        """Return (N, Q) logarithms of the distributions of the largest of so many VMs; 0 for a choice left out."""
        if choice.deviation_s <= self._sharp:
            return np.zeros((counts.size, self._at.size))
        single = log_ndtr((self._at - choice.raw_s) / choice.deviation_s)
        return np.asarray(np.minimum(counts, MOST_COUNTED)[:, None] * single, dtype=np.float64)

    def seconds(self, logarithms: FloatArray) -> FloatArray:
        """Return (N,) the least E[max] with certain VMs, the slowest one of them, by their (N, Q) summed logarithms."""
        integral = -(np.expm1(logarithms) @ self._weights)
        return np.asarray(self._start_s + integral - self._margin_s, dtype=np.float64)


def bound_training(
    instance: SriftInstance, work_s: FloatArray, interruptions_per_hour: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (N,) least seconds of training, and billed, which grow with (N,) work and interruptions at least."""
    if instance.interruptions is None:
        return work_s, work_s
    rate_per_s = interruptions_per_hour / SECONDS_PER_HOUR * (1.0 - ROUNDING)
    total_s, billed_s = expect_training(work_s * (1.0 - ROUNDING), rate_per_s, instance.interruptions)
    return total_s * (1.0 - ROUNDING), billed_s * (1.0 - ROUNDING)


#: Rows of a table: price, ranks, VMs.
QUANTITIES = 3
#: Up to so many units of samples there is a table; beyond, a linear relaxation stands in.
MOST_UNITS = 65_536


@dataclass(frozen=True)
class Level:
    """What is decided at once: how many VMs of a type, and their batch where there is a choice."""

    number: int
    batches: tuple[int, ...]  # to choose from, ascending
    #: VMs, over all batches of the level; a least count of zero allows none.
    least: int
    most: int
    each: FloatArray  # (3,) price, ranks and VMs of one VM


class Remainders:
    """Bounds what the levels from each on need to give so many samples to VMs: the larger of two bounds."""

    # By a table: levels choose independently, so the least of a sum is the sum of the leasts. By a line: even if VMs
    # could be divided, types are taken in the order of what a sample needs, each up to its availability.

    def __init__(self, levels: Sequence[Level], samples: int) -> None:
        self._unit = math.gcd(samples, *(batch for level in levels for batch in level.batches))
        units, self._lines, self._tables = samples // self._unit, dict[int, LinearRelaxation](), list[FloatArray]()
        for start in range(len(levels) + 1):
            if units > MOST_UNITS or len({level.number for level in levels[start:]}) < len(levels) - start:
                self._lines[start] = LinearRelaxation(levels[start:])
        if units <= MOST_UNITS:
            table = np.full((QUANTITIES, units + 1), np.inf)
            table[:, 0] = 0.0
            self._tables.append(table)
            for level in reversed(levels):
                self._tables.append(_extend(self._tables[-1], level, self._unit))
            self._tables.reverse()

    def least(self, level: int, samples: IntArray) -> FloatArray:
        """Return (3, N) the least price, ranks and VMs of the levels from one on for (N,) samples, or infinity."""
        line = self._lines[level].least(samples) if level in self._lines else np.zeros((QUANTITIES, 1))
        if not self._tables:
            return line
        found = self._tables[level][:, np.where(samples % self._unit == 0, samples // self._unit, 0)]
        found[:, samples % self._unit != 0] = np.inf
        return np.maximum(found, line)


class LinearRelaxation:
    """The least of each quantity if the VMs of some levels could be divided: Dantzig's bound of a knapsack (1957)."""

    def __init__(self, levels: Sequence[Level]) -> None:
        types: dict[int, Level] = {}
        for level in levels:
            known = types.get(level.number)
            if level.batches and (known is None or level.batches[-1] > known.batches[-1]):
                types[level.number] = level
        self._corners = [_lay_out(list(types.values()), quantity) for quantity in range(QUANTITIES)]

    def least(self, samples: IntArray) -> FloatArray:
        """Return (3, N) the least of each quantity."""
        return np.array([np.interp(samples, *corners, right=np.inf) for corners in self._corners])


def _lay_out(levels: list[Level], quantity: int) -> tuple[FloatArray, FloatArray]:
    """Return the corners (samples, amount) of the least amount over divisible VMs."""
    ordered = sorted(levels, key=lambda level: level.each[quantity] / level.batches[-1])
    reach = np.cumsum([0.0, *(level.most * level.batches[-1] for level in ordered)])
    amount = np.cumsum([0.0, *(level.most * float(level.each[quantity]) for level in ordered)])
    return reach, amount * (1.0 - 1e-12)


def _extend(after: FloatArray, level: Level, unit: int) -> FloatArray:
    """Return the table (3, U) of a level and all after it, by doublings of its count."""
    best = after.copy() if level.least == 0 else np.full_like(after, np.inf)
    units = after.shape[1] - 1
    for batch in level.batches:
        step, first = batch // unit, max(1, level.least)
        counts = min(level.most, units // step) - first + 1
        if counts <= 0:
            continue
        # Column u stands for u samples more than the first count has.
        window = after[:, : units + 1 - step * first] + first * level.each[:, None]
        span = 1
        while span < counts:
            further = min(span, counts - span)
            offset = step * further
            np.minimum(window[:, offset:], window[:, :-offset] + further * level.each[:, None], out=window[:, offset:])
            span += further
        np.minimum(best[:, step * first :], window, out=best[:, step * first :])
    return best
