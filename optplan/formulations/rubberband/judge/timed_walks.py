"""The walks of one bracket with the distribution of their time: the judge of deadlines that are kept with a confidence.

Times are rounded down to a grid that ends with the deadline, so that no walk is on time less often than it seems. What
may follow a node is bounded by V(t), the most that the probability to be on time, less a price times the cost, can be
with time t left and any choice on the way: at price p, a beginning that has cost c leads to no walk of a cost below C
that is on time with probability q when its expected V is below q - p * (C - c). Written apart from the solver.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import RefutedError, UnlistedError
from optplan.formulations.rubberband.judge.bracket_walks import BracketWalks, NearWalks
from optplan.formulations.rubberband.judge.completion import round_growth
from optplan.formulations.rubberband.judge.evaluation import growth
from optplan.formulations.rubberband.judge.walks import Walks, bound_charges, join_walks
from optplan.formulations.rubberband.laws.rounding import round_down
from optplan.formulations.rubberband.laws.stages import stage_cdf
from optplan.schema import FloatArray, IntArray

Spectra = NDArray[np.complex128]

#: Prices of cost, in multiples of one over the spread between the cheapest walk and the cost looked for.
_PRICES = (0.0, 0.5, 2.0, 6.0)
#: How far the transforms may put a probability off.
_BLUR = 1e-9
#: Numbers that the grid may have by stage and count of instances, numbers that the masses of walks, and of options, may
#: hold at a time, and transforms that are made in one go.
_MOST_CELLS = 1 << 23
_MOST_NUMBERS = 1 << 24
_AT_ONCE = 1 << 10


@dataclass(frozen=True, eq=False)
class _Timed:
    """Beginnings of walks, and the probability (L, G) of each time so far."""

    walks: Walks
    mass: FloatArray

    def take(self, rows: IntArray) -> _Timed:
        return _Timed(self.walks.take(rows), self.mass[rows])


@dataclass(frozen=True, eq=False)
class _Outlook:
    """V at one price, by stage: (K, G) above what is left of it when all is late, and (K,) that."""

    price: float
    before: list[FloatArray]
    after: list[FloatArray]
    late_before: list[FloatArray]
    late_after: list[FloatArray]


class TimedWalks:
    """All walks of one bracket on one grid.

    Parameters
    ----------
    plain
        The same without distributions.
    deadline_s
        The last point of the grid.
    points
        How many points there are.
    most_usd
        Walks that cost this much or more are not looked for; infinity where cost is no object.
    wanted
        The least probability to be on time.
    """

    def __init__(self, plain: BracketWalks, deadline_s: float, points: int, most_usd: float, wanted: float) -> None:
        self.plain = plain
        self.instance = plain.instance
        self.stopwatch = plain.stopwatch
        self.grid_s = np.linspace(0.0, deadline_s, points)
        self.size = 2 ** math.ceil(math.log2(points) + 1)
        self.most_usd = most_usd
        self.wanted = wanted - _BLUR
        self.stages = len(plain.options)
        self.priced = most_usd < math.inf
        if plain.held.size * points * self.stages > _MOST_CELLS:
            message = f"a grid of {points} points for {plain.held.size:,} counts of instances is more than is looked at"
            raise RefutedError(message)
        #: By stage (K,): the least cost of what follows it, and the same with the stage itself.
        self.rest, self.ahead = self._find_rest()
        self._growths: dict[int, FloatArray] = {}

    def list_walks(self) -> tuple[NearWalks, FloatArray]:
        """Return the walks that are cheap and, rounded down, on time often enough, with (P,) that probability.

        Raises
        ------
        OutOfTime
            When the stopwatch expires.
        RefutedError
            When they are too many to be looked at.
        """
        nodes = np.flatnonzero(self._is_cheap(self.plain.start_usd, self.ahead[0]))
        walks = Walks.at_start(self.plain.start_s, self._price(self.plain.start_usd)).take(nodes)
        if not nodes.size:
            return self._finish(_Timed(self.plain.no_walks(self.stages), np.zeros((0, self.grid_s.size))))
        timed = _Timed(walks, self._growth_mass(self.plain.held[nodes]))
        for stage in range(self.stages):
            timed = self._run(self._move(timed, stage) if stage else timed, stage)
        return self._finish(timed)

    def _finish(self, timed: _Timed) -> tuple[NearWalks, FloatArray]:
        walks, chance = timed.walks, timed.mass.sum(axis=1)
        if not self.priced or not walks.node.size:
            return NearWalks(walks, walks.seconds, walks.usd, walks.usd), chance
        return self.plain.charge(walks), chance

    def _price(self, usd: FloatArray) -> FloatArray:
        """Return costs, or nothing where they are no object."""
        return usd if self.priced else np.zeros_like(usd)

    def _is_cheap(self, usd: FloatArray, rest: FloatArray) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(rest) & (usd + rest < self.most_usd) if self.priced else np.isfinite(rest))

    def _find_rest(self) -> tuple[list[FloatArray], list[FloatArray]]:
        rest = [np.zeros(self.plain.held.size)]
        ahead: list[FloatArray] = []
        for stage in range(self.stages - 1, -1, -1):
            ahead.insert(0, self.plain.run_least(stage, 1.0, 0.0) + rest[0])
            if stage:
                least = np.minimum.accumulate(ahead[0])
                later = np.minimum.accumulate(ahead[0][::-1])[::-1]
                # The least that growing costs is that of growing to the next.
                least[:-1] = np.minimum(least[:-1], later[1:] + self.plain.next_growth[1])
                rest.insert(0, least)
        return rest, ahead

    @cached_property
    def _masses(self) -> list[dict[int, FloatArray]]:
        """By stage, the rounded distributions (G,) of the options in use."""
        return [{} for _ in range(self.stages)]

    @cached_property
    def _kept(self) -> list[list[IntArray]]:
        """By stage and node, the options that no other that fits is certain to beat in both cost and time."""
        found, numbers = [], 0
        for stage in range(self.stages):
            options, masses = self.plain.options[stage], self._masses[stage]
            per_instance = self.instance.cloud.is_per_instance
            paid = options.expected_s if per_instance else options.busy_gpu_s
            # A slower option saves at most what is missing of the minimum charge after the quicker one alone.
            sure = paid + np.array([self.plain.charges.missing_after(stage, row) for row in range(paid.size)])
            kept, done = np.empty(0, dtype=np.int64), np.empty((0, self.grid_s.size))
            by_node: list[IntArray] = []
            first = 0
            for count in self.plain.held.tolist():
                last = int(np.searchsorted(options.instances, count, side="right"))
                for option in sorted(range(first, last), key=lambda row: paid[row]):
                    self.stopwatch.require()
                    gpus = int(options.gpus[option])
                    mass = round_down(stage_cdf(self.instance, self.plain.bracket, stage, gpus, self.grid_s))
                    own = np.cumsum(mass)
                    if ((sure[kept] <= paid[option]) & (done >= own).all(axis=1)).any():
                        continue
                    beaten = (paid[kept] >= sure[option]) & (done <= own).all(axis=1)
                    kept, done = np.append(kept[~beaten], option), np.vstack([done[~beaten], own])
                    masses[option] = mass
                    numbers += mass.size
                    if numbers > _MOST_NUMBERS:
                        raise UnlistedError(f"{len(masses):,} options on a grid of {mass.size:,} points are too many")
                first = last
                by_node.append(kept)
            found.append(by_node)
        return found

    def _option_spectra(self, stage: int, options: IntArray) -> Spectra:
        return self._transform(np.array([self._masses[stage][option] for option in options.tolist()]))

    def _growth_mass(self, added: IntArray) -> FloatArray:
        """Return (A, G) the rounded distributions of the times in which so many instances come."""
        different, place = np.unique(added, return_inverse=True)
        for count in different.tolist():
            if count not in self._growths:
                self.stopwatch.require()
                scale, last = round_growth(self.instance, count, self.grid_s)
                self._growths[count] = self._restore(self._transform(scale) * self._transform(last))
        return np.array([self._growths[count] for count in different.tolist()])[place]

    def _transform(self, mass: FloatArray) -> Spectra:
        return np.fft.rfft(mass, self.size, axis=-1)

    def _restore(self, spectra: Spectra) -> FloatArray:
        """Return the functions of the grid; what lies beyond it is lost."""
        return np.asarray(np.fft.irfft(spectra, self.size, axis=-1)[..., : self.grid_s.size])

    @cached_property
    def _outlooks(self) -> list[_Outlook]:
        spread = self.most_usd - float((self.plain.start_usd + self.ahead[0]).min())
        prices = [factor / spread for factor in _PRICES] if self.priced and spread > 0.0 else [0.0]
        return [self._look_ahead(price) for price in prices]

    def _look_ahead(self, price: float) -> _Outlook:
        """Find V from the last stage backwards."""
        nodes, points = self.plain.held.size, self.grid_s.size
        after, late_after = [np.ones((nodes, points))], [np.zeros(nodes)]
        before: list[FloatArray] = []
        late_before: list[FloatArray] = []
        for stage in range(self.stages - 1, -1, -1):
            late = -price * self.ahead[stage] if price else np.where(np.isfinite(self.ahead[stage]), 0.0, -math.inf)
            values = np.full((nodes, points), -math.inf)
            for node in np.flatnonzero(np.isfinite(late)).tolist():
                cost = price * self._option_usd(stage, node, self._kept[stage][node]) - late_after[0][node]
                worth = self._run_on(stage, node, after[0][node]) - cost[:, None]
                values[node] = worth.max(axis=0) - late[node]
            before.insert(0, values)
            late_before.insert(0, late)
            if stage:
                surplus, late = self._move_values(values, late, price)
                after.insert(0, surplus)
                late_after.insert(0, late)
        return _Outlook(price, before, after, late_before, late_after)

    def _run_on(self, stage: int, node: int, surplus: FloatArray) -> FloatArray:
        """Return (A, G) what is left of V before a stage for each option of a node, given what is left of it after."""
        self.stopwatch.require()
        options = self._kept[stage][node]
        return self._restore(self._option_spectra(stage, options) * self._transform(surplus))

    def _option_usd(self, stage: int, node: int, options: IntArray) -> FloatArray:
        held = np.full(options.size, self.plain.held[node])
        return self._price(self.plain.node_usd(self.plain.options[stage], options, held))

    def _move_values(self, values: FloatArray, late: FloatArray, price: float) -> tuple[FloatArray, FloatArray]:
        """Return V after a stage, given V before the next: shrink or stay for nothing, or grow."""
        whole = np.where(np.isfinite(late)[:, None], values + late[:, None], -math.inf)
        best, late_best = np.maximum.accumulate(whole, axis=0), np.maximum.accumulate(late)
        if values.shape[0] > 1:
            above = np.maximum.accumulate(whole[::-1], axis=0)[::-1][1:]
            late_above = np.maximum.accumulate(late[::-1])[::-1][1:]
            usd = self._price(self.plain.next_growth[1])
            # No growth is quicker than that by one instance, and none costs less than that to the next node.
            quickest = self._transform(self._growth_mass(np.ones(1, dtype=np.int64)))
            grown = self._restore(self._transform(above - late_above[:, None]) * quickest)
            best[:-1] = np.maximum(best[:-1], grown + (late_above - price * usd)[:, None])
            late_best[:-1] = np.maximum(late_best[:-1], late_above - price * usd)
        return np.where(np.isfinite(late_best)[:, None], best - late_best[:, None], 0.0), late_best

    def _reaches(
        self, outlook: _Outlook, mass: FloatArray, usd: FloatArray, surplus: FloatArray, late: FloatArray
    ) -> NDArray[np.bool_]:
        """Say for beginnings (L, G) and what follows (G, A) whether walks may be cheap and on time; ``usd`` (L, A)."""
        value = mass @ surplus[::-1] + late
        if not outlook.price:
            return np.asarray(value >= self.wanted)
        return np.asarray(value - outlook.price * (usd - self.most_usd) >= self.wanted)

    def _run(self, timed: _Timed, stage: int) -> _Timed:
        """Run every option that may still do on all walks; keep those that no other at the node beats."""
        kept: list[_Timed] = []
        for node in np.unique(timed.walks.node).tolist():
            here = timed.take(np.flatnonzero(timed.walks.node == node))
            options = self._kept[stage][node]
            low = here.walks.usd + self._settled(here.walks)
            usd = low[:, None] + self._option_usd(stage, node, options)
            inside = self._is_cheap(usd, np.full(usd.shape, self.rest[stage][node]))
            for outlook in self._outlooks if inside.any() else []:
                surplus = self._run_on(stage, node, outlook.after[stage][node]).T
                inside &= self._reaches(outlook, here.mass, usd, surplus, outlook.late_after[stage][node : node + 1])
            if np.count_nonzero(inside) * self.grid_s.size > _MOST_NUMBERS:
                raise UnlistedError("more beginnings of plans are left than are looked at")
            parts = [self._run_pairs(here, stage, node, options, *piece) for piece in _split(*np.nonzero(inside))]
            if parts:
                ran = _join(parts)
                low = ran.walks.usd + self._settled(ran.walks)
                ran = ran.take(np.flatnonzero(self._is_cheap(low, np.full(low.size, self.rest[stage][node]))))
                kept.append(ran.take(self._find_undominated(ran)))
        return _join(kept) if kept else _Timed(self.plain.no_walks(stage + 1), timed.mass[:0])

    def _run_pairs(
        self, here: _Timed, stage: int, node: int, options: IntArray, row: IntArray, column: IntArray
    ) -> _Timed:
        self.stopwatch.require()
        used = np.unique(column)
        spectra = self._option_spectra(stage, options[used])[np.searchsorted(used, column)]
        mass = self._restore(self._transform(here.mass[row]) * spectra)
        grown, choice = here.walks.take(row), options[column]
        held = np.full(row.size, self.plain.held[node])
        usd = grown.usd + self._option_usd(stage, node, options)[column]
        seconds = grown.seconds + self.plain.options[stage].expected_s[choice]
        walks = self.plain.extend(grown, stage, choice, held, seconds, usd)
        return _Timed(walks, mass)

    def _settled(self, walks: Walks) -> FloatArray:
        """Return (L,) what is sure to be paid of minimum charges."""
        if not self.priced or not walks.held.shape[1]:
            return np.zeros(walks.node.size)
        return bound_charges(self.instance, walks)[0]

    def _move(self, timed: _Timed, stage: int) -> _Timed:
        """Move walks to every node where they may still do."""
        low = timed.walks.usd + self._settled(timed.walks)
        ahead, nodes = self.ahead[stage], np.arange(self.plain.held.size)
        kept: list[_Timed] = []
        count = 0
        for node in np.flatnonzero(np.isfinite(ahead)).tolist():
            self.stopwatch.require()
            grown_s, grown_usd = growth(self.instance, self.plain.held[timed.walks.node], self.plain.held[node])
            usd = low + self._price(grown_usd)
            inside = self._is_cheap(usd, np.full(usd.shape, ahead[node]))
            inside &= self._may_do(timed.mass, usd, stage, node)
            row = np.flatnonzero(inside)
            for piece in np.array_split(row, 1 + row.size // _AT_ONCE):
                self.stopwatch.require()
                there = self._arrive(timed, piece, node, grown_s, self._price(grown_usd))
                again = self._may_do(there.mass, usd[piece], stage, node)
                kept.append(there.take(np.flatnonzero(again)))
                count += kept[-1].mass.size
                if count > _MOST_NUMBERS:
                    raise UnlistedError("more beginnings of plans are left than are looked at")
        return self._limit(_join(kept)) if kept else timed.take(nodes[:0])

    def _may_do(self, mass: FloatArray, usd: FloatArray, stage: int, node: int) -> NDArray[np.bool_]:
        may = np.ones(usd.size, dtype=np.bool_)
        for outlook in self._outlooks if usd.size else []:
            surplus, late = outlook.before[stage][node][:, None], outlook.late_before[stage][node : node + 1]
            may &= self._reaches(outlook, mass, usd[:, None], surplus, late)[:, 0]
        return may

    def _arrive(self, timed: _Timed, rows: IntArray, node: int, grown_s: FloatArray, usd: FloatArray) -> _Timed:
        """Return some walks at a node, growths included."""
        there, mass = timed.walks.take(rows), timed.mass[rows].copy()
        added = self.plain.held[node] - self.plain.held[there.node]
        growing = np.flatnonzero(added > 0)
        if growing.size:
            self.stopwatch.require()
            grown = self._transform(self._growth_mass(added[growing]))
            mass[growing] = self._restore(self._transform(mass[growing]) * grown)
        moved = timed.walks.move(rows, np.full(rows.size, node), there.seconds + grown_s[rows], there.usd + usd[rows])
        return _Timed(moved, mass)

    def _limit(self, timed: _Timed) -> _Timed:
        if timed.mass.size > _MOST_NUMBERS:
            raise UnlistedError(f"{timed.mass.shape[0]:,} beginnings of plans are left, more than are looked at")
        return timed

    def _find_undominated(self, timed: _Timed) -> IntArray:
        """Return the walks at one node that no other is certain to beat: costing no more, and done no later."""
        walks = timed.walks
        low, high = walks.usd, walks.usd
        if self.priced:
            least, most = bound_charges(self.instance, walks)
            low, high = walks.usd + least, walks.usd + most
        done, kept = np.cumsum(timed.mass, axis=1), np.empty(0, dtype=np.int64)
        for row in np.lexsort((low, high)).tolist():
            self.stopwatch.require()
            rivals = kept[high[kept] <= low[row]]
            if not (done[rivals] >= done[row]).all(axis=1).any():
                kept = np.append(kept, row)
        return kept


def _split(row: IntArray, column: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield pairs in pieces; none when there are none."""
    for start in range(0, row.size, _AT_ONCE):
        yield row[start : start + _AT_ONCE], column[start : start + _AT_ONCE]


def _join(parts: list[_Timed]) -> _Timed:
    return _Timed(join_walks([part.walks for part in parts]), np.concatenate([part.mass for part in parts]))
