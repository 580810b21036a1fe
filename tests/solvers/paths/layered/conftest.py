"""Small random graphs, and the same problem solved by looking at every path."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from optplan.solvers.paths.batches import FloatArray
from optplan.solvers.paths.layered import LayeredGraphs

PathLister = Callable[[LayeredGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]
TotalLister = Callable[[LayeredGraphs], FloatArray]


@st.composite
def draw_small_graphs(draw: DrawFn) -> LayeredGraphs:
    """Draw up to 3 graphs of up to 3 layers and 3 nodes; whole numbers make ties and exact budgets likely."""
    whole = draw(st.booleans())
    value_unit, consumption_unit = draw(st.sampled_from([(1.0, 1.0), (1e-9, 1e6), (1e9, 1e-6)]))
    number = st.integers(0, 5).map(float) if whole else st.sampled_from([0.0, 0.1, 0.7, 1.3, 2.2, 3.1, np.pi, 5.9])

    def table(rows: int, columns: int, unit: float) -> FloatArray:
        cells = draw(st.lists(number, min_size=rows * columns, max_size=rows * columns))
        return np.array(cells).reshape(rows, columns) * unit

    values, consumptions, switch_values, switch_consumptions = [], [], [], []
    for _ in range(draw(st.integers(1, 3))):
        layers, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        value = table(layers, nodes, value_unit)
        if nodes > 1 and draw(st.booleans()):
            value[draw(st.integers(0, layers - 1)), draw(st.integers(0, nodes - 1))] = np.inf
        switch_layers = draw(st.sampled_from([1, layers]))
        has_switches = draw(st.booleans())
        values.append(value)
        consumptions.append(table(layers, nodes, consumption_unit))
        switch_values.append(table(switch_layers, nodes, value_unit * has_switches))
        switch_consumptions.append(table(switch_layers, nodes, consumption_unit * has_switches))
    return LayeredGraphs.from_lists(values, consumptions, switch_values, switch_consumptions)


def list_every_path(graphs: LayeredGraphs, graph: int) -> tuple[list[tuple[int, ...]], FloatArray]:
    """Return every allowed path of a graph, and its (consumption, value), added up node by node."""
    rows = range(int(graphs.first_row[graph]), int(graphs.first_row[graph + 1]))
    paths, sums = [], []
    for path in product(range(graphs.num_nodes), repeat=len(rows)):
        value = consumption = 0.0
        previous = -1
        for row, node in zip(rows, path, strict=True):
            value += float(graphs.value[row, node])
            consumption += float(graphs.consumption[row, node])
            if node != previous:
                value += float(graphs.switch_value[graphs.switch_row[row], node])
                consumption += float(graphs.switch_consumption[graphs.switch_row[row], node])
            previous = node
        if value < np.inf:
            paths.append(path)
            sums.append((consumption, value))
    return paths, np.array(sums)


def list_every_total(graphs: LayeredGraphs) -> FloatArray:
    """Return the (consumption, value) of every choice of one path per graph."""
    totals = np.zeros((1, 2))
    for graph in range(graphs.num_graphs):
        _, sums = list_every_path(graphs, graph)
        totals = np.unique((totals[:, None] + sums[None]).reshape(-1, 2), axis=0)
    return totals


@pytest.fixture(scope="session")
def small_graphs() -> SearchStrategy[LayeredGraphs]:
    """Return the strategy for small random graphs."""
    return draw_small_graphs()


@pytest.fixture(scope="session")
def list_paths() -> PathLister:
    """Return the function that lists every path of one graph."""
    return list_every_path


@pytest.fixture(scope="session")
def list_totals() -> TotalLister:
    """Return the function that lists the totals of every choice of paths."""
    return list_every_total


def make_training_classes(seed: int, epochs: tuple[int, ...], widths: int) -> LayeredGraphs:
    """Make classes like those of BOA: noisy speedups that drift over the epochs and dip where a node is full.

    Values are lambda * (X / s(k) + r [switch]), consumptions k times that, lambda such that the load is about 75.
    """
    rng = np.random.default_rng(seed)
    width = np.arange(1.0, widths + 1.0)
    sizes_s = rng.permutation(np.geomspace(40.0, 6000.0, len(epochs)))
    load = 75.0 * rng.dirichlet(np.full(len(epochs), 2.0))
    times, switches = [], []
    for count, size_s, share in zip(epochs, sizes_s, load, strict=True):
        exponent = np.linspace(rng.uniform(0.4, 0.6), rng.uniform(0.8, 0.95), count)[:, None]
        dip = rng.uniform(0.05, 0.35) * (width > 4) + rng.uniform(0.0, 0.2) * (width > 16)
        speedup = width**exponent * (1.0 - dip * np.exp(-width / 40.0)) / (1.0 + (width / 200.0) ** 2)
        speedup *= np.exp(rng.normal(0.0, 0.03, widths)) * np.exp(rng.normal(0.0, 0.02, (count, widths)))
        epoch_s = size_s * np.exp(rng.normal(0.0, 0.02, count))
        rate = share / epoch_s.sum()
        times.append(rate * epoch_s[:, None] * speedup[:, :1] / speedup)
        switches.append(np.full(widths, rate * rng.uniform(25.0, 250.0)))
    return LayeredGraphs.from_lists(
        times, [time * width for time in times], switches, [switch * width for switch in switches]
    )


@pytest.fixture(scope="session")
def training_classes() -> Callable[[int, tuple[int, ...], int], LayeredGraphs]:
    """Return the maker of realistic instances."""
    return make_training_classes
