"""Blocks, rows and levels: least sums and lists of every block, and optima, against looking at every path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts.judgement import PathCosts
from optplan.progress import Event, Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.bounds import LinkedShortfall, maximise_bound
from optplan.solvers.paths.closing import solve_pure
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import keep_limits
from optplan.solvers.paths.levels.blocks import BlockGraph, layer_blocks
from optplan.solvers.paths.levels.memory import Memory
from optplan.solvers.paths.levels.segments import BlockSearch
from optplan.solvers.paths.levels.sieve import Sieve
from optplan.solvers.paths.switching import LinkedGraphs

Maker = Callable[..., tuple[PathCosts, ...]]
SEEDS = st.integers(0, 10_000)


def draw_kinds(seed: int, graphs: tuple[PathCosts, ...]) -> list[IntArray]:
    """Return kinds of the nodes: at least two in all graphs together."""
    rng = np.random.default_rng(seed + 20_000)
    kinds = [rng.integers(0, 3, graph.group.size) for graph in graphs]
    kinds[0][:2] = 0, 1
    return kinds


def visit(graph: BlockGraph) -> IntArray:
    """Return (paths,) the kinds that every path visits, in the order of ``tabulate_paths``."""
    return np.array(
        [
            np.bitwise_or.reduce(1 << graph.kind[list(path)])
            for path in product(range(graph.kind.size), repeat=graph.num_layers)
        ]
    )


@settings(max_examples=60)
@given(seed=SEEDS, hubs=st.booleans())
def test_blocks_have_the_least_and_all_of_their_paths(
    random_costs: Maker, path_table: Callable[[PathCosts], FloatArray], seed: int, hubs: bool
) -> None:
    """Sweeps find the least sum of each block, lists have all of its paths that rows leave, with their nodes."""
    rng = np.random.default_rng(seed)
    costs = random_costs(seed, hubs=hubs)
    graphs = layer_blocks(costs, draw_kinds(seed, costs))
    assert graphs is not None
    for each, graph in zip(costs, graphs, strict=True):
        sums, visited = path_table(each), visit(graph)
        weights = rng.uniform(0.0, 1.0, (2, sums.shape[1]))
        least, found, nodes = graph.sweep(weights)
        for block in range(1, graph.num_sets + 1):
            own = sums[visited == block]
            assert least[:, block - 1] == pytest.approx((own @ weights.T).min(axis=0, initial=np.inf), rel=1e-12)
            if not len(own):
                continue
            assert graph.add_up(nodes[:, block - 1]) == pytest.approx(found[:, block - 1], rel=1e-12)
            assert (found[:, block - 1] * weights).sum(axis=1) == pytest.approx(least[:, block - 1], rel=1e-12)
            most = least[:, block - 1] * rng.uniform(1.0 + 1e-9, 1.5, 2)
            listed = BlockSearch(graph, block).list_paths(weights, most, Effort())
            expected = own[(own @ weights.T <= most).all(axis=1)]
            # Leaving a node to enter it at once is no path of its own, so there are as many as there are paths.
            assert len(listed.sums) == len(expected)
            assert np.sort(listed.sums @ [1.0, *weights[0, 1:]]) == pytest.approx(
                np.sort(expected @ [1.0, *weights[0, 1:]]), rel=1e-12
            )
            for place in range(len(listed.sums)):
                assert graph.add_up(listed.trace(place)[None])[0] == pytest.approx(listed.sums[place], rel=1e-12)


@settings(max_examples=80)
@given(seed=SEEDS, hubs=st.booleans(), whole=st.booleans())
def test_levels_find_the_optimum(
    random_costs: Maker,
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    pure_optimum: Callable[..., float],
    seed: int,
    hubs: bool,
    whole: bool,
) -> None:
    """Levels end with the least value of all plans as bound and as value, ties and forbidden nodes included."""
    costs = random_costs(seed, hubs=hubs, whole=whole)
    tables = [path_table(each) for each in costs]
    limits = random_limits(seed, tables)
    expected = pure_optimum(tables, limits)
    graphs = LinkedGraphs.from_costs(costs, limits)
    found = maximise_bound(graphs)
    blocks = layer_blocks(costs, draw_kinds(seed, costs))
    if isinstance(found, LinkedShortfall) or math.isinf(expected) or not found.bound > 0.0:
        return
    assert blocks is not None
    sieve = Sieve(blocks, limits, found.bound, found.multipliers, Effort())
    sieve.run(math.inf, 0.0)
    if expected > 2.5 * found.bound:  # further than levels go
        assert sieve.bound <= expected
        return
    assert sieve.value == pytest.approx(expected, rel=1e-9)
    assert sieve.bound == pytest.approx(expected, rel=1e-9)
    assert sieve.plan is not None
    sums = sum(graph.add_up(nodes[None])[0] for graph, nodes in zip(blocks, sieve.plan, strict=True))
    assert keep_limits(np.asarray(sums)[1:], limits)


def test_a_level_far_too_high_finds_the_optimum(
    random_costs: Maker,
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    pure_optimum: Callable[..., float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first plan found closes no part of a level in which a limit is nearly used up, and better plans are."""
    monkeypatch.setattr("optplan.solvers.paths.levels.sieve._FIRST", 1.0)
    monkeypatch.setattr("optplan.solvers.paths.levels.board._FEW_PATHS", 0)
    tried = 0
    for seed in range(20):
        costs = random_costs(seed, hubs=False)
        tables = [path_table(each) for each in costs]
        limits = random_limits(seed, tables)
        expected, blocks = pure_optimum(tables, limits), layer_blocks(costs, draw_kinds(seed, costs))
        found = maximise_bound(LinkedGraphs.from_costs(costs, limits))
        assert blocks is not None
        if isinstance(found, LinkedShortfall) or not 0.0 < expected < 2.0 * found.bound:
            continue
        sieve = Sieve(blocks, limits, found.bound, found.multipliers, Effort())
        sieve.run(math.inf, 0.0)
        assert sieve.value == pytest.approx(expected, rel=1e-9)
        tried += 1
    assert tried > 10


