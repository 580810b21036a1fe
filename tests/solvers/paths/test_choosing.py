"""Branch and bound between choices: exact optima, and divisions whose parts cover everything and have their bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray
from optplan.solvers.paths import choosing
from optplan.solvers.paths.branching import Region
from optplan.solvers.paths.choosing import ChoiceSearch, find_choices
from optplan.solvers.paths.closing import solve_pure
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import PathBatch, keep_limits
from optplan.solvers.paths.solutions import LinkedSolution
from optplan.solvers.paths.switching import LinkedGraphs

Maker = Callable[..., PathCosts]


def draw_choices(seed: int, one_layer: Maker) -> tuple[LinkedGraphs, FloatArray]:
    """Draw 6 graphs of 2 to 4 nodes with limits that bind; return them, and all plans (P, 1 + L)."""
    rng = np.random.default_rng(seed)
    numbers = [rng.uniform(0.1, 3.0, (1 + 2 + seed % 2, int(rng.integers(2, 5)))) for _ in range(6)]
    graphs = [one_layer(f"g{place}", *each.tolist()) for place, each in enumerate(numbers)]
    plans = np.array([np.sum(plan, axis=0) for plan in itertools.product(*(each.T for each in numbers))])
    limits = np.quantile(plans[:, 1:], 0.4, axis=0)
    return LinkedGraphs.from_costs(graphs, limits), plans


def find_best(plans: FloatArray, limits: FloatArray) -> float:
    """Return the least value of the plans that keep the limits."""
    return float(plans[(plans[:, 1:] <= limits).all(axis=1), 0].min())


def walk_parts(
    region: Region, graph: NDArray[np.intp], columns: PathBatch, is_open: NDArray[np.bool_]
) -> Iterator[tuple[Region, NDArray[np.bool_]]]:
    """Yield the parts that are not divided, with the nodes (N,) that are open in each."""
    if region.split is None or region.parts is None:
        yield region, is_open
        return
    inside = region.split.side[columns.payload[:, 0]]  # all graphs have their nodes in order, so places are numbers
    for part, side in zip(region.parts, (inside, ~inside), strict=True):
        yield from walk_parts(part, graph, columns, is_open & (side | (graph != region.split.graph)))


@pytest.mark.parametrize("dearest", [1e-3, 1e3])
def test_every_part_of_a_division_has_the_bound_that_is_claimed(
    one_layer: Maker, monkeypatch: pytest.MonkeyPatch, dearest: float
) -> None:
    """From the worst plan on the best is found; weights exclude all of each part, also where limits are cheap to break.

    A part's least weighted sum reaches that of the bound and the limits; without weight of the value it is beyond them.
    """
    monkeypatch.setattr(choosing, "_DEAREST", dearest)
    impossible = divided = 0
    for seed in range(12):
        graphs, plans = draw_choices(seed, one_layer)
        choices = find_choices(graphs)
        assert choices is not None
        graph, columns = choices
        best = find_best(plans, graphs.limits)
        worst = plans[:, 0].max() * np.ones(graphs.num_graphs)
        search = ChoiceSearch(
            graphs, choices, PathBatch(worst, columns.consumption[:6], columns.payload[:6]), 0.0, 1e-11, Effort()
        )
        search.run()
        assert search.plan.total_value == pytest.approx(best, rel=1e-9)
        assert keep_limits(search.plan.total_consumption, graphs.limits)
        assert search.bound == pytest.approx(best, rel=1e-9)
        divided += search.branches
        for part, is_open in walk_parts(search.region, graph, columns, np.ones(graph.size, dtype=np.bool_)):
            sums = np.where(is_open, columns.weigh(part.weights[1:], part.weights[0]), np.inf)
            least = sum(sums[graph == number].min() for number in range(graphs.num_graphs))
            paid = float(part.weights[1:] @ graphs.limits)
            assert least - paid >= part.weights[0] * best * (1.0 - 1e-9)
            impossible += part.weights[0] == 0.0 and least > paid
    assert divided > 12
    assert impossible or dearest > 1.0


def test_choices_are_proven_by_division(one_layer: Maker) -> None:
    """Graphs of one layer have their gap closed without enumeration; with two layers there are no choices."""
    graphs, plans = draw_choices(3, one_layer)
    found = solve_pure(graphs, gap=0.0)
    assert isinstance(found, LinkedSolution)
    assert found.paths is not None
    assert found.paths.total_value == pytest.approx(find_best(plans, graphs.limits), rel=1e-12)
    assert found.proven
    assert (found.labels, found.exhaustion) == (0, None)
    assert found.region is not None
    assert found.region.split is not None
    doubled = one_layer("a", [1, 2], [2, 1], [1, 2])
    doubled = PathCosts(
        name=doubled.name,
        labels=doubled.labels,
        group=doubled.group,
        limits=doubled.limits,
        run_value=np.repeat(doubled.run_value, 2, axis=0),
        run_consumption=np.repeat(doubled.run_consumption, 2, axis=1),
        enter_value=np.repeat(doubled.enter_value, 2, axis=1),
        enter_consumption=np.repeat(doubled.enter_consumption, 2, axis=2),
    )
    assert find_choices(LinkedGraphs.from_costs([doubled], np.array([4.0, 4.0]))) is None
