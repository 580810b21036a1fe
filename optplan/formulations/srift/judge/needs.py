"""The least price and ranks that undecided VMs add until a fleet has all samples; apart from the solvers' own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import JUDGE_ROUNDING
from optplan.schema import FloatArray, IntArray

#: Up to so many units of samples there is a table.
_MOST_UNITS = 65_536


@dataclass(frozen=True)
class Supply:
    """VMs of one type that are decided together."""

    type: int
    batches: tuple[int, ...]  # samples per VM to choose from
    #: VMs with one of those batches; none at all where the least is zero.
    least: int
    most: int
    each: FloatArray  # (2,) price in US dollars per second, and ranks, of a VM


class Needs:
    """By number of samples, the least price and ranks with which supplies can have so many.

    A table by dynamic programming (supplies choose independently of each other, which relaxes what those of one type
    share), and what divisible VMs would need: each type fully loaded, the cheapest samples first. The larger of both
    where supplies share a type; the second alone where samples have too many units for a table.
    """

    def __init__(self, supplies: Sequence[Supply], samples: int) -> None:
        self._supplies = list(supplies)
        self._unit = math.gcd(samples, *(batch for supply in supplies for batch in supply.batches))
        units = samples // self._unit
        self._tables: list[FloatArray] = []
        if units <= _MOST_UNITS:
            table = np.full((2, units + 1), np.inf)
            table[:, 0] = 0.0
            self._tables.append(table)
            for supply in reversed(supplies):
                self._tables.append(self._add(self._tables[-1], supply))
            self._tables.reverse()

    def least(self, start: int, samples: IntArray) -> FloatArray:
        """Return (2, N) the least price and ranks of the supplies from one on; infinite where they cannot."""
        rest = self._supplies[start:]
        types = {supply.type for supply in rest}
        found = np.zeros((2, samples.size))
        if self._tables:
            whole = samples % self._unit == 0
            found = np.where(whole, self._tables[start][:, np.where(whole, samples // self._unit, 0)], np.inf)
        if not self._tables or len(types) < len(rest):
            largest = {one.type: one for one in sorted(rest, key=lambda one: max(one.batches))}
            found = np.maximum(found, divide(list(largest.values()), samples))
        return found

    def _add(self, after: FloatArray, supply: Supply) -> FloatArray:
        """Return the table with one supply more: of counts, the digits of binary numbers, each taken or not."""
        best = after.copy() if supply.least == 0 else np.full_like(after, np.inf)
        for batch in supply.batches:
            step, first = batch // self._unit, max(1, supply.least)
            extra = min(supply.most, (after.shape[1] - 1) // step) - first
            if extra < 0:
                continue
            table, bundle = _shift(after, first, step, supply.each), 1
            while extra > 0:
                taken = min(bundle, extra)
                np.minimum(table, _shift(table, taken, step, supply.each), out=table)
                extra, bundle = extra - taken, 2 * bundle
            np.minimum(best, table, out=best)
        return best


def _shift(table: FloatArray, count: int, step: int, each: FloatArray) -> FloatArray:
    """Return what so many VMs more of so many units make of a table."""
    moved = np.full_like(table, np.inf)
    moved[:, count * step :] = table[:, : table.shape[1] - count * step] + count * each[:, None]
    return moved


def divide(supplies: Sequence[Supply], samples: IntArray) -> FloatArray:
    """Return (2, N) the least price and ranks if VMs could be divided; infinite where there are too few of them."""
    found = np.empty((2, samples.size))
    for quantity in range(2):
        per_sample = [float(one.each[quantity]) / max(one.batches) for one in supplies]
        ordered = [supplies[place] for place in np.argsort(per_sample, kind="stable")]
        reach = np.cumsum([0.0, *(one.most * max(one.batches) for one in ordered)])
        amount = np.cumsum([0.0, *(one.most * float(one.each[quantity]) for one in ordered)])
        found[quantity] = np.interp(samples, reach, amount, right=np.inf)
    return found * (1.0 - JUDGE_ROUNDING)