def test_forbidden_nodes_are_in_no_plan(random_costs: Maker) -> None:
    """A node whose value is infinite is avoided, and lies in a block of its own that has no path worth a look."""
    costs = random_costs(5, hubs=False)
    first = costs[0]
    value = first.run_value.copy()
    value[:, 0] = np.inf
    changed = PathCosts(**{**vars(first), "run_value": value})
    graphs = layer_blocks([changed], [np.arange(first.group.size) % 2])
    assert graphs is not None
    least, _, nodes = graphs[0].sweep(np.eye(1 + len(first.limits))[:1])
    assert (nodes[0, least[0].argmin()] != 0).all()


def test_kinds_that_are_too_many_or_none_are_left_to_others(random_costs: Maker) -> None:
    """One kind divides nothing; more than four have too many sets."""
    costs = random_costs(1, hubs=False)
    assert layer_blocks(costs, [np.zeros(each.group.size, dtype=np.intp) for each in costs]) is None
    assert layer_blocks(costs, [np.full(each.group.size, 4) for each in costs]) is None


@pytest.mark.parametrize(
    "most",
    [
        ("board._MOST_TOTALS", 1),
        ("board._MOST_LISTS", 2),
        ("sieve._MORE_LABELS", (1,)),
    ],
)
def test_levels_that_are_too_large_leave_the_rest_to_branching(
    random_costs: Maker,
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    pure_optimum: Callable[..., float],
    monkeypatch: pytest.MonkeyPatch,
    most: tuple[str, object],
) -> None:
    """Whatever count ends the levels, the optimum is proven all the same."""
    monkeypatch.setattr(f"optplan.solvers.paths.levels.{most[0]}", most[1])
    monkeypatch.setattr("optplan.solvers.paths.levels.sieve._LABELS", ((1,),))
    monkeypatch.setattr("optplan.solvers.paths.levels.board._FEW_PATHS", 0)
    for step in ("_try_choices", "_enumerate_all"):
        monkeypatch.setattr(f"optplan.solvers.paths.closing._Closing.{step}", lambda _: None)
    solved = 0
    for seed in range(12):
        costs = random_costs(seed, hubs=False)
        tables = [path_table(each) for each in costs]
        limits = random_limits(seed, tables)
        expected = pure_optimum(tables, limits)
        kinds = draw_kinds(seed, costs)
        blocks = partial(layer_blocks, costs, kinds)
        found = solve_pure(LinkedGraphs.from_costs(costs, limits), gap=1e-9, blocks=blocks)
        if isinstance(found, LinkedShortfall) or math.isinf(expected):
            continue
        solved += found.branches > 0
        assert found.paths is not None
        assert found.paths.total_value == pytest.approx(expected, rel=1e-8)
        assert found.bound == pytest.approx(expected, rel=1e-8)
    assert solved >= 1


