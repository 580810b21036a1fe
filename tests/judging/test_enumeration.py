"""The judge's enumeration: the least value within limits among all choices of one path through each graph."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import PathCosts
from optplan.contracts.judgement import UnlistedError
from optplan.judging import enumeration
from optplan.judging.enumeration import least_divided, least_path, least_within
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from tests.one_limit import cost_of_one_limit


def paths_through(graph: PathCosts) -> list[tuple[float, FloatArray]]:
    """List value and consumptions of every path, step by step."""
    totals = []
    for path in itertools.product(range(len(graph.labels)), repeat=len(graph.run_value)):
        value, consumption = 0.0, np.zeros(len(graph.limits))
        for layer, node in enumerate(path):
            value += graph.run_value[layer, node]
            consumption += graph.run_consumption[:, layer, node]
            left = node if layer == 0 else path[layer - 1]
            if layer == 0 or node != left:
                value += graph.enter_value[graph.group[left], layer, node]
                consumption += graph.enter_consumption[:, graph.group[left], layer, node]
        totals.append((value, consumption))
    return totals


@st.composite
def families(draw: st.DrawFn) -> list[PathCosts]:
    """Draw graphs with the same limits, of small whole costs: full of ties and zeros, and exact in floating point."""
    limits = draw(st.integers(1, 2))
    graphs = []
    for number in range(draw(st.integers(1, 3))):
        layers, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        groups = draw(st.integers(1, 2))
        run, enter = (layers, nodes), (groups, layers, nodes)
        costs = [
            np.array(draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)), dtype=float).reshape(shape)
            for shape in (run, (limits, *run), enter, (limits, *enter))
            for size in (int(np.prod(shape)),)
        ]
        group = np.sort(np.arange(nodes) % groups)
        labels = tuple(str(node) for node in range(nodes))
        graphs.append(PathCosts(f"drawn {number}", labels, group, ("a", "b")[:limits], *costs))
    return graphs


@pytest.mark.slow
@pytest.mark.slow
@settings(max_examples=300)
@given(
    drawn=families(),
    prices=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=3, max_size=3),
    allowance=st.integers(0, 12).map(lambda n: n + 0.25),
    amounts=st.lists(st.integers(0, 20), min_size=2, max_size=2),
)
def test_least_within_agrees_with_all_combinations(
    drawn: list[PathCosts], prices: list[float], allowance: float, amounts: list[int]
) -> None:
    """The least value within the limits of all combinations whose cost is within the allowance, or infinity."""
    weights = np.array(prices[: 1 + len(drawn[0].limits)])
    limits = np.array(amounts[: weights.size - 1], dtype=float)
    per_graph = [paths_through(graph) for graph in drawn]
    least = sum(min(float(weights @ [value, *use]) for value, use in totals) for totals in per_graph)
    best = float("inf")
    for combination in itertools.product(*per_graph):
        value, use = sum(v for v, _ in combination), np.sum([u for _, u in combination], axis=0)
        if float(weights @ [value, *use]) <= least + allowance and (use <= limits).all():
            best = min(best, value)
    assert least_within(drawn, weights, allowance, limits) == best


@pytest.mark.slow
@settings(max_examples=300)
@given(
    drawn=families(),
    prices=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=2, max_size=2), min_size=1, max_size=3),
    below=st.integers(0, 20).map(lambda n: n + 0.25),
    amounts=st.lists(st.integers(0, 20), min_size=2, max_size=2),
    first=st.permutations([0, 1, 2]),
    depth=st.integers(0, 3),
)
def test_whatever_is_divided_the_least_is_that_of_all_combinations(
    drawn: list[PathCosts],
    prices: list[list[float]],
    below: float,
    amounts: list[int],
    first: list[int],
    depth: int,
) -> None:
    """What keeps the limits and is below a value lies below its ceiling at all prices, so nothing of it is lost."""
    limits = np.array(amounts[: len(drawn[0].limits)], dtype=float)
    weights = np.array([[1.0, *each[: limits.size]] for each in prices])
    best = float("inf")
    for combination in itertools.product(*(paths_through(graph) for graph in drawn)):
        value, use = sum(v for v, _ in combination), np.sum([u for _, u in combination], axis=0)
        if (use <= limits).all():
            best = min(best, value)
    divided = [graph for graph in first if graph < len(drawn)][:depth]
    found = least_divided(drawn, divided, weights, below + weights[:, 1:] @ limits, limits, Stopwatch())
    assert found == best if best <= below else found >= best


def test_more_parts_than_are_looked_at_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4 x 4 x 4 choices all are left by ceilings that are high enough: 1 + 4 + 16 + 64 parts."""
    graphs = [make_choice(f"c{n}", np.arange(4.0), 3.0 - np.arange(4.0)) for n in range(3)]
    asked = (graphs, [0, 1, 2], np.eye(2)[:1], np.array([99.0]), np.array([99.0]), Stopwatch())
    monkeypatch.setattr(enumeration, "_MOST_PARTS", 85)
    assert least_divided(*asked) == 0.0
    monkeypatch.setattr(enumeration, "_MOST_PARTS", 84)
    with pytest.raises(UnlistedError, match="more plans than are listed"):
        least_divided(*asked)


