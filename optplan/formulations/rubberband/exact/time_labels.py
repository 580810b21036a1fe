"""Labels of cost and a distribution of time on a grid: the plans of one bracket that may be cheap and on time.

What may follow a node is bounded by W(t), the most that probability to be on time less a price for the cost can be with
time t left. A label is dropped when it cannot reach the wanted probability within the cost at one of several prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.chains import Chain, require_size
from optplan.formulations.rubberband.exact.charges import may_pay_off
from optplan.formulations.rubberband.exact.durations import round_growth_down, round_stage_down
from optplan.formulations.rubberband.exact.stage_options import stage_law, stage_options
from optplan.schema import FloatArray, IntArray
from optplan.solvers.held import Charge, no_charge
from optplan.solvers.held.sweeps import Cut, Sweep
from optplan.solvers.layered import Effort
from optplan.solvers.layered.effort import OutOfEffortError

Spectra = NDArray[np.complex128]

#: Prices of cost, relative to one over the spread between the cheapest plan and the cost allowed.
_PRICES = (0.0, 0.3, 1.0, 3.0, 10.0)
#: Labels whose distributions are added up at once.
_AT_ONCE = 1 << 11
#: Numbers of what may follow every node, at one price.
_MOST_NUMBERS = 1 << 23
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


def list_all_options(
    instance: RubberBandInstance, bracket: int, stage: int, held: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the nodes, in order, and the positions of all options that fit: any may be best for some probability."""
    options = stage_options(instance, bracket, stage)
    fitting = np.searchsorted(options.instances, held, side="right")
    require_size(int(fitting.sum()))
    nodes = np.repeat(np.arange(held.size), fitting)
    return nodes, np.concatenate([np.arange(count) for count in fitting.tolist()])


