"""What holds of every closing of a gap, whatever the kind of graph and the number of limits.

One problem that all of them can state: in each of some layers one option is taken, and going from one to another is
free. It is one layered graph, or a graph for each layer, under one limit or under two; and one graph of sizes held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from optplan.contracts.judgement import PathCosts
from optplan.progress import Event, Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths import closing, run_problem, single
from optplan.solvers.paths.held import HeldShortfall, solve_held
from optplan.solvers.paths.held_graphs import HeldGraph
from optplan.solvers.paths.linked_dual import LinkedShortfall
from optplan.solvers.paths.search import Effort, Exhaustion
from optplan.solvers.paths.single import BudgetShortfall
from optplan.solvers.paths.switching import LinkedGraphs


@dataclass(frozen=True)
class Found:
    """What a closing says: the plan's value and use (None without a plan), the bounds, and why it stopped."""

    value: float | None
    used: float | None
    bound: float
    least: float
    exhaustion: Exhaustion | None
    proven: bool
    stopped_by: str | None


@dataclass(frozen=True)
class Problem:
    """Options (J, K) with their values and uses; each family states it."""

    value: FloatArray
    use: FloatArray

    @property
    def plans(self) -> Iterator[tuple[float, float]]:
        """The (use, value) of every plan."""
        layers = np.arange(len(self.value))
        for plan in product(range(self.value.shape[1]), repeat=layers.size):
            yield float(self.use[layers, plan].sum()), float(self.value[layers, plan].sum())

    def best(self, limit: float) -> float:
        """Return the least value of a plan within a limit; +inf where there is none."""
        return min((value for use, value in self.plans if use <= limit * (1 + 1e-9)), default=math.inf)


Solve = Callable[[Problem, float, float, Effort], Found | None]


def state_layered(problem: Problem, *, apart: bool, limits: int) -> list[PathCosts]:
    """State one graph, or one for each layer, with so many equal limits."""
    layers = [np.array([layer]) for layer in range(len(problem.value))] if apart else [np.arange(len(problem.value))]
    nodes = problem.value.shape[1]
    return [
        PathCosts(
            name=f"graph{number}",
            labels=tuple(str(node) for node in range(nodes)),
            group=np.zeros(nodes, dtype=np.int64),
            limits=tuple(f"limit{limit}" for limit in range(limits)),
            run_value=problem.value[rows],
            run_consumption=np.tile(problem.use[rows], (limits, 1, 1)),
            enter_value=np.zeros((1, rows.size, nodes)),
            enter_consumption=np.zeros((limits, 1, rows.size, nodes)),
        )
        for number, rows in enumerate(layers)
    ]


def solve_one_limit(problem: Problem, limit: float, gap: float, effort: Effort, *, apart: bool) -> Found | None:
    """Close the gap under one budget."""
    graphs = LinkedGraphs.from_costs(state_layered(problem, apart=apart, limits=1))
    found = single.solve_pure(graphs, limit, gap=gap, effort=effort)
    if isinstance(found, BudgetShortfall):
        return None
    least, used = found.lagrangian.bound, found.paths.total_used
    return Found(found.value, used, found.bound, least, found.exhaustion, found.proven, found.stopped_by)


def solve_several_limits(
    problem: Problem, limit: float, gap: float, effort: Effort, *, apart: bool, limits: int
) -> Found | None:
    """Close the gap under several limits."""
    costs = state_layered(problem, apart=apart, limits=limits)
    amounts, kinds, own = np.full(limits, limit), [each.group for each in costs], [np.array([-1]) for _ in costs]
    found = closing.solve_pure(
        LinkedGraphs.from_costs(costs, amounts),
        gap=gap,
        effort=effort,
        runs=lambda: run_problem.state_runs(costs, kinds, own, amounts),
    )
    if isinstance(found, LinkedShortfall):
        return None
    plan, least = found.paths, found.lagrangian.bound
    value, used = (None, None) if plan is None else (plan.total_value, float(plan.total_consumption.max()))
    return Found(value, used, found.bound, least, found.exhaustion, found.proven, found.stopped_by)


def _grow_free(before: IntArray, after: IntArray) -> FloatArray:
    return np.zeros((2, *(after - before).shape))


def solve_sizes(problem: Problem, limit: float, gap: float, effort: Effort) -> Found | None:
    """Close the gap of sizes held, of which growth is free."""
    nodes = np.arange(problem.value.shape[1])
    layers = [(nodes, value, use) for value, use in zip(problem.value, problem.use, strict=True)]
    graph = HeldGraph.from_layers(np.zeros((2, nodes.size)), _grow_free, layers)
    found = solve_held(graph, limit, gap=gap, effort=effort)
    if isinstance(found, HeldShortfall):
        return None
    value, used = (None, None) if found.options is None else (found.value, found.consumption)
    least = found.lagrangian.bound
    return Found(value, used, found.bound, least, found.exhaustion, found.proven, found.stopped_by)


