"""A bracket as a held graph: layers are stages, nodes are instances held, options are allocations.

Values are expected US dollars and consumptions expected seconds, whichever of the two is limited. Which instance counts
can be best: with a fixed initialisation time, costs between two counts that some allocation needs are linear in what is
held, so that those counts are enough. Where initialisation times vary, the latest of several is not linear in their
number, and where a minimum charge may be missed, an instance more may be kept until it is used up: all counts are nodes
then, and most of their steps break the rules of :class:`~optplan.solvers.paths.held_graphs.ExchangeRules`.

RubberBand's layered graph for networkx: layers are stages, nodes are instances held with an allocation.

It is the graph that the exact solver searches (:mod:`optplan.formulations.rubberband.exact.chains`). Changing the
number held costs growth, which depends on both numbers; so the nodes of one number are a group. Minimum charges depend
on an instance's whole life and are outside the graph, so that what is least in it is a lower bound on the true cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.exact.costs import (
    MinimumCharges,
    find_longest_useful_s,
    growth,
    lasts,
    stage_options,
)
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import draw_layers
from optplan.solvers.paths.held_graphs import ExchangeRules, HeldGraph

if TYPE_CHECKING:
    from networkx import DiGraph


#: Pairs of a number of instances and an allocation that a stage may have.
_MOST_PAIRS = 4_000_000
_WAYS = "a stage of this search may be run in {} ways or more"
#: Numbers of instances between any two of which a search may grow.
_MOST_HELD = 4096


@dataclass(frozen=True, eq=False)
class Chain:
    """One bracket, ready for the engine, in US dollars and seconds; ``charges`` is None where none can occur."""

    graph: HeldGraph
    held: IntArray
    gpus: IntArray
    charges: MinimumCharges | None
    is_paid: bool

    def write(self, options: IntArray) -> tuple[StageAllocation, ...]:
        """Write a path as allocations; of instances that nobody pays for, those that are needed from there on."""
        held, needed = self.held[self.graph.node[options]], self.graph.needed
        if not self.is_paid and needed is not None:
            held = np.minimum(held, np.maximum.accumulate(self.held[needed[options]][::-1])[::-1])
        return StageAllocation.of_stages(held.tolist(), self.gpus[options].tolist())


def state_chains(instance: RubberBandInstance, stopwatch: Stopwatch | None = None) -> tuple[Chain, ...]:
    """State every bracket of an instance; see :func:`state_chain`."""
    return tuple(state_chain(instance, bracket, stopwatch=stopwatch) for bracket in range(len(instance.brackets)))


def state_chain(instance: RubberBandInstance, bracket: int, *, stopwatch: Stopwatch | None = None) -> Chain:
    """State one bracket, whatever the limit; raises OutOfEffortError when the stopwatch has expired."""
    stages = range(len(instance.brackets[bracket]))
    offered = [stage_options(instance, bracket, stage, stopwatch=stopwatch) for stage in stages]
    lasting = [lasts(instance, bracket, stage, options) for stage, options in enumerate(offered)]
    charged = not all(each.all() for each in lasting)
    _require_few("this search may hold {} numbers of instances", list_held(instance, offered).size, _MOST_HELD)
    counts = list_held(instance, offered, charged=charged)
    layers, gpus, needed, lasting_options = [], [], [], []
    for stage, options in enumerate(offered):
        node, position = _choose_options(instance, bracket, stage, options, counts)
        seconds = options.expected_s[position]
        layers.append((node, _run_usd(instance, options, position, counts[node]), seconds))
        gpus.append(options.gpus[position])
        needed.append(np.searchsorted(counts, options.instances[position]))
        lasting_options.append(lasting[stage][position])

    def grow(before: IntArray, after: IntArray) -> FloatArray:
        return np.array(growth(instance, counts[before], counts[after])[::-1])

    graph = HeldGraph.from_layers(growth(instance, 0, counts)[::-1], grow, layers)
    # A price for every second and a minimum charge are what the rules of exchange are for.
    even, is_paid = instance.cloud.initialise_s.is_constant, instance.cloud.is_per_instance
    graph = replace(graph, needed=np.concatenate(needed), even=even)
    useful = ExchangeRules(graph).list_useful() if is_paid else np.arange(graph.node.size)
    held, used, graph = counts[graph.list_nodes(useful)], np.concatenate(gpus)[useful], graph.keep(useful)
    alone = np.concatenate(lasting_options)[useful]
    charges = None if alone.all() else MinimumCharges(instance, bracket, graph, held, used, alone)
    return Chain(graph, held, used, charges, is_paid)


def _require_few(what: str, count: int, most: int) -> None:
    """Raise when there is more of something than can be held in memory."""
    if count > most:
        raise UnsupportedError(
            f"{what.format(f'{count:,}')}, of the {most:,} that are looked at; "
            "lower training.most_gpus or cloud.most_instances"
        )


def list_held(instance: RubberBandInstance, offered: list[StageOptions], *, charged: bool = False) -> IntArray:
    """Return the instance counts (K,) that are worth holding; ``charged`` when minimum charges may be missed."""
    needed = np.unique(np.concatenate([options.instances for options in offered]))
    if instance.cloud.initialise_s.is_constant and not charged:
        return needed
    return np.arange(1, needed[-1] + 1)


def write_solution(chains: tuple[Chain, ...], paths: list[IntArray]) -> RubberBandSolution:
    """Write one path per bracket as a solution."""
    return RubberBandSolution(brackets=tuple(chain.write(path) for chain, path in zip(chains, paths, strict=True)))


def _run_usd(instance: RubberBandInstance, options: StageOptions, position: IntArray, held: IntArray) -> FloatArray:
    cloud = instance.cloud
    if cloud.is_per_instance:
        return cloud.price_usd_per_s * held * options.expected_s[position]
    return cloud.gpu_price_usd_per_s * options.busy_gpu_s[position]


def _choose_options(
    instance: RubberBandInstance, bracket: int, stage: int, options: StageOptions, held: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the nodes, in order, and the positions of the options that can be best while so much is held."""
    fitting = np.searchsorted(options.instances, held, side="right")
    if not instance.cloud.is_per_instance:
        return _list_undominated(options, fitting)
    first = int(np.argmax(fitting > 0))
    # Of what fits, the quickest; of the equally quick, the one on the fewest instances and GPUs.
    leads = np.append(True, np.diff(np.minimum.accumulate(options.expected_s)) < 0)
    quickest = np.maximum.accumulate(np.where(leads, np.arange(leads.size), 0))[fitting[first:] - 1]
    some, place = np.unique(quickest, return_inverse=True)
    longest_s = find_longest_useful_s(instance, bracket, stage, some)
    nodes, positions = [np.arange(first, held.size)], [quickest]
    listed, fits = quickest.size, fitting[first:]
    for number in np.flatnonzero(longest_s > options.expected_s[some]).tolist():
        own, seconds = int(some[number]), options.expected_s
        slower = np.flatnonzero((seconds >= seconds[own]) & (seconds < longest_s[number]))
        slower = slower[slower != own]
        rows = np.flatnonzero(place == number)
        counts = np.searchsorted(slower, fits[rows])
        listed += int(counts.sum())
        _require_few(_WAYS, listed, _MOST_PAIRS)
        nodes.append(np.repeat(first + rows, counts))
        positions += [slower[:count] for count in counts.tolist()]
    node, position = np.concatenate(nodes), np.concatenate(positions)
    by_node = np.argsort(node, kind="stable")
    return node[by_node], position[by_node]