class GridTimes:
    """Distributions of one bracket's stages and growths, rounded down to a grid that ends with the deadline.

    Parameters
    ----------
    instance, bracket
        Which bracket.
    chain
        Its statement, with all options.
    deadline_s
        The last point.
    points
        How many points there are.
    effort
        Limit on time.
    most_usd
        Plans that cost more are not looked at.
    """

    def __init__(
        self,
        instance: RubberBandInstance,
        bracket: int,
        chain: Chain,
        deadline_s: float,
        points: int,
        effort: Effort,
        most_usd: float = math.inf,
    ) -> None:
        self.instance = instance
        self.bracket = bracket
        self.effort = effort
        self.points = points
        if chain.graph.num_nodes * chain.graph.num_layers * points > _MOST_NUMBERS:
            raise OutOfEffortError("labels")
        self.grid_s = np.linspace(0.0, deadline_s, points)
        self.size = 2 ** math.ceil(math.log2(points) + 1)
        affordable = _find_affordable(chain, most_usd)
        chain = chain.keep(affordable)
        rows, masses = self._round(chain)
        useful = np.flatnonzero(self._find_useful(chain, rows, np.cumsum(masses, axis=1)))
        self.chain = chain.keep(useful)
        #: The options that are looked at, as numbered in the statement given.
        self.kept = affordable[useful]
        #: (O,) Row of each option looked at, and (R, G) the distributions.
        self.stages = rows[useful], masses

    def _round(self, chain: Chain) -> tuple[IntArray, FloatArray]:
        """Return (O,) the row of each option, and (R, G) the distributions."""
        graph, gpus = chain.graph, chain.gpus
        rows = np.empty(gpus.size, dtype=np.int64)
        found: list[FloatArray] = []
        for stage in range(graph.num_layers):
            own = graph.options(stage)
            different, place = np.unique(gpus[own], return_inverse=True)
            rows[own] = len(found) + place
            for used in different.tolist():
                self.effort.charge_labels(0, 0)
                found.append(round_stage_down(self.instance, self.bracket, stage, used, self.grid_s))
        return rows, np.array(found)

    def _find_useful(self, chain: Chain, rows: IntArray, done: FloatArray) -> NDArray[np.bool_]:
        """Say for each option (O,) whether no other of its node is certain to cost no more and be done no later."""
        graph, useful = chain.graph, np.zeros(rows.size, dtype=np.bool_)
        for stage in range(graph.num_layers):
            own = graph.options(stage)
            different, first = np.unique(rows[own], return_index=True)
            paid = (graph.consumption if self.instance.cloud.is_per_instance else graph.value)[own][first]
            cheaper = self._find_cheaper(chain, stage, chain.gpus[own][first], paid)
            # Options come by node, and every node has those of the nodes before it, too.
            kept, seen = np.empty(0, dtype=np.intp), np.zeros(different.size, dtype=np.bool_)
            for start, end in pairwise(np.searchsorted(graph.node[own], np.arange(graph.num_nodes + 1)).tolist()):
                here = np.searchsorted(different, rows[own][start:end])
                new = here[~seen[here]]
                seen[here] = True
                for row in new[np.argsort(paid[new], kind="stable")].tolist():
                    self.effort.charge_labels(0, 0)
                    rivals = kept[cheaper[kept, row]]
                    if not (done[different[rivals]] >= done[different[row]]).all(axis=1).any():
                        kept = np.append(kept, row)
                useful[own.start + start : own.start + end] = np.isin(here, kept)
        return useful

    def _find_cheaper(self, chain: Chain, stage: int, gpus: IntArray, paid: FloatArray) -> NDArray[np.bool_]:
        """Say for pairs of options (R, R) of a stage whether the one is certain to cost no more than the other.

        With minimum charges the other may save what is missing of them after the one alone, unless its time is greater
        in the increasing convex order.
        """
        no_dearer: NDArray[np.bool_] = paid[:, None] <= paid
        if chain.charges is None:
            return no_dearer
        instance, bracket = self.instance, self.bracket
        options, minimum_s = stage_options(instance, bracket, stage), np.array([instance.cloud.minimum_charge_s])
        order = np.argsort(options.gpus)
        place = order[np.searchsorted(options.gpus[order], gpus)]
        for row, own in enumerate(place.tolist()):
            missing_s = float(stage_law(instance, bracket, stage, int(gpus[row])).shortfall(minimum_s)[0])
            ordered = ~may_pay_off(instance, bracket, stage, own)[place]
            no_dearer[row] &= ordered | (paid[row] + missing_s <= paid)
        return no_dearer

    @cached_property
    def stage_spectra(self) -> Spectra:
        """(R, F) Transforms of the distributions of the stages."""
        return self.transform(self.stages[1])

    def growth_spectra(self, added: IntArray) -> Spectra:
        """Return (A, F) the transforms of the times in which so many instances come."""
        different, place = np.unique(added, return_inverse=True)
        for count in different.tolist():
            if count not in self._growths:
                self.effort.charge_labels(0, 0)
                scale, last = round_growth_down(self.instance, count, self.grid_s)
                both = self.restore(self.transform(scale) * self.transform(last))
                self._growths[count] = self.transform(both)
        return np.array([self._growths[count] for count in different.tolist()])[place]

    @cached_property
    def _growths(self) -> dict[int, Spectra]:
        return {}

    def transform(self, mass: FloatArray) -> Spectra:
        """Return (N, F) the transforms of functions (N, G) of the grid."""
        return np.fft.rfft(mass, self.size, axis=-1)

    def restore(self, spectra: Spectra) -> FloatArray:
        """Return (N, G) the functions of transforms; what lies beyond the grid is lost."""
        return np.asarray(np.fft.irfft(spectra, self.size, axis=-1)[..., : self.points])


def _pay(price: float, usd: FloatArray) -> FloatArray:
    """Return what costs are worth at a price; minus infinity where nothing can be bought."""
    return np.where(np.isfinite(usd), -price * np.where(np.isfinite(usd), usd, 0.0), -np.inf)


def _rise(values: FloatArray, late: FloatArray) -> FloatArray:
    """Return (K, G) by how much values exceed those of being late; nothing where there are none."""
    known = np.isfinite(values) & np.isfinite(late)[:, None]
    return np.where(known, np.where(known, values, 0.0) - np.where(np.isfinite(late), late, 0.0)[:, None], 0.0)


