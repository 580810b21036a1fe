"""Small random held graphs, and the same problem solved by looking at every path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.held_graphs import HeldGraph

PathLister = Callable[[HeldGraph], tuple[list[tuple[int, ...]], FloatArray]]


@dataclass(frozen=True)
class SpellCharges:
    """Charges by hand: each spell at a node pays a missing rest of ``least`` layers, times the node's number + 1."""

    graph: HeldGraph
    least: int
    of_value: bool

    def settle(self, options: IntArray) -> FloatArray:
        """Return what whole paths pay: all is settled."""
        return self.charge(options)[0]

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what is settled by nodes that were left, and what is open at the last node."""
        nodes = self.graph.node[options]
        settled, open_ = np.zeros(len(options)), np.zeros(len(options))
        for row, path in enumerate(nodes):
            spell = 0
            for place, node in enumerate(path):
                spell += 1
                missing = 0.3 * max(0, self.least - spell) * (node + 1)
                if place + 1 == self.graph.num_layers or (place + 1 < path.size and path[place + 1] != node):
                    settled[row] += missing
                    spell = 0
                elif place + 1 == path.size:
                    open_[row] = missing
        kind = np.array([[1.0], [0.0]] if self.of_value else [[0.0], [1.0]])
        return kind * settled, kind * open_


@st.composite
def draw_held_graphs(draw: st.DrawFn) -> HeldGraph:
    """Draw up to 4 layers of up to 4 nodes with up to 2 options each, with and without waits."""
    value_unit, consumption_unit = draw(st.sampled_from([(1.0, 1.0), (1e-9, 1e6), (1e9, 1e-6)]))
    number = draw(st.sampled_from([st.integers(0, 5).map(float), st.sampled_from([0.0, 0.1, 0.7, 1.3, 2.2, 3.1, 5.9])]))
    nodes = draw(st.integers(1, 4))

    def numbers(count: int, unit: float) -> FloatArray:
        return np.array(draw(st.lists(number, min_size=count, max_size=count))) * unit

    # Where leaving more costs no more, labels at greater nodes dominate others.
    leave = np.array([numbers(nodes, value_unit), numbers(nodes, consumption_unit)])
    leave = np.sort(leave)[:, ::-1] if draw(st.booleans()) else leave
    enter = np.array([numbers(nodes, value_unit), numbers(nodes, consumption_unit)])
    # What depends on how far two nodes are apart.
    wait = np.sort(numbers(nodes, 1.0)) if draw(st.booleans()) else np.zeros(nodes)
    factor = np.array([numbers(nodes, value_unit), numbers(nodes, consumption_unit)])

    def grow(before: IntArray, after: IntArray) -> FloatArray:
        grown: FloatArray = leave[:, before] + enter[:, after] + factor[:, after] * wait[np.maximum(after - before, 0)]
        return grown

    layers = []
    for _ in range(draw(st.integers(1, 4))):
        node = np.array(draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=nodes + 2)))
        layers.append((node, numbers(node.size, value_unit), numbers(node.size, consumption_unit)))
    return HeldGraph.from_layers((numbers(nodes, value_unit), numbers(nodes, consumption_unit)), grow, layers)


def list_every_path(graph: HeldGraph) -> tuple[list[tuple[int, ...]], FloatArray]:
    """Return every path as options, and its (consumption, value), added up step by step."""
    layers = [range(int(graph.first_option[j]), int(graph.first_option[j + 1])) for j in range(graph.num_layers)]
    paths, sums = list(product(*layers)), []
    for path in paths:
        node = int(graph.node[path[0]])
        cost = graph.start[:, node]
        for option in path:
            to = int(graph.node[option])
            if to > node:
                cost = cost + graph.growth(np.array(node), np.array(to))
            cost = cost + graph.cost[:, option]
            node = to
        sums.append((float(cost[1]), float(cost[0])))
    return paths, np.array(sums)


@pytest.fixture(scope="session")
def held_graphs() -> st.SearchStrategy[HeldGraph]:
    """Return the strategy for small random graphs."""
    return draw_held_graphs()


@pytest.fixture(scope="session")
def every_path() -> PathLister:
    """Return the function that looks at every path."""
    return list_every_path


@pytest.fixture(scope="session")
def spell_charges() -> type[SpellCharges]:
    """Return charges on short spells."""
    return SpellCharges
