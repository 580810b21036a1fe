"""The exact optimum over one path per graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from optplan.errors import UsageError
from optplan.progress import Stopwatch
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets
from optplan.solvers.paths.frontier import build_frontier
from optplan.solvers.paths.search import Effort, relative_gap
from optplan.solvers.paths.single import BudgetShortfall, PureSolution, maximise_bound, solve_pure
from optplan.solvers.paths.switching import LinkedGraphs

State = Callable[..., LinkedGraphs]
Tables = Callable[[LinkedGraphs, int], tuple[FloatArray, ...]]
RELATIVE = 1e-9
Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]
TotalLister = Callable[[LinkedGraphs], FloatArray]


def solved(graphs: LinkedGraphs, budget: float, gap: float = 0.0, effort: Effort | None = None) -> PureSolution:
    """Solve, and check what holds of every solution."""
    solution = solve_pure(graphs, budget, gap=gap, effort=effort)
    assert isinstance(solution, PureSolution)
    members = np.arange(graphs.num_graphs)
    again = graphs.follow(members, np.maximum(solution.paths.payload, 0))
    assert solution.value == pytest.approx(again.total_value, rel=1e-12, abs=0)
    assert solution.paths.total_used == pytest.approx(again.total_used, rel=1e-12, abs=0)
    assert solution.paths.total_used <= budget * (1 + RELATIVE)
    assert solution.bound <= solution.value
    size = solution.value + solution.lagrangian.multiplier * solution.paths.total_used
    assert solution.lagrangian.bound <= solution.bound + RELATIVE * size
    assert solution.proven == (relative_gap(solution.value, solution.bound) <= gap)
    if solution.exhaustion is not None and solution.exhaustion.optimum is not None:
        assert solution.exhaustion.optimum == solution.bound == solution.value
        assert solution.value <= solution.lagrangian.bound + solution.exhaustion.allowance
    return solution


def test_two_epochs_by_hand(state: State) -> None:
    """With 7.5 to spend the best single path changes width once."""
    graphs = state([[[4.0, 3.0], [4.0, 1.0]]], [[[4.0, 6.0], [4.0, 2.0]]], [[0.5, 0.5]], [[0.5, 1.0]])
    # (consumption, value): 00 (8.5, 8.5), 01 (7.5, 6), 10 (11.5, 8), 11 (9, 4.5)
    solution = solved(graphs, 7.5)
    assert (solution.value, solution.paths.payload.tolist()) == (6.0, [[0, 1]])
    # Between 7.5 and 9 the only pure plan is still 01; the mixture would cost 6 - 0.5 * 1.5 = 5.25 at 8.25
    solution = solved(graphs, 8.25)
    assert (solution.value, solution.lagrangian.bound) == (6.0, 5.25)
    assert solution.exhaustion is not None
    assert solution.exhaustion.optimum == 6.0
    # Excess of 01 at multiplier 1 is 0 and 0.75 of the budget stays unused: the allowance is 0.75
    assert solution.exhaustion.allowance == pytest.approx(0.75)


@settings(max_examples=400)
@given(data=st.data(), position=st.floats(0.0, 1.1), gap=st.sampled_from([0.0, 1e-6, 0.05]))
def test_brute_force_agrees(
    data: DataObject,
    position: float,
    gap: float,
    small_graphs: SearchStrategy[LinkedGraphs],
    list_totals: TotalLister,
) -> None:
    """Of all choices of paths none within the budget is better by more than the gap; budgets hit totals exactly."""
    graphs = data.draw(small_graphs)
    totals = list_totals(graphs)
    budget = float(np.quantile(totals[:, 0], min(position, 1.0), method="nearest")) * max(1.0, position)
    best = totals[totals[:, 0] <= budget * (1 + RELATIVE), 1].min()
    solution = solved(graphs, budget, gap)
    tolerance = 2 * RELATIVE * (best + solution.lagrangian.multiplier * budget)
    assert solution.proven
    assert solution.bound <= best + tolerance
    assert best - tolerance <= solution.value <= best + gap * solution.value + tolerance


@pytest.mark.parametrize("seed", range(60))
def test_brute_force_agrees_on_one_layer_graphs(state: State, seed: int, list_totals: TotalLister) -> None:
    """Six graphs of four nodes: the optimum combines several paths that are not best at the multiplier."""
    rng = np.random.default_rng(seed)
    graphs = state(rng.uniform(1, 9, (6, 1, 4)), rng.uniform(1, 9, (6, 1, 4)))
    totals = list_totals(graphs)
    for share in (0.02, 0.1, 0.3):
        budget = float(np.quantile(totals[:, 0], share))
        best = totals[totals[:, 0] <= budget, 1].min()
        assert solved(graphs, budget).value == pytest.approx(best, rel=1e-12)


def test_infeasible_budget(state: State) -> None:
    """Below the least consumption no plan exists, and the answer says what would be needed."""
    shortfall = solve_pure(state([[[1.0, 2.0]]], [[[3.0, 2.0]]]), 1.0)
    assert isinstance(shortfall, BudgetShortfall)
    assert (shortfall.budget, shortfall.least_budget) == (1.0, 2.0)
    with pytest.raises(UsageError, match="the budget is not a number"):
        solve_pure(state([[[1.0]]], [[[1.0]]]), math.nan)


def solve_by_milp(graphs: LinkedGraphs, budget: float, tables: Tables) -> float:
    """Return the optimum of the same problem as a mixed-integer program: x = at a node, y = entered it."""
    parts = [tables(graphs, graph) for graph in range(graphs.num_graphs)]
    value, consumption, *switch = (np.concatenate(part) for part in zip(*parts, strict=True))
    first_rows = np.cumsum([0] + [len(part[0]) for part in parts])
    rows, nodes = value.shape
    size = rows * nodes
    cost = np.concatenate([value.ravel(), switch[0].ravel()])
    used = np.concatenate([consumption.ravel(), switch[1].ravel()])
    at = np.arange(size).reshape(rows, nodes)
    one_node = csr_array((np.ones(size), (np.repeat(np.arange(rows), nodes), np.arange(size))), (rows, 2 * size))
    enter = np.zeros((size, 2 * size))
    for row in range(rows):
        for node in range(nodes):
            enter[at[row, node], [at[row, node], size + at[row, node]]] = [-1.0, 1.0]
            if row not in first_rows:
                enter[at[row, node], at[row - 1, node]] = 1.0
    outcome = milp(
        cost,
        constraints=[
            LinearConstraint(one_node, 1.0, 1.0),
            LinearConstraint(enter, 0.0, np.inf),
            LinearConstraint(used[None, :], -np.inf, budget),
        ],
        integrality=np.ones(2 * size),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0},
    )
    assert outcome.success
    return float(outcome.fun)


@pytest.mark.parametrize("seed", range(4))
def test_milp_agrees_on_training_classes(tables: Tables, seed: int, training_classes: Maker) -> None:
    """A general engine finds the same optimum on realistic instances of middle size."""
    graphs = training_classes(seed, (9, 6, 4, 1), 8)
    frontier = build_frontier(graphs)
    for share in (0.1, 0.45):
        budget = float(frontier.consumption[0] + share * np.ptp(frontier.consumption))
        assert solved(graphs, budget).value == pytest.approx(solve_by_milp(graphs, budget, tables), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_milp_agrees_on_many_one_layer_graphs(tables: Tables, state: State, seed: int) -> None:
    """Forty independent choices under one budget (a multiple-choice knapsack)."""
    rng = np.random.default_rng(seed)
    graphs = state(rng.uniform(1, 9, (40, 1, 6)), rng.uniform(1, 9, (40, 1, 6)))
    assert solved(graphs, 120.0).value == pytest.approx(solve_by_milp(graphs, 120.0, tables), rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_dynamic_program_over_whole_budgets_agrees(state: State, seed: int) -> None:
    """With whole consumptions a table over (layer, node, consumed so far) is exact; it knows no multipliers."""
    rng = np.random.default_rng(seed)
    lengths, nodes, most = (12, 7, 3, 1), 5, 260
    values = [rng.uniform(1, 9, (length, nodes)) for length in lengths]
    consumptions = [rng.integers(0, 9, (length, nodes)).astype(float) for length in lengths]
    switch_values = [rng.uniform(0, 3, nodes) for _ in lengths]
    switch_consumptions = [rng.integers(0, 4, nodes).astype(float) for _ in lengths]
    graphs = state(values, consumptions, switch_values, switch_consumptions)

    def shift(table: FloatArray, by: int) -> FloatArray:
        return np.concatenate([np.full(by, np.inf), table[: most + 1 - by]])

    best = np.zeros(most + 1)
    for value, used, extra_value, extra_used in zip(
        values, consumptions, switch_values, switch_consumptions, strict=True
    ):
        at = np.full((nodes, most + 1), np.inf)
        for layer in range(value.shape[0]):
            anywhere = best if layer == 0 else at.min(axis=0)
            at = np.stack(
                [
                    shift(
                        np.minimum(at[node], shift(anywhere + extra_value[node], int(extra_used[node]))),
                        int(used[layer, node]),
                    )
                    + value[layer, node]
                    for node in range(nodes)
                ]
            )
        best = at.min(axis=0)
    least = int(np.flatnonzero(np.isfinite(best))[0])
    assert isinstance(solve_pure(graphs, least - 1.0), BudgetShortfall)
    for budget in range(least, min(least + 120, most), 7):
        assert solved(graphs, float(budget)).value == pytest.approx(best[budget], rel=1e-9)


def test_more_budget_never_hurts(training_classes: Maker) -> None:
    """Optimal values fall with the budget and stay above the convexified optimum."""
    graphs = training_classes(7, (15, 10, 2), 16)
    frontier = build_frontier(graphs)
    budgets = np.linspace(frontier.consumption[0], frontier.consumption[-1] * 1.1, 25)
    values = np.array([solved(graphs, float(budget)).value for budget in budgets])
    assert np.all(np.diff(values) <= 0)
    assert values[-1] == pytest.approx(frontier.value[-1], rel=1e-9)


def test_full_size_instance_is_proven(training_classes: Maker) -> None:
    """Five classes of 322 epochs at widths 1 to 128 are solved to the optimum, which beats the Lagrangian bound."""
    graphs = training_classes(1, (100, 90, 80, 50, 2), 128)
    for budget in (100.0, 130.0):
        solution = solved(graphs, budget)
        assert solution.proven
        assert solution.exhaustion is not None
        assert solution.lagrangian.bound < solution.value < 1.01 * solution.lagrangian.bound


@pytest.mark.parametrize(("value_unit", "consumption_unit"), [(1e9, 1.0), (1e-9, 1e6), (1e6, 1e-9), (1e-6, 1e9)])
def test_units_and_order_do_not_change_the_optimum(
    tables: Tables, state: State, value_unit: float, consumption_unit: float, training_classes: Maker
) -> None:
    """The same instance in other units and another order has the same optimum."""
    graphs = training_classes(4, (14, 9, 5, 2), 12)
    units = (value_unit, consumption_unit) * 2
    scaled = [[table * unit for table, unit in zip(tables(graphs, g), units, strict=True)] for g in (3, 1, 0, 2)]
    changed = state(*zip(*scaled, strict=True))
    frontier = build_frontier(graphs)
    for share in (0.0, 0.05, 0.3, 1.0):
        budget = float(frontier.consumption[0] + share * np.ptp(frontier.consumption))
        one, other = solved(graphs, budget), solved(changed, budget * consumption_unit)
        assert other.value == pytest.approx(one.value * value_unit, rel=1e-9)
        assert other.bound == pytest.approx(one.bound * value_unit, rel=1e-9)


def test_thousands_of_one_layer_graphs(state: State) -> None:
    """Without switches every layer is a graph of its own; the gap closes although there are thousands."""
    rng = np.random.default_rng(3)
    width = np.arange(1.0, 33.0)
    time = rng.uniform(0.5, 2.0, (2000, 1, 1)) / width ** rng.uniform(0.4, 0.95, (2000, 1, 1))
    time = time * rng.uniform(0.97, 1.03, (2000, 1, 32))
    graphs = state(time, time * width)
    solution = solved(graphs, 1.5 * float((time * width).min(axis=2).sum()), gap=1e-7)
    assert solution.proven


def test_equal_graphs_tie_without_harm(state: State) -> None:
    """Sixty equal graphs all tie at the multiplier; as many as fit take the richer path, and that is optimal."""
    graphs = state(np.tile([[10.0, 4.0]], (60, 1, 1)), np.tile([[1.0, 3.0]], (60, 1, 1)))
    solution = solved(graphs, 95.0)
    # 60 + 2 per upgrade: 17 fit, 600 - 17 * 6 = 498
    assert (solution.value, solution.paths.total_used) == (498.0, 94.0)


@dataclass(frozen=True)
class Stop:
    """A limit and what it leaves."""

    effort: Effort
    stopped_by: str


@pytest.mark.parametrize(
    "stop",
    [
        Stop(Effort(Stopwatch(limit_s=0.0)), "time"),
        Stop(Effort(max_labels=5), "labels"),
        Stop(Effort(max_pairs=0), "pairs"),
    ],
)
def test_limits_leave_the_best_plan_and_an_honest_bound(stop: Stop, training_classes: Maker) -> None:
    """When a limit ends the search there is a plan, the bound is valid, and nothing is called proven."""
    graphs = training_classes(0, (30, 25, 20, 10), 32)
    budget = 130.0
    optimum = solved(graphs, budget).value
    solution = solved(graphs, budget, effort=stop.effort)
    assert solution.stopped_by == stop.stopped_by
    assert not solution.proven
    assert solution.lagrangian.bound <= solution.bound < optimum <= solution.value
    assert relative_gap(solution.value, solution.bound) > 0


def test_an_exhausted_allowance_raises_the_bound(training_classes: Maker) -> None:
    """A search that stops between two rounds keeps the bound that the finished round has proven."""
    graphs = training_classes(0, (30, 25, 20, 10), 32)
    optimum = solved(graphs, 110.0).value
    raised = []
    for max_labels in (150, 200, 400, 800):
        solution = solved(graphs, 110.0, effort=Effort(max_labels=max_labels))
        if solution.exhaustion is not None and solution.exhaustion.optimum is None:
            raised.append(solution)
            assert solution.bound == solution.lagrangian.bound + solution.exhaustion.allowance
            assert solution.bound <= optimum
    assert raised


class ListedPaths:
    """A family of graphs given by the lists of their paths: the seam for other kinds of transition."""

    def __init__(self, points: list[FloatArray]) -> None:
        self.points = points

    @property
    def num_graphs(self) -> int:
        """How many graphs there are."""
        return len(self.points)

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Look at every path."""
        asked = np.arange(len(self.points)) if members is None else members
        weights = np.broadcast_to(multipliers, (asked.size, 1))[:, 0]
        best = [
            int(np.argmin(self.points[graph] @ [weight, value_weight]))
            for graph, weight in zip(asked, weights, strict=True)
        ]
        return self._batch(asked, np.array(best))

    def find_path_sets(
        self, multipliers: FloatArray, allowance: float, effort: Effort, members: IntArray | None = None
    ) -> PathSets:
        """Keep all paths in order of consumption; the algorithms may be given more than they need."""
        effort.charge_pass()
        assert members is None
        orders = [np.lexsort((points[:, 1], points[:, 0])) for points in self.points]
        orders = [
            order[points[order, 1] < np.minimum.accumulate(np.append(np.inf, points[order, 1]))[:-1]]
            for order, points in zip(orders, self.points, strict=True)
        ]
        joined = np.concatenate([points[order] for points, order in zip(self.points, orders, strict=True)])
        numbers = np.concatenate(orders)
        members = np.arange(len(self.points))

        def trace(chosen: IntArray) -> PathBatch:
            return self._batch(members, numbers[chosen])

        starts = np.cumsum([0] + [len(order) for order in orders])
        assert allowance > 0
        assert multipliers.shape == (1,)
        return PathSets(starts, joined[:, 1], joined[:, :1], trace)

    def keep(self, graph: int, path: PathBatch) -> ListedPaths:
        """Leave one path of a graph."""
        points = list(self.points)
        points[graph] = points[graph][path.payload[0]]
        return ListedPaths(points)

    def _batch(self, graphs: IntArray, paths: IntArray) -> PathBatch:
        """Return the paths with their sums."""
        sums = np.array([self.points[graph][path] for graph, path in zip(graphs, paths, strict=True)])
        return PathBatch(sums[:, 1], sums[:, :1], paths[:, None].astype(np.int32))


