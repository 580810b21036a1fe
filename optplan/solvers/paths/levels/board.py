"""The board: totals listed, joined and given up by rows, below one ceiling at a time.

Nothing is left out but what a row excludes, or what another total with the same choices of blocks undercuts in
everything.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import weigh
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import FloatArray, IntArray, keep_limits
from optplan.solvers.paths.levels.blocks import BlockGraph
from optplan.solvers.paths.levels.memory import Memory
from optplan.solvers.paths.levels.rows import Rows
from optplan.solvers.paths.levels.segments import PathList
from optplan.solvers.paths.levels.totals import Totals

#: Labels for listing a graph at first, before others are; and paths that it may have then.
_FEW_LABELS = (300, 3_000)
_FEW_PATHS = 300
#: Labels for listing a graph where others are chosen: the graphs are tried in turn with more and more.
LABELS = (500, 2_000, 8_000, 32_000, 128_000, 512_000, 2_000_000)
#: Labels beyond which totals are handled in smaller parts.
SMALL = LABELS[3]
#: Rows under which paths are listed, the tightest.
_TIGHTEST = 40
#: Steps up to the level in which the last graph is listed.
_INNER = 0.25
_LEAST_STEP = 1e-6
#: Totals that are handled together are at most so many, and have at most this spread, relative to the limits at their
#: prices: fine where the first plan counts, coarse where all do.
FINE = (50, 1e-3)
COARSE = (400, 0.016)
#: Totals for which multipliers are sought at once.
_BATCH = 8
#: A total's bound is known well enough when multipliers cannot take away more than this of the room that rows leave.
_EXACT = 0.5
#: Times in a row that nothing new is found for some totals; then the others are not asked.
_MOST_IDLE = 5
#: Totals, and numbers that are looked at at once.
_MOST_TOTALS = 400_000
_CHUNK = 1 << 20
#: Graphs are narrowed to what levels so many times further above the bound need.
_AHEAD = 2.0
#: Work of a label, a pair of a total and a path, a sweep, a list and a linear program.
_WORK = (1.0, 0.02, 300.0, 100.0, 60.0)
#: Lists that all levels together may take.
_MOST_LISTS = 30_000


class Board:
    """What is known of one problem: rows, lists, the best plan found, and totals up to a ceiling.

    Parameters
    ----------
    graphs
        The graphs.
    limits
        (L,) What total consumptions may be.
    bound
        A bound on all plans, above 0.
    multipliers
        (L,) With which it holds.
    effort
        Limit on time, and who counts.
    memory
        What is known of the graphs from other problems.
    narrow
        Returns the graphs with no more nodes than plans up to a value need.
    """

    def __init__(
        self,
        graphs: Sequence[BlockGraph],
        limits: FloatArray,
        bound: float,
        multipliers: FloatArray,
        effort: Effort,
        memory: Memory | None = None,
        narrow: Callable[[float], Sequence[BlockGraph]] | None = None,
    ) -> None:
        #: The graphs with all nodes, and with those that are of interest.
        self.whole = self.graphs = graphs
        self.limits = limits
        self.effort = effort
        self.root = bound
        #: No plan has less value.
        self.bound = bound
        self.memory = Memory() if memory is None else memory
        #: Whether this is one of several problems with graphs in common.
        self.is_one_of_many = memory is not None
        self.rows = Rows(graphs, limits, effort, self.memory)
        own = np.concatenate([[np.append(1.0, multipliers)], np.diag(np.append(1.0, bound / limits))[1:]])
        self.rows.add(np.concatenate([own, self.memory.find_near(multipliers, limits, bound)]))
        #: Nodes (G, E) of the best plan found, and its value.
        self.plan: list[NDArray[np.int16]] | None = None
        self.value = math.inf
        self._ceiling = bound
        self._narrow = narrow
        #: Plans up to this value have only nodes that the graphs have.
        self._covered = bound if narrow is not None else math.inf
        self._unit = np.concatenate([[bound], limits * bound / np.maximum(multipliers * limits, 0.05 * bound)])
        self._lists: list[PathList] = []
        self._listed = 0
        #: How much work there may have been so far.
        self.may_work = math.inf

    def _begin(self, ceiling: float, opened: Sequence[int] | None = None) -> Totals:
        """Begin anew with a total of nothing, for plans up to a value, of which some graphs are open, or all."""
        self._ceiling = ceiling
        self._lists = []
        if ceiling > self._covered and self._narrow is not None:
            self._covered = max(ceiling, min(self.value, self.root + _AHEAD * (ceiling - self.root)))
            self.graphs = self._narrow(self._covered)
            self.rows.narrow(self.graphs)
        self.rows.complete(opened)
        count = len(self.graphs)
        return Totals(
            np.zeros((1, self.limits.size + 1)), np.full((1, count, 2), -1), np.zeros((1, count), dtype=np.intp)
        )

    def _list_few(self, totals: Totals) -> tuple[Totals, list[int]]:
        """List and join the graphs with few paths to a total of nothing; return what there is, and the graphs left."""
        opened = sorted(range(len(self.graphs)), key=lambda number: self.graphs[number].num_layers)
        for labels in _FEW_LABELS:
            for number in list(opened):
                lists = self._list_all(number, totals, labels)
                if lists is None:
                    continue
                opened.remove(number)
                joined = [self._join(totals, number, block, paths) for block, paths in lists]
                totals = Totals.join(joined) if joined else totals.take(slice(0))
                totals = totals.undercut(self._unit)
                if not len(totals):
                    return totals, []
        return totals, opened

    def _list_all(self, number: int, totals: Totals, labels: int) -> list[tuple[int, PathList]] | None:
        """List all blocks of a graph; None where there are more than a few paths."""
        lists, paths = [], 0
        for block in range(1, self.graphs[number].num_sets + 1):
            try:
                found = self._list(number, block, totals, labels, whole=False)
            except OutOfEffortError as stop:
                if stop.limit != "labels":
                    raise
                return None
            if found is not None:
                lists.append((block, found))
                labels -= found.num_labels
                paths += len(found.sums)
                if labels < 0 or paths > _FEW_PATHS:
                    return None
        return lists

    def _choose_blocks(self, totals: Totals, opened: Sequence[int]) -> Totals:
        """Return the totals with every choice of blocks for some graphs that rows let be."""
        for number in opened:
            count = self.graphs[number].num_sets
            self._require(len(totals) * count)
            many = totals.take(np.repeat(np.arange(len(totals)), count))
            many.blocks[:, number] = np.tile(np.arange(1, count + 1), len(totals))
            totals, _ = self._prune(many)
        return self._tighten(totals) if opened else totals

    def _divide(self, totals: Totals, grain: tuple[int, float]) -> list[Totals]:
        """Divide totals into parts of the same blocks that leave about the same, those with most room first."""
        parts = totals.divide(self._unit, grain)
        rooms = [-float(self._find_room(part).min(axis=1).max()) for part in parts]
        return [part for _, _, part in sorted(zip(rooms, range(len(parts)), parts, strict=True))]

    def _lengthen(self, part: Totals, opened: Sequence[int], labels: Sequence[int]) -> tuple[int, Totals] | None:
        """List the graph that has the fewest paths for a part; return which it is, and the part with its paths."""
        part, _ = self._prune(part)
        if not len(part):
            return None
        for most in labels:
            for number in opened:
                block = int(part.blocks[0, number])
                try:
                    paths = self._list(number, block, part, most, whole=False)
                except OutOfEffortError as stop:
                    if stop.limit != "labels" or (most == labels[-1] and number == opened[-1]):
                        raise
                    continue
                return None if paths is None else (number, self._join(part, number, block, paths))
        return None

    def _end(self, totals: Totals) -> None:
        """Complete totals that lack at most one graph, those first that the rows leave most room.

        A graph is listed for a part up to a value a little above what is known to be impossible, and again further up
        as long as that is below all other parts: so the first plans are good, and most lists short.
        """
        parts: list[Totals] = []
        left = totals.chosen[:, :, 0] < 0
        if len(totals) and not left.any():
            self._finish(totals)
        elif len(totals):
            parts = self._divide(totals, COARSE)
        rooms = [self._find_span(part) for part in parts]
        step = max(_INNER * max(rooms, default=0.0), _LEAST_STEP * self._ceiling)
        waiting = [(self._ceiling - room, place) for place, room in enumerate(rooms) if room >= 0.0]
        heapq.heapify(waiting)
        top = self._ceiling
        while waiting and waiting[0][0] < self._ceiling:
            covered, place = heapq.heappop(waiting)
            try:
                self._complete(parts[place], min(top, covered + step), SMALL)
            except OutOfEffortError as stop:
                halves = parts[place].halve(self._unit)
                if stop.limit != "labels":
                    raise
                if halves:
                    for half in halves:
                        heapq.heappush(waiting, (covered, len(parts)))
                        parts.append(half)
                    continue
                self._complete(parts[place], min(top, covered + step), LABELS[-1])
            if covered + step < self._ceiling:
                heapq.heappush(waiting, (covered + step, place))

    def _complete(self, part: Totals, ceiling: float, labels: int) -> None:
        """Find the best plan up to a value that goes on from a part by a path of its last graph."""
        best = self._ceiling
        self._ceiling = min(best, ceiling)
        try:
            part, _ = self._prune(part)
            if len(part):
                number = int(np.flatnonzero(part.chosen[0, :, 0] < 0)[0])
                block = int(part.blocks[0, number])
                paths = self._list(number, block, part, labels, whole=True)
                if paths is not None:
                    room = np.append(self._ceiling, self.rows.most) - part.sums
                    self._finish(self._put_together(part, number, block, paths, paths.sums, room))
        finally:
            self._ceiling = min(best, self.value * (1.0 - ROUNDING))

    def _finish(self, totals: Totals) -> None:
        """Take the best of complete totals as the incumbent."""
        fits = (totals.sums[:, 0] <= self._ceiling) & (totals.sums[:, 1:] <= self.rows.most).all(axis=1)
        for place in np.flatnonzero(fits)[np.argsort(totals.sums[fits, 0], kind="stable")].tolist():
            nodes = [self._lists[which].trace(path) for which, path in totals.chosen[place].tolist()]
            sums = [graph.add_up(path[None])[0] for graph, path in zip(self.whole, nodes, strict=True)]
            value, *used = (math.fsum(column) for column in np.transpose(sums).tolist())
            if keep_limits(np.array(used), self.limits) and value < self.value:
                self.plan, self.value = nodes, value
                self._ceiling = min(self._ceiling, value * (1.0 - ROUNDING))
                break

    def _list(self, number: int, block: int, totals: Totals, labels: int, *, whole: bool) -> PathList | None:
        """List the paths of a block that may go with any of some totals, or None where there are none."""
        room = (self._find_room(totals, apart=number)).max(axis=0)
        least = self.rows.least[number][:, block]
        if (least > room).any():
            return None
        tightest = np.argsort(room - least, kind="stable")[:_TIGHTEST]
        self._listed += 1
        if self._listed > _MOST_LISTS:
            raise OutOfEffortError("lists")
        self._look_at_work()
        effort = Effort(self.effort.stopwatch, labels)
        try:
            search = self.memory.search(self.graphs[number], block)
            paths = search.list_paths(self.rows.weights[tightest], room[tightest], effort, whole=whole)
        finally:
            self.effort.labels += effort.labels
        return paths if len(paths.sums) else None

    def _join(self, totals: Totals, number: int, block: int, paths: PathList) -> Totals:
        """Return totals with each of some paths, as far as rows let them be."""
        taken, room = weigh(self.rows.weights, paths.sums.T).T, self._find_room(totals, apart=number)
        return self._put_together(totals, number, block, paths, taken, room)

    def _put_together(
        self, totals: Totals, number: int, block: int, paths: PathList, taken: FloatArray, room: FloatArray
    ) -> Totals:
        """Return totals with each path that takes (P, R) no more than what there is room for (N, R)."""
        self.effort.charge_pairs(len(taken) * len(room))
        self._look_at_work()
        which, place = self._find_pairs(taken, room)
        many = totals.take(which)
        many.chosen[:, number, 0], many.chosen[:, number, 1] = len(self._lists), place
        many.blocks[:, number] = block
        self._lists.append(paths)
        return Totals(many.sums + paths.sums[place], many.chosen, many.blocks)

    def _find_pairs(self, taken: FloatArray, room: FloatArray) -> tuple[IntArray, IntArray]:
        """Return which rooms (N, R) hold which of what is taken (P, R)."""
        # The rows that leave least are asked first: hardly anything is left for the others.
        first, *others = np.argsort(room.max(axis=0) - taken.min(axis=0), kind="stable").tolist()
        found, kept, step = [], 0, max(1, _CHUNK // max(1, len(taken)))
        for start in range(0, len(room), step):
            part = room[start : start + step]
            whose, place = np.nonzero(taken[:, first] <= part[:, first, None])
            for row in others:
                fits = taken[place, row] <= part[whose, row]
                if not fits.all():
                    whose, place = whose[fits], place[fits]
            found.append((start + whose, place))
            kept += whose.size
            self._require(kept)
        return np.concatenate([whose for whose, _ in found]), np.concatenate([place for _, place in found])

    @property
    def work(self) -> float:
        """What was done so far, as many labels as that takes about as long as."""
        effort = self.effort
        counts = (effort.labels, effort.pairs, effort.passes, self._listed, self.rows.programs)
        return float(np.dot(counts, _WORK))

    def _look_at_work(self) -> None:
        if self.work > self.may_work:
            raise OutOfEffortError("work")

    def _require(self, count: int) -> None:
        if count > _MOST_TOTALS:
            raise OutOfEffortError("totals")

    def _find_room(self, totals: Totals, rows: slice = slice(None), apart: int = -1) -> FloatArray:
        """Return (N, R) what rows leave open, the least that graphs without a path take not counting ``apart``."""
        taken = weigh(self.rows.weights[rows], totals.sums.T).T
        for number, least in enumerate(self.rows.least):
            left = totals.chosen[:, number, 0] < 0
            if number != apart and left.any():
                taken[left] += least[rows][:, totals.blocks[left, number]].T
        return np.asarray(self.rows.right(self._ceiling)[rows] - taken)

    def _find_span(self, totals: Totals) -> float:
        """Return how far below the ceiling plans that go on from some totals may be; less than 0 where there are none.

        Only rows that weigh the value tell: a limit that is nearly used up says nothing about the value.
        """
        room, weight = self._find_room(totals), self.rows.weights[:, 0]
        valued = weight > 0.0
        span = (room[:, valued] / weight[valued]).min(axis=1)
        return float(np.where((room >= 0.0).all(axis=1), span, -math.inf).max())

    def _prune(self, totals: Totals) -> tuple[Totals, FloatArray]:
        """Return the totals that all rows let be, and how much room is left to each."""
        step = max(1, _CHUNK // max(1, len(self.rows)))
        parts = [totals.take(slice(first, first + step)) for first in range(0, len(totals), step)]
        room = np.concatenate([self._find_room(part).min(axis=1) for part in parts] or [np.empty(0)])
        return totals.take(room >= 0.0), room[room >= 0.0]

    def _tighten(self, totals: Totals) -> Totals:
        """Add rows until every total is given up or its bound is known well enough, of all that are looked at."""
        totals, room = self._prune(totals)
        exact = np.zeros(len(totals), dtype=np.bool_)
        idle = 0
        while not exact.all() and idle < _MOST_IDLE:
            self._look_at_work()
            picked = self._pick(totals, room, exact)
            left = totals.chosen[picked, :, 0] < 0
            fresh: list[FloatArray] = []
            for place, own in zip(picked.tolist(), left, strict=True):
                blocks = [(number, int(totals.blocks[place, number])) for number in np.flatnonzero(own).tolist()]
                bound, weights = self.rows.find_weights(blocks, totals.sums[place], self._ceiling)
                known = self._ceiling - bound >= _EXACT * room[place]
                if known or self.rows.has(weights) or any(np.array_equal(weights, each) for each in fresh):
                    exact[place] = True
                else:
                    fresh.append(weights)
            idle = 0 if fresh else idle + 1
            if not fresh:
                continue
            seen = len(self.rows)
            self.rows.add(np.array(fresh), np.flatnonzero(left.any(axis=0)).tolist())
            room = np.minimum(room, self._find_room(totals, slice(seen, None)).min(axis=1))
            totals, exact, room = totals.take(room >= 0.0), exact[room >= 0.0], room[room >= 0.0]
        return totals

    def _pick(self, totals: Totals, room: FloatArray, exact: NDArray[np.bool_]) -> IntArray:
        """Return some totals of unknown bounds: of each choice of blocks the most promising one first."""
        waiting = np.flatnonzero(~exact)
        waiting = waiting[np.argsort(-room[waiting], kind="stable")]
        blocks = totals.blocks[waiting] * (totals.chosen[waiting, :, 0] < 0)
        _, first = np.unique(blocks, axis=0, return_index=True)
        picked = waiting[np.sort(first)[:_BATCH]]
        spread = waiting[np.linspace(0, waiting.size - 1, _BATCH - picked.size).astype(np.intp)]
        return np.unique(np.concatenate([picked, spread]))
