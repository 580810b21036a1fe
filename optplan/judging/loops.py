"""The loops in which a check spends its time: the least path of a graph, and which of many paths may be the best.

``loops.pxd`` has the types with which Cython compiles this file; without a compiler it runs as it stands, slower.
Written without sight of any solver, and shares no line with one.

A point is what the end of a path takes: its value and its consumptions (1 + L,). Points of a node are one list, sorted
by their numbers in turn, of which none dominates another in everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

#: Comparisons of two points between two looks at the clock: about 1 ms.
_COMPARED_AT_ONCE = 1 << 18


def find_least_path(
    prices: Floats,
    run_value: Floats,
    run_use: Floats,
    enter_value: Floats,
    enter_use: Floats,
    group: Places,
    room: Floats,
    entry: Floats,
) -> float:
    """Return the least cost of a path, layer by layer, at prices (1 + L,) of value and consumptions.

    Being at a node takes (E, K) and (L, E, K), coming to it from a group (F, E, K) and (L, F, E, K), or (F, 1, K) and
    (L, F, 1, K) in every layer; ``room`` (2, K) and ``entry`` (F + 1, K) are to work in.
    """
    endless = 1e300 * 1e300
    nodes, groups, limits = run_value.shape[1], enter_value.shape[0], run_use.shape[0]
    for layer in range(run_value.shape[0]):
        for k in range(nodes):
            room[1, k] = prices[0] * run_value[layer, k]
        for limit in range(limits):
            price = prices[1 + limit]
            for k in range(nodes):
                room[1, k] += price * run_use[limit, layer, k]
        if layer < enter_value.shape[1]:
            for f in range(groups):
                for k in range(nodes):
                    entry[f, k] = prices[0] * enter_value[f, layer, k]
                for limit in range(limits):
                    price = prices[1 + limit]
                    for k in range(nodes):
                        entry[f, k] += price * enter_use[limit, f, layer, k]
        if layer == 0:
            for k in range(nodes):
                room[0, k] = entry[group[k], k]
        else:
            for f in range(groups):
                low = entry[groups, f]
                for k in range(nodes):
                    room[0, k] = min(room[0, k], low + entry[f, k])
        for k in range(nodes):
            room[0, k] += room[1, k]
        for f in range(groups):
            low = endless
            for k in range(nodes):
                if group[k] == f:
                    low = min(low, room[0, k])
            entry[groups, f] = low
    found = endless
    for f in range(groups):
        found = min(found, entry[groups, f])
    return found


def sweep_undominated(
    order: Places, group: Places, first: Floats, low: Floats, high: Floats, room: Floats, goes_on: bool
) -> int:
    """Keep the points of a group that no other of it is certain to beat, which are put first in ``order``; count them.

    A point has a ``first`` number, and a second one between ``low`` and ``high``. In ``order`` (M,) they are sorted by
    group, first number and ``high``. With ``goes_on``, points of groups before count, too; ``room`` (4, M) is for work.
    """
    endless = 1e300 * 1e300
    kept, begin, total, old, steps = 0, 0, order.shape[0], 0, 0
    while begin < total:
        own, least, step, count = group[order[begin]], endless, 0, 0
        # Two sorted lists are merged: the group's points, and the falling steps of those before; new steps come of it.
        while (begin < total and group[order[begin]] == own) or step < steps:
            of_group = begin < total and group[order[begin]] == own
            if of_group and (step == steps or first[order[begin]] < room[old, step]):
                place = order[begin]
                begin += 1
                at, over = first[place], high[place]
                if low[place] < least:
                    order[kept] = place
                    kept += 1
            else:
                at, over = room[old, step], room[old + 1, step]
                step += 1
            if over < least:
                least = over
                room[2 - old, count], room[3 - old, count] = at, over
                count += 1
        old, steps = 2 - old, count if goes_on else 0
    return kept


class EndLists:
    """Ends of a graph's paths, layer after layer from the last one.

    ``steps`` (E, K, 1 + L) are value and consumptions of being at a node of a layer, ``entries`` (F, E, K, 1 + L) the
    same of coming to it from a group, ``group`` (K,) that of each node, and ``prices`` (1 + L,) what the numbers of a
    point count. A path may cost ``allowance`` more than the cheapest one. The stopwatch's ``require`` is called now and
    then.
    """

    def __init__(
        self,
        steps: Floats,
        entries: Floats,
        group: Places,
        prices: Floats,
        allowance: float,
        stopwatch: Any,  # noqa: ANN401 - an object to the compiler
    ) -> None:
        self.steps, self.entries, self.group = steps, entries, group
        self.prices, self.stopwatch = prices, stopwatch
        nodes, groups, self.width = steps.shape[1], entries.shape[0], prices.shape[0]
        #: The lists of all nodes, one after another, and where each begins and ends; those to be; those of groups.
        self.made, self.joined = np.empty((64, self.width)), np.empty((64, self.width))
        self.shared, self.other = np.empty((64, self.width)), np.empty((64, self.width))
        self.first, self.last = np.zeros(nodes, dtype=np.intp), np.zeros(nodes, dtype=np.intp)
        self.bounds = np.zeros(nodes + 2, dtype=np.intp)
        self.shared_end, self.shared_least = np.zeros(groups + 1, dtype=np.intp), np.zeros(groups)
        self.compared, self.at_once = 0, _COMPARED_AT_ONCE
        self.nothing = np.zeros(self.width)
        self.lists = np.zeros((nodes, self.width))
        #: The least price of a beginning that ends at, and includes, a node; what a path may cost.
        self.reach = np.empty((steps.shape[0], nodes))
        self.ceiling = self._reach_nodes() + allowance
        for k in range(nodes):
            self.first[k] = k
            self.last[k] = k + (self.reach[steps.shape[0] - 1, k] <= self.ceiling)

    def _reach_nodes(self) -> float:
        """Find the least prices of beginnings, and return that of a path."""
        endless = 1e300 * 1e300
        nodes, groups = self.group.shape[0], self.entries.shape[0]
        for layer in range(self.steps.shape[0]):
            for k in range(nodes):
                run = 0.0
                for c in range(self.width):
                    run += self.prices[c] * self.steps[layer, k, c]
                best = endless if layer == 0 else self.reach[layer - 1, k]
                for f in range(groups):
                    if layer == 0 and f != self.group[k]:
                        continue
                    came = 0.0 if layer == 0 else self.shared_least[f]
                    for c in range(self.width):
                        came += self.prices[c] * self.entries[f, layer, k, c]
                    best = min(best, came)
                self.reach[layer, k] = best + run
            for f in range(groups):
                self.shared_least[f] = endless
            for k in range(nodes):
                self.shared_least[self.group[k]] = min(self.shared_least[self.group[k]], self.reach[layer, k])
        best = endless
        for f in range(groups):
            best = min(best, self.shared_least[f])
        return best

    def go_back(self, layer: int) -> int:
        """Go from a layer to the one before, and return how many points there are."""
        nodes, at = self.group.shape[0], 0
        self._share(layer)
        for k in range(nodes):
            f, begun = self.group[k], at
            room = self.ceiling - self.reach[layer - 1, k]
            begin, end = self.first[k], self.last[k]
            start, stop = self.shared_end[f], self.shared_end[f + 1]
            if not self.shared_least[f] <= room:
                stop = start
            self.first[k] = self.last[k] = begun
            if begin == end and start == stop:
                continue
            if at + end - begin + stop - start > self.made.shape[0]:
                self.made = _grow(self.made, at + end - begin + stop - start)
            at = self._merge(
                self.lists, begin, end, self.steps[layer, k], self.joined, start, stop, room, self.made, at
            )  # fmt: skip
            self.last[k] = at
        self.lists, self.made = self.made, self.lists
        return at

    def list_paths(self) -> Any:  # noqa: ANN401 - an array
        """Return whole paths (P, 1 + L), each having entered its first node as from that node's own group."""
        parts = []
        for f in range(self.entries.shape[0]):
            count = self._gather(0, f, self.ceiling, f)
            parts.append(np.array(self.shared[:count]))
        return np.concatenate(parts)

    def _share(self, layer: int) -> None:
        """List for each group what can follow its nodes by entering a node of a layer."""
        endless = 1e300 * 1e300
        total, groups = 0, self.entries.shape[0]
        for f in range(groups):
            least = endless
            for k in range(self.group.shape[0]):
                if self.group[k] == f:
                    least = min(least, self.reach[layer - 1, k])
            count = self._gather(layer, f, self.ceiling - least, -1)
            self.shared_least[f] = endless
            for place in range(count):
                self.shared_least[f] = min(self.shared_least[f], self._weigh(self.shared, place))
            if total + count > self.joined.shape[0]:
                self.joined = _grow(self.joined, total + count)
            for place in range(count):
                for c in range(self.width):
                    self.joined[total + place, c] = self.shared[place, c]
            total += count
            self.shared_end[f + 1] = total

    def _gather(self, layer: int, left: int, room: float, only: int) -> int:
        """Merge what follows by entering the nodes of a layer from a group into ``shared``; return how many points."""
        nodes, total, count = self.group.shape[0], 0, 0
        for k in range(nodes):
            total += self.last[k] - self.first[k]
        if total > self.shared.shape[0] or total > self.other.shape[0]:
            self.shared, self.other = _grow(self.shared, total), _grow(self.other, total)
        total = 0
        for k in range(nodes):
            if self.first[k] == self.last[k] or (only >= 0 and self.group[k] != only):
                continue
            begun = total
            for place in range(self.first[k], self.last[k]):
                for c in range(self.width):
                    self.shared[total, c] = self.lists[place, c] + (
                        self.steps[layer, k, c] + self.entries[left, layer, k, c]
                    )
                if self._weigh(self.shared, total) <= room:
                    total += 1
            if total > begun:
                count += 1
                self.bounds[count] = total
        while count > 1:
            pairs, at = 0, 0
            for one in range(0, count, 2):
                middle = self.bounds[one + 1]
                stop = self.bounds[one + 2] if one + 1 < count else middle
                at = self._merge(
                    self.shared, self.bounds[one], middle, self.nothing, self.shared, middle, stop, room, self.other, at
                )  # fmt: skip
                pairs += 1
                self.bounds[pairs] = at
            self.shared, self.other = self.other, self.shared
            count, total = pairs, at
        return total

    def _weigh(self, points: Floats, place: int) -> float:
        """Return what a point costs at the prices."""
        cost = 0.0
        for c in range(self.width):
            cost += self.prices[c] * points[place, c]
        return cost

    def _merge(
        self,
        one: Floats,
        begin: int,
        end: int,
        more: Floats,
        two: Floats,
        start: int,
        stop: int,
        room: float,
        out: Floats,
        at: int,
    ) -> int:
        """Merge two lists, the first with ``more`` (1 + L,) on top, within what points may cost; return the end."""
        begun, width = at, self.width
        while begin < end or start < stop:
            from_one = begin < end
            if from_one and start < stop:
                for c in range(width):
                    ahead = (one[begin, c] + more[c]) - two[start, c]
                    if ahead != 0.0:
                        from_one = ahead < 0.0
                        break
            if from_one:
                for c in range(width):
                    out[at, c] = one[begin, c] + more[c]
                begin += 1
            else:
                for c in range(width):
                    out[at, c] = two[start, c]
                start += 1
            if not self._weigh(out, at) <= room:
                continue
            kept = True
            # All before it have no greater value; with one limit the last of them has least of that.
            other = begun if width > 2 or at == begun else at - 1
            while other < at and kept:
                kept = False
                for c in range(1, width):
                    if out[other, c] > out[at, c]:
                        kept = True
                        break
                other += 1
            self.compared += other - begun + 1
            if kept:
                at += 1
            if self.compared > self.at_once:
                self.compared = 0
                self.stopwatch.require()
        return at


def _grow(array: Any, rows: int) -> Any:  # noqa: ANN401 - an array, or a view of one
    """Return an array with at least so many rows that begins with the given ones."""
    if rows <= array.shape[0]:
        return array
    wide = np.empty((max(rows, 2 * array.shape[0]), array.shape[1]))
    wide[: array.shape[0]] = array
    return wide
