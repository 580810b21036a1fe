"""The Lagrangian bound, its multiplier, and the mixed plan that attains it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from scipy.optimize import linprog

from optplan.errors import UsageError
from optplan.progress import Stopwatch
from optplan.solvers.paths.families import FloatArray, Mixture, find_least_consumption, find_least_value
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.single import (
    BudgetShortfall,
    LagrangianBound,
    find_multiplier_range,
    maximise_bound,
    mix_paths,
)
from optplan.solvers.paths.switching import LinkedGraphs

State = Callable[..., LinkedGraphs]
Tables = Callable[[LinkedGraphs, int], tuple[FloatArray, ...]]
RELATIVE = 1e-9
PathLister = Callable[[LinkedGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]
Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]


def bounded(graphs: LinkedGraphs, budget: float) -> LagrangianBound:
    """Return the bound, which is known to exist."""
    bound = maximise_bound(graphs, budget)
    assert isinstance(bound, LagrangianBound)
    return bound


def one_layer(state: State, *points: tuple[float, float]) -> LinkedGraphs:
    """Return one graph with one layer whose nodes are (consumption, value) points."""
    return state([[[value for _, value in points]]], [[[used for used, _ in points]]])


def check_mixture(plan: Mixture, bound: LagrangianBound) -> None:
    """Assert that a mixed plan is made of what it says, keeps the budget and attains the bound."""
    size = bound.bound + bound.multiplier * bound.budget
    assert abs(plan.value - bound.bound) <= 2 * RELATIVE * size
    assert plan.consumption[0] <= bound.budget * (1 + RELATIVE)
    assert np.all((plan.fraction > 0.0) & (plan.fraction <= 1.0))
    shares = np.bincount(plan.graph, weights=plan.fraction)
    assert shares == pytest.approx(np.ones(plan.graph.max() + 1), rel=1e-12)
    assert plan.graph.size <= shares.size + 1
    if plan.graph.size > shares.size:
        assert plan.value == pytest.approx(float(plan.fraction @ plan.columns.value), rel=1e-12)
        assert plan.consumption[0] == pytest.approx(bound.budget, rel=1e-12)


def test_bound_and_mixture_by_hand(state: State) -> None:
    """Between (2, 10) and (6, 2) the slope is 2; a quarter of the way costs 8."""
    graphs = one_layer(state, (2.0, 10.0), (3.0, 9.5), (6.0, 2.0))
    bound = bounded(graphs, 3.0)
    # (3, 9.5) lies above the chord 10 - 2 * (3 - 2) = 8, so it does not matter
    assert (bound.multiplier, bound.bound) == (2.0, 8.0)
    plan = mix_paths(bound)
    assert (plan.value, plan.consumption.tolist(), plan.graph.tolist()) == (8.0, [3.0], [0, 0])
    assert (plan.fraction.tolist(), plan.columns.payload.tolist()) == ([0.75, 0.25], [[0], [2]])


def test_infeasible_budget_returns_the_least_consumption_of_each_graph(state: State) -> None:
    """The shortfall names what each graph needs at least, at the least value for that."""
    graphs = state([[[5.0, 3.0, 1.0]], [[7.0]]], [[[2.0, 2.0, 9.0]], [[4.0]]])
    shortfall = maximise_bound(graphs, 5.9)
    assert isinstance(shortfall, BudgetShortfall)
    assert shortfall.least_budget == 6.0
    assert shortfall.least.used.tolist() == [2.0, 4.0]
    assert shortfall.least.value.tolist() == [3.0, 7.0]


@pytest.mark.parametrize("budget", [6.0, 6.0 * (1 - 5e-10)])
def test_least_consumption_itself_is_feasible(state: State, budget: float) -> None:
    """A budget of exactly the least consumption, or less by a rounding error, is kept by its cheapest plan."""
    graphs = state([[[5.0, 3.0, 1.0]], [[7.0]]], [[[2.0, 2.0, 9.0]], [[4.0]]])
    bound = bounded(graphs, budget)
    assert bound.bound == pytest.approx(10.0, rel=1e-8)
    assert mix_paths(bound).value == 10.0


@pytest.mark.parametrize("budget", [11.0, 1e12, math.inf])
def test_loose_budget_has_multiplier_zero(state: State, budget: float) -> None:
    """Where the budget does not bind, the bound is the least value, and ties take the least consumption."""
    graphs = one_layer(state, (2.0, 10.0), (14.0, 1.0), (11.0, 1.0))
    bound = bounded(graphs, budget)
    assert (bound.multiplier, bound.bound, bound.over) == (0.0, 1.0, None)
    assert mix_paths(bound).consumption.tolist() == [11.0]


def test_budget_that_is_not_a_number_is_refused(state: State) -> None:
    """NaN would otherwise pass every comparison."""
    with pytest.raises(UsageError, match="the budget is not a number"):
        maximise_bound(one_layer(state, (1.0, 1.0)), math.nan)


def test_rounding_does_not_decide_ties_at_the_ends(state: State) -> None:
    """A linear speedup needs the same GPU time at any width; the fastest of these is the least consumption."""
    width = np.arange(1.0, 9.0)
    time = 0.3 / (0.1 * width)
    graphs = state([np.tile(time, (50, 1))], [np.tile(time * width, (50, 1))])
    assert np.ptp(time * width) > 0.0
    assert find_least_consumption(graphs).value[0] == pytest.approx(50 * time[-1], rel=1e-12)
    mirrored = state([np.tile(time * width, (50, 1))], [np.tile(time, (50, 1))])
    assert find_least_value(mirrored)[0].used[0] == pytest.approx(50 * time[-1], rel=1e-12)


def test_zero_costs_have_no_scale_to_be_relative_to(state: State) -> None:
    """Zero consumption (value) is exact, so ties are settled by value (consumption) however small."""
    graphs = one_layer(state, (0.0, 3.0), (0.0, 2.0), (5.0, 0.0), (4.0, 0.0))
    assert find_least_consumption(graphs).value[0] == 2.0
    assert find_least_value(graphs)[0].used[0] == 4.0
    assert bounded(graphs, 0.0).bound == 2.0


@settings(max_examples=250)
@given(data=st.data(), position=st.floats(0.0, 1.2))
def test_bound_is_the_optimum_over_all_mixtures(
    data: DataObject, position: float, small_graphs: SearchStrategy[LinkedGraphs], list_paths: PathLister
) -> None:
    """A linear program over the fractions of all paths has the bound as its optimum; the mixture attains it."""
    graphs = data.draw(small_graphs)
    parts = [list_paths(graphs, graph)[1] for graph in range(graphs.num_graphs)]
    least, most = (sum(float(end(part[:, 0])) for part in parts) for end in (np.min, np.max))
    budget = least + position * (most - least)
    bound = bounded(graphs, budget)
    check_mixture(mix_paths(bound), bound)
    # In units of the instance, as the program's own tolerances are absolute.
    points = np.concatenate(parts)
    scale = np.where(points.max(axis=0) > 0, points.max(axis=0), 1.0)
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    optimum = linprog(
        points[:, 1] / scale[1],
        A_ub=points[None, :, 0] / scale[0],
        b_ub=[budget / scale[0]],
        A_eq=(np.arange(len(parts))[:, None] == owner).astype(float),
        b_eq=np.ones(len(parts)),
    )
    assert bound.bound / scale[1] == pytest.approx(optimum.fun, abs=1e-6)


def test_many_tied_graphs_leave_one_graph_mixed(state: State) -> None:
    """A hundred equal graphs tie at one multiplier; at most one of them is split."""
    graphs = state(np.tile([[10.0, 4.0]], (100, 1, 1)), np.tile([[1.0, 3.0]], (100, 1, 1)))
    bound = bounded(graphs, 151.0)
    plan = mix_paths(bound)
    # 51 over the least of 100: 25 graphs take the richer path (2 more each), one takes half of it
    assert (bound.multiplier, bound.bound) == (3.0, 847.0)
    assert np.count_nonzero(plan.columns.used == 3.0) == 26
    assert (sorted(plan.fraction.tolist())[:3], plan.value, plan.consumption[0]) == ([0.5, 0.5, 1.0], 847.0, 151.0)


@pytest.mark.parametrize(
    ("budget", "less", "more"),
    [(1.0, math.inf, 6.0), (1.5, 6.0, 6.0), (2.0, 6.0, 2.0), (3.0, 2.0, 2.0), (4.0, 2.0, 0.0), (5.0, 0.0, 0.0)],
)
def test_multipliers_on_both_sides_of_a_breakpoint(state: State, budget: float, less: float, more: float) -> None:
    """The frontier (1, 10), (2, 4), (4, 0) has slopes 6 and 2."""
    graphs = one_layer(state, (1.0, 10.0), (2.0, 4.0), (4.0, 0.0))
    assert find_multiplier_range(graphs, bounded(graphs, budget)) == (less, more)


def test_units_and_order_do_not_matter(tables: Tables, state: State, training_classes: Maker) -> None:
    """Other units scale the bound and the multiplier; another order of the graphs changes nothing."""
    graphs = training_classes(5, (12, 9, 4), 16)
    reference = bounded(graphs, 130.0)
    for value_unit, consumption_unit in [(1e9, 1e-9), (1e-9, 1e9), (1e6, 1e6), (1.0, 1.0)]:
        units = (value_unit, consumption_unit) * 2
        parts = [[table * unit for table, unit in zip(tables(graphs, g), units, strict=True)] for g in (2, 0, 1)]
        scaled = state(*zip(*parts, strict=True))
        bound = bounded(scaled, 130.0 * consumption_unit)
        assert bound.bound == pytest.approx(reference.bound * value_unit, rel=1e-11)
        assert bound.multiplier == pytest.approx(reference.multiplier * value_unit / consumption_unit, rel=1e-9)


class _Ticks(Stopwatch):
    """A clock that advances by one second whenever somebody looks at it."""

    looks = 0

    @property
    def elapsed_s(self) -> float:
        """How often somebody has looked before."""
        self.looks += 1
        return float(self.looks - 1)


def hull_of_parabola(state: State) -> LinkedGraphs:
    """Return one graph whose points (u, (10 - u)^2), u = 0 to 10, are all vertices: the bound takes several passes."""
    return one_layer(state, *((float(used), float((10 - used) ** 2)) for used in range(11)))


def test_out_of_time_before_the_first_pass_leaves_the_bound_of_price_zero(state: State) -> None:
    """A clock that has run out leaves the plan of least consumption and the least value of all."""
    bound = maximise_bound(hull_of_parabola(state), 3.5, effort=Effort(Stopwatch(limit_s=0.0)))
    assert isinstance(bound, LagrangianBound)
    assert not bound.attained
    assert (bound.bound, bound.multiplier, bound.passes) == (0.0, 0.0, 4)
    assert (bound.under.total_used, bound.under.total_value) == (0.0, 100.0)


@pytest.mark.parametrize("seconds", range(1, 5))
def test_out_of_time_the_best_bound_so_far_holds(state: State, seconds: int) -> None:
    """Whenever time runs out, the bound holds at its multiplier, and the mixture keeps the budget and is above it."""
    graphs = hull_of_parabola(state)
    best = bounded(graphs, 3.5)
    assert best.bound == pytest.approx((6.5**2 + 0.25), rel=1e-12)  # halfway between 7^2 and 6^2 on their chord
    bound = maximise_bound(graphs, 3.5, effort=Effort(_Ticks(limit_s=float(seconds))))
    assert isinstance(bound, LagrangianBound)
    assert (bound.passes, bound.attained) == (4 + seconds, False)
    assert bound.bound <= best.bound * (1 + RELATIVE)
    multipliers = np.array([bound.multiplier])
    at = math.fsum(graphs.best_paths(multipliers).weigh(multipliers).tolist()) - bound.multiplier * 3.5
    assert bound.bound == pytest.approx(at, rel=1e-12, abs=1e-12)
    plan = mix_paths(bound)
    assert plan.consumption[0] <= 3.5 * (1 + RELATIVE)
    assert best.bound * (1 - RELATIVE) <= plan.value <= bound.under.total_value


def test_infeasibility_is_proven_whatever_the_clock_says(state: State) -> None:
    """The passes that say whether there is a plan are always made."""
    found = maximise_bound(one_layer(state, (2.0, 1.0)), 1.0, effort=Effort(Stopwatch(limit_s=0.0)))
    assert isinstance(found, BudgetShortfall)


def test_prices_are_not_found_without_time(state: State) -> None:
    """At a breakpoint the second price needs passes of its own, and the clock is looked at before each."""
    graphs = hull_of_parabola(state)
    bound = bounded(graphs, 3.0)
    with pytest.raises(OutOfEffortError, match=r"^stopped by the time limit$"):
        find_multiplier_range(graphs, bound, effort=Effort(Stopwatch(limit_s=0.0)))
