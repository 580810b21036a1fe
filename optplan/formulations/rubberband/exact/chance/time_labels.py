"""Labels of cost and a distribution of time on a grid: the plans of one bracket that may be cheap and on time.

What may follow a node is bounded by W(t), the most that probability to be on time less a price for the cost can be with
time t left. A label is dropped when it cannot reach the wanted probability within the cost at one of several prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.exact.chance.grid_times import GridTimes
from optplan.formulations.rubberband.exact.chance.outlooks import Outlook, rise
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.held import Charge, no_charge
from optplan.solvers.paths.held.sweeps import Sweep

#: Prices of cost, relative to one over the spread between the cheapest plan and the cost allowed.
_PRICES = (0.0, 0.3, 1.0, 3.0, 10.0)
#: Labels whose distributions are added up at once.
_AT_ONCE = 1 << 11
#: Probabilities closer than this are the same; and how far transforms may be off.
_ROUNDING = 1e-12
_BLUR = 1e-9


@dataclass(frozen=True, eq=False)
class TimedPlans:
    """Plans of one bracket.

    Parameters
    ----------
    usd
        (P,) Expected cost, minimum charges included.
    chance
        (P,) Probability to be on time, with times rounded down.
    options
        (P, J) The option taken in each stage.
    """

    usd: FloatArray
    chance: FloatArray
    options: IntArray


@dataclass(frozen=True, eq=False)
class _Labels:
    """Beginnings of plans: node, cost without charges (L,), mass of the time so far, options so far (L, j).

    Labels that only differ in where they have moved to share their mass: ``source`` (L,) is its row in ``mass`` (U, G).
    """

    node: IntArray
    usd: FloatArray
    mass: FloatArray
    source: IntArray
    options: IntArray
    charge: Charge

    def take(self, rows: IntArray) -> _Labels:
        """Return some labels, each with a mass of its own."""
        mass = self.mass[self.source[rows]]
        return _Labels(
            self.node[rows], self.usd[rows], mass, np.arange(rows.size), self.options[rows], self.charge.take(rows)
        )


def bound_chance(times: GridTimes) -> float:
    """Return a probability that no plan of a bracket passes to be on time, costs not looked at."""
    before = Outlook(times, 0.0).before[0]
    start = times.restore(times.growth_spectra(times.chain.held))
    chances = np.einsum("kg,kg->k", start, np.where(np.isfinite(before), before, 0.0)[:, ::-1])
    return float(chances.max())


def find_timed_plans(times: GridTimes, most_usd: float, wanted: float, effort: Effort) -> TimedPlans:
    """Return the plans among which are, for every cost, those most likely to be on time.

    Parameters
    ----------
    most_usd
        Plans that cost this much or more are not wanted; +inf for all.
    wanted
        Least probability to be on time, with times rounded down.

    Raises
    ------
    OutOfEffortError
        When a limit is met.
    """
    return _Labelling(times, most_usd, wanted, effort).run()


class _Labelling:
    """Label setting for one bracket on one grid."""

    def __init__(self, times: GridTimes, most_usd: float, wanted: float, effort: Effort) -> None:
        self.times = times
        self.graph = times.chain.graph
        self.most_usd = most_usd
        self.wanted = wanted
        self.effort = effort
        self.least = Sweep(self.graph, 1.0, 0.0)
        spread = most_usd - self.least.best
        prices = [0.0] if not 0.0 < spread < math.inf else [factor / spread for factor in _PRICES]
        self.outlooks = []
        for price in prices:
            self.outlooks.append(Outlook(times, price))
            effort.charge_pass()

    def run(self) -> TimedPlans:
        """Go from stage to stage."""
        nodes = np.arange(self.graph.num_nodes)
        spectra = self.times.growth_spectra(self.times.chain.held)
        start = _Labels(
            nodes,
            self.graph.start_value.copy(),
            self.times.restore(spectra),
            nodes,
            np.zeros((nodes.size, 0), dtype=np.intp),
            no_charge(nodes.size),
        )
        labels = self._run_stage(start, 0)
        for stage in range(1, self.graph.num_layers):
            labels = self._run_stage(self._move(labels, stage), stage)
        usd = labels.usd
        if self.times.chain.charges is not None:
            usd = usd + self.times.chain.charges.settle(labels.options)[0]
        return TimedPlans(usd, labels.mass.sum(axis=1), self.times.kept[labels.options])

    def _move(self, labels: _Labels, stage: int) -> _Labels:
        """Return labels at every node that is worth coming to."""
        low = labels.usd + labels.charge.settled_value
        grown_usd, _ = self.graph.growth.between(labels.node[:, None], np.arange(self.graph.num_nodes)[None, :])
        cost = low[:, None] + grown_usd
        inside = cost + self.least.ahead[stage] < self.most_usd
        for outlook in self.outlooks:
            value = labels.mass @ self._facing(outlook.before[stage], outlook.late_before[stage])
            value = value[labels.source]
            inside &= value + outlook.late_before[stage] >= self._needed(outlook, cost)
        row, node = np.nonzero(inside)
        added = self.times.chain.held[node] - self.times.chain.held[labels.node[row]]
        growing, source, masses = np.flatnonzero(added > 0), labels.source[row].copy(), [labels.mass]
        source[growing] = labels.mass.shape[0] + np.arange(growing.size)
        for piece in np.array_split(growing, 1 + growing.size // _AT_ONCE):
            if piece.size:
                spectra = self.times.transform(labels.mass[labels.source[row[piece]]])
                masses.append(self.times.restore(spectra * self.times.growth_spectra(added[piece])))
                self.effort.charge_labels(0, row.size)
        usd = labels.usd[row] + grown_usd[row, node]
        return _Labels(node, usd, np.concatenate(masses), source, labels.options[row], labels.charge.take(row))

    def _facing(self, values: FloatArray, late: FloatArray) -> FloatArray:
        """Return (G, K) what is left of W over being late when so many steps are gone."""
        return rise(values, late)[:, ::-1].T

    def _needed(self, outlook: Outlook, cost: FloatArray) -> FloatArray:
        """Return what W must be at least for a label that has cost so much."""
        if outlook.price == 0.0:
            return np.full(cost.shape, self.wanted - _BLUR)
        return self.wanted - outlook.price * (self.most_usd - cost) - _BLUR

    def _run_stage(self, labels: _Labels, stage: int) -> _Labels:
        """Return the labels after every option of their nodes that may still do."""
        kept: list[_Labels] = []
        for node in np.unique(labels.node).tolist():
            rows, options = self._choose(labels, np.flatnonzero(labels.node == node), stage, node)
            for start in range(0, rows.size, _AT_ONCE):
                piece = slice(start, start + _AT_ONCE)
                ran = self._run_pairs(labels, rows[piece], options[piece])
                kept.append(ran.take(self._find_inside(ran, stage)))
                self.effort.charge_labels(0, sum(part.node.size for part in kept))
        if not kept:
            return self._run_pairs(labels, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        joined = _join(kept)
        best = joined.take(_find_undominated(joined))
        self.effort.charge_labels(best.node.size, best.node.size)
        return best

    def _choose(self, labels: _Labels, here: IntArray, stage: int, node: int) -> tuple[IntArray, IntArray]:
        """Return the pairs of a label at a node and an option there after which it may still be cheap and on time."""
        times, graph = self.times, self.graph
        own = graph.options(stage)
        first, last = np.searchsorted(graph.node[own], [node, node + 1]) + own.start
        usd = (labels.usd + labels.charge.settled_value)[here][:, None] + graph.value[first:last]
        inside = usd + self.least.rest[stage, node] < self.most_usd
        mass = labels.mass[labels.source[here]]
        for outlook in self.outlooks:
            self.effort.charge_labels(0, 0)
            late = outlook.late_after[stage][node]
            ahead = times.transform(outlook.after[stage][node] - late)
            ran = times.restore(times.stage_spectra[times.stages[0][first:last]] * ahead)
            inside &= mass @ ran[:, ::-1].T + late >= self._needed(outlook, usd)
        row, column = np.nonzero(inside)
        return here[row], first + column

    def _run_pairs(self, labels: _Labels, rows: IntArray, options: IntArray) -> _Labels:
        """Return labels after options, one each."""
        times = self.times
        used, place = np.unique(labels.source[rows], return_inverse=True)
        spectra = times.transform(labels.mass[used])[place] * times.stage_spectra[times.stages[0][options]]
        paths, charges = np.column_stack([labels.options[rows], options]), times.chain.charges
        return _Labels(
            labels.node[rows],
            labels.usd[rows] + self.graph.value[options],
            times.restore(spectra),
            np.arange(rows.size),
            paths,
            no_charge(rows.size) if charges is None else charges.charge(paths),
        )

    def _find_inside(self, labels: _Labels, stage: int) -> IntArray:
        """Return the labels that may still be cheap and on time."""
        cost = labels.usd + labels.charge.settled_value
        inside = cost + self.least.rest[stage, labels.node] < self.most_usd
        for outlook in self.outlooks:
            facing = self._facing(outlook.after[stage], outlook.late_after[stage])
            value = np.einsum("lg,lg->l", labels.mass, facing.T[labels.node]) + outlook.late_after[stage, labels.node]
            inside &= value >= self._needed(outlook, cost)
        return np.flatnonzero(inside)


def _find_undominated(labels: _Labels) -> IntArray:
    """Return labels to which no other at the same node is certain to cost no more and be done no later."""
    low = labels.usd + labels.charge.settled_value
    high = low + labels.charge.open_value
    done = np.cumsum(labels.mass, axis=1)
    kept: list[int] = []
    for node in np.unique(labels.node).tolist():
        here = np.flatnonzero(labels.node == node)
        own: list[int] = []
        for label in here[np.lexsort((low[here], high[here]))].tolist():
            rivals = np.array(own, dtype=np.int64)
            rivals = rivals[high[rivals] <= low[label]]
            if not rivals.size or not (done[rivals] >= done[label] - _ROUNDING).all(axis=1).any():
                own.append(label)
        kept.extend(own)
    return np.array(sorted(kept), dtype=np.int64)


def _join(parts: list[_Labels]) -> _Labels:
    """Return labels one after another; at least one part."""
    charges = [part.charge for part in parts]
    return _Labels(
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.usd for part in parts]),
        np.concatenate([part.mass for part in parts]),
        np.arange(sum(part.node.size for part in parts)),
        np.concatenate([part.options for part in parts]),
        Charge(
            np.concatenate([charge.settled_value for charge in charges]),
            np.concatenate([charge.settled_consumption for charge in charges]),
            np.concatenate([charge.open_value for charge in charges]),
            np.concatenate([charge.open_consumption for charge in charges]),
        ),
    )
