"""Looking for good plans before a level asks for all of them: nothing is proven here, and everything is counted.

A level costs many times more when its value is a little too high, so a good plan is worth a lot. It is sought within a
wide level, of which only the most promising corner is looked at: paths that take little of the room that rows leave,
parts with most room first, until there is any plan. Then two graphs at a time are decided anew while the others keep
their paths, until no two gain anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.paths.levels.board import FINE, LABELS, Board, Totals
from optplan.solvers.paths.levels.segments import KnownPath

#: Share of the room that the paths of one graph may take.
_SHARE = 0.3
#: Lists that one look for a plan may take, and labels of each.
_MOST_LISTS = 200
_LABELS = LABELS[:3]
#: Relative gain for which graphs are decided anew once more.
_WORTHWHILE = 1e-6


class Seeker(Board):
    """Finds good plans."""

    def seek(self, ceiling: float) -> bool:
        """Look for a plan up to a value, and for better ones near it; return whether there was one.

        Raises
        ------
        OutOfEffortError
            When time ran out.
        """
        first = self.value
        known = math.inf
        while self.value < known:
            known = self.value
            self._attempt(ceiling)
            if self.value < known:
                self.improve()
        return self.value < first

    def _attempt(self, ceiling: float) -> None:
        """Look for any plan up to a value."""
        self._may_list, before = self._listed + _MOST_LISTS, self._may_list
        try:
            totals, opened = self._list_few(self._begin(min(ceiling, self.value * (1.0 - ROUNDING))))
            self._descend(self._choose_blocks(totals, opened), opened)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
        finally:
            self._may_list = before

    def _descend(self, totals: Totals, opened: Sequence[int]) -> bool:
        """Go on from totals until there is a better plan; return whether there is."""
        known = self.value
        if len(opened) < 2:
            self._end([totals], _LABELS[-1], FINE)
            return self.value < known
        for part in self._divide(totals, FINE):
            found = self._lengthen(part, opened, _LABELS, _SHARE)
            if found is not None:
                left = [number for number in opened if number != found[0]]
                if self._descend(self._tighten(found[1]) if left else found[1], left):
                    return True
        return False

    def improve(self) -> None:
        """Decide one and two graphs at a time anew, with the others as they are, as long as that gains anything.

        Raises
        ------
        OutOfEffortError
            When time ran out.
        """
        tried: set[tuple[tuple[int, ...], bytes]] = set()
        for size in (1, 2):
            gained = True
            while gained:
                known = self.value
                for free in combinations(range(len(self.graphs)), min(size, len(self.graphs))):
                    assert self.plan is not None
                    kept = b"".join(nodes.tobytes() for number, nodes in enumerate(self.plan) if number not in free)
                    if (free, kept) not in tried:
                        tried.add((free, kept))
                        self._decide_anew(free)
                gained = self.value < known * (1.0 - _WORTHWHILE)

    def _decide_anew(self, free: Sequence[int]) -> None:
        """Look for a better plan that differs in some graphs only."""
        assert self.plan is not None
        total = self._begin(self.value * (1.0 - ROUNDING), free)
        self._lists += [KnownPath(nodes) for nodes in self.plan]
        for number in set(range(len(self.graphs))) - set(free):
            total.sums[:] += self.whole[number].add_up(self.plan[number][None])
            total.chosen[0, number], total.blocks[0, number] = (number, 0), 1
        self._may_list, before = self._listed + _MOST_LISTS, self._may_list
        try:
            self._descend_all(self._choose_blocks(total, free), free)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
        finally:
            self._may_list = before

    def _descend_all(self, totals: Totals, opened: Sequence[int]) -> None:
        """Complete all totals that lack at most two graphs."""
        last = [totals]
        if len(opened) > 1:
            found = [self._lengthen(part, opened, _LABELS) for part in self._divide(totals, FINE) if len(part)]
            last = [each[1] for each in found if each is not None]
        self._end(last, _LABELS[-1], FINE)
