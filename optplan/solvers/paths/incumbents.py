"""Where branch and price looks for better plans beside its tree: among the paths it knows, and near its best plan.

The second is large neighbourhood search: Danna, Rothberg and Le Pape, "Exploring relaxation induced neighborhoods to
improve MIP solutions", Mathematical Programming 102, 2005. What it changes is that searches begin short and grow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np

from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.simplex import RestrictedMaster


class Neighbourhoods:
    """Which graphs may leave the best plan's paths in each search near it: choices of fewer graphs come first.

    Once all were searched, those whose search was cut short are searched again, for twice as many parts.
    """

    def __init__(self, num_graphs: int) -> None:
        self._num_graphs = num_graphs
        #: The value of the plan, what is to be searched near it, and what was cut short.
        self._value = math.inf
        self._waiting: Iterator[tuple[int, ...]] = iter(())
        self._cut_short: list[tuple[int, ...]] = []
        #: Parts of each search, and of all so far.
        self.most_parts = TUNING.parts_near
        self.parts = 0

    def take(self, value: float) -> tuple[int, ...] | None:
        """Return the next choice of graphs near a plan of a value; None where no search would find a better one."""
        if self._value > value:
            self._value, self.most_parts, self._cut_short = value, TUNING.parts_near, []
            sizes = range(2, self._num_graphs)
            self._waiting = chain.from_iterable(combinations(range(self._num_graphs), size) for size in sizes)
        free = next(self._waiting, None)
        if free is None and self._cut_short:
            self.most_parts *= 2
            self._waiting, self._cut_short = iter(self._cut_short), []
            free = next(self._waiting)
        return free

    def note_cut_short(self, free: tuple[int, ...]) -> None:
        """Take down that a search ended before all near the plan was looked at."""
        self._cut_short.append(free)


def choose_columns(master: RestrictedMaster, weights: FloatArray, ceiling: float) -> IntArray | None:
    """Return a column of each graph (G,) of the master that keep the limits and cost less than ``ceiling`` together.

    ``weights`` (L,) of the limits say which paths are looked at first. None where the steps allowed found none.
    """
    known, graphs = slice(master.count), master.num_graphs
    entries = np.asarray(master.entries)[known]
    reduced = np.asarray(master.value)[known] + entries @ weights
    owner = np.asarray(master.owner)[known]
    lists = [_find_least(reduced, np.flatnonzero(owner == g), TUNING.choice_paths) for g in range(graphs)]
    if not all(each.size for each in lists):
        return None
    order_of = sorted(range(graphs), key=lambda g: (lists[g].size, g))
    lists = [lists[g] for g in order_of]
    starts = np.concatenate([[0], np.cumsum([each.size for each in lists])]).astype(np.intp)
    order = np.concatenate(lists)
    least = np.array([[reduced[each].min(), *entries[each].min(axis=0)] for each in lists])
    rest = np.zeros((graphs + 1, 1 + weights.size))
    rest[:-1] = least[::-1].cumsum(axis=0)[::-1]
    chosen = np.empty(graphs, dtype=np.intp)
    best = master.combine(
        starts, order, reduced[order], rest, ceiling, float(weights.sum()), TUNING.choice_steps, chosen
    )
    return chosen[np.argsort(order_of)] if best < ceiling else None


def _find_least(numbers: FloatArray, places: IntArray, count: int) -> IntArray:
    """Return the places of the least numbers, in order; of equal ones the first."""
    own = numbers[places]
    if own.size > count:  # to sort all of many takes longer than to find where the least end
        near = own <= np.partition(own, count)[count]
        places, own = places[near], own[near]
    return places[np.argsort(own, kind="stable")[:count]]