def _find_affordable(chain: Chain, most_usd: float) -> IntArray:
    """Return the options through which some plan costs no more, minimum charges left out; the cheapest always."""
    sweep = Sweep(chain.graph, 1.0, 0.0)
    limit = max(most_usd, sweep.best) * (1.0 + _ROUNDING)
    through = [Cut(sweep, limit).through(layer) <= limit for layer in range(chain.graph.num_layers)]
    return np.flatnonzero(np.concatenate(through))


class _Outlook:
    """What may follow each node at one price: by stage, (K, G) before and after the stage runs, and when it is late.

    With a price p, W[k] = the most of P(on time with k steps left) - p * cost; being late leaves ``late`` = -p * least
    cost. Growing is bounded by the quickest and cheapest growth there is from a node.
    """

    def __init__(self, times: GridTimes, price: float) -> None:
        self.price = price
        graph = times.chain.graph
        sweep = Sweep(graph, 1.0, 0.0)
        rows = times.stages[0]
        self.after: list[FloatArray] = [np.ones((graph.num_nodes, times.points))] * graph.num_layers
        self.before: list[FloatArray] = list(self.after)
        self.late_after, self.late_before = _pay(price, sweep.rest), _pay(price, sweep.ahead)
        for stage in range(graph.num_layers - 1, -1, -1):
            if stage + 1 < graph.num_layers:
                self.after[stage] = self._look_ahead(times, stage)
            surplus = _rise(self.after[stage], self.late_after[stage])
            own = graph.options(stage)
            node = graph.node[own]
            values = np.full((graph.num_nodes, times.points), -np.inf)
            spectra = times.transform(surplus)
            for piece in np.array_split(np.arange(node.size), 1 + node.size // _AT_ONCE):
                times.effort.charge_labels(0, 0)
                ran = times.restore(times.stage_spectra[rows[own][piece]] * spectra[node[piece]])
                cost = price * graph.value[own][piece] - self.late_after[stage][node[piece]]
                there, starts = np.unique(node[piece], return_index=True)
                values[there] = np.maximum(values[there], np.maximum.reduceat(ran - cost[:, None], starts, axis=0))
            self.before[stage] = values

    def _look_ahead(self, times: GridTimes, stage: int) -> FloatArray:
        """Return W after a stage: shrink or stay for nothing, or grow."""
        graph, before = times.chain.graph, self.before[stage + 1]
        best = np.maximum.accumulate(before, axis=0)
        if graph.num_nodes == 1:
            return best
        above = np.maximum.accumulate(before[::-1], axis=0)[::-1][1:]
        late = np.maximum.accumulate(self.late_before[stage + 1][::-1])[::-1][1:]
        nodes = np.arange(graph.num_nodes - 1)
        usd, _ = graph.growth.between(nodes, nodes + 1)
        quickest = times.growth_spectra(np.ones(1, dtype=np.int64))
        grown = times.restore(times.transform(_rise(above, late)) * quickest)
        best[:-1] = np.maximum(best[:-1], grown + (late - self.price * usd)[:, None])
        return best


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
    """Return a probability that no plan of a bracket passes to be on time, costs not looked at.

    Parameters
    ----------
    times
        The bracket.
    """
    before = _Outlook(times, 0.0).before[0]
    start = times.restore(times.growth_spectra(times.chain.held))
    chances = np.einsum("kg,kg->k", start, np.where(np.isfinite(before), before, 0.0)[:, ::-1])
    return float(chances.max())


def find_timed_plans(times: GridTimes, most_usd: float, wanted: float, effort: Effort) -> TimedPlans:
    """Return the plans among which are, for every cost, those most likely to be on time.

    Parameters
    ----------
    times
        The bracket.
    most_usd
        Plans that cost this much or more are not wanted; +inf for all.
    wanted
        Least probability to be on time, with times rounded down.
    effort
        Limits on labels and time.

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
            self.outlooks.append(_Outlook(times, price))
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
        return _Labels(
            node, usd, np.concatenate(masses), source, labels.options[row], labels.charge.take(row)
        )

    def _facing(self, values: FloatArray, late: FloatArray) -> FloatArray:
        """Return (G, K) what is left of W over being late when so many steps are gone."""
        return _rise(values, late)[:, ::-1].T

    def _needed(self, outlook: _Outlook, cost: FloatArray) -> FloatArray:
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
