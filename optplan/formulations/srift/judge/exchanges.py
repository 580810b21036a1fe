"""What the exchange of fleets takes at least, of which only some VMs are decided; apart from the solvers' own bounds.

Let F(n, t) be the end of the exchange among n ranks when the backward pass takes t. For all n from a to b and all t up
to T, ``F(n, t) >= t F' / T``, F' being the end of a relaxation at T: bytes of a ranks, transfers that are alone as fast
as among any of a to b ranks, and equation 2 taking them for as slow as among any of those. (Each gets no less there
than among n ranks, whatever else is active: equation 2 gives less where more is active, or where more is asked for. So
none has more left at any time. And in units of t a longer pass has the same transfers at the same times, smaller ones.)

F falls in places, where equation 2 jumps: with n or more ranks, or t or more, all intervals from there on count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from optplan.contracts.judgement import JUDGE_ROUNDING as ROUNDING
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth, volume_factor
from optplan.formulations.srift.judge.bounds import Offers
from optplan.formulations.srift.laws.exchange import Exchange
from optplan.schema import FloatArray, IntArray

#: By which factor the ends of an interval of ranks differ, one rank at least; those of one of backward passes; and of
#: one of backward passes where the ranks are exact.
_RANKS, _PASSES, _FINE = math.exp(0.01), math.exp(0.01), math.exp(0.0025)


#: (I, S) The least and the most of each size of transfer, by interval of ranks.
Ends = tuple[FloatArray, FloatArray]


class ExchangeFloor:
    """The least seconds of iterations by what their gradients take."""

    def __init__(self, offers: Offers) -> None:
        self.offers, self._instance = offers, offers.instance
        # No more than there are, nor than have samples.
        by_samples = (self._instance.global_batch * int(offers.ranks[one.type]) // one.batch for one in offers.loads)
        most = min(int(offers.most @ offers.ranks), max(by_samples, default=1))
        #: Ranks at which intervals begin, then one more than there can be.
        self.begin = [1]
        while self.begin[-1] <= most:
            self.begin.append(max(self.begin[-1] + 1, int(self.begin[-1] * _RANKS)))
        self._groups: dict[tuple[bytes, frozenset[int], frozenset[int], bool], Group] = {}
        self._asked: dict[tuple[bytes, frozenset[int]], Ends] = {}

    def group(self, gpu: str, there: Iterable[int], others: Iterable[int], *, exactly: bool) -> Group:
        """Return what is known of fleets that have certain networks, could have others, and exactly so many ranks."""
        has, could = frozenset(there), frozenset(others)
        if self.offers.plain:  # a set is as fast as its least network
            has = could = frozenset([min(has)])
        key = self.offers.model.transfers(gpu)[0].tobytes(), has, could, exactly
        if key not in self._groups:
            self._groups[key] = Group(self, gpu, has, could, exactly=exactly)
        return self._groups[key]

    def ask(self, networks: frozenset[int], sizes: FloatArray) -> Ends:
        """Return the least and the most bandwidth of each size of transfer alone, with any ranks of each interval."""
        key = sizes.tobytes(), networks
        if key not in self._asked:
            least, most = zip(*(self._ask(networks, sizes, *ends) for ends in pairwise(self.begin)), strict=True)
            self._asked[key] = np.array(least), np.array(most)
        return self._asked[key]

    def _ask(self, networks: frozenset[int], sizes: FloatArray, begin: int, end: int) -> tuple[FloatArray, FloatArray]:
        bandwidth, slowest, fastest = self._instance.bandwidth, [], []
        for label, capacity in self._instance.networks_of([self.offers.type_with[one] for one in networks]):
            ranks = {begin, end - 1}
            if isinstance(bandwidth, MeasuredBandwidth):  # between its rows, a table only rises or falls
                ranks |= {row for row in bandwidth.tables[label].ranks.tolist() if begin < row < end}
            found = [bandwidth.bus_bytes_per_s([(label, capacity)], number, sizes) for number in ranks]
            slowest.append(np.minimum.reduce(found))
            fastest.append(np.maximum.reduce(found))
        return np.minimum.reduce(slowest), np.minimum.reduce(fastest)


class Group:
    """Fleets with certain networks."""

    def __init__(
        self, floor: ExchangeFloor, gpu: str, has: frozenset[int], could: frozenset[int], *, exactly: bool
    ) -> None:
        self._exactly, self._factor = exactly, _FINE if exactly else _PASSES
        offers, begin = floor.offers, floor.begin[:-1]
        self._begin = np.array(begin, dtype=np.int64)
        self._ready, sent, asked = offers.model.transfers(gpu)
        sizes, size = np.unique(asked, return_inverse=True)
        self._capacity = min(offers.capacities[network] for network in has)
        self._bytes = np.array([volume_factor(ranks) * sent for ranks in begin])
        self._alone = floor.ask(has, sizes)[1][:, size]
        self._added = floor.ask(could, sizes)[0][:, size] * (1.0 - ROUNDING)
        together, longest = self._bytes.sum(axis=1) / self._capacity, (self._bytes / self._alone).max(axis=1)
        always = np.maximum(together, longest) * (1.0 - ROUNDING)
        self._always = always if exactly else np.minimum.accumulate(always[::-1])[::-1]
        self._exchanges: dict[int, Exchange] = {}
        #: By number of the interval of passes, F' / T of each interval of ranks; none where it is not known yet.
        self._taken: dict[int, FloatArray] = {}

    def always_s(self, ranks: IntArray) -> FloatArray:
        """Return (N,) the least t_pe whatever the backward pass takes."""
        return np.asarray(self._always[self._place(ranks)], dtype=np.float64)

    def iteration_s(self, ranks: IntArray, backward_s: FloatArray, forward: float) -> FloatArray:
        """Return (N,) the least seconds of an iteration by a least backward pass and the forward one relative to it."""
        places, steps = self._place(ranks), np.floor(np.log(backward_s) / math.log(self._factor)).astype(np.int64)
        rows = np.unique(places) if self._exactly else np.arange(places.min(), self._begin.size)
        row, found = np.searchsorted(rows, places), np.empty(len(ranks))
        by_step = [(int(step), np.flatnonzero(steps == step)) for step in np.unique(steps)]
        for step, own in by_step:
            found[own] = backward_s[own] * self._each_s(rows, step, forward)[row[own]]
        # Longer passes, down to each one's own; beyond the end, passes alone take as long as what is reached.
        end = math.ceil(math.log(float(found.max()) / (forward + 1.0)) / math.log(self._factor))
        later, members = np.full(rows.size, np.inf), dict(by_step)
        for step in range(max(end - 1, by_step[-1][0]), by_step[0][0] - 1, -1):
            own = members.get(step, np.zeros(0, dtype=np.int64))
            found[own] = np.minimum(found[own], later[row[own]])
            each_s = self._each_s(rows, step, forward)
            later = np.minimum(later, self._factor**step * each_s)
        return found * (1.0 - ROUNDING)

    def _place(self, ranks: IntArray) -> IntArray:
        return np.asarray(np.searchsorted(self._begin, ranks, side="right") - 1, dtype=np.int64)

    def _each_s(self, rows: IntArray, number: int, forward: float) -> FloatArray:
        """Return (rows,) the least iteration for a second of an interval's passes; unless exact, or more ranks."""
        if number not in self._taken:
            self._taken[number] = np.where(self._begin > 1, np.nan, 0.0)
        taken = self._taken[number]
        for place in rows[np.isnan(taken[rows])].tolist():
            taken[place] = self._simulate(place, self._factor ** (number + 1) * (1.0 + ROUNDING))
        least = taken[rows] if self._exactly else np.minimum.accumulate(taken[rows][::-1])[::-1]
        return forward + np.maximum(1.0, least)

    def _simulate(self, place: int, longest_s: float) -> float:
        """Return F' / T of an interval of ranks, T being the longest of an interval of passes."""
        if place not in self._exchanges:
            sent, alone, added = self._bytes[place], self._alone[place], self._added[place]
            self._exchanges[place] = Exchange(self._ready, sent, alone, self._capacity, added)
        return self._exchanges[place].seconds(longest_s) / longest_s
