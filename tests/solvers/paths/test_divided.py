"""Gaps that are closed for each path of a graph apart, because a mixed plan gains by splitting that one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from optplan.contracts import PathCosts
from optplan.judging.enumeration import least_divided
from optplan.progress import Event, Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.paths import TUNING, Tuning
from optplan.solvers.paths.search import Effort
from optplan.solvers.paths.single import PureSolution, solve_pure
from optplan.solvers.paths.switching import LinkedGraphs
from tests.one_limit import cost_of_one_limit

Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]
TotalLister = Callable[[LinkedGraphs], FloatArray]
#: Divides as soon as one round has left a gap.
SOON = replace(TUNING, labels_undivided=0, labels_of_sides=1e9)


@pytest.fixture
def divide_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a graph divided as soon as one round has left a gap."""
    monkeypatch.setattr("optplan.solvers.paths.single.TUNING", SOON)


def make_choice(name: str, *paths: tuple[float, float]) -> PathCosts:
    """Make a graph of one layer, whose nodes are paths with (consumption, value)."""
    entries, widths = np.zeros((1, len(paths))), list(range(1, len(paths) + 1))
    used, value = np.array(paths, dtype=float).T[:, None]
    return cost_of_one_limit(name, widths, value, used, entries, entries)


def solved(graphs: LinkedGraphs, budget: float, gap: float = 0.0, effort: Effort | None = None) -> PureSolution:
    """Solve where there is a plan."""
    found = solve_pure(graphs, budget, gap=gap, effort=effort)
    assert isinstance(found, PureSolution)
    return found


@pytest.mark.usefixtures("divide_soon")
def test_a_path_that_never_fits_by_hand() -> None:
    """Path (8, 20) of the first graph leaves 2 of the budget of 10, and the second graph takes 3 at least.

    At 20 a unit both paths of the first cost 180, and the second's best is (3, 12): the bound is 180 + 72 - 200 = 52.
    With path (4, 100) 6 are left, all that the second can use: 100 + 6 = 106, without a price.
    """
    costs = [make_choice("a", (4, 100), (8, 20)), make_choice("b", (3, 12), (4, 9), (5, 7), (6, 6))]
    found = solved(LinkedGraphs.from_costs(costs), 10.0)
    assert (found.lagrangian.multiplier, found.lagrangian.bound) == (20.0, 52.0)
    assert (found.value, found.bound, found.proven) == (106.0, 106.0, True)
    assert found.paths.payload.tolist() == [[0], [3]]
    exhaustion = found.exhaustion
    assert exhaustion is not None
    assert (exhaustion.divided, exhaustion.further, exhaustion.optimum) == ((0,), (0.0,), 106.0)
    assert exhaustion.allowance == pytest.approx(54.0, rel=1e-9)
    prices = np.array([[1.0, 20.0], [1.0, 0.0]])
    for below, least in ((106.5, 106.0), (105.5, math.inf)):
        ceilings = below + prices[:, 1] * 10.0
        assert least_divided(costs, [0], prices, ceilings, np.array([10.0]), Stopwatch()) == least


@pytest.mark.usefixtures("divide_soon")
def test_brute_force_agrees(training_classes: Maker, list_totals: TotalLister) -> None:
    """Three classes of 2 or 3 epochs: optimum, bound and proof are right from the least budget on."""
    divided = 0
    for seed in range(15):
        graphs = training_classes(seed, (3, 3, 2), 4)
        totals = list_totals(graphs)
        for share in (1e-4, 1e-3, 0.01, 0.1):
            budget = float(np.quantile(totals[:, 0], share, method="nearest"))
            best = totals[totals[:, 0] <= budget * (1 + 1e-9), 1].min()
            found = solved(graphs, budget)
            assert found.proven
            assert found.value == found.bound == pytest.approx(best, rel=1e-12)
            divided += found.exhaustion is not None and len(found.exhaustion.divided) > 0
    assert divided > 30


@pytest.mark.parametrize(
    "never", [replace(SOON, most_sides=1), replace(SOON, labels_of_sides=0.0), replace(SOON, many_graphs=3)]
)
def test_what_keeps_graphs_undivided_changes_no_answer(
    never: Tuning, monkeypatch: pytest.MonkeyPatch, training_classes: Maker
) -> None:
    """Too many paths, paths that take too long to list, and many graphs: all plans are enumerated then."""
    graphs = training_classes(0, (30, 25, 20), 32)
    monkeypatch.setattr("optplan.solvers.paths.single.TUNING", SOON)
    apart = solved(graphs, 90.0)
    monkeypatch.setattr("optplan.solvers.paths.single.TUNING", never)
    together = solved(graphs, 90.0)
    assert apart.exhaustion is not None
    assert together.exhaustion is not None
    assert (len(apart.exhaustion.divided) > 0, together.exhaustion.divided) == (True, ())
    assert apart.value == together.value == apart.bound == together.bound


@pytest.mark.usefixtures("divide_soon")
def test_the_listener_hears_of_all_plans_only(training_classes: Maker) -> None:
    """The bound of a part is none of all plans: what is told never lies above the optimum."""
    events: list[Event] = []
    found = solved(training_classes(0, (30, 25, 20), 32), 90.0, effort=Effort(Stopwatch(listener=events.append)))
    bounds = [event.bound for event in events if event.bound is not None]
    assert len(bounds) > 3
    assert max(bounds) == found.value
    assert bounds == sorted(bounds)


@pytest.mark.usefixtures("divide_soon")
def test_out_of_pairs_amid_the_parts_the_bound_is_honest(training_classes: Maker) -> None:
    """A search that is stopped while parts are looked at keeps what was proven of all plans before."""
    graphs = training_classes(0, (30, 25, 20, 10), 32)
    optimum = solved(graphs, 110.0).value
    for most in (0, 1, 10, 100, 1_000):
        found = solved(graphs, 110.0, effort=Effort(max_pairs=most))
        assert found.lagrangian.bound <= found.bound <= optimum <= found.value
        assert found.proven == (found.bound == found.value)
