"""Minimum charges for the engine: what the beginning of a path is sure to pay on top, and what is still open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data import RubberBandInstance
from optplan.formulations.rubberband.evaluation import expected_latest_s
from optplan.formulations.rubberband.minimum_charges import has_minimum_charges, lasts, missing_s, varies
from optplan.formulations.rubberband.stages import stage_law, stage_options
from optplan.schema import FloatArray, IntArray
from optplan.solvers.held import Charge, HeldGraph


@dataclass(frozen=True, eq=False)
class MinimumCharges:
    """Minimum charges of one bracket; the oldest instances are released first.

    Parameters
    ----------
    graph
        Nodes and options of the bracket.
    held
        (K,) Instances held at each node.
    price_usd_per_s
        Of an instance.
    lasting
        (O,) Whether an option alone takes the minimum charge.
    shortfall_s
        What is missing in the life of an instance: (paths (L, j), those of them where it is asked for, first stage).
    """

    graph: HeldGraph
    held: IntArray
    price_usd_per_s: float
    lasting: NDArray[np.bool_]
    shortfall_s: Callable[[IntArray, IntArray, int], FloatArray]

    def charge(self, options: IntArray) -> Charge:
        """Return what beginnings of paths pay on top; open is what would be missing if all were released at once.

        Parameters
        ----------
        options
            (L, j + 1) The options taken in the first layers.
        """
        count, stages = options.shape
        held = np.column_stack([np.zeros(count, dtype=np.int64), self.held[self.graph.node[options]]])
        alive = np.zeros((count, stages))
        settled = np.zeros(count)
        for stage in range(stages):
            change = held[:, stage + 1] - held[:, stage]
            if stage:
                # The oldest go first: what a count of all up to a stage leaves after the release is what stays of them.
                before = np.cumsum(alive[:, :stage], axis=1)
                after = np.maximum(before - np.maximum(-change, 0)[:, None], 0.0)
                left = np.diff(after, axis=1, prepend=0.0)
                settled += self._missing(options[:, :stage], alive[:, :stage] - left)
                alive[:, :stage] = left
            alive[:, stage] = np.maximum(change, 0)
        missing, nothing = self._missing(options, alive), np.zeros(count)
        if stages == self.graph.num_layers:
            return Charge(settled + missing, nothing, nothing, nothing)
        return Charge(settled, nothing, missing, nothing)

    def _missing(self, options: IntArray, released: FloatArray) -> FloatArray:
        """Return what (L,) instances released after the last stage pay on top, given how many came in each stage."""
        usd = np.zeros(len(options))
        # Once a stage takes the minimum charge alone, only those that came later can miss any of it.
        lasting = np.flip(np.logical_or.accumulate(np.flip(self.lasting[options], axis=1), axis=1), axis=1)
        for first in range(options.shape[1]):
            rows = np.flatnonzero((released[:, first] > 0) & ~lasting[:, first])
            if rows.size:
                shortfall_s = self.shortfall_s(options, rows, first)
                usd[rows] += self.price_usd_per_s * released[rows, first] * shortfall_s
        return usd


def state_charges(
    instance: RubberBandInstance, bracket: int, graph: HeldGraph, held: IntArray, gpus: IntArray
) -> MinimumCharges | None:
    """State the minimum charges of a bracket; None where every option takes them alone.

    Parameters
    ----------
    instance
        The problem.
    bracket
        Which of its brackets.
    graph
        Its graph; consumptions are seconds.
    held
        (K,) Instances held at each node.
    gpus
        (O,) GPUs of each option.
    """
    if not has_minimum_charges(instance):
        return None
    lasting = np.zeros(gpus.size, dtype=np.bool_)
    for stage in range(graph.num_layers):
        options, own = stage_options(instance, bracket, stage), graph.options(stage)
        order = np.argsort(options.gpus)
        place = order[np.searchsorted(options.gpus[order], gpus[own])]
        lasting[own] = lasts(instance, bracket, stage, options)[place]
    if lasting.all():
        return None

    def sampled(options: IntArray, rows: IntArray, first: int) -> FloatArray:
        counts, used = held[graph.node[options[rows]]], gpus[options[rows]]
        return np.array(
            [
                missing_s(instance, bracket, path_held, path_gpus, first)
                for path_held, path_gpus in zip(counts.tolist(), used.tolist(), strict=True)
            ]
        )

    def constant(options: IntArray, rows: IntArray, first: int) -> FloatArray:
        path = options[rows][:, max(0, first - 1) :]
        nodes, stage_s = graph.node[path], graph.consumption[path]
        if first == 0:
            latest_s = expected_latest_s(instance, held[nodes[:, 0]])
        else:
            latest_s = expected_latest_s(instance, held[nodes[:, 1]] - held[nodes[:, 0]])
            nodes, stage_s = nodes[:, 1:], stage_s[:, 1:]
        _, waits = graph.growth.between(nodes[:, :-1], nodes[:, 1:])
        life_s = latest_s + stage_s.sum(axis=1) + waits.sum(axis=1)
        missing: FloatArray = np.maximum(instance.cloud.minimum_charge_s - life_s, 0.0)
        return missing

    shortfall_s = sampled if varies(instance) else constant
    return MinimumCharges(graph, held, instance.cloud.price_usd_per_s, lasting, shortfall_s)


def find_longest_useful_s(instance: RubberBandInstance, bracket: int, stage: int, quickest: IntArray) -> FloatArray:
    """Return what quickest options (Q,) of a stage take with minimum charges: slower ones may pay off up to that.

    A slower option varies less, perhaps, so that less of the minimum charge is missing. It saves no more than all that
    is missing in this stage alone.

    Parameters
    ----------
    instance
        The problem.
    bracket, stage
        Which stage, both from zero.
    quickest
        (Q,) Positions of options.

    Returns
    -------
    FloatArray
        E[max(minimum, time)] by option; with constant times the time itself.
    """
    options = stage_options(instance, bracket, stage)
    longest_s = options.expected_s[quickest]
    if not has_minimum_charges(instance) or not varies(instance):
        return longest_s
    minimum_s = np.array([instance.cloud.minimum_charge_s])
    lasting = lasts(instance, bracket, stage, options)[quickest]
    for place in np.flatnonzero(~lasting).tolist():
        law = stage_law(instance, bracket, stage, int(options.gpus[quickest[place]]))
        longest_s[place] += float(law.shortfall(minimum_s)[0])
    return longest_s
