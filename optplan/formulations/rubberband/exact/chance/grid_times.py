"""Distributions of one bracket's stages and growths on a grid, and which options matter there."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.chains import Chain, require_size
from optplan.formulations.rubberband.exact.charges import may_pay_off
from optplan.formulations.rubberband.exact.durations import round_growth_down
from optplan.formulations.rubberband.exact.stage_options import stage_options
from optplan.formulations.rubberband.laws.rounding import round_down
from optplan.formulations.rubberband.laws.stages import stage_cdf, stage_law
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.held.sweeps import Cut, Sweep

Spectra = NDArray[np.complex128]

#: Numbers of what may follow every node, at one price.
_MOST_NUMBERS = 1 << 23
#: Costs closer than this, relatively, are the same.
_ROUNDING = 1e-12


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
        self._growths: dict[int, Spectra] = {}

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
                found.append(round_down(stage_cdf(self.instance, self.bracket, stage, used, self.grid_s)))
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

    def transform(self, mass: FloatArray) -> Spectra:
        """Return (N, F) the transforms of functions (N, G) of the grid."""
        return np.fft.rfft(mass, self.size, axis=-1)

    def restore(self, spectra: Spectra) -> FloatArray:
        """Return (N, G) the functions of transforms; what lies beyond the grid is lost."""
        return np.asarray(np.fft.irfft(spectra, self.size, axis=-1)[..., : self.points])


def _find_affordable(chain: Chain, most_usd: float) -> IntArray:
    """Return the options through which some plan costs no more, minimum charges left out; the cheapest always."""
    sweep = Sweep(chain.graph, 1.0, 0.0)
    limit = max(most_usd, sweep.best) * (1.0 + _ROUNDING)
    through = [Cut(sweep, limit).through(layer) <= limit for layer in range(chain.graph.num_layers)]
    return np.flatnonzero(np.concatenate(through))
