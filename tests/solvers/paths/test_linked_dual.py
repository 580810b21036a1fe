"""The bound of several limits, the mixture behind it, its prices, and the proofs that limits cannot be kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.contracts.judgement import PathCosts
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.limits import is_within
from optplan.solvers.paths import single
from optplan.solvers.paths.column_generation import Master
from optplan.solvers.paths.linked_dual import (
    LinkedBound,
    LinkedShortfall,
    find_price_range,
    find_relaxations,
    maximise_bound,
)
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.switching import LinkedGraphs
from tests.one_limit import cost_of_one_limit

Cases = SearchStrategy[tuple[tuple[PathCosts, ...], FloatArray]]


def bound_at(graphs: LinkedGraphs, multipliers: FloatArray) -> float:
    """Return L at multipliers."""
    return float(graphs.best_paths(multipliers).weigh(multipliers).sum() - multipliers @ graphs.limits)


def ends_of(graphs: LinkedGraphs, found: LinkedBound, limit: int) -> tuple[float, float]:
    """Return both ends of a limit's price, whose multipliers have to be as good as the best ones."""
    price = find_price_range(graphs, found, limit)
    for end, multipliers in ((price.less, price.less_multipliers), (price.more, price.more_multipliers)):
        if math.isfinite(end):
            scale = found.bound + float(multipliers @ graphs.limits)
            assert bound_at(graphs, multipliers) == pytest.approx(found.bound, rel=1e-6, abs=1e-6 * scale)
            assert multipliers[limit] == end
    return price.less, price.more


def check_mixture(graphs: LinkedGraphs, found: LinkedBound) -> None:
    """Assert that the mixture is one, keeps the limits and attains the bound with few extra fractions."""
    mixture = found.mixture
    assert mixture is not None
    assert found.attained
    assert np.bincount(mixture.graph, weights=mixture.fraction) == pytest.approx(np.ones(graphs.num_graphs), rel=1e-12)
    assert mixture.fraction.min() > 0
    assert is_within(mixture.consumption, graphs.limits)
    scale = found.bound + float(found.multipliers @ graphs.limits)
    assert mixture.value == pytest.approx(found.bound, rel=1e-9, abs=1e-9 * scale)
    assert bound_at(graphs, found.multipliers) == pytest.approx(found.bound, rel=1e-12, abs=1e-12 * scale)
    binding = np.count_nonzero(mixture.consumption >= graphs.limits * (1.0 - 1e-9))
    assert mixture.graph.size - graphs.num_graphs <= binding


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_bound_and_mixture_are_the_optimum_over_all_paths(
    random_costs: Callable[..., tuple[PathCosts, ...]],
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    mixed_optimum: Callable[..., float],
    grouped: bool,
    whole: bool,
) -> None:
    """The bound equals the linear program over every path; where there is none, the factor does."""
    outcomes = {LinkedBound: 0, LinkedShortfall: 0}
    for seed in range(40):
        costs = random_costs(seed, grouped=grouped, whole=whole)
        tables = [path_table(graph) for graph in costs]
        limits = random_limits(seed, tables)
        graphs = LinkedGraphs.from_costs(costs, limits)
        found = maximise_bound(graphs)
        outcomes[type(found)] += 1
        if isinstance(found, LinkedBound):
            assert found.bound == pytest.approx(mixed_optimum(tables, limits), rel=1e-8, abs=1e-9)
            check_mixture(graphs, found)
        else:
            assert found.factor == pytest.approx(mixed_optimum(tables, limits, factor=True), rel=1e-8)
            weighted = graphs.best_paths(found.multipliers, value_weight=0.0).weigh(found.multipliers, 0.0).sum()
            assert weighted == pytest.approx(found.factor, rel=1e-12)
            assert found.multipliers @ limits == pytest.approx(1.0, rel=1e-12)
            assert found.factor > 1.0
    assert min(outcomes.values()) > 2


