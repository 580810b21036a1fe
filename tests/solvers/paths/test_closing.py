"""Pure plans under several limits: exact optima, honest bounds, proofs that no plan exists."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.contracts.judgement import PathCosts
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.limits import is_within
from optplan.solvers.paths import TUNING, closing, run_problem
from optplan.solvers.paths.closing import LinkedSolution
from optplan.solvers.paths.linked_dual import LinkedShortfall, maximise_bound
from optplan.solvers.paths.search import Effort
from optplan.solvers.paths.switching import LinkedGraphs

Cases = SearchStrategy[tuple[tuple[PathCosts, ...], FloatArray]]


def check_solution(found: LinkedSolution, graphs: LinkedGraphs, expected: float, gap: float = 1e-9) -> None:
    """Assert that a solution is the optimum, or the proof that there is none."""
    assert found.proven
    if expected == math.inf:
        assert found.paths is None
        assert found.bound == math.inf
        return
    assert found.paths is not None
    assert found.paths.total_value == pytest.approx(expected, rel=gap, abs=1e-9)
    assert found.bound == pytest.approx(expected, rel=gap, abs=1e-9)
    assert is_within(found.paths.total_consumption, graphs.limits)


def solve_pure(costs: Sequence[PathCosts], limits: FloatArray, **changes: Any) -> LinkedSolution | LinkedShortfall:  # noqa: ANN401
    """Solve with branch and price behind enumeration; nodes of a group are neighbours, and no limit is of one group."""
    kinds = [each.group for each in costs]
    own = [np.full(int(kind.max()) + 1, -1) for kind in kinds]
    graphs = LinkedGraphs.from_costs(costs, limits)
    return closing.solve_pure(graphs, runs=lambda: run_problem.state_runs(costs, kinds, own, limits), **changes)


def by_group(costs: PathCosts) -> PathCosts:
    """Return a graph with its nodes by group, of groups that have any; entries cost the same in all layers."""
    order, layers = np.argsort(costs.group, kind="stable"), costs.run_value.shape[0]
    groups, group = np.unique(costs.group[order], return_inverse=True)
    left = groups if costs.num_groups > 1 else np.zeros(1, dtype=np.intp)
    return replace(
        costs,
        group=group,
        run_value=costs.run_value[:, order],
        run_consumption=costs.run_consumption[..., order],
        enter_value=np.repeat(costs.enter_value[left][:, :1, order], layers, axis=1),
        enter_consumption=np.repeat(costs.enter_consumption[:, left][:, :, :1, order], layers, axis=2),
    )


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_finds_the_optimum_of_all_plans(
    random_costs: Callable[..., tuple[PathCosts, ...]],
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    pure_optimum: Callable[..., float],
    monkeypatch: pytest.MonkeyPatch,
    branching: bool,
    grouped: bool,
    whole: bool,
) -> None:
    """Enumeration, and branch and price, agree with looking at every plan; where none exists, that is proven."""
    if branching:
        monkeypatch.setattr("optplan.solvers.paths.closing.TUNING", replace(TUNING, few_labels=0))
    counts = {"none": 0, "mixed only": 0, "found": 0}
    for seed in range(30):
        costs = [by_group(each) for each in random_costs(seed, grouped=grouped, whole=whole)]
        tables = [path_table(graph) for graph in costs]
        limits = random_limits(seed, tables)
        graphs = LinkedGraphs.from_costs(costs, limits)
        found = solve_pure(costs, limits, gap=1e-9)
        expected = pure_optimum(tables, limits)
        if isinstance(found, LinkedShortfall):
            counts["none"] += 1
            assert expected == math.inf
            continue
        counts["found" if found.paths is not None else "mixed only"] += 1
        check_solution(found, graphs, expected)
        assert (found.exhaustion is None) or not branching
    assert counts["none"] > 1
    assert counts["found"] > 15


def test_a_plan_that_only_mixtures_can_keep_is_proven_impossible(one_layer: Callable[..., PathCosts]) -> None:
    """Either node breaks one of the limits; half of each keeps both."""
    found = solve_pure([one_layer("a", [1, 1], [4, 0], [0, 4])], np.array([2.0, 2.0]))
    assert isinstance(found, LinkedSolution)
    assert found.paths is None
    assert found.bound == math.inf
    assert found.proven
    assert found.lagrangian.bound == pytest.approx(1.0, rel=1e-12)


def test_exhaustion_says_what_was_covered(one_layer: Callable[..., PathCosts]) -> None:
    """The allowance reaches the optimum, which lies above the bound of mixtures."""
    # (consumption, value) per graph: (0, 3) or (2, 1) in the first layer, nothing in the second; limit 3: one of two
    # graphs may take the second node, 4 in all. Mixed, 1.5 graphs do: 3; the multiplier is 1.
    costs = [add_layer(one_layer(name, [3, 1], [0, 2])) for name in "ab"]
    found = solve_pure(costs, np.array([3.0]), gap=0.0)
    assert isinstance(found, LinkedSolution)
    check_solution(found, LinkedGraphs.from_costs(costs, np.array([3.0])), 4.0)
    assert found.lagrangian.bound == pytest.approx(3.0, rel=1e-12)
    assert found.exhaustion is not None
    assert found.exhaustion.optimum == 4.0
    assert found.exhaustion.allowance == pytest.approx(1.0, rel=1e-9)
    assert found.exhaustion.multipliers == pytest.approx([1.0], rel=1e-12)


def add_layer(costs: PathCosts) -> PathCosts:
    """Return a graph with a second layer in which nothing costs anything."""

    def extend(each: FloatArray) -> FloatArray:
        return np.concatenate([each, np.zeros_like(each)], axis=-2)

    return replace(
        costs,
        run_value=extend(costs.run_value),
        run_consumption=extend(costs.run_consumption),
        enter_value=extend(costs.enter_value),
        enter_consumption=extend(costs.enter_consumption),
    )


@pytest.mark.parametrize("seed", range(12))
def test_choices_among_nodes_are_proven_without_enumeration(one_layer: Callable[..., PathCosts], seed: int) -> None:
    """Six graphs of one layer and 2 to 4 nodes have the best of all plans, which is divided, not listed."""
    rng = np.random.default_rng(seed)
    numbers = [rng.uniform(0.1, 3.0, (1 + 2 + seed % 2, int(rng.integers(2, 5)))) for _ in range(6)]
    plans = np.array([np.sum(plan, axis=0) for plan in itertools.product(*(each.T for each in numbers))])
    limits = np.quantile(plans[:, 1:], 0.4, axis=0)
    best = float(plans[(plans[:, 1:] <= limits).all(axis=1), 0].min())
    costs = [one_layer(f"g{place}", *each.tolist()) for place, each in enumerate(numbers)]
    found = solve_pure(costs, limits, gap=0.0)
    assert isinstance(found, LinkedSolution)
    check_solution(found, LinkedGraphs.from_costs(costs, limits), best)
    assert (found.labels, found.exhaustion) == (0, None)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_more_never_hurts_and_order_does_not_matter(linked_cases: Cases, data: DataObject) -> None:
    """A raised limit keeps or lowers the optimum; permuted graphs have the same one."""
    costs, limits = data.draw(linked_cases)
    costs = tuple(by_group(each) for each in costs)
    found = solve_pure(costs, limits, gap=1e-9)
    if isinstance(found, LinkedShortfall):
        return
    value = math.inf if found.paths is None else found.paths.total_value
    raised = limits * (1.0 + 0.5 * (np.arange(limits.size) == data.draw(st.integers(0, limits.size - 1))))
    more = solve_pure(costs, raised, gap=1e-9)
    assert isinstance(more, LinkedSolution)
    assert more.paths is not None or value == math.inf
    assert more.paths is None or more.paths.total_value <= value * (1.0 + 1e-8)
    permuted = data.draw(st.permutations(costs))
    other = solve_pure(permuted, limits, gap=1e-9)
    assert isinstance(other, LinkedSolution)
    assert (other.paths is None) == (found.paths is None)
    assert other.paths is None or other.paths.total_value == pytest.approx(value, rel=1e-8)


def make_training_graphs(seed: int, layers: tuple[int, ...]) -> tuple[list[PathCosts], FloatArray]:
    """Make classes that train on two types of GPU under a budget and a quota; changing the type costs extra."""
    rng = np.random.default_rng(seed)
    widths = np.array([1.0, 2, 4, 8, 16])
    group = np.repeat([0, 1], widths.size)
    width, price = np.tile(widths, 2), np.where(group == 0, 1.0, 2.5)
    graphs = []
    for number, count in enumerate(layers):
        speed = np.concatenate([widths ** rng.uniform(0.5, 0.9), 2.0 * widths ** rng.uniform(0.5, 0.9)])
        hours = rng.lognormal(size=(count, 1)) / speed
        pause = np.full((2, count, width.size), 0.05 * hours.mean())
        pause += 0.1 * hours.mean() * (np.arange(2)[:, None, None] != group)
        use = np.array([price * width, (group == 1) * width])
        graphs.append(
            PathCosts(
                name=f"class{number}",
                labels=tuple(str(node) for node in range(width.size)),
                group=group,
                limits=("budget", "quota"),
                run_value=hours,
                run_consumption=hours * use[:, None],
                enter_value=pause,
                enter_consumption=pause * use[:, None, None],
            )
        )
    least = LinkedGraphs.from_costs(graphs, np.ones(2)).best_paths(np.array([1.0, 0.0]), value_weight=0.0)
    return graphs, least.total_consumption[0] * np.array([1.5, 0.3])


def test_label_setting_finds_every_undominated_path() -> None:
    """Against all paths of a graph with groups: what is within the allowance and undominated is there."""
    graphs = LinkedGraphs.from_costs(*make_training_graphs(3, (4,)))
    multipliers, allowance = np.array([0.1, 0.05]), 3.0
    paths = graphs.find_path_sets(multipliers, allowance, Effort())
    best = graphs.best_paths(multipliers).weigh(multipliers)[0]
    every = [graphs.follow(np.zeros(1, dtype=np.intp), np.array([nodes])) for nodes in np.ndindex(10, 10, 10, 10)]
    table = np.array([[path.value[0], *path.consumption[0]] for path in every])
    near = table[table @ np.array([1.0, *multipliers]) <= best + allowance]
    kept = np.column_stack([paths.value, paths.consumption])
    assert len(kept) < len(near)
    for row in near:
        assert np.any(np.all(kept <= row * (1.0 + 1e-12), axis=1))
    for position in range(len(kept)):
        traced = paths.trace(np.array([position]))
        assert [traced.value[0], *traced.consumption[0]] == pytest.approx(kept[position].tolist(), rel=1e-12)


def test_proves_realistic_classes() -> None:
    """Classes with epochs, types and groups are solved to the gap; enumeration agrees with branch and price alone."""
    costs, limits = make_training_graphs(1, (12, 8, 5))
    found = solve_pure(costs, limits, gap=1e-6)
    assert isinstance(found, LinkedSolution)
    assert found.proven
    assert found.paths is not None
    assert found.bound <= found.paths.total_value
    assert found.bound >= found.lagrangian.bound * (1.0 - 1e-12)
    other = solve_pure(costs, limits, gap=1e-6, enumerate_first=False)
    assert isinstance(other, LinkedSolution)
    assert other.branches > 0
    assert other.paths is not None
    assert other.paths.total_value == pytest.approx(found.paths.total_value, rel=2e-6)


def test_limits_on_branches_and_time_leave_an_honest_bound() -> None:
    """What was proven when a limit ended the search is below the optimum, and above the Lagrangian bound."""
    costs, limits = make_training_graphs(1, (12, 8, 5))
    optimum = solve_pure(costs, limits, gap=1e-6)
    assert isinstance(optimum, LinkedSolution)
    found = solve_pure(costs, limits, gap=1e-9, enumerate_first=False, most_parts=3)
    assert isinstance(found, LinkedSolution)
    assert (found.stopped_by, found.proven) == ("branches", False)
    assert optimum.paths is not None
    assert found.lagrangian.bound <= found.bound * (1.0 + 1e-12)
    assert found.bound <= optimum.paths.total_value
    late = solve_pure(costs, limits, effort=Effort(Stopwatch(limit_s=0.0)))
    assert isinstance(late, LinkedSolution)
    assert (late.paths, late.stopped_by, late.proven) == (None, "time", False)
    free = maximise_bound(LinkedGraphs.from_costs(costs, limits), effort=Effort(Stopwatch(limit_s=0.0)))
    assert not isinstance(free, LinkedShortfall)
    assert late.bound == free.bound
