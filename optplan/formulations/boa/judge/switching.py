"""The paths of a class by the set of GPU types that they use, for the judge of rows: least sums, and lists.

A path is listed from switch to switch: while it holds an option its sums grow by differences of running sums, so all
paths with as many switches are lengthened at once. Written without sight of any solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.boa.judge.listing import find_undominated
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Weights swept together, numbers compared at a time, and paths among which dominated ones are sought.
_TOGETHER = 16
_CELLS = 1 << 18
_MOST_COMPARED = 400


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
            parts.append(self._sweep(weights[first : first + _TOGETHER]))
        return np.concatenate(parts)

    def _sweep(self, weights: FloatArray) -> FloatArray:
        run, enter = np.tensordot(weights, self.steps, 1), np.tensordot(weights, self.entries, 1)
        sets, own = np.arange(self.num_sets + 1), 1 << self.kind
        # Costs (R, 1 + S, K) of holding an option after having used a set; a set without the option's type is none.
        none = np.where(sets[:, None] & own, 0.0, np.inf)
        begin = np.where(sets[:, None] == own, 0.0, np.inf)
        costs = enter[:, None, self.group, 0, np.arange(self.kind.size)] + run[:, None, 0] + begin
        kinds = np.arange(int(self.kind.max()) + 1)
        smaller = sets[:, None] & ~(1 << kinds)
        for epoch in range(1, self.num_epochs):
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
        kinds
            The set.
        weights
            (R, 1 + L) The rows.
        room
            (R,) What the weighted sums may be at most.
        most
            Beginnings of paths that may be formed.
        stopwatch
            Asked all along.

        Returns
        -------
        sums : FloatArray or None
            (P, 1 + L); of dominated ones some may be missing. None where too much would have to be formed.
        formed : int
            How many beginnings were formed.
        """
        view = _View.of(self, kinds, weights)
        begun = view.begin(room)
        whole: list[FloatArray] = []
        formed = 0
        while begun.option.size:
            stopwatch.require()
            formed += begun.option.size
            if formed > most:
                return None, formed
            ended, longer = view.lengthen(begun, room, most - formed)
            if longer is None:
                return None, most
            whole.append(ended)
            begun = longer
        sums = np.concatenate([*whole, np.empty((0, weights.shape[1]))])
        if len(sums) <= _MOST_COMPARED:
            sums = sums[find_undominated(np.zeros(len(sums), dtype=np.int64), sums)]
        return sums, formed