def test_mixes_one_graph_per_binding_limit(one_layer: Callable[..., PathCosts]) -> None:
    """Two limits split two graphs; multipliers and value by hand."""
    # a: value 4 or 1 + 2 of limit 0; b: value 6 or 1 + 2 of limit 1; limits 1 and 1 allow half of each.
    # y0 = (4 - 1) / 2, y1 = (6 - 1) / 2; value = (4 + 1) / 2 + (6 + 1) / 2 = 6.
    costs = [one_layer("a", [4, 1], [0, 2], [0, 0]), one_layer("b", [6, 1], [0, 0], [0, 2])]
    found = maximise_bound(LinkedGraphs.from_costs(costs, np.array([1.0, 1.0])))
    assert isinstance(found, LinkedBound)
    assert found.bound == pytest.approx(6.0, rel=1e-12)
    assert found.multipliers == pytest.approx([1.5, 2.5], rel=1e-12)
    assert found.mixture is not None
    assert found.mixture.graph.tolist() == [0, 0, 1, 1]
    assert found.mixture.fraction == pytest.approx([0.5, 0.5, 0.5, 0.5], rel=1e-12)


def test_a_limit_of_next_to_nothing_has_its_price(one_layer: Callable[..., PathCosts]) -> None:
    """A mixture may leave alone what rounding allows, and the limit still costs what it keeps out."""
    # Without limit 1 the path of value 1 would be taken: each unit of the limit is worth (4 - 1) / 2.
    costs = [one_layer("a", [4, 1], [0, 0], [0, 2])]
    graphs = LinkedGraphs.from_costs(costs, np.array([1.0, 1e-14]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    assert ends_of(graphs, found, 1) == pytest.approx((1.5, 1.5), rel=1e-9)


def test_prices_stand_where_the_engine_gives_up(
    one_layer: Callable[..., PathCosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where HiGHS cannot tell what a little less or more is worth, both ends are the price that is known."""
    costs = [one_layer("a", [4, 1], [0, 2], [0, 0]), one_layer("b", [6, 1], [0, 0], [0, 2])]
    graphs = LinkedGraphs.from_costs(costs, np.array([1.0, 1.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)

    def give_up(*_: object) -> None:
        raise OutOfEffortError("engine")

    monkeypatch.setattr(Master, "solve", give_up)
    price = find_price_range(graphs, found, 0)
    assert (price.less, price.more) == (found.multipliers[0], found.multipliers[0]) == pytest.approx((1.5, 1.5))


def test_limits_that_do_not_bind_cost_nothing(one_layer: Callable[..., PathCosts]) -> None:
    """Where the paths of least value keep all limits, one pass is all, and everything is free."""
    graphs = LinkedGraphs.from_costs([one_layer("a", [4, 1], [0, 2], [1, 1])], np.array([2.0, 5.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    assert (found.bound, found.passes) == (1.0, 1)
    assert found.multipliers.tolist() == [0.0, 0.0]
    assert found.mixture is not None
    assert found.mixture.fraction.tolist() == [1.0]
    assert ends_of(graphs, found, 1) == (0.0, 0.0)
    # Limit 0 is met exactly: less of it costs (4 - 1) / 2 per unit, more gains nothing.
    assert ends_of(graphs, found, 0) == pytest.approx((1.5, 0.0), rel=1e-9)


def test_a_limit_met_exactly_by_the_least_consumption_is_feasible(one_layer: Callable[..., PathCosts]) -> None:
    """At the edge the plan is the only one, whatever rounding adds; nothing less is feasible."""
    # 0.1 + 0.2 of limit 0 at least, which is above 0.3 in floating point.
    costs = [one_layer("a", [1, 0], [0.1, 1]), one_layer("b", [1, 0], [0.2, 1])]
    graphs = LinkedGraphs.from_costs(costs, np.array([0.3]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    assert found.bound == pytest.approx(2.0, rel=1e-8)
    less, more = ends_of(graphs, found, 0)
    # The steepest exchange is b's: 1 less value for 0.8 more.
    assert less == math.inf
    assert more == pytest.approx(1 / 0.8, rel=1e-6)


def test_infeasible_limits_come_with_weights_and_relaxations(one_layer: Callable[..., PathCosts]) -> None:
    """Factor, weights and the least of each limit, by hand."""
    # Nodes consume (4, 0) or (0, 4): any mixture adds up to 4, the limits 1 and 2 to 3.
    graphs = LinkedGraphs.from_costs([one_layer("a", [1, 1], [4, 0], [0, 4])], np.array([1.0, 2.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedShortfall)
    assert found.factor == pytest.approx(4 / 3, rel=1e-12)
    assert found.multipliers == pytest.approx([1 / 3, 1 / 3], rel=1e-12)
    first, second = find_relaxations(graphs, found)
    # With the second at 2, half the path may use it: 2 of the first remain. With the first at 1: 3 of the second.
    assert first.least == pytest.approx(2.0, rel=1e-12)
    assert second.least == pytest.approx(3.0, rel=1e-12)
    assert first.multipliers == pytest.approx([1.0, 1.0], rel=1e-12)
    assert first.attained
    assert second.attained


def test_no_relaxation_of_one_limit_where_the_others_cannot_be_kept(one_layer: Callable[..., PathCosts]) -> None:
    """Two hopeless limits: none of them alone helps."""
    graphs = LinkedGraphs.from_costs([one_layer("a", [1], [4], [4])], np.array([1.0, 2.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedShortfall)
    assert found.factor == pytest.approx(4.0, rel=1e-12)
    for limit, futility in enumerate(find_relaxations(graphs, found)):
        assert futility.least == math.inf
        # The other limit alone is four times, or twice, exceeded.
        assert futility.multipliers[limit] == 0.0
        assert futility.multipliers @ [4.0, 4.0] > 1.9 * (futility.multipliers @ graphs.limits)


def test_relaxations_are_least_over_all_mixtures(
    random_costs: Callable[..., tuple[PathCosts, ...]],
    path_table: Callable[[PathCosts], FloatArray],
    mixed_optimum: Callable[..., float],
) -> None:
    """Each relaxation equals the linear program over every path, and its multipliers prove it."""
    checked = 0
    for seed in range(40):
        costs = random_costs(seed, grouped=True)
        tables = [path_table(graph) for graph in costs]
        least = np.asarray(sum(table[:, 1:].min(axis=0) for table in tables))
        limits = least * np.random.default_rng(seed).uniform(0.9, 1.3, least.size)
        graphs = LinkedGraphs.from_costs(costs, limits)
        found = maximise_bound(graphs)
        if not isinstance(found, LinkedShortfall):
            continue
        for limit, relaxation in enumerate(find_relaxations(graphs, found)):
            expected = mixed_optimum(tables, limits, limit + 1)
            if relaxation.least == math.inf:
                assert expected == math.inf
                continue
            checked += 1
            assert relaxation.least == pytest.approx(expected, rel=1e-8)
            weights = relaxation.multipliers
            others = np.where(np.arange(limits.size) == limit, 0.0, limits)
            proof = graphs.best_paths(weights, value_weight=0.0).weigh(weights, 0.0).sum() - weights @ others
            assert proof == pytest.approx(relaxation.least, rel=1e-10)
    assert checked > 10


def test_price_ranges_are_the_one_sided_slopes(
    random_costs: Callable[..., tuple[PathCosts, ...]],
    random_limits: Callable[..., FloatArray],
    path_table: Callable[[PathCosts], FloatArray],
    mixed_optimum: Callable[..., float],
) -> None:
    """Prices agree with finite differences of the linear program over every path."""
    checked = 0
    for seed in range(25):
        costs = random_costs(seed, grouped=True, whole=seed % 2 == 0)
        tables = [path_table(graph) for graph in costs]
        limits = random_limits(seed, tables)
        graphs = LinkedGraphs.from_costs(costs, limits)
        found = maximise_bound(graphs)
        if not isinstance(found, LinkedBound):
            continue
        for limit in range(limits.size):
            step = 1e-4 * limits[limit] * (np.arange(limits.size) == limit)
            here = mixed_optimum(tables, limits)
            less, more = ends_of(graphs, found, limit)
            lower, upper = mixed_optimum(tables, limits - step), mixed_optimum(tables, limits + step)
            tolerance = 1e-5 * found.bound / limits[limit]
            if less < math.inf:
                assert (lower - here) / step[limit] >= less - tolerance
            else:
                assert lower == math.inf
            assert (here - upper) / step[limit] <= more + tolerance
            assert less >= more - tolerance
            checked += (lower - here) / step[limit] == pytest.approx(less, rel=1e-4, abs=tolerance)
            checked += (here - upper) / step[limit] == pytest.approx(more, rel=1e-4, abs=tolerance)
    # Now and then a kink lies within the step of the finite difference.
    assert checked > 50


def test_kinks_have_two_prices(one_layer: Callable[..., PathCosts]) -> None:
    """At a corner of the trade-off less costs more than more gains."""
    # Points (consumption, value): (0, 6), (1, 2), (2, 1): slopes 4 and 1 on either side of 1.
    graphs = LinkedGraphs.from_costs([one_layer("a", [6, 2, 1], [0, 1, 2], [1, 1, 1])], np.array([1.0, 9.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    assert ends_of(graphs, found, 0) == pytest.approx((4.0, 1.0), rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_engine_of_one_budget(
    random_costs: Callable[..., tuple[PathCosts, ...]], random_limits: Callable[..., FloatArray], seed: int
) -> None:
    """With one limit and one group, bound and prices are those of the single-budget engine."""
    costs = list(random_costs(seed, grouped=False))
    limits = np.array([random_limits(seed, [np.array([[0.0, 1.0], [0.0, 30.0]])])[0]])
    plain = [
        cost_of_one_limit(
            graph.name,
            range(len(graph.labels)),
            graph.run_value,
            graph.run_consumption[0],
            graph.enter_value[0],
            graph.enter_consumption[0, 0],
        )
        for graph in costs
    ]
    graphs = LinkedGraphs.from_costs(plain, limits)
    peer = LinkedGraphs.from_costs(plain)
    found, expected = maximise_bound(graphs), single.maximise_bound(peer, float(limits[0]))
    if isinstance(expected, single.BudgetShortfall):
        assert isinstance(found, LinkedShortfall)
        assert found.factor * limits[0] == pytest.approx(expected.least_budget, rel=1e-12)
        relaxation = find_relaxations(graphs, found)[0]
        assert relaxation.least == pytest.approx(expected.least_budget, rel=1e-12)
    else:
        assert isinstance(found, LinkedBound)
        assert found.bound == pytest.approx(expected.bound, rel=1e-9)
        prices = single.find_multiplier_range(peer, expected)
        assert ends_of(graphs, found, 0) == pytest.approx(prices, rel=1e-6, abs=1e-9)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_raising_a_limit_never_hurts(linked_cases: Cases, data: DataObject) -> None:
    """The bound falls, or stays, when a limit grows; what was feasible stays so."""
    costs, limits = data.draw(linked_cases)
    raised = limits.copy()
    raised[data.draw(st.integers(0, limits.size - 1))] *= data.draw(st.floats(1.0, 2.0))
    before = maximise_bound(LinkedGraphs.from_costs(costs, limits))
    after = maximise_bound(LinkedGraphs.from_costs(costs, raised))
    if isinstance(before, LinkedBound):
        assert isinstance(after, LinkedBound)
        assert after.bound <= before.bound + 1e-9 * (before.bound + float(before.multipliers @ limits))


@given(data=st.data(), value_unit=st.sampled_from([1e6, 1e-6]), unit=st.sampled_from([1e6, 1e-6, 1.0]))
@settings(max_examples=25, deadline=None)
def test_units_change_nothing(linked_cases: Cases, data: DataObject, value_unit: float, unit: float) -> None:
    """Values and consumptions in other units give the same answer in these units."""
    costs, limits = data.draw(linked_cases)
    scaled = [
        PathCosts(
            graph.name,
            graph.labels,
            graph.group,
            graph.limits,
            graph.run_value * value_unit,
            graph.run_consumption * unit,
            graph.enter_value * value_unit,
            graph.enter_consumption * unit,
        )
        for graph in costs
    ]
    found = maximise_bound(LinkedGraphs.from_costs(costs, limits))
    other = maximise_bound(LinkedGraphs.from_costs(scaled, limits * unit))
    if isinstance(found, LinkedShortfall):
        assert isinstance(other, LinkedShortfall)
        assert other.factor == pytest.approx(found.factor, rel=1e-9)
    else:
        assert isinstance(other, LinkedBound)
        assert other.bound == pytest.approx(found.bound * value_unit, rel=1e-9)
        check_mixture(LinkedGraphs.from_costs(scaled, limits * unit), other)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_order_of_graphs_changes_nothing(linked_cases: Cases, data: DataObject) -> None:
    """Permuted graphs have the same bound, or the same factor."""
    costs, limits = data.draw(linked_cases)
    permuted: Sequence[PathCosts] = data.draw(st.permutations(costs))
    found = maximise_bound(LinkedGraphs.from_costs(costs, limits))
    other = maximise_bound(LinkedGraphs.from_costs(permuted, limits))
    if isinstance(found, LinkedShortfall):
        assert isinstance(other, LinkedShortfall)
        assert other.factor == pytest.approx(found.factor, rel=1e-9)
    else:
        assert isinstance(other, LinkedBound)
        assert other.bound == pytest.approx(found.bound, rel=1e-9)


def test_many_graphs_of_one_layer(one_layer: Callable[..., PathCosts]) -> None:
    """Hundreds of graphs: bound and mixture agree, with at most one split per limit."""
    rng = np.random.default_rng(5)
    width = np.arange(1.0, 9.0)
    costs = []
    for number in range(400):
        hours = rng.lognormal() / width ** rng.uniform(0.4, 0.95)
        costs.append(one_layer(str(number), hours.tolist(), (hours * width).tolist(), (hours * (width > 4)).tolist()))
    graphs = LinkedGraphs.from_costs(costs, np.array([900.0, 40.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    check_mixture(graphs, found)
    assert found.passes < 25


def test_without_time_the_first_bound_is_returned(one_layer: Callable[..., PathCosts]) -> None:
    """A clock that has run out leaves the bound of the first pass, no mixture, and no error."""
    graphs = LinkedGraphs.from_costs([one_layer("a", [4, 1], [0, 2])], np.array([1.0]))
    found = maximise_bound(graphs, effort=Effort(Stopwatch(limit_s=0.0)))
    assert isinstance(found, LinkedBound)
    assert (found.bound, found.mixture, found.attained) == (1.0, None, False)


def test_prices_of_one_limit_while_another_is_at_its_edge(one_layer: Callable[..., PathCosts]) -> None:
    """A limit that can be kept only just does not make changes of the others look infeasible."""
    # Limit 0 needs 0.1 + 0.2, which is above 0.3 in floating point; limit 1 trades 3 of value for 2.
    costs = [one_layer("a", [1, 0], [0.1, 1], [0, 0]), one_layer("b", [4, 1], [0.2, 0.2], [0, 2])]
    graphs = LinkedGraphs.from_costs(costs, np.array([0.3, 1.0]))
    found = maximise_bound(graphs)
    assert isinstance(found, LinkedBound)
    assert ends_of(graphs, found, 1) == pytest.approx((1.5, 1.5), rel=1e-6)
