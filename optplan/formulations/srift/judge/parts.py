"""The fleets of one kind, divided level by level: which parts there are, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import RefutedError
from optplan.formulations.srift.data.instance import VmGroup, write_fleet
from optplan.formulations.srift.judge.bounds import ROUNDING, Kind, Needs, StragglerFloor, Supply, divide
from optplan.formulations.srift.judge.evaluation import measure_fleet
from optplan.formulations.srift.judge.exchanges import ExchangeFloor
from optplan.formulations.srift.laws.iteration import expect_training
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR

#: By how much less than the bound a fleet may have, relatively: rounding.
MARGIN = 1e-9
#: Pairs of a part and an option that are looked at together, and parts whose bounds are computed together.
_PAIRS, _BOUNDED = 1 << 17, 1 << 13
#: Single fleets that are evaluated between two looks at the stopwatch.
_EVALUATED = 32
#: Most numbers of the divided parts of a level.
_MOST_NUMBERS = 1 << 24


@dataclass(frozen=True)
class BoundClaim:
    """No fleet within the limits has less than a bound; without one, there is none."""

    #: Limits, infinite where there are none.
    most_s: float
    most_usd: float
    about_cost: bool  # whether the bound is one of the cost and not of the time
    bound: float | None  # None: no fleet keeps the limits

    def excludes(self, time_s: FloatArray, cost_usd: FloatArray) -> NDArray[np.bool_]:
        """Say which parts the claim holds for, by lower bounds of time and cost."""
        excluded = ~np.isfinite(cost_usd) | (time_s > self.most_s) | (cost_usd > self.most_usd)
        if self.bound is None:
            return excluded
        return excluded | ((cost_usd if self.about_cost else time_s) >= self.bound * (1.0 - MARGIN))


@dataclass(frozen=True)
class Level:
    """What is decided at once; arrays over the options."""

    type: int  # number of the type
    #: (O,) Column of the load among those of the kind, VMs of it, and their samples; a count of zero is none of them.
    columns: IntArray
    counts: IntArray
    samples: IntArray
    ends: bool  # whether this is the last level of its type
    network_due: bool  # whether the kind's network must be there after it
    supply: Supply  # what it adds to a fleet


@dataclass(frozen=True)
class _Parts:
    """Parts of one level: (N, C) VMs of each load, and (N,) the least price and ranks of what they can become."""

    counts: IntArray
    price: FloatArray
    ranks: IntArray

    def take(self, which: NDArray[np.bool_] | IntArray) -> _Parts:
        return _Parts(self.counts[which], self.price[which], self.ranks[which])


class KindOfFleets:
    """All fleets of one kind; ``order`` has the numbers of the types in the order of decisions."""

    def __init__(self, exchange: ExchangeFloor, kind: Kind, order: Sequence[int]) -> None:
        self._exchange, self._kind, self._order, self._slowest = exchange, kind, order, kind.slowest
        self._offers, self._instance = exchange.offers, exchange.offers.instance
        #: (C,) The slowest last.
        self._loads = [*self._offers.others(kind), self._slowest]
        self._types: IntArray = np.array([load.type for load in self._loads], dtype=np.int64)
        self._batches: IntArray = np.array([load.batch for load in self._loads], dtype=np.int64)
        self._networks: IntArray = np.array([self._offers.network_of[number] for number in self._types], dtype=np.int64)
        self._different: list[int] = sorted({*self._networks.tolist(), kind.network})
        raw_s = self._slowest.raw_s
        self._forward = self._slowest.forward_s / raw_s if raw_s > 0.0 else 0.0
        self._gpu = self._offers.gpus[self._slowest.type]

    def is_excluded(self, claim: BoundClaim) -> bool:
        """Whether there is no such fleet, or none refutes a claim even if VMs could be divided."""
        types = set(self._types.tolist())
        if not types.issuperset(self._offers.running.nonzero()[0].tolist()):
            return True
        supplies = [self._supply(number, self._batches[self._types == number].tolist(), 0) for number in sorted(types)]
        price, ranks = divide(supplies, np.array([self._instance.global_batch]))
        if not np.isfinite(price[0]):
            return True
        compute_s = np.array([self._slowest.raw_s * (1.0 - ROUNDING)])
        group = self._exchange.group(self._gpu, [self._kind.network], self._different, exactly=False)
        exchange_s = group.always_s(_whole(ranks))
        iteration_s = np.maximum(compute_s, self._forward * compute_s + exchange_s)
        time_s, billed_s = self._add_up(iteration_s, np.zeros(1), np.zeros(1))
        return bool(claim.excludes(time_s, price * billed_s * (1.0 - ROUNDING))[0])

    def check(self, claim: BoundClaim, listed: Sequence[IntArray], stopwatch: Stopwatch) -> None:
        """Raise unless divided parts, ``listed`` by level in order, exist and all others are impossible or excluded."""
        levels = self._list_levels()
        if any(numbers.size for numbers in listed[len(levels) - 1 :]):
            raise RefutedError(f"fleets of {self} are complete after {len(levels)} levels; no more can be divided")
        self._needs = Needs([level.supply for level in levels[1:]], self._instance.global_batch)
        self._straggler = StragglerFloor(self._loads)
        parents: IntArray = np.zeros((1, len(self._loads)), dtype=np.int64)
        for place, level in enumerate(levels):
            wanted = listed[place] if place < len(listed) else np.zeros(0, dtype=np.int64)
            options, complete, divided, found = level.counts.size, place + 1 == len(levels), [], 0
            if wanted.size and wanted[-1] >= len(parents) * options:
                raise RefutedError(f"fleets of {self} are divided that do not exist")
            width = max(1, min(_PAIRS, _MOST_NUMBERS // 8 // len(self._loads)) // options)
            if wanted.size * len(self._loads) > _MOST_NUMBERS:
                raise RefutedError(f"{wanted.size:,} divided fleets of {self} are more than are looked at")
            for start in range(0, len(parents), width):
                stopwatch.require()
                some = parents[start : start + width]
                ends = np.searchsorted(wanted, [start * options, (start + len(some)) * options])
                own = wanted[ends[0] : ends[1]] - start * options
                parts, left = self._look_at(claim, some, place, level, own)
                found += len(parts)
                divided.append(parts)
                if complete:
                    self._evaluate(claim, left, stopwatch)
                elif len(left.price):
                    raise RefutedError(f"fleets of {self} with {self._write(left.counts[0])} are not excluded")
            if found < wanted.size:
                raise RefutedError(f"fleets of {self} are divided that do not exist")
            if not found:
                return
            parents = np.concatenate(divided)

    def _look_at(
        self, claim: BoundClaim, parents: IntArray, place: int, level: Level, wanted: IntArray
    ) -> tuple[IntArray, _Parts]:
        """Return the VMs of those children that are divided, and the children that are neither divided nor excluded."""
        parent, option, price, ranks = self._list_children(parents, place, level)
        listed = np.isin(parent * level.counts.size + option, wanted, assume_unique=True)
        divided = parents[parent[listed]]
        divided[np.arange(len(divided)), level.columns[option[listed]]] += level.counts[option[listed]]
        # What a parent takes holds for its children; with their own price, many need no closer look.
        least = np.full(len(parents), np.inf)
        np.minimum.at(least, parent, ranks)
        least_ranks = _whole(np.where(np.isfinite(least), least, 1.0))
        time_s, billed_s = self._bound(parents, least_ranks, exactly=False, simulated=False)
        open_ = ~listed & ~claim.excludes(time_s[parent], price * billed_s[parent] * (1.0 - ROUNDING))
        parent, option = parent[open_], option[open_]
        counts = parents[parent]
        counts[np.arange(len(counts)), level.columns[option]] += level.counts[option]
        left = _Parts(counts, price[open_], _whole(ranks[open_]))
        complete = place == self._last
        kept = np.zeros(len(counts), dtype=np.bool_)
        for start in range(0, len(counts), _BOUNDED):
            which: IntArray = np.arange(start, min(start + _BOUNDED, len(counts)), dtype=np.int64)
            for simulated in (False, True):
                some = left.take(which)
                time_s, billed_s = self._bound(some.counts, some.ranks, exactly=complete, simulated=simulated)
                which = which[~claim.excludes(time_s, some.price * billed_s * (1.0 - ROUNDING))]
            kept[which] = True
        return divided, left.take(kept)

    def _list_children(
        self, parents: IntArray, place: int, level: Level
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """Return (K,) parents and options of all that is possible, with the least price and ranks of what follows."""
        offers, own = self._offers, self._types == level.type
        rest = (self._instance.global_batch - parents @ self._batches)[:, None] - level.samples
        used = parents[:, own].sum(axis=1)[:, None] + level.counts
        possible = (rest >= 0) & (used <= offers.most[level.type])
        if level.ends:
            possible &= used >= offers.running[level.type]
        if level.network_due:
            there = np.any(parents[:, self._networks == self._kind.network] > 0, axis=1, keepdims=True)
            brings = (level.counts > 0) & (offers.network_of[level.type] == self._kind.network)
            possible &= there | brings
        parent, option = np.nonzero(possible)
        more = self._needs.least(place, rest[parent, option])
        can = np.isfinite(more[0])
        parent, option, more = parent[can], option[can], more[:, can]
        each = np.array([offers.price_usd_per_s[self._types], offers.ranks[self._types]])
        total = (
            (each @ parents.T.astype(np.float64))[:, parent] + level.counts[option] * level.supply.each[:, None] + more
        )
        return parent, option, total[0], total[1]

    def _evaluate(self, claim: BoundClaim, fleets: _Parts, stopwatch: Stopwatch) -> None:
        for number, counts in enumerate(fleets.counts):
            if number % _EVALUATED == 0:
                stopwatch.require()
            measures = measure_fleet(self._offers.model, self._write_groups(counts))
            taken = np.array([measures["time_s"]]), np.array([measures["cost_usd"]])
            if not claim.excludes(*taken)[0]:
                said = f"takes {taken[0][0]:.12g} s and {taken[1][0]:.12g} usd"
                raise RefutedError(f"the fleet {self._write(counts)} refutes it: it {said}")

    def _bound(
        self, counts: IntArray, ranks: IntArray, *, exactly: bool, simulated: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return (N,) the least time, and the least time that is billed, of fleets that have certain VMs at least."""
        compute_s = self._straggler.seconds(counts)
        iteration_s = compute_s.copy()
        has = np.column_stack([(counts[:, self._networks == one] > 0).any(axis=1) for one in self._different])
        has[:, self._different.index(self._kind.network)] = True
        sets, which_set = (has[:1], np.zeros(len(counts))) if self._offers.plain else _number_rows(has)
        exchanging = (ranks > 1) & (compute_s > 0.0)
        for number, present in enumerate(sets if self._forward < 1.0 else []):
            some = np.flatnonzero((which_set == number) & exchanging)
            if some.size:
                there = [one for one, is_there in zip(self._different, present.tolist(), strict=True) if is_there]
                group = self._exchange.group(self._gpu, there, there if exactly else self._different, exactly=exactly)
                backward_s = (1.0 - self._forward) * compute_s[some]
                if simulated:
                    forward = self._forward / (1.0 - self._forward)
                    iteration_s[some] = group.iteration_s(ranks[some], backward_s, forward)
                else:
                    exchange_s = group.always_s(ranks[some])
                    iteration_s[some] += np.maximum(exchange_s - backward_s, 0.0)
        return self._add_up(iteration_s, *self._risks(counts))

    def _risks(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (N,) interruptions per hour, and whether some VM has to be launched, of VMs that are there already."""
        per_hour = counts @ self._offers.per_hour[self._types]
        launched = np.zeros(len(counts), dtype=np.bool_)
        for number in set(self._types.tolist()):
            launched |= counts[:, self._types == number].sum(axis=1) > self._offers.running[number]
        return per_hour, launched.astype(np.float64)

    def _add_up(
        self, iteration_s: FloatArray, per_hour: FloatArray, launched: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (N,) time, and billed time, of iterations that take so long."""
        instance = self._instance
        rate_per_s = per_hour / SECONDS_PER_HOUR * (1.0 - ROUNDING)
        work_s = instance.iterations * iteration_s * (1.0 - ROUNDING)
        training_s, billed_s = expect_training(work_s, rate_per_s, instance.interruptions)
        launch_s = launched * instance.launch_s
        billed_s = billed_s + (launch_s if instance.launch_billed else 0.0)
        return (training_s + launch_s) * (1.0 - ROUNDING), billed_s * (1.0 - ROUNDING)

    def _list_levels(self) -> list[Level]:
        """List what is decided, the slowest's VMs first."""
        offers, own, due = self._offers, self._slowest.type, self._kind.network
        places = {number: place for place, number in enumerate(self._order)}
        last = len(self._loads) - 1
        types = sorted(
            set(self._types[:last].tolist()),
            key=lambda number: (number != own, offers.network_of[number] != due, places[number]),
        )
        decided: list[tuple[int, list[int]]] = [(own, [last])]
        for number in types:
            columns = [column for column in range(last) if self._types[column] == number]
            columns.sort(key=lambda column: -self._loads[column].batch)
            if self._instance.one_batch_per_type:
                decided.append((number, columns))
            else:
                decided += [(number, [column]) for column in columns]
        brings = [place for place, (number, _) in enumerate(decided) if offers.network_of[number] == due]
        awaited = -1 if offers.network_of[own] == due else max(brings)
        self._last = len(decided) - 1
        return [self._make_level(decided, place, network_due=place == awaited) for place in range(len(decided))]

    def _make_level(self, decided: list[tuple[int, list[int]]], place: int, *, network_due: bool) -> Level:
        number, columns = decided[place]
        batches = [self._loads[column].batch for column in columns]
        most = int(self._offers.most[number])
        spans = [np.arange(1, min(most, self._instance.global_batch // batch) + 1) for batch in batches]
        counts = np.concatenate([*([] if place == 0 else [np.zeros(1, dtype=np.int64)]), *spans])
        sizes = [span.size for span in spans]
        repeated = np.repeat(columns, sizes), np.repeat(batches, sizes)
        if place:
            repeated = np.append(columns[0], repeated[0]), np.append(batches[0], repeated[1])
        least = int(self._offers.running[number]) if self._instance.one_batch_per_type else 0
        return Level(
            type=number,
            columns=repeated[0],
            counts=counts,
            samples=counts * repeated[1],
            ends=place + 1 == len(decided) or decided[place + 1][0] != number,
            network_due=network_due,
            supply=self._supply(number, batches, least),
        )

    def _supply(self, number: int, batches: Sequence[int], least: int) -> Supply:
        each = np.array([self._offers.price_usd_per_s[number], float(self._offers.ranks[number])])
        return Supply(int(number), tuple(batches), least, int(self._offers.most[number]), each)

    def _write_groups(self, counts: IntArray) -> tuple[VmGroup, ...]:
        present = [(load, int(count)) for load, count in zip(self._loads, counts.tolist(), strict=True) if count]
        present.sort(key=lambda each: (each[0].type, -each[0].batch))
        return tuple(VmGroup(type=load.name, count=count, batch=load.batch) for load, count in present)

    def _write(self, counts: IntArray) -> str:
        return write_fleet(self._write_groups(counts))

    def __str__(self) -> str:
        return f"slowest {self._slowest.name}@{self._slowest.batch}, network {self._kind.network}"


def _whole(ranks: FloatArray) -> IntArray:
    """Return the whole numbers that ranks are at least, up to rounding."""
    return np.ceil(ranks * (1.0 - MARGIN)).astype(np.int64)


def _number_rows(rows: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], IntArray]:
    """Return (S, K) the different rows, and (N,) which each is."""
    different, which = np.unique(rows, axis=0, return_inverse=True)
    return different, which.reshape(-1)
