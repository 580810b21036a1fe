"""Shortest paths by runs: the pricing of branch and price, in which no graph alone may exceed what a limit has left.

A path is a sequence of *runs*, each on nodes of one kind, neighbours on different ones. In a plan of one path per graph
a run that alone takes more of a limit than the other graphs leave of it is impossible, which no multiplier can say: a
mixture gives such a run a small fraction. ``runs.pxd`` has the types with which Cython compiles this file. The passes
are Bellman's, with the epoch in which the run began as a part of the state where that matters. One class, and one unit
of compilation: all passes work in the same tables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]
Numbers = NDArray[np.int32]
Places = NDArray[np.intp]


class RunGraphs:
    """G layered graphs with masks, what runs are possible under these, and best paths of such runs.

    ``steps`` (D, N, K): value and each consumption of being at a node; row ``starts[g] + j`` is layer j of graph g.
    ``entries`` (D, G, P, K): the same of coming to a node from each kind, or from any (P = 1); also of beginning there.
    ``starts`` (G + 1,): where each graph's rows begin. ``kinds`` (G, F + 1): where the nodes of each kind begin: they
    are neighbours. ``own`` (G, F): number of the limit that only nodes of the kind consume, -1 where there is none.
    ``used`` (G, F, L): whether nodes of the kind consume a limit at all. ``room`` (L,): what may be consumed of each
    limit, all graphs together.
    """

    def __init__(
        self, steps: Floats, entries: Floats, starts: Places, kinds: Places, own: Places, used: Flags, room: Floats
    ) -> None:
        self.steps, self.entries, self.starts, self.kinds = steps, entries, starts, kinds
        self.own, self.used, self.room = own, used, room
        self.num_graphs, self.num_kinds = own.shape[0], own.shape[1]
        self.num_limits, self.width = room.shape[0], steps.shape[2]
        self.per_kind = entries.shape[2] > 1
        depth = int(np.diff(starts).max())
        #: (N, K) Nodes that may not be used: what branching and reduced costs decide.
        self.closed = np.zeros((steps.shape[1], self.width), dtype=np.uint8)
        self.seen = np.full((steps.shape[1], self.width), 2, dtype=np.uint8)
        #: (G,) How often it has changed which paths of a graph are possible.
        self.changes = np.zeros(self.num_graphs, dtype=np.intp)
        #: (N, F) The first open node of a kind, and the one behind the last; (G, F) the same of all layers together.
        self.low = np.zeros((steps.shape[1], self.num_kinds), dtype=np.intp)
        self.high = np.zeros((steps.shape[1], self.num_kinds), dtype=np.intp)
        self.least_low = np.zeros((self.num_graphs, self.num_kinds), dtype=np.intp)
        self.most_high = np.zeros((self.num_graphs, self.num_kinds), dtype=np.intp)
        #: (N, F) Behind which layer a run that begins here ends at the latest, and (G, F) whether no run is cut short.
        self.reach = np.zeros((steps.shape[1], self.num_kinds), dtype=np.intp)
        self.free = np.zeros((self.num_graphs, self.num_kinds), dtype=np.uint8)
        #: (G, F) What each graph cannot but consume of a kind's own limit, and what the others left it when last seen.
        self.forced = np.zeros((self.num_graphs, self.num_kinds))
        self.left = np.full((self.num_graphs, self.num_kinds), -1.0)
        self.total = np.zeros(self.num_limits)
        #: (G, K) The least that coming to a node takes of its kind's own limit, and (G, F) between which amounts left
        #: runs are as long as they were found to be.
        self.enough = np.zeros((self.num_graphs, self.num_kinds))
        self.too_much = np.zeros((self.num_graphs, self.num_kinds))
        cheapest = np.zeros((self.num_graphs, self.width))
        for g, h in np.argwhere(np.asarray(own) >= 0).tolist():
            nodes = slice(int(kinds[g, h]), int(kinds[g, h + 1]))
            cheapest[g, nodes] = entries[1 + int(own[g, h]), g, :, nodes].min(axis=0)
        self.cheapest = cheapest
        #: Best paths: least sum, nodes, value and consumptions of each graph.
        self.least = np.zeros(self.num_graphs)
        self.path = np.zeros((self.num_graphs, depth), dtype=np.int32)
        self.sums = np.zeros((self.num_graphs, 1 + self.num_limits))
        #: (G, F) How many runs on each kind the best paths have, and (F,) what each run is charged.
        self.runs = np.zeros((self.num_graphs, self.num_kinds), dtype=np.int32)
        self.charge = np.zeros(self.num_kinds)
        #: Room to work in.
        self.run = np.empty((depth, self.width))
        self.enter = np.empty((self.num_kinds, self.width))
        #: What paths cost from each node on, where a run begins there (``go``) and where one goes on (``part``).
        self.tables = np.empty((2, depth + 1, self.width))
        self.go, self.part = self.tables[0], self.tables[1]
        self.through = np.empty((depth + 1, self.width))
        self.come = np.empty(self.width)
        self.suffix = np.empty((depth + 1, self.num_kinds))
        self.prefix = np.empty((depth + 1, self.num_kinds))
        self.must = np.zeros(depth + 1)

    def refresh(self) -> bool:
        """Find what runs the masks leave possible; return whether every graph can keep every limit of a kind."""
        self.total[:] = 0.0
        for g in range(self.num_graphs):
            changed = self.differs(g)
            if changed:
                self.changes[g] += 1
                self.find_open(g)
            for h in range(self.num_kinds):
                if self.own[g, h] >= 0:
                    if changed:
                        self.forced[g, h] = self.find_forced(g, h)
                        self.left[g, h] = -1.0
                    self.total[self.own[g, h]] += self.forced[g, h]
                elif changed:
                    self.free[g, h] = 1
        for limit in range(self.num_limits):
            if self.total[limit] > self.room[limit]:
                return False
        for g in range(self.num_graphs):
            for h in range(self.num_kinds):
                if self.own[g, h] >= 0:
                    left = self.room[self.own[g, h]] - (self.total[self.own[g, h]] - self.forced[g, h])
                    if self.left[g, h] < 0.0 or not self.enough[g, h] <= left < self.too_much[g, h]:
                        self.changes[g] += self.find_reach(g, h, left)
                    self.left[g, h] = left
        return True

    def differs(self, g: int) -> bool:
        """Whether a graph's masks are others than when last asked."""
        changed = 0
        for row in range(self.starts[g], self.starts[g + 1]):
            for k in range(self.width):
                changed |= self.closed[row, k] ^ self.seen[row, k]
        if changed != 0:
            for row in range(self.starts[g], self.starts[g + 1]):
                for k in range(self.width):
                    self.seen[row, k] = self.closed[row, k]
        return changed != 0

    def find_open(self, g: int) -> None:
        """Find between which nodes of each kind the open ones of a graph are: few are, deep in a search."""
        for h in range(self.num_kinds):
            self.least_low[g, h], self.most_high[g, h] = self.kinds[g, h + 1], self.kinds[g, h]
            for row in range(self.starts[g], self.starts[g + 1]):
                low, high = self.kinds[g, h], self.kinds[g, h + 1]
                while low < high and self.closed[row, low]:
                    low += 1
                while low < high and self.closed[row, high - 1]:
                    high -= 1
                self.low[row, h], self.high[row, h] = low, high
                if low < high:
                    self.least_low[g, h] = min(self.least_low[g, h], low)
                    self.most_high[g, h] = max(self.most_high[g, h], high)

    def find_forced(self, g: int, h: int) -> float:
        """Return the least consumption of a kind's own limit of any path."""
        endless = 1e300 * 1e300
        limit = self.own[g, h] + 1
        away = 0.0
        lowest = endless
        first = behind = 0
        for row in range(self.starts[g], self.starts[g + 1]):
            is_open = False
            for f in range(self.num_kinds):
                if f != h and self.low[row, f] < self.high[row, f]:
                    is_open = True
            best = endless
            for k in range(self.low[row, h], self.high[row, h]):
                if self.closed[row, k]:
                    self.part[0, k] = endless
                    continue
                cost = min(lowest, away) + self.cheapest[g, k]
                if first <= k < behind:
                    cost = min(cost, self.part[0, k])
                self.part[0, k] = cost + self.steps[limit, row, k]
                best = min(best, self.part[0, k])
            first, behind = self.low[row, h], self.high[row, h]
            away = min(away, lowest) if is_open else endless
            lowest = best
        return min(away, lowest)

    def find_reach(self, g: int, h: int, left: float) -> bool:
        """Find how long each run on a kind can be within what is left of its own limit; return whether that is new.

        Where the masks leave only nodes of the kind in other layers, these take something of it too. A part of a run
        needs no more than the run: where one is not cut short, none that begins later is.
        """
        endless = 1e300 * 1e300
        limit = self.own[g, h] + 1
        origin, end = self.starts[g], self.starts[g + 1]
        before = self.free[g, h]
        self.free[g, h] = 1
        self.enough[g, h], self.too_much[g, h] = 0.0, endless
        self.must[0] = 0.0
        for row in range(origin, end):
            best = endless
            for k in range(self.low[row, h], self.high[row, h]):
                if not self.closed[row, k]:
                    best = min(best, self.steps[limit, row, k])
            for f in range(self.num_kinds):
                if f != h and self.low[row, f] < self.high[row, f]:
                    best = 0.0
            self.must[row - origin + 1] = self.must[row - origin] + (best if best < endless else 0.0)
        begin, changed = origin, False
        while begin < end:
            row = begin
            cut = False
            lowest = 0.0
            first = behind = 0
            while row < end:
                best = endless
                for k in range(self.low[row, h], self.high[row, h]):
                    if self.closed[row, k]:
                        self.part[0, k] = endless
                        continue
                    cost = lowest + self.cheapest[g, k]
                    if first <= k < behind:
                        cost = min(cost, self.part[0, k])
                    self.part[0, k] = cost + self.steps[limit, row, k]
                    best = min(best, self.part[0, k])
                first, behind = self.low[row, h], self.high[row, h]
                need = best + self.must[begin - origin] + (self.must[end - origin] - self.must[row - origin + 1])
                if need > left:
                    if best < endless:
                        cut = True
                        self.free[g, h] = 0
                        self.too_much[g, h] = min(self.too_much[g, h], need)
                    break
                self.enough[g, h] = max(self.enough[g, h], need)
                lowest = best
                row += 1
            while True:
                changed = changed or self.reach[begin, h] != row - origin
                self.reach[begin, h] = row - origin
                begin += 1
                if cut or begin >= row:
                    break
        return changed or before != self.free[g, h]

    def weigh(self, g: int, weights: Floats) -> None:
        """Write what a graph's steps and entries cost under weights (1 + L,); closed nodes are infinite.

        Weights may go on (1 + L + G * F,): what each run on each kind is charged, by graph.
        """
        endless = 1e300 * 1e300
        origin = self.starts[g]
        for h in range(self.num_kinds):
            place = 1 + self.num_limits + g * self.num_kinds + h
            self.charge[h] = weights[place] if place < weights.shape[0] else 0.0
        for h in range(self.num_kinds):
            first, behind = self.least_low[g, h], self.most_high[g, h]
            if first >= behind:
                continue
            for c in range(1 + self.num_limits):
                weight = weights[c]
                if c > 0 and (not self.used[g, h, c - 1] or weight == 0.0):
                    continue
                for row in range(origin, self.starts[g + 1]):
                    for k in range(self.low[row, h], self.high[row, h]):
                        cost = weight * self.steps[c, row, k]
                        self.run[row - origin, k] = cost if c == 0 else self.run[row - origin, k] + cost
                for f in range(self.num_kinds if self.per_kind else 1):
                    for k in range(first, behind):
                        cost = weight * self.entries[c, g, f, k]
                        self.enter[f, k] = cost if c == 0 else self.enter[f, k] + cost
            for row in range(origin, self.starts[g + 1]):
                for k in range(self.low[row, h], self.high[row, h]):
                    if self.closed[row, k]:
                        self.run[row - origin, k] = endless

    def lengthen(self, g: int, h: int, begin: int, known: int, end: int) -> None:
        """Write into ``part`` what a run costs from each node on, until it ends before ``end`` and the path after it.

        The layers from ``known`` on are there already.
        """
        for j in range(known - 1, begin - 1, -1):
            self.step_back(g, h, j, end, 1)

    def retreat(self, g: int) -> None:
        """Write what paths cost from each node on, where a run begins, and behind each run, from the end."""
        endless = 1e300 * 1e300
        depth = self.starts[g + 1] - self.starts[g]
        for h in range(self.num_kinds):
            self.suffix[depth, h] = 0.0
        for j in range(depth - 1, -1, -1):
            for h in range(self.num_kinds):
                if self.free[g, h]:
                    self.step_back(g, h, j, depth, 0)
                    continue
                first, behind = self.low[self.starts[g] + j, h], self.high[self.starts[g] + j, h]
                end = self.reach[self.starts[g] + j, h]
                if end <= j:
                    for k in range(first, behind):
                        self.go[j, k] = endless
                    continue
                # Runs that have to end at the same layer are the same from there on.
                known = j + 1 if j + 1 < end == self.reach[self.starts[g] + j + 1, h] else end
                self.lengthen(g, h, j, known, end)
                for k in range(first, behind):
                    self.go[j, k] = self.part[j, k]
            self.leave(g, j)

    def leave(self, g: int, j: int) -> None:
        """Write what paths cost behind a run on each kind that ends before a layer: the next is on another kind."""
        endless = 1e300 * 1e300
        best = second = endless
        nearest = -1
        for f in range(self.num_kinds):
            self.suffix[j, f] = endless
        for h in range(self.num_kinds):
            first, behind = self.low[self.starts[g] + j, h], self.high[self.starts[g] + j, h]
            if first >= behind:
                continue
            for f in range(self.num_kinds if self.per_kind else 1):
                lowest = endless
                for k in range(first, behind):
                    lowest = min(lowest, self.go[j, k] + self.enter[f, k])
                lowest += self.charge[h]
                if self.per_kind:
                    if f != h:
                        self.suffix[j, f] = min(self.suffix[j, f], lowest)
                elif lowest < best:
                    best, second, nearest = lowest, best, h
                else:
                    second = min(second, lowest)
        if not self.per_kind:
            for f in range(self.num_kinds):
                self.suffix[j, f] = second if f == nearest else best

    def step_back(self, g: int, h: int, j: int, end: int, table: int) -> None:
        """Write into a table what paths cost from each node of a kind on, where the run ends before ``end``."""
        row = self.starts[g] + j
        f = h if self.per_kind else 0
        ending = self.suffix[j + 1, h]
        first = behind = 0
        if j + 1 < end:
            first, behind = self.low[row + 1, h], self.high[row + 1, h]
            for k in range(first, behind):
                ending = min(ending, self.tables[table, j + 1, k] + self.enter[f, k])
        for k in range(self.low[row, h], self.high[row, h]):
            cost = ending
            if first <= k < behind and self.tables[table, j + 1, k] < cost:
                cost = self.tables[table, j + 1, k]
            self.tables[table, j, k] = cost + self.run[j, k]

    def price(self, g: int, weights: Floats) -> float:
        """Find a graph's best path of possible runs under weights (1 + L,); return its weighted sum."""
        endless = 1e300 * 1e300
        self.weigh(g, weights)
        self.retreat(g)
        best = endless
        node = -1
        kind = 0
        for h in range(self.num_kinds):
            f = h if self.per_kind else 0
            for k in range(self.low[self.starts[g], h], self.high[self.starts[g], h]):
                cost = self.go[0, k] + self.enter[f, k] + self.charge[h]
                if cost < best:
                    best = cost
                    node, kind = k, h
        self.least[g] = best
        if node >= 0:
            self.trace(g, node, kind)
        return best

    def trace(self, g: int, node: int, kind: int) -> None:
        """Follow the best path from its first node on, and add it up."""
        endless = 1e300 * 1e300
        origin = self.starts[g]
        depth = self.starts[g + 1] - origin
        begin = 0
        end = 0
        for j in range(depth):
            if j == begin:  # a run begins: what its nodes cost from here on depends on where it has to end
                if self.free[g, kind]:
                    end = depth
                else:
                    end = self.reach[origin + j, kind]
                    self.lengthen(g, kind, j, end, end)
            self.path[g, j] = node
            if j + 1 == depth:
                break
            f = kind if self.per_kind else 0
            best = endless
            after = node
            row = origin + j + 1
            if j + 1 < end:
                if self.low[row, kind] <= node < self.high[row, kind]:
                    best = self.go[j + 1, node] if self.free[g, kind] else self.part[j + 1, node]
                for k in range(self.low[row, kind], self.high[row, kind]):
                    cost = self.enter[f, k] + (self.go[j + 1, k] if self.free[g, kind] else self.part[j + 1, k])
                    if cost < best:
                        best, after = cost, k
            later = kind
            if self.suffix[j + 1, kind] < best:
                for h in range(self.num_kinds):
                    if h != kind:
                        for k in range(self.low[row, h], self.high[row, h]):
                            cost = self.enter[f, k] + self.go[j + 1, k] + self.charge[h]
                            if cost < best:
                                best, after, later = cost, k, h
            if later != kind:
                begin = j + 1
            node, kind = after, later
        self.add_up(g)

    def admits(self, g: int, nodes: Numbers, at: int) -> bool:
        """Whether a path, at a row of ``nodes``, keeps the masks and has possible runs only."""
        origin = self.starts[g]
        end = 0
        kind = -1
        for j in range(self.starts[g + 1] - origin):
            node = nodes[at, j]
            if self.closed[origin + j, node]:
                return False
            if kind < 0 or node < self.kinds[g, kind] or node >= self.kinds[g, kind + 1]:
                kind = 0
                while node >= self.kinds[g, kind + 1]:
                    kind += 1
                end = self.starts[g + 1] - origin if self.free[g, kind] else self.reach[origin + j, kind]
            if j >= end:
                return False
        return True

    def follow(self, g: int, plan: Numbers) -> bool:
        """Add up a graph's path of a plan (G, E) as if it had been priced, if it keeps the masks; return whether."""
        if not self.admits(g, plan, g):
            return False
        for j in range(self.starts[g + 1] - self.starts[g]):
            self.path[g, j] = plan[g, j]
        self.add_up(g)
        return True

    def add_up(self, g: int) -> None:
        """Add up value and consumptions of the path that is written down of a graph."""
        kind = before = 0
        for c in range(1 + self.num_limits):
            self.sums[g, c] = 0.0
        for kind in range(self.num_kinds):
            self.runs[g, kind] = 0
        kind = 0
        for j in range(self.starts[g + 1] - self.starts[g]):
            node = self.path[g, j]
            while node >= self.kinds[g, kind + 1]:
                kind += 1
            while node < self.kinds[g, kind]:
                kind -= 1
            if j == 0 or kind != before:
                self.runs[g, kind] += 1
            if j == 0:
                before = kind
            for c in range(1 + self.num_limits):
                if c > 0 and not self.used[g, kind, c - 1]:
                    continue
                if j == 0 or node != self.path[g, j - 1]:
                    self.sums[g, c] += self.entries[c, g, before if self.per_kind else 0, node]
                self.sums[g, c] += self.steps[c, self.starts[g] + j, node]
            before = kind

    def fix_by_reduced_cost(self, g: int, weights: Floats, most: float) -> int:
        """Close nodes through which every path of possible runs weighs more than ``most``; return how many."""
        endless = 1e300 * 1e300
        self.weigh(g, weights)
        self.retreat(g)
        origin = self.starts[g]
        depth = self.starts[g + 1] - origin
        for j in range(depth):
            for h in range(self.num_kinds):
                self.prefix[j + 1, h] = endless
                for k in range(self.low[origin + j, h], self.high[origin + j, h]):
                    self.through[j, k] = endless
        for j in range(depth):
            for h in range(self.num_kinds):
                if self.free[g, h]:
                    self.step_on(g, h, j, j > 0, True, 0)
                    continue
                end = self.reach[origin + j, h]
                if end <= j:
                    continue
                # Runs that have to end at the same layer go on together, once the last of them has begun.
                joins = j > 0 and self.reach[origin + j - 1, h] == end
                if not joins:
                    self.lengthen(g, h, j, end, end)
                self.step_on(g, h, j, joins, True, 1)
                if j + 1 == end or self.reach[origin + j + 1, h] != end:
                    for layer in range(j + 1, end):
                        self.step_on(g, h, layer, True, False, 1)
        count = 0
        for j in range(depth):
            for h in range(self.num_kinds):
                for k in range(self.low[origin + j, h], self.high[origin + j, h]):
                    if not self.closed[origin + j, k] and not self.through[j, k] <= most:
                        self.closed[origin + j, k] = 1
                        count += 1
        return count

    def step_on(self, g: int, h: int, j: int, goes_on: bool, begins: bool, table: int) -> None:
        """Lengthen runs on a kind by a layer: whether there are some that go on, and whether others begin in it.

        ``come`` holds what paths cost up to a node of the last layer, the table what they cost from a node on.
        """
        endless = 1e300 * 1e300
        row = self.starts[g] + j
        own = h if self.per_kind else 0
        lowest = endless
        first = behind = 0
        if goes_on:
            first, behind = self.low[row - 1, h], self.high[row - 1, h]
            for k in range(first, behind):
                lowest = min(lowest, self.come[k])
        left = endless
        if begins and j > 0 and not self.per_kind:
            for f in range(self.num_kinds):
                if f != h:
                    left = min(left, self.prefix[j, f])
        best = endless
        for k in range(self.low[row, h], self.high[row, h]):
            cost = endless
            if goes_on:
                cost = lowest + self.enter[own, k]
                if first <= k < behind:
                    cost = min(cost, self.come[k])
            if begins:
                if j == 0:
                    cost = self.enter[own, k] + self.charge[h]
                elif self.per_kind:
                    for f in range(self.num_kinds):
                        if f != h:
                            cost = min(cost, self.prefix[j, f] + self.enter[f, k] + self.charge[h])
                else:
                    cost = min(cost, left + self.enter[0, k] + self.charge[h])
            if self.run[j, k] < endless:
                self.through[j, k] = min(self.through[j, k], cost + self.tables[table, j, k])
            self.come[k] = cost + self.run[j, k]
            best = min(best, self.come[k])
        self.prefix[j + 1, h] = min(self.prefix[j + 1, h], best)