@pytest.mark.parametrize("seed", range(5))
def test_another_family_needs_no_other_algorithm(state: State, seed: int) -> None:
    """Bound, frontier and optimum reach the graphs through three methods only."""
    rng = np.random.default_rng(seed)
    points = [rng.uniform(1.0, 9.0, (8, 2)) for _ in range(4)]
    family = ListedPaths(points)
    graphs = state([part[None, :, 1] for part in points], [part[None, :, 0] for part in points])
    frontier, reference = build_frontier(family), build_frontier(graphs)
    assert frontier.value == pytest.approx(reference.value, rel=1e-12)
    budget = float(frontier.consumption.mean())
    bound, pure = maximise_bound(family, budget), solve_pure(family, budget, gap=0.0)
    expected = solved(graphs, budget)
    assert not isinstance(bound, BudgetShortfall)
    assert not isinstance(pure, BudgetShortfall)
    assert bound.bound == pytest.approx(expected.lagrangian.bound, rel=1e-12)
    assert pure.value == pytest.approx(expected.value, rel=1e-12)


@pytest.mark.parametrize("position", [0.0023, 0.0052, 0.012, 0.0182, 0.0953, 0.3304])
def test_many_nearly_equal_classes_are_proven_with_few_pairs(
    tables: Tables, state: State, position: float, training_classes: Maker
) -> None:
    """As in merged traces: totals lie so densely that exhausting them took 200 million pairs, and did not end.

    Three classes, each forty times with rates of its own. The wanted gap is reached with a hundredth of the pairs.
    """
    kinds, random = training_classes(1, (20, 15, 10), 32), np.random.default_rng(1)
    listed = []
    for graph in range(kinds.num_graphs):
        rates = random.uniform(0.2, 2.0, 40) / 40
        listed += [[rate * table for table in tables(kinds, graph)] for rate in rates]
    graphs = state(*zip(*listed, strict=True))
    ends = build_frontier(graphs).consumption
    budget = float(ends[0] + (ends[-1] - ends[0]) * position)
    solution = solved(graphs, budget, gap=1e-6, effort=Effort(max_pairs=1_000_000))
    assert solution.proven
    assert solution.stopped_by is None
    assert solution.pairs < 2_000_000


def test_exhaustion_goes_as_far_as_the_wanted_gap(training_classes: Maker) -> None:
    """Of many graphs: at a gap of 1 % nothing is exhausted, at none the optimum is found and proven."""
    graphs = training_classes(3, (4,) * 30, 12)
    ends = build_frontier(graphs).consumption
    budget = float(0.9 * ends[0] + 0.1 * ends[-1])
    exact, rough = solved(graphs, budget), solved(graphs, budget, gap=0.01)
    assert exact.exhaustion is not None
    assert relative_gap(exact.value, exact.bound) == 0.0
    assert rough.exhaustion is None
    assert exact.value <= rough.value <= exact.value * 1.01
