from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.held import HeldShortfall, solve_held
from optplan.solvers.paths.held_graphs import HeldGraph
from optplan.solvers.paths.held_labels import Charges, Cut, find_candidates, find_pareto_set, settle_costs
from optplan.solvers.paths.search import Effort

PathLister = Callable[[HeldGraph], tuple[list[tuple[int, ...]], FloatArray]]
ChargesOf = Callable[[HeldGraph, int, bool], Charges]


def _grow_free(before: IntArray, after: IntArray) -> FloatArray:
    return np.zeros((2, *(after - before).shape))


def _true_totals(
    graph: HeldGraph, every_path: PathLister, charges: Charges | None
) -> tuple[list[tuple[int, ...]], FloatArray]:
    paths, totals = every_path(graph)
    if charges is not None:
        totals = totals + charges.charge(np.array(paths))[0][::-1].T
    return paths, totals


def _draw_budget(data: DataObject, totals: FloatArray) -> float:
    """Draw a budget: that of some path exactly, a little more, or one that is too small."""
    some: float = data.draw(st.sampled_from(sorted(set(totals[:, 0].tolist()))))
    factor: float = data.draw(st.sampled_from([1.0, 1.1, 0.5]))
    return some * factor


@given(data=st.data())
@settings(max_examples=150)
def test_shortest_paths_are_those_of_all_paths(
    held_graphs: SearchStrategy[HeldGraph], every_path: PathLister, data: DataObject
) -> None:
    """For any multiplier, no path has a lesser reduced cost, and the sums are those of the steps."""
    graph = data.draw(held_graphs)
    paths, totals = every_path(graph)
    scale = (totals[:, 1].max() or 1.0) / (totals[:, 0].max() or 1.0)
    multiplier = scale * data.draw(st.sampled_from([0.0, 0.3, 1.0, 7.0]))
    multipliers = np.array([multiplier])
    found = graph.best_paths(multipliers)
    own = totals[paths.index(tuple(found.payload[0].tolist()))]
    assert (found.used[0], found.value[0]) == pytest.approx(tuple(own), rel=1e-12)
    assert found.weigh(multipliers)[0] == pytest.approx((totals @ [multiplier, 1.0]).min(), rel=1e-12)


@given(data=st.data())
@settings(max_examples=200)
def test_finds_the_best_of_all_paths(
    held_graphs: SearchStrategy[HeldGraph],
    every_path: PathLister,
    spell_charges: ChargesOf,
    data: DataObject,
) -> None:
    """With and without charges, the optimum is that of all paths; without any, the least consumption is proven."""
    graph = data.draw(held_graphs)
    kind = data.draw(st.sampled_from(["none", "value", "consumption"]))
    charges = None if kind == "none" else spell_charges(graph, data.draw(st.integers(0, 3)), kind == "value")
    _, totals = _true_totals(graph, every_path, charges)
    budget = _draw_budget(data, totals)
    fitting = totals[totals[:, 0] <= budget * (1 + 1e-9)]
    found = solve_held(graph, budget, gap=0.0, charges=charges)
    if not fitting.size:
        assert isinstance(found, HeldShortfall)
        assert found.least == pytest.approx(totals[:, 0].min(), rel=1e-9)
        return
    assert not isinstance(found, HeldShortfall)
    assert found.proven
    assert found.value == pytest.approx(fitting[:, 1].min(), rel=1e-9)
    assert found.bound == pytest.approx(found.value, rel=1e-9)
    assert found.lagrangian.bound <= found.value * (1 + 1e-9)
    assert found.consumption <= budget * (1 + 1e-9)


@given(data=st.data())
@settings(max_examples=150)
def test_pareto_set_is_that_of_all_paths(
    held_graphs: SearchStrategy[HeldGraph],
    every_path: PathLister,
    spell_charges: ChargesOf,
    data: DataObject,
) -> None:
    """At the consumption of any path, the set has the least value of all paths that need no more."""
    graph = data.draw(held_graphs)
    charges = data.draw(st.sampled_from([None, spell_charges(graph, 2, True), spell_charges(graph, 2, False)]))
    _, totals = _true_totals(graph, every_path, charges)
    found = find_pareto_set(graph, Effort(), charges)
    assert np.all(np.diff(found.used) > 0)
    assert np.all(np.diff(found.value) < 0)
    slack = 1e-12 * totals.max(axis=0)
    for consumption, _ in totals:
        least = totals[totals[:, 0] <= consumption + slack[0], 1].min()
        own = found.value[found.used <= consumption + slack[0]].min()
        assert own == pytest.approx(least, rel=1e-9, abs=slack[1])
    half = float(np.median(totals[:, 0]))
    part = find_candidates(graph, Effort(), charges, (Cut((0.0, 1.0), half * (1 + 1e-9)),))
    assert part.used[:1].max(initial=0.0) <= half * (1 + 1e-9)
    value, consumption = settle_costs(graph, part.payload, charges, Effort())
    own, inside = (value[consumption <= half * (1 + 1e-9)], found.value[found.used <= half * (1 + 1e-9)])
    assert own.min(initial=np.inf) == pytest.approx(inside.min(initial=np.inf), rel=1e-9, abs=slack[1])


def test_holds_idle_sizes_to_spare_a_later_growth() -> None:
    """Staying large through a small layer beats growing again when growth costs more than holding."""

    def grow(before: IntArray, after: IntArray) -> FloatArray:
        return np.array([np.where(after > before, 5.0, 0.0), np.zeros(after.shape)])

    layers = [([0, 1], [9.0, 4.0], [1.0, 1.0]), ([0, 1], [1.0, 3.0], [1.0, 1.0]), ([0, 1], [9.0, 4.0], [1.0, 1.0])]
    found = solve_held(HeldGraph.from_layers(([0.0, 5.0], [0.0, 0.0]), grow, layers), 3.0)
    # Held: 5 + 4 + 3 + 4 = 16. Shrinking in between: 5 + 4 + 1 + 5 + 4 = 19. Always small: 9 + 1 + 9 = 19.
    assert not isinstance(found, HeldShortfall)
    assert (found.value, found.consumption) == (16.0, 3.0)
    assert found.options is not None
    assert found.options.tolist() == [1, 3, 5]


def test_stops_at_its_labels_with_what_is_proven() -> None:
    """When labels run out, a path and a bound remain."""
    rng = np.random.default_rng(5)
    layers = [(np.arange(20), rng.uniform(1, 9, 20), rng.uniform(1, 9, 20)) for _ in range(6)]
    graph = HeldGraph.from_layers(np.zeros((2, 20)), _grow_free, layers)
    best = solve_held(graph, 20.0, gap=0.0)
    found = solve_held(graph, 20.0, gap=0.0, effort=Effort(max_labels=1))
    assert not isinstance(found, HeldShortfall)
    assert not isinstance(best, HeldShortfall)
    assert (found.stopped_by, found.proven) == ("labels", False)
    assert found.bound <= best.value <= found.value