FAMILIES: dict[str, Solve] = {
    "one graph, one limit": lambda *asked: solve_one_limit(*asked, apart=False),
    "many graphs, one limit": lambda *asked: solve_one_limit(*asked, apart=True),
    "one graph by columns": lambda *asked: solve_several_limits(*asked, apart=False, limits=1),
    "many graphs by columns": lambda *asked: solve_several_limits(*asked, apart=True, limits=1),
    "many graphs, two limits": lambda *asked: solve_several_limits(*asked, apart=True, limits=2),
    "sizes held": solve_sizes,
}
every_family = pytest.mark.parametrize("solve", FAMILIES.values(), ids=FAMILIES.keys())


def draw_problem(seed: int, *, whole: bool = False) -> Problem:
    """Draw 4 layers of 4 options; whole numbers make ties and exact limits likely."""
    rng = np.random.default_rng(seed)
    value, use = rng.uniform(1.0, 9.0, (2, 4, 4))
    return Problem(np.round(value), np.round(use)) if whole else Problem(value, use)


@every_family
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("gap", [0.0, 0.05])
def test_finds_and_proves_the_best_plan(solve: Solve, gap: float, whole: bool) -> None:
    """The value is that of the best of all plans, to within the gap, and what is said about bounds holds."""
    for seed in range(8):
        problem = draw_problem(seed, whole=whole)
        limit = float(np.quantile([use for use, _ in problem.plans], 0.05 + 0.05 * seed, method="nearest"))
        best, found = problem.best(limit), solve(problem, limit, gap, Effort())
        assert found is not None
        assert found.value is not None
        assert found.used is not None
        assert (found.proven, found.stopped_by) == (True, None)
        assert found.used <= limit * (1 + 1e-9)
        assert found.least <= found.bound * (1 + 1e-12)
        assert found.bound <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= found.value <= best / (1.0 - gap) * (1 + 1e-9)
        if found.exhaustion is not None and found.exhaustion.optimum is not None:
            assert found.exhaustion.optimum == found.value == found.bound
            assert found.value <= found.least + found.exhaustion.allowance


@every_family
def test_no_plan_is_a_proof(solve: Solve) -> None:
    """Below the least use there is no plan; at exactly the least use there is one."""
    problem = draw_problem(1, whole=True)
    least = float(problem.use.min(axis=1).sum())
    assert solve(problem, 0.99 * least, 0.0, Effort()) is None
    found = solve(problem, least, 0.0, Effort())
    assert found is not None
    assert found.value == problem.best(least)


@every_family
def test_a_greater_limit_never_hurts(solve: Solve) -> None:
    """The optimum falls with the limit, down to the least value of all."""
    problem = draw_problem(4)
    values = []
    for limit in np.linspace(problem.use.min(axis=1).sum(), problem.use.max(axis=1).sum(), 7).tolist():
        found = solve(problem, limit, 0.0, Effort())
        assert found is not None
        assert found.value is not None
        values.append(found.value)
    assert np.all(np.diff(values) <= 1e-9)
    assert values[-1] == pytest.approx(problem.value.min(axis=1).sum(), rel=1e-12)


@every_family
def test_out_of_time_the_bound_is_honest(solve: Solve) -> None:
    """What is known when time runs out is no more than what is true, and nothing is called proven."""
    problem = draw_problem(7)
    limit = float(np.quantile([use for use, _ in problem.plans], 0.2))
    found = solve(problem, limit, 0.0, Effort(Stopwatch(limit_s=0.0)))
    assert found is not None
    assert (found.proven, found.stopped_by) == (False, "time")
    best = problem.best(limit)
    assert found.bound <= best
    assert found.value is None or found.value >= best * (1 - 1e-12)


@every_family
def test_the_listener_is_told(solve: Solve) -> None:
    """Events carry the best plan's value and the bound, which close in on each other."""
    events: list[Event] = []
    problem = draw_problem(7)
    limit = float(np.quantile([use for use, _ in problem.plans], 0.2))
    found = solve(problem, limit, 0.0, Effort(Stopwatch(listener=events.append)))
    assert found is not None
    assert events[0].stage == "bound"
    assert {event.stage for event in events[1:]} in ({"labels"}, {"branches"})
    told = [math.inf if event.objective is None else event.objective for event in events]
    assert told == sorted(told, reverse=True)
    assert (events[-1].objective, events[-1].bound) == (found.value, found.bound)
