"""RubberBand's layered graph for networkx: stages by instances held, a graph for each bracket."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.bracket_choice import isolate_brackets
from optplan.formulations.rubberband.models.bracket_graphs import bind_bracket, state_bracket
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
        costs = bind_bracket(alone, graph, 1.0, instance.objective).graphs[0]
        closed = np.where(graph.gpus > 0, costs.run_value, np.inf)
        about = [{"instances": held} for held in graph.held.tolist()]
        drawn.append((replace(costs, name=str(number), run_value=closed), about))
    return draw_layers(drawn)
