"""Lower bounds of what fleets take, from what is known of them so far, and of what the rest of a fleet needs.

Fleets are sorted by their slowest VM: of all pairs of a type and a batch, that with the largest raw time, which must be
there, while all others may be as slow at most. For each bound the reason why no fleet can pass it stands with it.

The least price, ranks and VMs with which the rest of a fleet reaches the global batch follow from a bounded knapsack by
dynamic programming (Bellman, "Dynamic Programming", 1957; counts by binary splitting) over samples, in units of their
greatest common divisor: table j holds, for every number of samples, the least that the types from level j on can give
them for. With one batch per type the price that it finds is that of a fleet; the three quantities are made least one by
one, so that together they are bounds.

Lower bounds of iterations by their exchange: equation 2 simulated for intervals of ranks and of backward passes.

One simulation of a relaxation bounds an interval: it has the bytes of the fewest ranks, and transfers that are alone as
fast as anywhere in the interval but add up to no more than anywhere in it (:class:`~.laws.exchange.Exchange`). As
equation 2 jumps, more ranks or a longer pass may take less; so for so many ranks, or so long a pass, at least, the
least over all intervals from there on counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth, volume_factor
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.exchange import Exchange
from optplan.formulations.srift.laws.iteration import IterationModel, expect_training
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


#: Networks that are told apart; with more, fleets are not sorted by them, and bounds leave the others out.
MOST_NETWORKS = 62
#: Logarithm of what lies between the ends of an interval of ranks where these are not single, of one of backward
#: passes, and of one of backward passes of complete fleets.
_RANKS, _PASSES, _FINE_PASSES = 0.01, 0.01, 0.0025
#: Intervals of backward passes that are kept in one array.
_WIDE = 64


class Paces:
    """What exchanges take at least for a second of the backward pass, by intervals of ranks (R) and of passes."""

    # ``fewest`` (R,) ascend from one rank. ``complete``: fleets have exactly so many ranks as is asked for.

    def __init__(
        self, fewest: IntArray, floors_s: FloatArray, make: Callable[[int], Exchange], *, complete: bool
    ) -> None:
        self._fewest, self._make, self._complete = fewest, make, complete
        self._floors_s = floors_s if complete else np.minimum.accumulate(floors_s[::-1])[::-1]
        self._step = _FINE_PASSES if complete else _PASSES
        self._exchanges: dict[int, Exchange] = {}
        #: (R, _WIDE) paces of as many intervals of backward passes; no numbers where they are not computed yet.
        self._blocks: dict[int, FloatArray] = {}

    def floor_s(self, ranks: IntArray) -> FloatArray:
        """Return (N,) the least t_pe whatever the backward pass takes."""
        return np.asarray(self._floors_s[self._rows(ranks)], dtype=np.float64)

    def iteration_s(self, ranks: IntArray, backward_s: FloatArray, forward: float) -> FloatArray:
        """Return (N,) least seconds of iterations with passes so long or longer; ``forward`` is for one second."""
        rows, columns = self._rows(ranks), np.floor(np.log(backward_s) / self._step).astype(np.int64)
        wanted = np.unique(rows) if self._complete else np.arange(rows.min(), self._fewest.size)
        start, own = int(columns.min()), (np.searchsorted(wanted, rows), columns - columns.min())
        paces = self._look_up(wanted, range(start, int(columns.max()) + 1))
        reached = backward_s * (forward + paces[own])
        # Longer passes count up to where they alone take as long as what is reached.
        end = math.ceil(math.log(float(reached.max()) / (forward + 1.0)) / self._step)
        paces = np.hstack([paces, self._look_up(wanted, range(start + paces.shape[1], end))])
        later = np.full((wanted.size, paces.shape[1] + 1), np.inf)
        later[:, :-1] = np.exp(self._step * (start + np.arange(paces.shape[1]))) * (forward + paces)
        least = np.minimum.accumulate(later[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(np.minimum(reached, least[own[0], own[1] + 1]) * (1.0 - ROUNDING), dtype=np.float64)

    def _rows(self, ranks: IntArray) -> IntArray:
        return np.asarray(np.searchsorted(self._fewest, ranks, side="right") - 1, dtype=np.int64)

    def _look_up(self, rows: IntArray, numbers: range) -> FloatArray:
        """Return (rows, numbers) the longer of pass and exchange over the pass; unless complete, of later rows, too."""
        blocks = range(numbers.start // _WIDE, -(-numbers.stop // _WIDE))
        found = np.hstack([np.ones((rows.size, 0)), *(self._look_up_in(block, rows, numbers) for block in blocks)])
        return found if self._complete else np.minimum.accumulate(found[::-1])[::-1]

    def _look_up_in(self, block: int, rows: IntArray, numbers: range) -> FloatArray:
        """Return (rows, those of the numbers that are in the block), each row by itself."""
        if block not in self._blocks:
            self._blocks[block] = np.full((self._fewest.size, _WIDE), np.nan)
        start = max(numbers.start, block * _WIDE)
        asked = slice(start - block * _WIDE, min(numbers.stop, (block + 1) * _WIDE) - block * _WIDE)
        found = self._blocks[block][rows, asked]
        if np.isnan(found).any():
            for place, column in np.argwhere(np.isnan(found)).tolist():
                found[place, column] = self._compute(int(rows[place]), start + column)
            self._blocks[block][rows, asked] = found
        return found

    def _compute(self, row: int, number: int) -> float:
        if self._fewest[row] <= 1:
            return 1.0
        if row not in self._exchanges:
            self._exchanges[row] = self._make(row)
        longest_s = math.exp((number + 1) * self._step) * (1.0 + ROUNDING)
        return max(1.0, self._exchanges[row].seconds(longest_s) / longest_s)


class ExchangeBound:
    """Bounds iterations by networks (bits of a number) and least ranks: no set is faster than any type of it alone."""

    def __init__(self, instance: SriftInstance, model: IterationModel) -> None:
        self._instance, self._model = instance, model
        self._measured = isinstance(instance.bandwidth, MeasuredBandwidth)
        known = instance.networks_of([*instance.types])
        keys = [(capacity, label if self._measured else "") for label, capacity in known]
        ordered = sorted(set(keys))
        #: (M,) By type, the number of its network, the least capacity first.
        self.network_of: list[int] = [ordered.index(key) for key in keys]
        self._networks = [known[keys.index(key)] for key in ordered]
        # Fleets have as many ranks as there are, and as the smallest batches let have samples.
        there = sum(instance.most_of(name) * vm.gpus for name, vm in instance.types.items())
        batches = [(choices[0], instance.types[name].gpus) for name, choices in instance.batches_of.items() if choices]
        by_samples = max((instance.global_batch * gpus // batch for batch, gpus in batches), default=1)
        self._intervals = _divide(max(1, min(there, by_samples)))
        self._sent, asked = model.transfers(next(iter(instance.types.values())).gpu)[1:]
        self._sizes, self._size_of = np.unique(asked, return_inverse=True)
        self._alone: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._paces: dict[tuple[bytes, int, bool], Paces] = {}

    @property
    def networks(self) -> int:
        """How many different networks there are."""
        return len(self._networks)

    def stand_for(self, present: IntArray) -> IntArray:
        """Return (N,) which of the networks that are there bound: without tables, the one with the least capacity."""
        return present if self._measured else present & -present

    def paces(self, gpu: str, present: int, *, complete: bool) -> Paces:
        """Return the paces with a set of networks and, unless complete, maybe more; the slowest choice has that GPU."""
        ready = self._model.transfers(gpu)[0]
        key = ready.tobytes(), present, complete
        if key not in self._paces:
            self._paces[key] = self._make(ready, present, complete=complete)
        return self._paces[key]

    def _make(self, ready: FloatArray, present: int, *, complete: bool) -> Paces:
        """Return the paces for shares after which transfers are ready."""
        there = [network for network in range(min(self.networks, MOST_NETWORKS)) if present >> network & 1]
        # Those with less capacity would be there; with too many networks to be told apart, any could come.
        others = there if complete or not self._measured else range(self.networks)
        own = np.min([self._rates(network)[0] for network in there], axis=0)[:, self._size_of]
        least = np.min([self._rates(network)[1] for network in others], axis=0)[:, self._size_of] * (1.0 - ROUNDING)
        capacity = min(self._networks[network][1] for network in there)
        fewest = self._intervals[:, 0]
        volumes = np.array([volume_factor(ranks) for ranks in fewest.tolist()])[:, None] * self._sent
        floors_s = np.maximum(volumes.sum(axis=1) / capacity, (volumes / own).max(axis=1)) * (1.0 - ROUNDING)

        def make(row: int) -> Exchange:
            return Exchange(ready, volumes[row], own[row], capacity, least[row])

        return Paces(fewest, floors_s, make, complete=complete)

    def _rates(self, network: int) -> tuple[FloatArray, FloatArray]:
        """Return (R, S) the most and the least bus bandwidth of each size, were it alone, in each interval of ranks."""
        if network not in self._alone:
            bandwidth, (label, capacity) = self._instance.bandwidth, self._networks[network]
            rows = bandwidth.tables[label].ranks if isinstance(bandwidth, MeasuredBandwidth) else np.zeros(0)
            found = []
            for ends in self._intervals:
                ranks = {*ends.tolist(), *rows[(rows > ends[0]) & (rows < ends[1])].tolist()}
                each = [bandwidth.bus_bytes_per_s([(label, capacity)], number, self._sizes) for number in sorted(ranks)]
                found.append((np.max(each, axis=0), np.min(each, axis=0)))
            most, least = zip(*found, strict=True)
            self._alone[network] = np.array(most), np.array(least)
        return self._alone[network]


def _divide(most: int) -> IntArray:
    """Return (R, 2) the ends of intervals of ranks, from one to the most."""
    fewest = [1]
    while fewest[-1] < most:
        fewest.append(max(fewest[-1] + 1, math.floor(fewest[-1] * math.exp(_RANKS))))
    return np.column_stack([fewest, [*(number - 1 for number in fewest[1:]), fewest[-1]]])
