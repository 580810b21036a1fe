"""The frontier of the convexified problem as a look-up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.errors import UsageError
from optplan.solvers.paths.frontier import LayeredFrontier, LayeredPoint, build_frontier
from optplan.solvers.paths.single import BudgetShortfall, LagrangianBound, find_multiplier_range, maximise_bound
from optplan.solvers.paths.switching import LinkedGraphs

State = Callable[..., LinkedGraphs]
RELATIVE = 1e-9
Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]


def found(frontier: LayeredFrontier, budget: float) -> LayeredPoint:
    """Return the point at a budget, which is known to be feasible."""
    point = frontier.at(budget)
    assert isinstance(point, LayeredPoint)
    return point


def two_graphs(state: State) -> LinkedGraphs:
    """Hulls (1, 10), (2, 4), (4, 0) with (3, 3) above it, and (1, 5), (2, 2)."""
    return state([[[10.0, 4.0, 3.0, 0.0]], [[5.0, 2.0]]], [[[1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0]]])


def test_hulls_are_merged_by_slope(state: State) -> None:
    """Slopes 6 (first graph), 3 (second), 2 (first) from (2, 15) on; the point above the hull is left out."""
    frontier = build_frontier(two_graphs(state))
    assert frontier.consumption.tolist() == [2.0, 3.0, 4.0, 6.0]
    assert frontier.value.tolist() == [15.0, 9.0, 6.0, 2.0]
    assert frontier.multiplier.tolist() == [6.0, 3.0, 2.0]
    assert frontier.owner.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("budget", "value", "less", "more", "mixed", "fraction"),
    [
        (2.0, 15.0, math.inf, 6.0, None, 0.0),
        (2.25, 13.5, 6.0, 6.0, 0, 0.25),
        (3.0, 9.0, 6.0, 3.0, None, 0.0),
        (5.0, 4.0, 2.0, 2.0, 0, 0.5),
        (6.0, 2.0, 2.0, 0.0, None, 0.0),
        (99.0, 2.0, 2.0, 0.0, None, 0.0),
    ],
)
def test_look_up_by_budget(
    state: State, budget: float, value: float, less: float, more: float, mixed: int | None, fraction: float
) -> None:
    """Values, multipliers on either side and the split graph follow from the slopes by hand."""
    frontier = build_frontier(two_graphs(state))
    point = found(frontier, budget)
    assert (point.value, point.less_multiplier, point.more_multiplier) == (value, less, more)
    assert (point.mixed_graph, point.fraction) == (mixed, fraction)
    plan = frontier.plan_at(point)
    assert (plan.value, plan.consumption.tolist()) == (value, [min(budget, 6.0)])


@pytest.mark.parametrize(
    ("value", "budget"), [(20.0, 2.0), (15.0, 2.0), (12.0, 2.5), (9.0, 3.0), (4.0, 5.0), (2.0, 6.0), (1.9, None)]
)
def test_look_up_by_value(state: State, value: float, budget: float | None) -> None:
    """The inverse query returns the least budget, or None below the least value."""
    point = build_frontier(two_graphs(state)).for_value(value)
    assert (None if point is None else point.budget) == budget


def test_infeasible_budget_and_wrong_queries(state: State) -> None:
    """Below the least consumption there is a shortfall; NaN is refused."""
    frontier = build_frontier(two_graphs(state))
    shortfall = frontier.at(1.9)
    assert isinstance(shortfall, BudgetShortfall)
    assert shortfall.least_budget == 2.0
    with pytest.raises(UsageError, match="the budget is not a number"):
        frontier.at(math.nan)
    with pytest.raises(UsageError, match="the value is not a number"):
        frontier.for_value(math.nan)


def test_single_node_graphs_have_a_single_point(state: State) -> None:
    """With nothing to choose the frontier is a point."""
    frontier = build_frontier(state([[[3.0], [4.0]]], [[[1.0], [2.0]]]))
    point = found(frontier, 10.0)
    assert (frontier.consumption.tolist(), frontier.value.tolist()) == ([3.0], [7.0])
    assert (point.budget, point.value, point.more_multiplier) == (3.0, 7.0, 0.0)


@settings(max_examples=150)
@given(data=st.data(), position=st.floats(0.0, 1.1))
def test_frontier_agrees_with_single_budgets(
    data: DataObject, position: float, small_graphs: SearchStrategy[LinkedGraphs]
) -> None:
    """It is convex, and at any budget its value is the bound, its plan attains it, and its inverse comes back."""
    graphs = data.draw(small_graphs)
    frontier = build_frontier(graphs)
    assert np.all(np.diff(frontier.consumption) > 0)
    assert np.all(np.diff(frontier.value) < 0)
    assert np.all(np.diff(frontier.multiplier) <= 0)
    least, most = frontier.consumption[[0, -1]]
    budget = float(least + position * (most - least))
    bound, point = maximise_bound(graphs, budget), found(frontier, budget)
    assert isinstance(bound, LagrangianBound)
    tolerance = RELATIVE * (bound.bound + bound.multiplier * budget)
    assert abs(point.value - bound.bound) <= 2 * tolerance
    plan = frontier.plan_at(point)
    assert abs(plan.value - point.value) <= tolerance
    assert plan.consumption[0] <= budget * (1 + RELATIVE)
    inverse = frontier.for_value(point.value)
    assert inverse is not None
    assert inverse.budget <= budget * (1 + RELATIVE)
    assert abs(inverse.value - point.value) <= tolerance


def test_multipliers_agree_on_a_realistic_instance(training_classes: Maker) -> None:
    """At and between breakpoints the one-sided multipliers are those of the single-budget method."""
    graphs = training_classes(2, (20, 15, 8, 2), 24)
    frontier = build_frontier(graphs)
    assert frontier.multiplier.size > 50
    breakpoints = frontier.consumption[5:60:9]
    for budget in [*breakpoints, *(breakpoints + frontier.consumption[6:61:9]) / 2]:
        bound, point = maximise_bound(graphs, float(budget)), found(frontier, float(budget))
        assert isinstance(bound, LagrangianBound)
        less, more = find_multiplier_range(graphs, bound)
        assert point.less_multiplier == pytest.approx(less, rel=1e-6)
        assert point.more_multiplier == pytest.approx(more, rel=1e-6)