def test_least_within_takes_a_choice_exactly_at_the_budget() -> None:
    """0.1 + 0.2 is a little more than 0.3 in floating point, and keeps a budget of 0.3."""
    graph = cost_of_one_limit(
        "a", [1, 2], *(np.array([row]) for row in ([5.0, 1.0], [0.0, 0.1], [0.0, 0.0], [0.0, 0.0]))
    )
    other = cost_of_one_limit("b", [1], *(np.array([[cost]]) for cost in (1.0, 0.2, 0.0, 0.0)))
    for budget, least in ((0.3, 2.0), (0.29, 6.0), (0.1, float("inf"))):
        assert least_within([graph, other], np.eye(2)[0], 10.0, np.array([budget]) * (1 + 1e-9)) == least


def test_the_least_path_by_hand() -> None:
    """Epochs cost (1, 5) and (9, 2) at the two nodes, entering 1 and later 3.

    Changing: 1 + 1, then 3 + 2, is 7. Staying at the second node: 1 + 5 + 2 = 8; at the first: 1 + 1 + 9 = 11.
    """
    costs = cost_of_one_limit(
        name="hand",
        nodes=[1, 2],
        run_value=np.array([[1.0, 5.0], [9.0, 2.0]]),
        run_consumption=np.zeros((2, 2)),
        enter_value=np.array([[1.0, 1.0], [3.0, 3.0]]),
        enter_consumption=np.zeros((2, 2)),
    )
    assert least_path(costs, np.eye(2)[0]) == 7.0


def test_the_longest_list_is_joined_last_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty paths of one graph and two of each of five others leave 2^5 totals to keep, whichever comes first."""
    monkeypatch.setattr(enumeration, "_MOST_NUMBERS", 150)
    spread = np.arange(40.0)
    long = make_choice("long", 2.0 * spread, 100.0 - spread)
    short = [make_choice(f"c{n}", np.array([0.0, 2.0**-n]), np.array([2.0 ** (1 - n), 0.0])) for n in range(1, 6)]
    for graphs in ([long, *short], [*short, long]):
        # The long graph takes 62 for 76, and leaves 0.4375 = 1 / 4 + 1 / 8 + 1 / 16 for the last three others.
        assert least_within(graphs, np.eye(2)[0], 1000.0, np.array([62.4375])) == 76.0 + 0.5 + 0.25


def make_choice(name: str, value: FloatArray, consumption: FloatArray) -> PathCosts:
    """Make a graph of one layer, whose nodes are its paths."""
    widths, entries = list(range(1, value.size + 1)), np.zeros((1, value.size))
    return cost_of_one_limit(name, widths, value[None], consumption[None], entries, entries)
