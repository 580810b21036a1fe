"""Pure plans under several binding limits, sieved through every multiplier vector ever tried.

The best pure plan may be percents above the bound of mixed plans, because a mixture gives the last fraction of a limit
to a path that never leaves one kind of nodes. By *blocks*, the paths that visit exactly the same kinds, the two are
much nearer. A *level* asks for all plans up to a value U, a little above what is proven: graphs with few paths are
listed and joined, every total is combined with every choice of blocks of the others, and goes when any *row* says that
the rest takes it beyond U. Rows are added for the most promising total until that is given up or its bound is known;
what is left is grouped by what it leaves of the limits, another graph is listed under the tightest rows, and so on. A
plan that a level finds is optimal once the level ends with U at its value; no plan means that U is a bound, and the
next level is tried. Totals with most room, and graphs that take few labels to list, come first, and are gone on with to
the end: a plan that they have leaves little work for the rest. All is counted and nothing timed, so that the outcome
does not depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.paths.levels.board import COARSE, FINE, LABELS, Board
from optplan.solvers.paths.levels.totals import Totals

#: First level above the bound, and by how much the distance grows: less once so many lists were needed.
_FIRST = 0.0015
_GROWTH = ((10, 1.5), (20, 1.3), (math.inf, 1.12))
#: The same with rows of other problems, and by how much the distance grows at least.
_GROWTH_OF_MANY = ((10, 1.5), (20, 1.2), (40, 1.07), (math.inf, 1.04))
_LEAST_GROWTH = 0.0005
#: With these the first level, and the work that it may take.
_BOLD, _BOLD_WORK = 0.003, 50_000.0
#: Work that any other level may take, or so many times what the one before took. Where one takes more, the next is so
#: much of the way up from what is proven, and may take more.
_MOST_WORK = 600_000.0
_MORE_WORK = 6.0
_BACK = 0.4
#: Labels for listing a graph for some totals, before other totals are tried; and for totals that cannot be divided any
#: further.
_LABELS = (LABELS[:2], LABELS[2:3], LABELS[3:4])
_MORE_LABELS = LABELS[4:]
#: Levels further above the bound than this are not tried.
_FURTHEST = 2.0


class Sieve(Board):
    """Levels of one problem."""

    def run(self, value: float, gap: float) -> None:
        """Go through levels until the best plan is proven to within a gap, or no plan is near.

        Parameters
        ----------
        value
            Value of a known plan, +inf without one.
        gap
            Stop when (value - bound) / value is at most this.

        Raises
        ------
        OutOfEffortError
            When time ran out, or a level is too large; ``bound`` and ``plan`` are what is known then.
        """
        self.value = value
        if self.is_one_of_many:
            self._climb(gap)
            return
        distance = _FIRST
        while self.bound < self.value * (1.0 - gap) and distance <= _FURTHEST:
            lists = self._listed
            self._try_level(min(self.root * (1.0 + distance), self.value * (1.0 - ROUNDING)))
            lists = self._listed - lists
            self._report()
            distance *= next(factor for most, factor in _GROWTH if lists < most)

    def _climb(self, gap: float) -> None:
        """Go through levels as :meth:`run` does, and back where one takes too much work.

        Raises
        ------
        OutOfEffortError
            As :meth:`run`.
        """
        proven, distance, most = 0.0, _BOLD, _BOLD_WORK
        while self.bound < self.value * (1.0 - gap) and distance <= _FURTHEST:
            lists, before, self.may_work = self._listed, self.work, self.work + most
            try:
                self._try_level(min(self.root * (1.0 + distance), self.value * (1.0 - ROUNDING)))
            except OutOfEffortError as stop:
                if stop.limit != "work":
                    raise
                distance = proven + _BACK * (min(distance, self.value / self.root - 1.0) - proven)
                most = max(2.0 * most, _MOST_WORK)
                continue
            self._report()
            most, proven = max(_MOST_WORK, _MORE_WORK * (self.work - before)), distance
            factor = next(factor for count, factor in _GROWTH_OF_MANY if self._listed - lists < count)
            distance = max(distance * factor, distance + _LEAST_GROWTH)

    def _report(self) -> None:
        objective = None if math.isinf(self.value) else self.value
        self.effort.stopwatch.emit("levels", objective=objective, bound=self.bound)

    def _try_level(self, ceiling: float) -> None:
        """Find the best plan up to a value, or raise the bound to it."""
        totals, opened = self._list_few(self._begin(ceiling))
        self._go_on(self._choose_blocks(totals, opened), opened)
        self.bound = max(self.bound, self.value if ceiling >= self.value * (1.0 - ROUNDING) else ceiling)

    def _go_on(self, totals: Totals, opened: Sequence[int]) -> None:
        """Complete totals that have a block of each graph that is left, those with most room first.

        The first plan is found soon, is mostly near the best, and leaves little room to the others.
        """
        if len(opened) < 2:
            self._end(totals)
            return
        for number, found in self._lengthen_all(totals, opened):
            left = [each for each in opened if each != number]
            self._go_on(self._tighten(found.undercut(self._unit)), left)

    def _lengthen_all(self, totals: Totals, opened: Sequence[int]) -> Iterator[tuple[int, Totals]]:
        """List a graph for each part of some totals: those first that take few labels, for the others in smaller parts.

        What is quick to list may have a plan, after which the rest takes fewer labels.
        """
        waiting = self._divide(totals, COARSE)
        for labels in _LABELS:
            parts, waiting = waiting, []
            for part in parts:
                try:
                    found = self._lengthen(part, opened, labels)
                except OutOfEffortError as stop:
                    if stop.limit != "labels":
                        raise
                    waiting.append(part)
                    continue
                if found is not None:
                    yield found
        for part in waiting:
            halves = part.halve(self._unit, *FINE)
            for half in halves:
                yield from self._lengthen_all(half, opened)
            found = None if halves else self._lengthen(part, opened, _MORE_LABELS)
            if found is not None:
                yield found
