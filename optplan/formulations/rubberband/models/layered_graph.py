"""RubberBand's layered graph for networkx: layers are stages, nodes are instances held with an allocation.

It is the graph that the exact solver searches (:mod:`optplan.formulations.rubberband.exact.chains`). Changing the
number held costs growth, which depends on both numbers; so the nodes of one number are a group. Minimum charges depend
on an instance's whole life and are outside the graph, so that what is least in it is a lower bound on the true cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.chains import Chain, state_chains
from optplan.formulations.rubberband.exact.costs import growth
from optplan.solvers.layered_graphs import draw_layers

if TYPE_CHECKING:
    from networkx import DiGraph


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
