"""RubberBand's layered graph for networkx: layers are stages, nodes are instances held with an allocation.

Changing the number held costs growth, which depends on both numbers; so the nodes of one number are a group. Under
billing per instance a number has one node, with the fastest allocation on at most so many instances; under billing per
function it has one for each allocation that no other one beats in both time and GPU-seconds.

Minimum charges depend on an instance's whole life and are outside the graph: its costs are those without them, so what
is least in the graph is a lower bound on the true cost. (Where they make a slower allocation pay off, that bound holds
all the same: without them the fastest is also the cheapest.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, Objective, RubberBandInstance
from optplan.formulations.rubberband.exact.bracket_choice import isolate_brackets
from optplan.formulations.rubberband.exact.chains import list_held
from optplan.formulations.rubberband.exact.costs import growth, stage_options
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import draw_layers

if TYPE_CHECKING:
    from networkx import DiGraph


def draw_graph(instance: RubberBandInstance) -> DiGraph:
    """Draw the graph of each bracket, by the number of the bracket: expected cost and time, minimum charges left out.

    ``value`` is in the unit of the objective, US dollars or seconds, and the limit in the other one. Nodes have
    ``instances``. The allocations are those that can be best.
    """
    drawn = []
    for number, alone in enumerate(isolate_brackets(instance), start=1):
        graph = state_bracket(alone)
        about = [{"instances": held} for held in graph.held.tolist()]
        drawn.append((_cost_steps(alone, graph, str(number), instance.objective), about))
    return draw_layers(drawn)


@dataclass(frozen=True, eq=False)
class BracketGraph:
    """One bracket of S stages with K nodes in each layer; a node is at the same number of instances in all layers.

    ``held`` (K,) instances; by stage (S, K) GPUs used, 0 where no allocation fits, and expected seconds and US dollars
    of running there, then infinite.
    """

    held: IntArray
    gpus: IntArray
    seconds: FloatArray
    usd: FloatArray


def state_bracket(alone: RubberBandInstance) -> BracketGraph:
    """State an instance with one bracket; its limit is not looked at."""
    offered = [stage_options(alone, 0, stage) for stage in range(len(alone.brackets[0]))]
    counts = list_held(alone, offered)
    rows = [[_list_rows(alone, options, count) for count in counts.tolist()] for options in offered]
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


def _cost_steps(alone: RubberBandInstance, graph: BracketGraph, name: str, objective: Objective) -> PathCosts:
    """Return what steps cost, of what is least and of what is limited; what does not fit costs infinitely much."""
    counts, group = np.unique(graph.held, return_inverse=True)
    start_s, start_usd = growth(alone, 0, graph.held)
    moves_s, moves_usd = growth(alone, counts[:, None], graph.held)
    by_time = (graph.seconds, _enter(start_s, moves_s, graph))
    by_cost = (graph.usd, _enter(start_usd, moves_usd, graph))
    least, limited = (by_cost, by_time) if objective is Objective.COST else (by_time, by_cost)
    return PathCosts(
        name=name,
        labels=tuple(f"{held}.{number}" for number, held in enumerate(graph.held.tolist(), start=1)),
        group=group,
        limits=(DEADLINE if objective is Objective.COST else BUDGET,),
        run_value=least[0],
        run_consumption=limited[0][None],
        enter_value=least[1],
        enter_consumption=limited[1][None],
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
