"""Pure plans under several binding limits, sieved through every multiplier vector ever tried.

The best pure plan may be percents above the bound of mixed plans, because a mixture gives the last fraction of a limit
to a path that never leaves one kind of nodes. By *blocks*, the paths that visit exactly the same kinds, the two are
much nearer. A *level* asks for all plans up to a value U, a little above what is proven: graphs with few paths are
listed and joined, every total is combined with every choice of blocks of the others, and goes when any *row* says that
the rest takes it beyond U. Rows are added for the most promising total until that is given up or its bound is known;
what is left is grouped by what it leaves of the limits, another graph is listed under the tightest rows, and so on. A
plan that a level finds is optimal once the level ends with U at its value; no plan means that U is a bound, and the
next level is tried. All is counted and nothing timed, so that the outcome does not depend on the machine.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.dominance import find_undominated_vectors
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import FloatArray, IntArray, keep_limits
from optplan.solvers.paths.levels.blocks import BlockGraph
from optplan.solvers.paths.levels.rows import Rows
from optplan.solvers.paths.levels.segments import BlockSearch, PathList

#: First level above the bound, and by how much the distance grows: less once so many lists were needed.
_FIRST = 0.0015
_GROWTH = ((40, 1.5), (150, 1.25), (math.inf, 1.12))
#: Levels further above the bound than this are not tried.
_FURTHEST = 2.0
#: Labels for listing a graph at first, before others are; and paths that it may have then.
_FEW_LABELS = (300, 3_000)
_FEW_PATHS = 300
#: Labels for listing a graph where others are chosen: the graphs are tried in turn with more and more.
_LABELS = (500, 2_000, 8_000, 32_000, 128_000, 512_000, 2_000_000)
#: Rows under which paths are listed: the tightest.
_TIGHTEST = 10
#: Steps up to the level in which the last graph is listed.
_INNER = 0.25
_LEAST_STEP = 1e-6
#: Totals that are handled together have at most this spread, relative to the limits at their prices.
_PART = 50
_SPREAD = 1e-3
#: Totals for which multipliers are sought at once.
_BATCH = 8
#: A total's bound is known well enough when multipliers cannot take away more than this of the room that rows leave.
_EXACT = 0.5
#: Totals, and numbers that are looked at at once.
_MOST_TOTALS = 400_000
_CHUNK = 1 << 20
#: Numbers kept by searches.
_MOST_KNOWN = 20_000_000
#: Last graphs that are tried beyond a level, and how far.
_DIVES = 6
_DIVE_LABELS = 20_000
#: Lists that all levels together may take.
_MOST_LISTS = 30_000


@dataclass(frozen=True, eq=False)
class Totals:
    """Choices of paths for some graphs and of blocks for others.

    Parameters
    ----------
    sums
        (N, D) Value and consumptions of the paths.
    chosen
        (N, G, 2) List of each graph's path and its place there; -1 where none is chosen yet.
    blocks
        (N, G) Block of each graph; 0 for any.
    """

    sums: FloatArray
    chosen: IntArray
    blocks: IntArray

    def __len__(self) -> int:
        return len(self.sums)

    def take(self, places: IntArray | NDArray[np.bool_] | slice) -> Totals:
        """Return some of them."""
        return Totals(self.sums[places], self.chosen[places], self.blocks[places])

    @classmethod
    def join(cls, parts: Sequence[Totals]) -> Totals:
        """Return the totals of several, at least one."""
        return cls(
            np.concatenate([part.sums for part in parts]),
            np.concatenate([part.chosen for part in parts]),
            np.concatenate([part.blocks for part in parts]),
        )


class Sieve:
    """Levels of one problem.

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
    """

    def __init__(
        self, graphs: Sequence[BlockGraph], limits: FloatArray, bound: float, multipliers: FloatArray, effort: Effort
    ) -> None:
        self.graphs = graphs
        self.limits = limits
        self.effort = effort
        self.root = bound
        #: No plan has less value.
        self.bound = bound
        self.rows = Rows(graphs, limits, effort)
        self.rows.add(np.concatenate([[np.append(1.0, multipliers)], np.diag(np.append(1.0, bound / limits))[1:]]))
        #: Nodes (G, E) of the best plan found, and its value.
        self.plan: list[NDArray[np.int16]] | None = None
        self.value = math.inf
        self._ceiling = bound
        self._unit = np.concatenate([[bound], limits * bound / np.maximum(multipliers * limits, 0.05 * bound)])
        self._lists: list[PathList] = []
        self._searches: dict[tuple[int, int], BlockSearch] = {}
        #: Totals that lack at most one graph, and the parts of them to which rows leave most room.
        self._last: list[Totals] = []
        self._near: list[Totals] = []
        self._listed = 0

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
        distance = _FIRST
        while self.bound < self.value * (1.0 - gap) and distance <= _FURTHEST:
            lists = self._listed
            self._try_level(min(self.root * (1.0 + distance), self.value * (1.0 - ROUNDING)))
            lists = self._listed - lists
            objective = None if math.isinf(self.value) else self.value
            self.effort.stopwatch.emit("levels", objective=objective, bound=self.bound)
            distance *= next(factor for most, factor in _GROWTH if lists < most)
            if self.bound < self.value * (1.0 - gap):
                self._dive(self.root * (1.0 + distance * _GROWTH[0][1]))

    def _try_level(self, ceiling: float) -> None:
        """Find the best plan up to a value, or raise the bound to it."""
        self._ceiling = ceiling
        self._lists, self._last, self._near = [], [], []
        self.rows.complete()
        totals, opened = self._list_few()
        for number in opened:
            count = self.graphs[number].num_sets
            self._require(len(totals) * count)
            many = totals.take(np.repeat(np.arange(len(totals)), count))
            many.blocks[:, number] = np.tile(np.arange(1, count + 1), len(totals))
            totals, _ = self._prune(many)
        if opened:
            totals = self._tighten(totals)
        self._expand(totals, opened)
        self._end()
        self.bound = max(self.bound, self.value if ceiling >= self.value * (1.0 - ROUNDING) else ceiling)

    def _list_few(self) -> tuple[Totals, list[int]]:
        """List and join the graphs with few paths; return the totals and the graphs that are left."""
        count = len(self.graphs)
        totals = Totals(
            np.zeros((1, self.limits.size + 1)), np.full((1, count, 2), -1), np.zeros((1, count), dtype=np.intp)
        )
        opened = sorted(range(count), key=lambda number: self.graphs[number].num_layers)
        for labels in _FEW_LABELS:
            for number in list(opened):
                lists = self._list_all(number, totals, labels)
                if lists is None:
                    continue
                opened.remove(number)
                joined = [self._join(totals, number, block, paths) for block, paths in lists]
                totals = Totals.join(joined) if joined else totals.take(slice(0))
                best = find_undominated_vectors(np.zeros(len(totals), dtype=np.intp), totals.sums / self._unit)
                totals = totals.take(best)
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

    def _expand(self, totals: Totals, opened: list[int]) -> None:
        """Go on from totals that have a block of each graph that is left."""
        if not len(totals):
            return
        if len(opened) < 2:
            self._last.append(totals)
            return
        key = totals.blocks[:, opened]
        parts = []
        for blocks in np.unique(key, axis=0):
            parts += self._split(totals.take((key == blocks).all(axis=1)))
        rooms = [-float(self._find_room(part).min(axis=1).max()) for part in parts]
        for _, _, part in sorted(zip(rooms, range(len(parts)), parts, strict=True)):
            self._expand_part(part, opened)

    def _split(self, totals: Totals) -> list[Totals]:
        """Divide totals by halves into parts that leave about the same of value and limits."""
        waiting, parts = [totals], []
        while waiting:
            part = waiting.pop()
            scaled = part.sums / self._unit
            spread = np.ptp(scaled, axis=0)
            widest = int(spread.argmax())
            middle = 0.5 * (scaled[:, widest].min() + scaled[:, widest].max())
            low = scaled[:, widest] <= middle
            if (len(part) <= _PART and spread[widest] < _SPREAD) or low.all():
                parts.append(part)
            else:
                waiting += [part.take(low), part.take(~low)]
        return parts

    def _expand_part(self, part: Totals, opened: list[int]) -> None:
        """List the graph that has the fewest paths for a part, and go on with the others."""
        part, _ = self._prune(part)
        if not len(part):
            return
        for labels in _LABELS:
            for number in opened:
                block = int(part.blocks[0, number])
                try:
                    paths = self._list(number, block, part, labels, whole=False)
                except OutOfEffortError as stop:
                    if stop.limit != "labels" or (labels == _LABELS[-1] and number == opened[-1]):
                        raise
                    continue
                if paths is not None:
                    self._go_on(self._join(part, number, block, paths), [each for each in opened if each != number])
                return

    def _end(self) -> None:
        """Complete the totals that lack at most one graph, those first that the rows leave most room.

        A graph is listed for a part up to a value a little above what is known to be impossible, and again further up
        as long as that is below all other parts: so the first plans are good, and most lists short.
        """
        parts: list[Totals] = []
        for totals in self._last:
            left = totals.chosen[:, :, 0] < 0
            if len(totals) and not left.any():
                self._finish(totals)
            for blocks in np.unique(totals.blocks * left, axis=0) if left.any() else ():
                parts += self._split(totals.take((totals.blocks * left == blocks).all(axis=1)))
        rooms = [float(self._find_room(part).min(axis=1).max()) for part in parts]
        step = max(_INNER * max(rooms, default=0.0), _LEAST_STEP * self._ceiling)
        waiting = [(self._ceiling - room, place) for place, room in enumerate(rooms) if room >= 0.0]
        self._near = [parts[place] for _, place in sorted(waiting)[:_DIVES]]
        heapq.heapify(waiting)
        top = self._ceiling
        while waiting and waiting[0][0] < self._ceiling:
            covered, place = heapq.heappop(waiting)
            self._complete(parts[place], min(top, covered + step), _LABELS[-1])
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
                    self._finish(self._join(part, number, block, paths))
        finally:
            self._ceiling = min(best, self.value * (1.0 - ROUNDING))

    def _go_on(self, totals: Totals, opened: list[int]) -> None:
        if opened:
            totals = self._tighten(totals)
        self._expand(totals, opened)

    def _finish(self, totals: Totals) -> None:
        """Take the best of complete totals as the incumbent."""
        fits = (totals.sums[:, 0] <= self._ceiling) & (totals.sums[:, 1:] <= self.rows.most).all(axis=1)
        for place in np.flatnonzero(fits)[np.argsort(totals.sums[fits, 0], kind="stable")].tolist():
            nodes = [self._lists[which].trace(path) for which, path in totals.chosen[place].tolist()]
            sums = [graph.add_up(path[None])[0] for graph, path in zip(self.graphs, nodes, strict=True)]
            value, *used = (math.fsum(column) for column in np.transpose(sums).tolist())
            if keep_limits(np.array(used), self.limits) and value < self.value:
                self.plan, self.value = nodes, value
                self._ceiling = min(self._ceiling, value * (1.0 - ROUNDING))
                break

    def _dive(self, ceiling: float) -> None:
        """Look for a plan beyond the level, from those totals that came nearest."""
        for part in self._near:
            self._ceiling = min(ceiling, self.value * (1.0 - ROUNDING))
            room = self._find_room(part).min(axis=1)
            nearest = part.take(room >= room.max())
            step = (self._ceiling - self.bound) * _INNER
            try:
                for number in range(1, round(1.0 / _INNER) + 1):
                    if self.bound + number * step > self._ceiling * (1.0 + ROUNDING):
                        break
                    self._complete(nearest, self.bound + number * step, _DIVE_LABELS)
            except OutOfEffortError as stop:
                if stop.limit != "labels":
                    raise

    def _list(self, number: int, block: int, totals: Totals, labels: int, *, whole: bool) -> PathList | None:
        """List the paths of a block that may go with any of some totals, or None where there are none."""
        room = (self._find_room(totals, apart=number)).max(axis=0)
        least = self.rows.least[number][:, block]
        if (least > room).any():
            return None
        tightest = np.argsort(room - least, kind="stable")[:_TIGHTEST]
        if (number, block) not in self._searches:
            self._searches[number, block] = BlockSearch(self.graphs[number], block)
        if sum(search.num_known for search in self._searches.values()) > _MOST_KNOWN:
            for search in self._searches.values():
                search.forget()
        self._listed += 1
        if self._listed > _MOST_LISTS:
            raise OutOfEffortError("lists")
        effort = Effort(self.effort.stopwatch, labels)
        try:
            weights = self.rows.weights[tightest]
            paths = self._searches[number, block].list_paths(weights, room[tightest], effort, whole=whole)
        finally:
            self.effort.labels += effort.labels
        return paths if len(paths.sums) else None

    def _join(self, totals: Totals, number: int, block: int, paths: PathList) -> Totals:
        """Return totals with each of some paths, as far as rows let them be."""
        which, count = len(self._lists), len(paths.sums)
        self._lists.append(paths)
        joined, kept = [], 0
        for first in range(0, len(totals), max(1, _CHUNK // (count * max(1, len(self.rows))))):
            part = totals.take(slice(first, first + max(1, _CHUNK // (count * max(1, len(self.rows))))))
            self.effort.charge_pairs(len(part) * count)
            many = part.take(np.repeat(np.arange(len(part)), count))
            place = np.tile(np.arange(count), len(part))
            many.chosen[:, number, 0], many.chosen[:, number, 1] = which, place
            many.blocks[:, number] = block
            joined.append(self._prune(Totals(many.sums + paths.sums[place], many.chosen, many.blocks))[0])
            kept += len(joined[-1])
            self._require(kept)
        return Totals.join(joined)

    def _require(self, count: int) -> None:
        if count > _MOST_TOTALS:
            raise OutOfEffortError("totals")

    def _find_room(self, totals: Totals, rows: slice = slice(None), apart: int = -1) -> FloatArray:
        """Return (N, R) what rows leave open, the least that graphs without a path take not counting ``apart``."""
        taken = totals.sums @ self.rows.weights[rows].T
        for number, least in enumerate(self.rows.least):
            left = totals.chosen[:, number, 0] < 0
            if number != apart and left.any():
                taken[left] += least[rows][:, totals.blocks[left, number]].T
        return np.asarray(self.rows.right(self._ceiling)[rows] - taken)

    def _prune(self, totals: Totals) -> tuple[Totals, FloatArray]:
        """Return the totals that all rows let be, and how much room is left to each."""
        step = max(1, _CHUNK // max(1, len(self.rows)))
        parts = [totals.take(slice(first, first + step)) for first in range(0, len(totals), step)]
        room = np.concatenate([self._find_room(part).min(axis=1) for part in parts] or [np.empty(0)])
        return totals.take(room >= 0.0), room[room >= 0.0]

    def _tighten(self, totals: Totals) -> Totals:
        """Add rows until every total is given up or its bound is known well enough."""
        totals, room = self._prune(totals)
        exact = np.zeros(len(totals), dtype=np.bool_)
        while not exact.all():
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
