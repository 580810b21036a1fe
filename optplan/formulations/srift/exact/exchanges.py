"""Lower bounds of iterations by their exchange: equation 2 simulated for intervals of ranks and of backward passes.

One simulation of a relaxation bounds an interval: it has the bytes of the fewest ranks, and transfers that are alone as
fast as anywhere in the interval but add up to no more than anywhere in it (:class:`~.laws.exchange.Exchange`). As
equation 2 jumps, more ranks or a longer pass may take less; so for so many ranks, or so long a pass, at least, the
least over all intervals from there on counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth, volume_factor
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.exchange import Exchange
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import ROUNDING

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