def test_time_ends_levels_with_what_is_known(random_costs: Maker) -> None:
    """A stopwatch that has run out raises at the first list; the listener has heard of every level before."""
    costs = random_costs(8, hubs=False)
    kinds = draw_kinds(8, costs)
    limits = np.full(len(costs[0].limits), 100.0)
    blocks = layer_blocks(costs, kinds)
    assert blocks is not None
    events: list[Event] = []
    sieve = Sieve(blocks, limits, 1e-3, np.zeros(limits.size), Effort(Stopwatch(None, events.append)))
    sieve.run(math.inf, 0.0)
    assert [event.stage for event in events] == ["levels"] * len(events)
    assert len(events) > 3
    with pytest.raises(OutOfEffortError, match="time"):
        Sieve(blocks, limits, 1e-3, np.zeros(limits.size), Effort(Stopwatch(0.0)))


@pytest.mark.parametrize("too_bold", [False, True])
def test_problems_with_graphs_in_common_are_solved_as_if_alone(
    random_costs: Maker,
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    pure_optimum: Callable[..., float],
    monkeypatch: pytest.MonkeyPatch,
    too_bold: bool,
) -> None:
    """With rows, plans and paths of earlier problems optima are the same, also after levels that take too much work."""
    for step in ("_try_choices", "_enumerate_all"):
        monkeypatch.setattr(f"optplan.solvers.paths.closing._Closing.{step}", lambda _: None)
    for name, value in {"_BOLD": 0.8, "_BOLD_WORK": 0.0, "_MOST_WORK": 3_000.0}.items() if too_bold else ():
        monkeypatch.setattr(f"optplan.solvers.paths.levels.sieve.{name}", value)
    by_rows = kept = 0
    for seed in range(5) if too_bold else range(5, 13):
        costs = random_costs(seed, hubs=False)
        limits = random_limits(seed, [path_table(each) for each in costs])
        kinds, memory, rng = draw_kinds(seed, costs), Memory(), np.random.default_rng(seed)
        for number in [-1, *range(len(costs)), *range(len(costs))]:
            forced = list(costs)
            if number >= 0:
                values = costs[number].run_value.copy()
                values[rng.integers(len(values)), : rng.integers(1, values.shape[1])] = np.inf
                forced[number] = replace(costs[number], run_value=values)
            expected = pure_optimum([path_table(each) for each in forced], limits)
            family = LinkedGraphs.from_costs(forced, limits)
            blocks = partial(memory.lay_out, forced, kinds)
            found = solve_pure(family, gap=1e-9, blocks=blocks, memory=memory)
            if isinstance(found, LinkedShortfall) or math.isinf(expected):
                continue
            assert found.paths is not None
            assert found.paths.total_value == pytest.approx(expected, rel=1e-8)
            assert found.bound == pytest.approx(expected, rel=1e-8)
            by_rows += found.rows is not None
            kept += number >= 0 and len(memory.find_near(found.lagrangian.multipliers, limits, found.lagrangian.bound))
    assert by_rows >= 5
    assert kept >= 5
