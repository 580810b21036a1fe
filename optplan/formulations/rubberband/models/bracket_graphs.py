"""A bracket as a layered graph for general engines: layers are stages, nodes are instances held with an allocation.

Changing the number held costs growth, which depends on both numbers; so the nodes of one number are a group. Under
billing per instance a number has one node, with the fastest allocation on at most so many instances; under billing per
function it has one for each allocation that no other one beats in both time and GPU-seconds.

Minimum charges depend on an instance's whole life and are outside the graph: its costs are those without them, so what
is least in the graph is a lower bound on the true cost. (Where they make a slower allocation pay off, that bound holds
all the same: without them the fastest is also the cheapest.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.chains import list_held
from optplan.formulations.rubberband.exact.durations import growth
from optplan.formulations.rubberband.exact.stage_options import stage_options
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import BudgetedPaths
from optplan.solvers.paths.effort import Effort


@dataclass(frozen=True, eq=False)
class BracketGraph:
    """One bracket of S stages with K nodes in each layer; a node is at the same number of instances in all layers.

    Parameters
    ----------
    held
        (K,) Instances held.
    gpus
        (S, K) GPUs used; 0 where no allocation fits.
    seconds, usd
        (S, K) Expected time and cost of running the stage there; +inf where no allocation fits.
    """

    held: IntArray
    gpus: IntArray
    seconds: FloatArray
    usd: FloatArray

    def write(self, columns: IntArray) -> tuple[StageAllocation, ...]:
        """Write a path, the column of its node in each layer, as allocations."""
        gpus = self.gpus[np.arange(columns.size), columns]
        return tuple(
            StageAllocation(instances=instances, gpus=used)
            for instances, used in zip(self.held[columns].tolist(), gpus.tolist(), strict=True)
        )


def state_bracket(alone: RubberBandInstance, stopwatch: Stopwatch | None = None) -> BracketGraph:
    """State an instance with one bracket.

    Parameters
    ----------
    alone
        The instance; its limit is not looked at.
    stopwatch
        Ends the statement when it has expired; None for no limit.

    Raises
    ------
    OutOfEffortError
        When time runs out.
    """
    effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
    offered = [stage_options(alone, 0, stage, stopwatch=stopwatch) for stage in range(len(alone.brackets[0]))]
    counts = list_held(alone, offered)
    rows: list[list[IntArray]] = []
    for options in offered:
        rows.append([])
        for count in counts.tolist():
            effort.charge_labels(0, 0)
            rows[-1].append(_list_rows(alone, options, count))
    widths = [max(1, *(row.size for row in at_count)) for at_count in zip(*rows, strict=True)]
    held = np.repeat(counts, widths)
    places = np.array([np.concatenate([_fill(*each) for each in zip(stage, widths, strict=True)]) for stage in rows])
    gpus = np.where(places >= 0, [options.gpus[place] for options, place in zip(offered, places, strict=True)], 0)
    seconds = _take([options.expected_s for options in offered], places)
    if alone.cloud.is_per_instance:
        usd = alone.cloud.price_usd_per_s * held * seconds
    else:
        usd = alone.cloud.gpu_price_usd_per_s * _take([options.busy_gpu_s for options in offered], places)
    return BracketGraph(held, gpus, seconds, usd)


def bind_bracket(alone: RubberBandInstance, graph: BracketGraph, limit: float, objective: Objective) -> BudgetedPaths:
    """State what engines are asked about a bracket: least cost within a time, or least time within a cost.

    Parameters
    ----------
    alone
        The instance with one bracket; its own limit and objective are not looked at.
    graph
        From :func:`state_bracket`.
    limit
        Seconds, or US dollars.
    """
    counts, group = np.unique(graph.held, return_inverse=True)
    start_s, start_usd = growth(alone, 0, graph.held)
    moves_s, moves_usd = growth(alone, counts[:, None], graph.held)
    enter_s, enter_usd = _enter(start_s, moves_s, graph), _enter(start_usd, moves_usd, graph)
    costs = (graph.usd, graph.seconds, enter_usd, enter_s)
    value, consumption, enter_value, enter_consumption = (
        costs if objective is Objective.COST else (costs[1], costs[0], costs[3], costs[2])
    )
    fits = graph.gpus > 0
    return BudgetedPaths(
        (
            PathCosts(
                name=alone.name,
                labels=tuple(f"{held}.{number}" for number, held in enumerate(graph.held.tolist(), start=1)),
                group=group,
                limits=(DEADLINE if objective is Objective.COST else BUDGET,),
                # What does not fit is kept out by the limit; its value must not spoil the scale.
                run_value=np.where(fits, value, value[fits].max()),
                run_consumption=np.where(fits, consumption, 2.0 * limit)[None],
                enter_value=enter_value,
                enter_consumption=enter_consumption[None],
            ),
        ),
        np.array([limit]),
    )


def _list_rows(alone: RubberBandInstance, options: StageOptions, count: int) -> IntArray:
    """List the options worth choosing between while so many instances are held, from the fastest on."""
    fitting = int(np.searchsorted(options.instances, count, side="right"))
    order = np.lexsort((options.busy_gpu_s[:fitting], options.expected_s[:fitting]))
    if alone.cloud.is_per_instance:
        return order[:1]
    busy_gpu_s = options.busy_gpu_s[order]
    cheaper = np.diff(np.minimum.accumulate(busy_gpu_s), prepend=np.inf) < 0
    return order[cheaper]


def _take(offered: list[FloatArray], places: IntArray) -> FloatArray:
    """Look figures of options up by stage (S, K); +inf where the place is -1."""
    return np.array(
        [np.where(place >= 0, figures[place], np.inf) for figures, place in zip(offered, places, strict=True)]
    )


def _fill(rows: IntArray, width: int) -> IntArray:
    """Repeat the last of some rows up to a width; -1 where there is none."""
    padding = rows[-1] if rows.size else -1
    return np.concatenate([rows, np.full(width - rows.size, padding, dtype=np.int64)])


def _enter(start: FloatArray, moves: FloatArray, graph: BracketGraph) -> FloatArray:
    """Lay out what entering costs, (F, S, K): the start in the first layer, then growth from each number held."""
    enter = np.repeat(moves[:, None, :], len(graph.gpus), axis=1)
    enter[:, 0, :] = start
    return enter
