"""Paths through layered graphs within limits, by looking at every choice; for tiny problems, as a yardstick."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.errors import UnsupportedError
from optplan.schema import FloatArray, IntArray

#: Most choices that are looked at: a few arrays of this length, one for each limit among them, are the working set.
MAX_CHOICES = 4_000_000


def enumerate_choices(graphs: Sequence[PathCosts], most: FloatArray) -> tuple[tuple[IntArray, ...] | None, int]:
    """Find the choice of a path through each graph of least total value, by looking at all of them.

    Parameters
    ----------
    graphs
        What steps cost.
    most
        (L,) Up to which total consumption a choice is within each limit.

    Returns
    -------
    paths
        For each graph the column (E,) of its node in each layer; of equally good choices the first one, counting
        columns like digits. None where none is within the limits.
    count : int
        How many choices there are.

    Raises
    ------
    UnsupportedError
        When there are more than :data:`MAX_CHOICES` choices.
    """
    numbers = [len(graph.labels) ** len(graph.run_value) for graph in graphs]
    if math.prod(numbers) > MAX_CHOICES:
        raise UnsupportedError(
            f"enumeration looks at {MAX_CHOICES:,} choices at most and this problem has {math.prod(numbers):.3g}; "
            "choose a solver that does not look at each of them"
        )
    value, consumption = np.zeros(1), np.zeros((most.size, 1))
    for graph in graphs:
        path_value, path_consumption = _all_paths(graph)
        value = (value[:, None] + path_value).ravel()
        consumption = (consumption[:, :, None] + path_consumption[:, None]).reshape(len(consumption), -1)
    within = np.flatnonzero((consumption <= most[:, None]).all(axis=0))
    if not within.size:
        return None, value.size
    best = np.unravel_index(within[value[within].argmin()], numbers)
    shapes = [(len(graph.labels),) * len(graph.run_value) for graph in graphs]
    return tuple(np.array(np.unravel_index(*each)) for each in zip(best, shapes, strict=True)), value.size


def _all_paths(graph: PathCosts) -> tuple[FloatArray, FloatArray]:
    """Total value (N,) and consumption (L, N) of every path, in the order of their columns read as digits."""
    nodes = np.arange(len(graph.labels))
    value = graph.run_value[0] + graph.enter_value[graph.group, 0, nodes]
    consumption = graph.run_consumption[:, 0] + graph.enter_consumption[:, graph.group, 0, nodes]
    for layer in range(1, len(graph.run_value)):
        last = np.arange(value.size) % nodes.size
        left = graph.group[last]
        entered = last[:, None] != nodes
        value = (value[:, None] + graph.run_value[layer] + entered * graph.enter_value[left, layer]).ravel()
        steps = graph.run_consumption[:, None, layer] + entered * graph.enter_consumption[:, left, layer]
        consumption = (consumption[:, :, None] + steps).reshape(len(consumption), -1)
    return value, consumption
