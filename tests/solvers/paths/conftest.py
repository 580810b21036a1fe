"""Small random graphs, of one limit and of several, and the same problems solved by looking at every path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray
from optplan.solvers.paths.switching import LinkedGraphs
from tests.one_limit import cost_of_one_limit

State = Callable[..., LinkedGraphs]
Tables = Callable[[LinkedGraphs, int], tuple[FloatArray, FloatArray, FloatArray, FloatArray]]
PathLister = Callable[[LinkedGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]
TotalLister = Callable[[LinkedGraphs], FloatArray]
Maker = Callable[..., tuple[PathCosts, ...]]
Lister = Callable[[PathCosts], FloatArray]
MixedOptimum = Callable[[Sequence[FloatArray], FloatArray], float]


def state_graphs(
    values: Sequence[ArrayLike],
    consumptions: Sequence[ArrayLike],
    switch_values: Sequence[ArrayLike] | float = 0.0,
    switch_consumptions: Sequence[ArrayLike] | float = 0.0,
) -> LinkedGraphs:
    """State graphs of one limit and one group: (E, K) arrays for each, switch costs that broadcast to these."""
    costs = []
    for number, (value, consumption) in enumerate(zip(values, consumptions, strict=True)):
        table = np.asarray(value, dtype=float)
        switches = (
            np.broadcast_to(np.asarray(each if isinstance(each, float) else each[number], dtype=float), table.shape)
            for each in (switch_values, switch_consumptions)
        )
        used = np.asarray(consumption, dtype=float)
        costs.append(cost_of_one_limit(f"g{number}", range(table.shape[1]), table, used, *switches))
    return LinkedGraphs.from_costs(costs)


@pytest.fixture(scope="session")
def state() -> State:
    """Return the function that states graphs of one limit."""
    return state_graphs


@pytest.fixture(scope="session")
def tables() -> Tables:
    """Return the function that reads a graph's numbers back."""
    return list_tables


@st.composite
def draw_small_graphs(draw: DrawFn) -> LinkedGraphs:
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
    return state_graphs(values, consumptions, switch_values, switch_consumptions)


