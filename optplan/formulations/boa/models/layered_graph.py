"""BOA's layered graph for networkx: epochs by widths, a graph for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.solvers.layered_graphs import draw_layers

if TYPE_CHECKING:
    from networkx import DiGraph


def draw_graph(instance: BoaInstance) -> DiGraph:
    """Draw the graph of each class: ``value`` is in seconds of mean completion time, ``budget`` in its unit.

    Nodes have ``gpus`` and ``gpu_type``.

    Raises
    ------
    UnsupportedError
        When widths are real numbers.
    """
    if instance.problem is Problem.CONTINUOUS:
        raise UnsupportedError("the continuous problem has no layered graph: its widths are real numbers")
    return draw_layers((costs, _describe(instance, costs.name)) for costs in cost_steps(instance))


def _describe(instance: BoaInstance, name: str) -> list[dict[str, object]]:
    options = instance.options(name)
    types = (options.gpu_types[group] for group in options.group.tolist())
    return [{"gpus": k, "gpu_type": h} for k, h in zip(options.widths.tolist(), types, strict=True)]
