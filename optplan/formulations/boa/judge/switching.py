"""The paths of a class by the set of GPU types that they use, for the judge of rows: least sums, and lists.

A path is listed from switch to switch: while it holds an option its sums grow by differences of running sums, so all
paths with as many switches are lengthened at once. Written without sight of any solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import weigh
from optplan.formulations.boa.judge.listing import find_undominated
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Weights swept together, numbers compared at a time, and paths among which dominated ones are sought.
_TOGETHER = 16
_CELLS = 1 << 18
_MOST_COMPARED = 400
#: Numbers that are kept of a class between lists.
_MOST_KEPT = 6_000_000


@dataclass(frozen=True, eq=False)
class TypedPaths:
    """A class: epochs E, options K, groups of options G, and 1 + L numbers that add up along a path.

    Parameters
    ----------
    steps
        (1 + L, E, K) Value and consumptions of an epoch on an option.
    entries
        (1 + L, G, E, K) The same of coming to an option from each group; (1 + L, G, 1, K) where all epochs are alike.
    group, kind
        (K,) Group and GPU type of each option.
    """

    steps: FloatArray
    entries: FloatArray
    group: IntArray
    kind: IntArray
    _views: dict[int, _View] = field(default_factory=dict, init=False, repr=False)

    @property
    def num_epochs(self) -> int:
        """How many epochs there are."""
        return int(self.steps.shape[1])

    @property
    def num_sets(self) -> int:
        """How many sets of types there are but the empty one: sums of powers of two, from 1 on."""
        return (2 << int(self.kind.max())) - 1

    def find_least(self, weights: FloatArray, stopwatch: Stopwatch) -> FloatArray:
        """Return (R, S) the least sums, by weights (R, 1 + L), of the paths that use exactly each set of types."""
        parts = []
        for first in range(0, len(weights), _TOGETHER):
            stopwatch.require()
            parts.append(self._sweep(weights[first : first + _TOGETHER], stopwatch))
        return np.concatenate(parts)

    def count_looked_at(self, kinds: int) -> int:
        """Return how many numbers are kept of what one row says of the paths that use exactly a set of types."""
        own = (kinds >> self.kind) & 1 == 1
        return int((1 + self.num_epochs * self.entries.shape[1] * own.sum()) << kinds.bit_count())

    def _sweep(self, weights: FloatArray, stopwatch: Stopwatch) -> FloatArray:
        run, enter = _weigh(weights, self.steps), _weigh(weights, self.entries)
        sets, own = np.arange(self.num_sets + 1), 1 << self.kind
        # Costs (R, 1 + S, K) of holding an option after having used a set; a set without the option's type is none.
        none = np.where(sets[:, None] & own, 0.0, np.inf)
        begin = np.where(sets[:, None] == own, 0.0, np.inf)
        costs = enter[:, None, self.group, 0, np.arange(self.kind.size)] + run[:, None, 0] + begin
        kinds = np.arange(int(self.kind.max()) + 1)
        smaller = sets[:, None] & ~(1 << kinds)
        for epoch in range(1, self.num_epochs):
            stopwatch.require()
            best = costs.copy()
            for group in range(enter.shape[1]):
                leave = costs[:, :, self.group == group].min(axis=2, initial=np.inf)
                leave = np.minimum(leave[:, :, None], leave[:, smaller])
                entry = enter[:, group, 0 if enter.shape[2] == 1 else epoch]
                np.minimum(best, leave[:, :, self.kind] + entry[:, None], out=best)
            costs = best + run[:, None, epoch] + none
        return np.asarray(costs[:, 1:].min(axis=2))

    def list_sums(
        self, kinds: int, weights: FloatArray, room: FloatArray, most: int, stopwatch: Stopwatch
    ) -> tuple[FloatArray | None, int]:
        """List value and consumptions of the paths that use exactly a set of types and stay within what rows allow.

        Parameters
        ----------
        weights
            (R, 1 + L) The rows.
        room
            (R,) What the weighted sums may be at most.
        most
            Beginnings of paths that may be formed.

        Returns
        -------
        sums : FloatArray or None
            (P, 1 + L); of dominated ones some may be missing. None where too much would have to be formed.
        formed : int
            How many beginnings were formed.
        """
        if sum(view.num_kept for view in self._views.values()) > _MOST_KEPT:
            self._views.clear()
        if kinds not in self._views:
            self._views[kinds] = _View(self, kinds)
        view = self._views[kinds]
        rows = list(zip(view.look(weights, stopwatch), room.tolist(), strict=True))
        begun = view.begin(rows)
        whole: list[FloatArray] = []
        formed = 0
        while begun.option.size:
            stopwatch.require()
            formed += begun.option.size
            if formed > most:
                return None, formed
            found = view.lengthen(begun, rows, most - formed, stopwatch)
            if found is None:
                return None, most
            whole.append(found[0])
            begun = found[1]
        sums = np.concatenate([*whole, np.empty((0, weights.shape[1]))])
        if len(sums) <= _MOST_COMPARED:
            sums = sums[find_undominated(np.zeros(len(sums), dtype=np.int64), sums, stopwatch)]
        return sums, formed


@dataclass(frozen=True, eq=False)
class _Begun:
    """Beginnings that have just come to an ``option`` in an ``epoch``, having used a set: their ``sums`` so far."""

    option: IntArray
    epoch: IntArray
    used: IntArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class _Look:
    """What one row says of a class's options of some types.

    ``come`` (E, S, G, K) is the least of leaving a group, having used a set, for an option of an epoch, to the end;
    ``go`` (S, G, E + 1) that of the best option, 0 at the end with the right set; ``held`` (K, E + 1) are running sums.
    """

    weights: FloatArray
    come: FloatArray
    go: FloatArray
    held: FloatArray


#: Looks, and what each allows at most.
_Rows = Sequence[tuple[_Look, float]]


class _View:
    """A class's options of some types; what rows say of them is kept, since one row is asked for many lists.

    The sets are those within these types, the first one the empty one, the last one all.
    """

    def __init__(self, whole: TypedPaths, kinds: int) -> None:
        own = (kinds >> whole.kind) & 1 == 1
        paths = TypedPaths(whole.steps[..., own], whole.entries[..., own], whole.group[own], whole.kind[own])
        sets = np.array([each for each in range(kinds + 1) if each & ~kinds == 0])
        self.paths = paths
        self._after = np.searchsorted(sets, sets[:, None] | (1 << paths.kind))
        self._outside = (sets[:, None] & (1 << paths.kind)) == 0
        nothing = np.zeros((len(paths.steps), 1, paths.kind.size))
        self._held = np.concatenate([nothing, paths.steps.cumsum(axis=1)], axis=1)
        self._later = np.arange(paths.num_epochs + 1)
        self._looks: dict[bytes, _Look] = {}
        #: How many numbers are kept.
        self.num_kept = 0

    def look(self, weights: FloatArray, stopwatch: Stopwatch) -> list[_Look]:
        """Return what rows (R, 1 + L) say."""
        fresh = [row for row in weights if row.tobytes() not in self._looks]
        if fresh:
            self._look(np.array(fresh), stopwatch)
        return [self._looks[row.tobytes()] for row in weights]

    def _look(self, weights: FloatArray, stopwatch: Stopwatch) -> None:
        paths, options = self.paths, np.arange(self.paths.kind.size)
        run, enter = _weigh(weights, paths.steps), _weigh(weights, paths.entries)
        epochs, num_sets = paths.num_epochs, len(self._after)
        rest = np.full((len(weights), num_sets, options.size), np.inf)
        rest[:, -1] = run[:, -1]
        come = np.empty((len(weights), epochs, num_sets, enter.shape[1], options.size))
        go = np.full((len(weights), num_sets, enter.shape[1], epochs + 1), np.inf)
        go[:, -1, :, -1] = 0.0
        for epoch in range(epochs - 1, -1, -1):
            stopwatch.require()
            entry = enter[:, None, :, 0 if enter.shape[2] == 1 else epoch]
            np.add(rest[:, self._after, options][:, :, None], entry, out=come[:, epoch])
            come[:, epoch].min(axis=3, out=go[..., epoch])
            if epoch:
                rest = np.minimum(rest, go[..., epoch][:, :, paths.group]) + run[:, None, epoch - 1]
                rest[:, self._outside] = np.inf
        held = _weigh(weights, self._held).transpose(0, 2, 1)
        self.num_kept += come.size + go.size + held.size
        for place, row in enumerate(weights):
            self._looks[row.tobytes()] = _Look(row, come[place], go[place], held[place])

    def begin(self, rows: _Rows) -> _Begun:
        """Return all first options from which a path within the rows may go on."""
        group, option = self.paths.group, np.arange(self.paths.kind.size)
        for look, room in rows:
            option = option[look.come[0, 0, group[option], option] <= room]
        sums = self.paths.entries[:, group[option], 0, option].T
        return _Begun(option, np.zeros(option.size, dtype=np.intp), self._after[0, option], sums)

    def lengthen(self, begun: _Begun, rows: _Rows, most: int, stopwatch: Stopwatch) -> tuple[FloatArray, _Begun] | None:
        """Return the sums of those that may stay to the end, and all with one more switch; None where too many."""
        found = self._find_ends(begun, rows, most, stopwatch)
        if found is None:
            return None
        place, until, sums = found
        ends = until == self.paths.num_epochs
        whole = sums[ends]
        place, until, sums = place[~ends], until[~ends], sums[~ends]
        option, used = begun.option[place], begun.used[place]
        group = self.paths.group[option]
        switches = self._find_switches((until, used, group, option), sums, rows, most, stopwatch)
        if switches is None:
            return None
        place, entered = switches
        until = until[place]
        entry = self.paths.entries[:, group[place], np.minimum(until, self.paths.entries.shape[2] - 1), entered].T
        return whole, _Begun(entered, until, self._after[used[place], entered], sums[place] + entry)

    def _find_ends(
        self, begun: _Begun, rows: _Rows, most: int, stopwatch: Stopwatch
    ) -> tuple[IntArray, IntArray, FloatArray] | None:
        """Return which beginnings may hold their options until which epoch, not included, and their sums by then."""
        look, room = rows[0]
        state = begun.used * look.go.shape[1] + self.paths.group[begun.option]
        come = begun.sums - self._held[:, begun.epoch, begun.option].T
        go, spent = look.go.reshape(-1, self._later.size), come @ look.weights
        step = max(1, _CELLS // self._later.size)
        found = [(state[:0], state[:0], begun.sums[:0])]
        for first in range(0, state.size, step):
            stopwatch.require()
            part = slice(first, first + step)
            costs = look.held[begun.option[part]] + go[state[part]]
            fits = (costs <= (room - spent[part])[:, None]) & (self._later > begun.epoch[part, None])
            place, until = np.nonzero(fits)
            place += first
            sums = come[place] + self._held[:, until, begun.option[place]].T
            kept = _keep(sums, state[place] * self._later.size + until, [each.go for each, _ in rows], rows)
            found.append((place[kept], until[kept], sums[kept]))
            most -= int(np.count_nonzero(until[kept] < self.paths.num_epochs))
            if most < 0:
                return None
        place, until, sums = (np.concatenate(each) for each in zip(*found, strict=True))
        return place, until, sums

    def _find_switches(
        self,
        left: tuple[IntArray, IntArray, IntArray, IntArray],
        sums: FloatArray,
        rows: _Rows,
        most: int,
        stopwatch: Stopwatch,
    ) -> tuple[IntArray, IntArray] | None:
        """Return which of those that leave may come to which other option; ``left`` is when, with what, and which."""
        look, room = rows[0]
        until, used, group, own = left
        _, num_sets, groups, width = look.come.shape
        state = (until * num_sets + used) * groups + group
        come, spent = look.come.reshape(-1, width), sums @ look.weights
        step = max(1, _CELLS // max(1, width))
        found: list[tuple[IntArray, NDArray[np.intp]]] = [(until[:0], until[:0])]
        for first in range(0, until.size, step):
            stopwatch.require()
            part = slice(first, first + step)
            place, option = np.nonzero(come[state[part]] <= (room - spent[part])[:, None])
            place += first
            other = own[place] != option
            place, option = place[other], option[other]
            kept = _keep(sums[place], state[place] * width + option, [each.come for each, _ in rows], rows)
            found.append((place[kept], option[kept]))
            most -= kept.size
            if most < 0:
                return None
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def _keep(sums: FloatArray, place: IntArray, to_come: list[FloatArray], rows: _Rows) -> IntArray:
    """Return which sums (M, 1 + L) stay within all rows but the first, with what each has to come at a place (M,)."""
    kept = np.arange(place.size)
    for (look, room), least in zip(rows[1:], to_come[1:], strict=True):
        within = (sums @ look.weights)[kept] + least.ravel()[place[kept]] <= room
        if not within.all():
            kept = kept[within]
    return kept


def _weigh(weights: FloatArray, costs: FloatArray) -> FloatArray:
    return weigh(weights, costs.reshape(len(costs), -1)).reshape(len(weights), *costs.shape[1:])