def list_tables(graphs: LinkedGraphs, graph: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return (E, K) value and consumption of a graph's nodes, and what entering these costs of both."""
    position = int(graphs.position_of[graph])
    rows = graphs.starts[: graphs.lengths[position]] + position
    entries = (
        np.full(rows.size, position)
        if len(graphs.enter_value) != len(graphs.run_value) or graphs.num_layers == 1
        else rows
    )
    nodes = graphs.columns[position] >= 0
    return (
        np.where(graphs.closed, np.inf, graphs.run_value)[rows][:, nodes],
        graphs.run_consumption[0, rows][:, nodes],
        graphs.enter_value[entries, 0][:, nodes],
        graphs.enter_consumption[0, entries, 0][:, nodes],
    )


def list_every_path(graphs: LinkedGraphs, graph: int) -> tuple[list[tuple[int, ...]], FloatArray]:
    """Return every allowed path of a graph, and its (consumption, value), added up node by node."""
    tables = list_tables(graphs, graph)
    layers, nodes = tables[0].shape
    paths, sums = [], []
    for path in product(range(nodes), repeat=layers):
        value = consumption = 0.0
        previous = -1
        for layer, node in enumerate(path):
            own = [float(table[layer, node]) for table in tables]
            value += own[0]
            consumption += own[1]
            if node != previous:
                value += own[2]
                consumption += own[3]
            previous = node
        if value < np.inf:
            paths.append(path)
            sums.append((consumption, value))
    return paths, np.array(sums)


def list_every_total(graphs: LinkedGraphs) -> FloatArray:
    """Return the (consumption, value) of every choice of one path per graph."""
    totals = np.zeros((1, 2))
    for graph in range(graphs.num_graphs):
        _, sums = list_every_path(graphs, graph)
        totals = np.unique((totals[:, None] + sums[None]).reshape(-1, 2), axis=0)
    return totals


@pytest.fixture(scope="session")
def small_graphs() -> SearchStrategy[LinkedGraphs]:
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


def make_training_classes(seed: int, epochs: tuple[int, ...], widths: int) -> LinkedGraphs:
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
    return state_graphs(times, [time * width for time in times], switches, [switch * width for switch in switches])


@pytest.fixture(scope="session")
def training_classes() -> Callable[[int, tuple[int, ...], int], LinkedGraphs]:
    """Return the maker of realistic instances."""
    return make_training_classes


def tabulate_paths(graph: PathCosts) -> FloatArray:
    """Return (paths, 1 + L) the value and the consumptions of every path of a graph, added up step by step."""
    layers, nodes = graph.run_value.shape
    rows = []
    for path in product(range(nodes), repeat=layers):
        totals = np.zeros(1 + len(graph.limits))
        previous = path[0]
        for layer, node in enumerate(path):
            totals[0] += graph.run_value[layer, node]
            totals[1:] += graph.run_consumption[:, layer, node]
            if layer == 0 or node != previous:
                group = graph.group[previous]
                totals[0] += graph.enter_value[group, layer, node]
                totals[1:] += graph.enter_consumption[:, group, layer, node]
            previous = node
        rows.append(totals)
    return np.array(rows)


def find_pure_optimum(tables: Sequence[FloatArray], limits: FloatArray) -> float:
    """Return the least total value of one path per graph within the limits; +inf where none keeps them."""
    totals = tables[0]
    for table in tables[1:]:
        totals = np.unique((totals[:, None] + table[None]).reshape(-1, totals.shape[1]), axis=0)
    fits = np.all(totals[:, 1:] <= limits * (1.0 + 1e-9), axis=1)
    return float(totals[fits, 0].min()) if fits.any() else math.inf


def find_mixed_optimum(
    tables: Sequence[FloatArray], limits: FloatArray, objective: int = 0, *, factor: bool = False
) -> float:
    """Return the optimum of the linear program over all paths; +inf where it is infeasible.

    ``objective`` 0 is the value, l the consumption of limit l (which then has no limit itself); with ``factor`` the
    limits are multiplied by a number that is to be least.
    """
    graph = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    stacked = np.concatenate(tables)
    fractions = (graph == np.arange(len(tables))[:, None]).astype(float)
    kept = [limit for limit in range(limits.size) if limit != objective - 1]
    entries = (stacked[:, 1:] / limits).T[kept]
    cost, right = stacked[:, objective], np.ones(len(kept))
    if factor:
        fractions = np.concatenate([fractions, np.zeros((len(tables), 1))], axis=1)
        entries = np.concatenate([entries, -np.ones((len(kept), 1))], axis=1)
        cost, right = np.append(np.zeros(len(stacked)), 1.0), np.zeros(len(kept))
    scale = float(np.abs(cost).max()) or 1.0
    found = linprog(cost / scale, entries, right, fractions, np.ones(len(tables)), method="highs-ds")
    return float(found.fun) * scale if found.status == 0 else math.inf


def make_random_costs(seed: int, *, grouped: bool, whole: bool = False) -> tuple[PathCosts, ...]:
    """Make 1 to 3 graphs of 1 to 3 layers and 2 to 4 nodes under 1 to 3 limits; whole numbers make ties likely."""
    rng = np.random.default_rng(seed)
    num_limits = int(rng.integers(1, 4))
    graphs = []

    def draw(*shape: int) -> FloatArray:
        numbers = rng.integers(0, 6, shape).astype(float) if whole else rng.uniform(0.1, 3.0, shape)
        return np.asarray(numbers)

    for number in range(int(rng.integers(1, 4))):
        layers, nodes = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        groups = int(rng.integers(2, 4)) if grouped else 1
        costly = float(rng.random() < 0.8)
        graphs.append(
            PathCosts(
                name=f"g{number}",
                labels=tuple(str(node) for node in range(nodes)),
                group=rng.integers(0, groups, nodes),
                limits=tuple(f"limit{limit}" for limit in range(num_limits)),
                run_value=draw(layers, nodes),
                run_consumption=draw(num_limits, layers, nodes),
                enter_value=costly * draw(groups, layers, nodes),
                enter_consumption=costly * draw(num_limits, groups, layers, nodes),
            )
        )
    return tuple(graphs)


def choose_limits(seed: int, tables: Sequence[FloatArray]) -> FloatArray:
    """Return limits between what is never and what is always enough."""
    rng = np.random.default_rng(seed + 10_000)
    least = sum(table[:, 1:].min(axis=0) for table in tables)
    most = sum(table[:, 1:].max(axis=0) for table in tables)
    return np.asarray(np.maximum(least + rng.uniform(-0.02, 0.6, len(least)) * (most - least), 0.5))


@st.composite
def draw_linked(draw: DrawFn) -> tuple[tuple[PathCosts, ...], FloatArray]:
    """Draw graphs and limits that some mixture may or may not keep."""
    seed = draw(st.integers(0, 10_000))
    graphs = make_random_costs(seed, grouped=draw(st.booleans()), whole=draw(st.booleans()))
    return graphs, choose_limits(seed, [tabulate_paths(graph) for graph in graphs])


@pytest.fixture(scope="session")
def linked_cases() -> SearchStrategy[tuple[tuple[PathCosts, ...], FloatArray]]:
    """Return the strategy for small random graphs with limits."""
    return draw_linked()


@pytest.fixture(scope="session")
def random_costs() -> Maker:
    """Return the maker of small random graphs."""
    return make_random_costs


@pytest.fixture(scope="session")
def random_limits() -> Callable[[int, Sequence[FloatArray]], FloatArray]:
    """Return the maker of limits for them."""
    return choose_limits


@pytest.fixture(scope="session")
def path_table() -> Lister:
    """Return the function that lists every path of one graph."""
    return tabulate_paths


@pytest.fixture(scope="session")
def pure_optimum() -> MixedOptimum:
    """Return the function that finds the best pure plan by looking at all of them."""
    return find_pure_optimum


@pytest.fixture(scope="session")
def mixed_optimum() -> Callable[..., float]:
    """Return the function that solves the linear program over all paths."""
    return find_mixed_optimum


def make_one_layer(name: str, value: Sequence[float], *consumptions: Sequence[float]) -> PathCosts:
    """Make a graph of one layer without entry costs."""
    nodes, limits = len(value), len(consumptions)
    return PathCosts(
        name=name,
        labels=tuple(str(node) for node in range(nodes)),
        group=np.zeros(nodes, dtype=np.int64),
        limits=tuple(f"limit{limit}" for limit in range(limits)),
        run_value=np.array([value], dtype=float),
        run_consumption=np.array(consumptions, dtype=float)[:, None],
        enter_value=np.zeros((1, 1, nodes)),
        enter_consumption=np.zeros((limits, 1, 1, nodes)),
    )


@pytest.fixture(scope="session")
def one_layer() -> Callable[..., PathCosts]:
    """Return the maker of graphs of one layer."""
    return make_one_layer