def _list_undominated(options: StageOptions, fitting: IntArray) -> tuple[IntArray, IntArray]:
    """Return, by node, the options that no other that fits beats in both time and GPU-seconds paid."""
    nodes, positions = [], []
    kept, listed = np.empty(0, dtype=np.intp), 0
    for node, (before, after) in enumerate(zip([0, *fitting[:-1].tolist()], fitting.tolist(), strict=True)):
        if after > before:
            some = np.append(kept, np.arange(before, after))
            some = some[np.lexsort((options.busy_gpu_s[some], options.expected_s[some]))]
            least = np.minimum.accumulate(options.busy_gpu_s[some])
            kept = some[np.append(True, options.busy_gpu_s[some][1:] < least[:-1])]
        listed += kept.size
        _require_few(_WAYS, listed, _MOST_PAIRS)
        nodes.append(np.full(kept.size, node))
        positions.append(kept)
    return np.concatenate(nodes), np.concatenate(positions)


def draw_graph(instance: RubberBandInstance) -> DiGraph:
    """Draw the graph of each bracket by its number, of the options that can be best, without minimum charges."""
    drawn = []
    for number, chain in enumerate(state_chains(instance), start=1):
        costs = cost_steps(instance, chain, str(number))
        about = [{"instances": held} for held in chain.held[costs.group].tolist()]
        drawn.append((costs, about))
    return draw_layers(drawn)


def cost_steps(instance: RubberBandInstance, chain: Chain, name: str) -> PathCosts:
    """Return what steps cost, infinite for what is no option; sizes have a node for each option of some stage."""
    graph, layers = chain.graph, chain.graph.num_layers
    layer = np.repeat(np.arange(layers), np.diff(graph.first_option))
    # Options lie layer by layer, and within a layer by node: the first of each pair of them, and places after it.
    first = np.flatnonzero(np.diff(layer * graph.num_nodes + graph.node, prepend=-1))
    place = np.arange(graph.node.size) - np.repeat(first, np.diff(np.append(first, graph.node.size)))
    widths = np.zeros(graph.num_nodes, dtype=np.int64)
    np.maximum.at(widths, graph.node, place + 1)
    group = np.repeat(np.arange(widths.size), widths)
    run = np.full((2, layers, group.size), np.inf)
    run[:, layer, (np.cumsum(widths) - widths)[graph.node] + place] = graph.cost
    held = chain.held[group]
    # As the graph's costs: US dollars, then seconds.
    start, moves = (np.array(growth(instance, before, held)[::-1]) for before in (0, chain.held[:, None]))
    enter = np.repeat(moves[:, :, None, :], layers, axis=2)
    enter[:, :, 0, :] = start[:, None, :]
    least, limited = (0, 1) if instance.objective is Objective.COST else (1, 0)
    return PathCosts(
        name=name,
        labels=tuple(f"{count}.{number}" for number, count in enumerate(held.tolist(), start=1)),
        group=group,
        limits=(DEADLINE if instance.objective is Objective.COST else BUDGET,),
        run_value=run[least],
        run_consumption=run[limited][None],
        enter_value=enter[least],
        enter_consumption=enter[limited][None],
    )
