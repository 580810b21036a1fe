"""The loops of BOA's judge: least sums of a class's paths, under masks and limits on single runs; Panjer's recursion.

A *run* is a stretch of epochs on options of one GPU type, between others on other types. ``loops.pxd`` has the types
with which Cython compiles this file; without a compiler it runs as it stands, slower. Written from the certificate's
statement alone, without sight of any solver.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]
Places = NDArray[np.intp]
Levels = NDArray[np.int32]


class ClassRuns:
    """A class: epochs E, options K by GPU type, 1 + L numbers that add up along a path.

    ``steps`` (1 + L, E, K) are value and consumptions of an epoch on an option, ``entries`` (1 + L, P, K) the same of
    coming to it from each type (P = F), or from any (P = 1), and of beginning. A type's options begin at ``kinds`` (F +
    1,); ``own`` (F,) is which consumption only they have, from 1 on, or 0 where none is limited, and ``takes`` (F, 1 +
    L) which numbers are other than zero on some of them.
    """

    def __init__(self, steps: Floats, entries: Floats, kinds: Places, own: Places, takes: Flags) -> None:
        self.steps, self.entries, self.kinds, self.own, self.takes = steps, entries, kinds, own, takes
        self.epochs, self.options, self.types = steps.shape[1], steps.shape[2], own.shape[0]
        self.numbers = steps.shape[0]
        self.by_type = entries.shape[1] > 1
        #: (E, K) 0 where an option may be held, else how deep in the tree it was closed.
        self.closed = np.zeros((self.epochs, self.options), dtype=np.int32)
        #: (E, F) Before which epoch a run that begins here has to end; (F,) whether no run is kept short.
        self.longest = np.zeros((self.epochs, self.types), dtype=np.intp)
        self.unbound = np.ones(self.types, dtype=np.uint8)
        #: (1 + E,) What epochs up to each take of a type's own limit, where only its options are open.
        self.must = np.zeros(1 + self.epochs)
        self.run = np.zeros((self.epochs, self.options))
        self.come = np.zeros((self.types, self.options))
        #: (F,) What each run on a type is charged.
        self.charge = np.zeros(self.types)
        self.ahead = np.zeros((self.epochs, self.options))
        self.behind = np.zeros((self.epochs, self.options))
        self.through = np.zeros((self.epochs, self.options))
        #: (1 + E, F) The least sums of paths up to an epoch whose last run was on a type, and of what may follow it.
        self.done = np.zeros((1 + self.epochs, self.types))
        self.rest = np.zeros((1 + self.epochs, self.types))

    def reopen(self, depth: int) -> bool:
        """Open again what was closed deeper in the tree; return whether there was anything."""
        changed = False
        for j in range(self.epochs):
            for k in range(self.options):
                if self.closed[j, k] > depth:
                    self.closed[j, k] = 0
                    changed = True
        return changed

    def divide(self, epoch: int, first: int, behind: int, within: bool, depth: int) -> None:
        """Close in an epoch all options but those from ``first`` to before ``behind``, or these."""
        for k in range(self.options):
            if (first <= k < behind) != within and self.closed[epoch, k] == 0:
                self.closed[epoch, k] = depth

    def find_need(self, h: int) -> float:
        """Return the least that a path takes of what only one type's options consume."""
        endless = 1e300 * 1e300
        number = self.own[h]
        off = 0.0
        on = endless
        for j in range(self.epochs):
            least_on = endless
            least_off = endless
            for k in range(self.options):
                if self.closed[j, k]:
                    continue
                if self.kinds[h] <= k < self.kinds[h + 1]:
                    entered = min(off, on) + self.enter_least(number, k)
                    stayed = self.ahead[j - 1, k] if j > 0 else endless
                    self.ahead[j, k] = self.steps[number, j, k] + min(entered, stayed)
                    least_on = min(least_on, self.ahead[j, k])
                else:
                    least_off = min(off, on)
            for k in range(self.kinds[h], self.kinds[h + 1]):
                if self.closed[j, k]:
                    self.ahead[j, k] = endless
            on, off = least_on, least_off
        return min(on, off)

    def enter_least(self, number: int, k: int) -> float:
        """Return the least of a number that coming to an option adds, from wherever it is."""
        least: float = self.entries[number, 0, k]
        for f in range(1, self.entries.shape[1]):
            least = min(least, self.entries[number, f, k])
        return least

    def bind(self, h: int, room: float) -> None:
        """Find how long runs on a type can be that take no more than ``room`` of its own limit.

        That is less what the other epochs take in which only the type's options are open.
        """
        endless = 1e300 * 1e300
        number = self.own[h]
        self.unbound[h] = 1
        self.must[0] = 0.0
        for j in range(self.epochs):
            now = endless
            for k in range(self.options):
                if self.closed[j, k] == 0:
                    now = min(now, self.steps[number, j, k] if self.kinds[h] <= k < self.kinds[h + 1] else 0.0)
                if now == 0.0:
                    break
            self.must[j + 1] = self.must[j] + (now if now < endless else 0.0)
        for a in range(self.epochs):
            least = 0.0
            end = a
            for j in range(a, self.epochs):
                now = endless
                for k in range(self.kinds[h], self.kinds[h + 1]):
                    if self.closed[j, k]:
                        self.ahead[j, k] = endless
                        continue
                    used = least + self.enter_least(number, k)
                    if j > a:
                        used = min(used, self.ahead[j - 1, k])
                    self.ahead[j, k] = used + self.steps[number, j, k]
                    now = min(now, self.ahead[j, k])
                elsewhere = self.must[a] + (self.must[self.epochs] - self.must[j + 1])
                if now + elsewhere > room:
                    if now < endless:
                        self.unbound[h] = 0
                    break
                least = now
                end = j + 1
            self.longest[a, h] = end

    def weigh(self, weights: Floats) -> None:
        """Weigh steps and entries by weights (1 + L,); what is closed costs without end.

        Where there are more weights (1 + L + F,), they are what each run on a type is charged.
        """
        endless = 1e300 * 1e300
        for h in range(self.types):
            self.charge[h] = weights[self.numbers + h] if weights.shape[0] > self.numbers else 0.0
        for j in range(self.epochs):
            for k in range(self.options):
                self.run[j, k] = endless if self.closed[j, k] else 0.0
        for h in range(self.types):
            for f in range(self.entries.shape[1]):
                for k in range(self.kinds[h], self.kinds[h + 1]):
                    self.come[f, k] = 0.0
            for number in range(self.numbers):
                weight = weights[number]
                if weight == 0.0 or not self.takes[h, number]:
                    continue
                for j in range(self.epochs):
                    for k in range(self.kinds[h], self.kinds[h + 1]):
                        self.run[j, k] += weight * self.steps[number, j, k]
                for f in range(self.entries.shape[1]):
                    for k in range(self.kinds[h], self.kinds[h + 1]):
                        self.come[f, k] += weight * self.entries[number, f, k]

    def enter(self, h: int, j: int, k: int) -> float:
        """Return the least sum of a path that comes to an option of a type in an epoch, from another type."""
        least: float = 1e300 * 1e300
        if j == 0:
            least = self.come[h if self.by_type else 0, k]
        elif self.by_type:
            for f in range(self.types):
                if f != h:
                    least = min(least, self.done[j, f] + self.come[f, k])
        else:
            for f in range(self.types):
                if f != h:
                    least = min(least, self.done[j, f] + self.come[0, k])
        least += self.charge[h]
        return least

    def advance(self, h: int, a: int, j: int) -> None:
        """Lengthen runs on a type by an epoch: those that began in epoch ``a``, or all where none is kept short."""
        endless = 1e300 * 1e300
        own = h if self.by_type else 0
        least = endless
        if j > a:
            for k in range(self.kinds[h], self.kinds[h + 1]):
                least = min(least, self.ahead[j - 1, k])
        ended = endless
        for k in range(self.kinds[h], self.kinds[h + 1]):
            if self.closed[j, k]:
                self.ahead[j, k] = endless
                continue
            best = endless
            if j > a:
                best = min(self.ahead[j - 1, k], least + self.come[own, k])
            if j == a or self.unbound[h]:
                best = min(best, self.enter(h, j, k))
            self.ahead[j, k] = best + self.run[j, k]
            ended = min(ended, self.ahead[j, k])
        self.done[j + 1, h] = min(self.done[j + 1, h], ended)

    def find_least(self, weights: Floats) -> float:
        """Return the least weighted sum of a path of runs that are not too long."""
        endless = 1e300 * 1e300
        self.weigh(weights)
        for j in range(1 + self.epochs):
            for h in range(self.types):
                self.done[j, h] = endless
        for a in range(self.epochs):
            for h in range(self.types):
                if self.unbound[h]:
                    self.advance(h, 0, a)
                else:
                    for j in range(a, self.longest[a, h]):
                        self.advance(h, a, j)
        least = endless
        for h in range(self.types):
            least = min(least, self.done[self.epochs, h])
        return least

    def retreat(self, h: int, j: int, end: int) -> None:
        """Find what follows options of a type in an epoch on runs that end before another one: ``behind``."""
        endless = 1e300 * 1e300
        own = h if self.by_type else 0
        follows = self.rest[j + 1, h]
        if j + 1 < end:
            for k in range(self.kinds[h], self.kinds[h + 1]):
                follows = min(follows, self.come[own, k] + self.run[j + 1, k] + self.behind[j + 1, k])
        for k in range(self.kinds[h], self.kinds[h + 1]):
            self.behind[j, k] = follows
            if j + 1 < end and self.run[j + 1, k] < endless:
                self.behind[j, k] = min(follows, self.run[j + 1, k] + self.behind[j + 1, k])

    def find_rest(self) -> None:
        """Find what may follow runs on each type that end before each epoch."""
        endless = 1e300 * 1e300
        for h in range(self.types):
            self.rest[self.epochs, h] = 0.0
        for a in range(self.epochs - 1, -1, -1):
            for h in range(self.types):
                self.rest[a, h] = endless
            for h in range(self.types):
                if self.unbound[h]:
                    self.retreat(h, a, self.epochs)
                else:
                    for j in range(self.longest[a, h] - 1, a - 1, -1):
                        self.retreat(h, j, self.longest[a, h])
                    if self.longest[a, h] <= a:
                        continue
                for k in range(self.kinds[h], self.kinds[h + 1]):
                    cost = self.run[a, k] + self.behind[a, k] + self.charge[h]
                    for f in range(self.types):
                        if f != h:
                            self.rest[a, f] = min(self.rest[a, f], cost + self.come[f if self.by_type else 0, k])

    def close(self, weights: Floats, most: float, depth: int) -> bool:
        """Close options in epochs in which no path that holds them weighs less than ``most``; return whether any."""
        endless = 1e300 * 1e300
        self.find_least(weights)
        self.find_rest()
        for j in range(self.epochs):
            for k in range(self.options):
                self.through[j, k] = endless
        for h in range(self.types):
            if self.unbound[h]:
                for j in range(self.epochs - 1, -1, -1):
                    self.retreat(h, j, self.epochs)
                for j in range(self.epochs):
                    self.advance(h, 0, j)
                self.join(h, 0, self.epochs)
                continue
            for a in range(self.epochs):
                end = self.longest[a, h]
                for j in range(end - 1, a - 1, -1):
                    self.retreat(h, j, end)
                for j in range(a, end):
                    self.advance(h, a, j)
                self.join(h, a, end)
        changed = False
        for j in range(self.epochs):
            for k in range(self.options):
                if self.closed[j, k] == 0 and not self.through[j, k] < most:
                    self.closed[j, k] = depth
                    changed = True
        return changed

    def join(self, h: int, a: int, end: int) -> None:
        """Take what is ahead of and behind options of a type, from an epoch to before another, for whole paths."""
        for j in range(a, end):
            for k in range(self.kinds[h], self.kinds[h + 1]):
                if self.closed[j, k] == 0:
                    self.through[j, k] = min(self.through[j, k], self.ahead[j, k] + self.behind[j, k])


def recur_cells(
    cells: Places, weights: Floats, chances: Floats, scale: Floats, begin: int, end: int, large: float
) -> None:
    """Go on with Panjer's recursion from one number of cells to another, not included.

    ``weights`` (C, H) are y q(y) of the numbers of cells y that clumps hold, ``cells`` (C,) rising, by time of the day.
    ``chances`` (N, H) are up to e^``scale``, and scaled down where they exceed ``large``. Times come last: their sums
    do not wait for one another.
    """
    hours = weights.shape[1]
    for n in range(begin, end):
        for place in range(cells.shape[0]):
            before = n - cells[place]
            if before < 0:
                break
            for hour in range(hours):
                chances[n, hour] += weights[place, hour] * chances[before, hour]
        for hour in range(hours):
            chances[n, hour] /= n
            if chances[n, hour] > large:
                for y in range(n + 1):
                    chances[y, hour] /= large
                scale[hour] += math.log(large)