@dataclass(frozen=True, eq=False)
class _Begun:
    """Beginnings that have just come to an ``option`` in an ``epoch``, using types ``used``: their ``sums`` so far."""

    option: IntArray
    epoch: IntArray
    used: IntArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class _View:
    """A class's options of some types, under rows.

    ``come`` (R, E, 1 + S, G, K) is the least of leaving a group, having used a set, for an option of an epoch, to the
    end; ``go`` (R, E + 1, 1 + S, G) that of the best option, 0 at the end with the right set; ``held`` (1 + L, E + 1,
    K) are running sums, ``weighed`` (R, K, E + 1) the same weighted.
    """

    paths: TypedPaths
    weights: FloatArray
    come: FloatArray
    go: FloatArray
    held: FloatArray
    weighed: FloatArray

    @classmethod
    def of(cls, whole: TypedPaths, kinds: int, weights: FloatArray) -> _View:
        own = (kinds >> whole.kind) & 1 == 1
        paths = TypedPaths(whole.steps[..., own], whole.entries[..., own], whole.group[own], whole.kind[own])
        run, enter = np.tensordot(weights, paths.steps, 1), np.tensordot(weights, paths.entries, 1)
        epochs, sets, options = paths.num_epochs, np.arange(kinds + 1), np.arange(paths.kind.size)
        after = (sets[:, None] | (1 << paths.kind)) & kinds
        outside = (sets & ~kinds != 0)[:, None] | (sets[:, None] & (1 << paths.kind) == 0)
        rest = np.full((len(weights), sets.size, options.size), np.inf)
        rest[:, kinds] = run[:, -1]
        come = np.empty((len(weights), epochs, sets.size, enter.shape[1], options.size))
        go = np.full((len(weights), epochs + 1, sets.size, enter.shape[1]), np.inf)
        go[:, epochs, kinds] = 0.0
        for epoch in range(epochs - 1, -1, -1):
            entry = enter[:, None, :, 0 if enter.shape[2] == 1 else epoch]
            come[:, epoch] = rest[:, after, options][:, :, None] + entry
            go[:, epoch] = come[:, epoch].min(axis=3)
            if epoch:
                rest = np.minimum(rest, go[:, epoch][:, :, paths.group]) + run[:, None, epoch - 1]
                rest[:, outside] = np.inf
        held = np.concatenate([np.zeros((len(paths.steps), 1, options.size)), paths.steps.cumsum(axis=1)], axis=1)
        return cls(paths, weights, come, go, held, np.tensordot(weights, held, 1).transpose(0, 2, 1))

    @cached_property
    def _later(self) -> IntArray:
        return np.arange(self.paths.num_epochs + 1)

    def begin(self, room: FloatArray) -> _Begun:
        """Return all first options from which a path within the rows may go on."""
        group, option = self.paths.group, np.arange(self.paths.kind.size)
        option = option[(self.come[:, 0, 0, group, option] <= room[:, None]).all(axis=0)]
        sums = self.paths.entries[:, group[option], 0, option].T
        return _Begun(option, np.zeros(option.size, dtype=np.intp), 1 << self.paths.kind[option], sums)

    def lengthen(self, begun: _Begun, room: FloatArray, most: int) -> tuple[FloatArray, _Begun | None]:
        """Return the sums of those that may stay to the end, and all with one more switch; None where too many."""
        place, until = self._find_ends(begun, room)
        option, used = begun.option[place], begun.used[place]
        sums = begun.sums[place] + (self.held[:, until, option] - self.held[:, begun.epoch[place], option]).T
        ends = until == self.paths.num_epochs
        whole = sums[ends]
        option, used, until, sums = option[~ends], used[~ends], until[~ends], sums[~ends]
        if until.size > most:
            return whole, None
        group = self.paths.group[option]
        place, entered = self._find_switches(until, used, group, sums, room)
        other = option[place] != entered
        place, entered = place[other], entered[other]
        if place.size > most:
            return whole, None
        until = until[place]
        entry = self.paths.entries[:, group[place], np.minimum(until, self.paths.entries.shape[2] - 1), entered].T
        used = used[place] | (1 << self.paths.kind[entered])
        return whole, _Begun(entered, until, used, sums[place] + entry)

    def _find_ends(self, begun: _Begun, room: FloatArray) -> tuple[IntArray, IntArray]:
        """Return which beginnings may hold their options until which epoch, not included."""
        group = self.paths.group[begun.option]
        spent = begun.sums @ self.weights.T - self.weighed[:, begun.option, begun.epoch].T
        step = max(1, _CELLS // self._later.size)
        found = [(group[:0], group[:0])]
        for first in range(0, group.size, step):
            part = slice(first, first + step)
            option, used = begun.option[part], begun.used[part]
            costs = spent[part, :1] + self.weighed[0, option] + self.go[0].transpose(1, 2, 0)[used, group[part]]
            place, until = np.nonzero((costs <= room[0]) & (self._later > begun.epoch[part, None]))
            place += first
            for row in range(1, room.size):
                hold = (
                    self.weighed[row, begun.option[place], until] + self.go[row, until, begun.used[place], group[place]]
                )
                fits = spent[place, row] + hold <= room[row]
                place, until = place[fits], until[fits]
            found.append((place, until))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _find_switches(
        self, until: IntArray, used: IntArray, group: IntArray, sums: FloatArray, room: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return which of those that leave may come to which option."""
        spent = sums @ self.weights.T
        step = max(1, _CELLS // max(1, self.paths.kind.size))
        found: list[tuple[IntArray, NDArray[np.intp]]] = [(until[:0], until[:0])]
        for first in range(0, until.size, step):
            part = slice(first, first + step)
            costs = spent[part, :1] + self.come[0, until[part], used[part], group[part]]
            place, option = np.nonzero(costs <= room[0])
            place += first
            for row in range(1, room.size):
                fits = spent[place, row] + self.come[row, until[place], used[place], group[place], option] <= room[row]
                place, option = place[fits], option[fits]
            found.append((place, option))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])
