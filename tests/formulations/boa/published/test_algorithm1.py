"""Algorithm 1 as published: a heuristic that keeps its promises and no more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, PathCosts, SolveRequest, Status, Termination
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.published.algorithm1 import (
    glue_epochs,
    solve_algorithm1,
    sort_segments,
)
from optplan.instances.generators import random_boa
from optplan.progress import Event, Stopwatch
from optplan.solving import solve
from optplan.speedup import PowerSpeedup
from optplan.units import Amount, BudgetUnit
from tests.formulations.boa.published.convex_program import compile_program
from tests.one_limit import cost_of_one_limit

SEEDS = st.integers(0, 10_000)


def with_budget(instance: BoaInstance, gpus: float) -> BoaInstance:
    """Return the instance with another budget."""
    return instance.replace(budget=Amount(gpus, BudgetUnit.GPU))


def widths(answer: Answer[BoaSolution]) -> dict[str, list[float]]:
    """Return the plan's rows by class."""
    assert answer.solution is not None
    return {name: branches[0].widths.tolist() for name, branches in answer.solution.branches.items()}


def every_pure_plan(costs: list[PathCosts]) -> Iterator[tuple[float, float]]:
    """Yield value and consumption of every pure plan."""
    per_class = []
    for c in costs:
        totals = []
        for path in itertools.product(range(len(c.labels)), repeat=len(c.run_value)):
            entered = [layer == 0 or path[layer] != path[layer - 1] for layer in range(len(path))]
            steps = list(zip(range(len(path)), path, entered, strict=True))
            value = sum(c.run_value[e, k] + n * c.enter_value[0, e, k] for e, k, n in steps)
            use = sum(c.run_consumption[0, e, k] + n * c.enter_consumption[0, 0, e, k] for e, k, n in steps)
            totals.append((value, use))
        per_class.append(totals)
    for combination in itertools.product(*per_class):
        yield sum(v for v, _ in combination), sum(c for _, c in combination)


def test_the_seed_decides() -> None:
    """The same seed gives the same plan and the same amount of work; the seed is what samples configurations."""
    instance = random_boa(classes=3, epochs=20, widths=8, seed=1)
    first, again = (solve_algorithm1(instance, SolveRequest(seed=7)) for _ in range(2))
    assert widths(first) == widths(again)
    assert first.counters == again.counters
    others = [solve_algorithm1(instance, SolveRequest(seed=s), sort_segments, samples=1) for s in range(10)]
    assert len({str(other.counters) + str(widths(other)) for other in others}) > 1


@settings(max_examples=25)
@given(seed=SEEDS, looseness=st.sampled_from([1.0, 1.05, 1.5, 4.0]))
def test_it_is_never_better_than_the_optimum_and_keeps_the_budget(seed: int, looseness: float) -> None:
    """Against all pure plans of tiny instances, from the least budget on."""
    instance = random_boa(classes=2, epochs=3, widths=3, seed=seed)
    budget = least_budget(instance)[0] * looseness
    optimum = min(v for v, c in every_pure_plan(path_costs(instance)) if c <= budget * (1 + 1e-9))
    answer = solve_algorithm1(with_budget(instance, budget), SolveRequest())
    if answer.status is Status.UNKNOWN:
        assert (answer.solution, answer.objective) == (None, None)
        return
    assert answer.status is Status.FEASIBLE
    assert answer.bound is None
    assert answer.solution is not None
    assert answer.objective is not None
    judged = evaluate(with_budget(instance, budget), answer.solution)
    assert all(check.holds for check in judged.checks)
    assert judged.objective == pytest.approx(answer.objective, rel=1e-12)
    assert answer.objective >= optimum * (1 - 1e-9)


@settings(max_examples=8)
@given(seed=SEEDS, looseness=st.sampled_from([1.02, 1.5, 50.0]))
def test_both_inner_solvers_agree(seed: int, looseness: float) -> None:
    """Sorting segments and CVXPY solve the same glued problems, so Algorithm 1 ends with the same plan."""
    instance = random_boa(classes=2, epochs=4, widths=5, seed=seed)
    instance = with_budget(instance, least_budget(instance)[0] * looseness)
    fast, program = (
        solve_algorithm1(instance, SolveRequest(seed=seed), prepare, samples=3)
        for prepare in (sort_segments, compile_program)
    )
    assert fast.status == program.status
    if fast.status is Status.FEASIBLE:
        assert widths(fast) == widths(program)
        assert fast.objective == pytest.approx(program.objective, rel=1e-12)


@settings(max_examples=15)
@given(seed=SEEDS, looseness=st.sampled_from([1.0, 1.01, 1.3, 3.0, 100.0]))
def test_the_convex_program_finds_what_sorting_finds(seed: int, looseness: float) -> None:
    """Row by row: value and consumption of every super-epoch; above the hull's end no budget is used."""
    costs = path_costs(random_boa(classes=2, epochs=6, widths=6, seed=seed))
    epochs = glue_epochs(costs, (2, 4))
    budget = float(np.where(epochs.vertex, epochs.consumption, np.inf).min(axis=1).sum()) * looseness
    fast, program = sort_segments(epochs)(budget), compile_program(epochs)(budget)
    assert fast is not None
    assert program is not None
    assert program[:, 0].sum() == pytest.approx(fast[:, 0].sum(), rel=1e-6)
    assert program[:, 1].sum() <= budget * (1 + 1e-6)
    assert fast[:, 1].sum() <= budget * (1 + 1e-9)
    if looseness == 100.0:
        assert program == pytest.approx(fast, rel=1e-5)


def test_gluing_by_hand() -> None:
    """Five epochs glued by two: (1 + 2), (3 + 4), and 5 alone; the class with fewer widths is padded with infinity."""
    zeros = np.zeros((5, 2))
    five = cost_of_one_limit(
        name="five",
        nodes=[1, 2],
        run_value=np.array([[1.0, 0.5], [2.0, 1.0], [3.0, 1.5], [4.0, 2.0], [5.0, 2.5]]),
        run_consumption=np.array([[1.0, 1.5], [2.0, 3.0], [3.0, 4.5], [4.0, 6.0], [5.0, 7.5]]),
        enter_value=zeros,
        enter_consumption=zeros,
    )
    one = cost_of_one_limit(
        name="one",
        nodes=[1],
        run_value=np.array([[9.0]]),
        run_consumption=np.array([[8.0]]),
        enter_value=np.zeros((1, 1)),
        enter_consumption=np.zeros((1, 1)),
    )
    glued = glue_epochs([five, one], (2, 1))
    assert glued.value.tolist() == [[3.0, 1.5], [7.0, 3.5], [5.0, 2.5], [9.0, np.inf]]
    assert glued.consumption.tolist() == [[3.0, 4.5], [7.0, 10.5], [5.0, 7.5], [8.0, np.inf]]
    assert glued.vertex.tolist() == [[True, True]] * 3 + [[True, False]]
    assert glued.first.tolist() == [0, 3, 4]


def test_a_super_epoch_has_the_harmonic_mean_speed() -> None:
    """Speeds 2 and 1 over an hour each: 1.5 h in all, so 4/3; the arithmetic mean 1.5 would promise 1.33 h."""
    job_class = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=np.ones(2),
        speedup={"gpu": PowerSpeedup(exponent=np.array([1.0, 0.0]))},
        widths=Widths(max=2),
    )
    costs = path_costs(BoaInstance(classes={"job": job_class}, gpu_types={"gpu": GpuType()}))
    assert glue_epochs(costs, (2,)).value.tolist() == [[7200.0, 5400.0]]


@settings(max_examples=20)
@given(seed=SEEDS, looseness=st.sampled_from([1.1, 2.0, 20.0]))
def test_one_super_epoch_is_a_fixed_width(seed: int, looseness: float) -> None:
    """With one class of one epoch there is nothing to glue; the plan is a vertex of the hull that fits.

    Steps of one per cent may pass over the best one, so it is never better than the best fixed width; with a budget
    that is no object it is the fastest vertex.
    """
    instance = random_boa(classes=1, epochs=1, widths=8, seed=seed)
    budget = least_budget(instance)[0] * looseness
    (costs,) = path_costs(instance)
    answer = solve_algorithm1(with_budget(instance, budget), SolveRequest())
    (row,) = widths(answer).values()
    fits = costs.run_consumption[0, 0] + costs.enter_consumption[0, 0, 0] <= budget * (1 + 1e-9)
    vertices = np.flatnonzero(glue_epochs([costs], (1,)).vertex[0] & fits)
    best = vertices[costs.run_value[0, vertices].argmin()]
    taken = costs.labels.index(f"{row[0]:g}")
    assert taken in vertices
    assert answer.objective == pytest.approx(costs.run_value[0, taken] + costs.enter_value[0, 0, taken], rel=1e-12)
    assert answer.objective is not None
    fixed = solve(with_budget(instance, budget), solver="fixed-width")
    assert fixed.objective is not None
    assert answer.objective >= fixed.objective * (1 - 1e-9)
    if looseness == 20.0:
        assert taken == best


def test_it_ends_when_even_the_least_running_budget_does_not_fit() -> None:
    """As printed the loop has no end there.

    One class of 2 epochs, s = (k^0, k^1): width 1 throughout needs 2 GPUs running and 0.5 for the start, and fits a
    budget of 2.5; but gluing nothing, problem (1) takes the second epoch to 16 GPUs at once, since that costs no
    GPU-hours: the change of width then costs 8 GPUs, at any running budget.
    """
    job_class = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=np.ones(2),
        speedup={"gpu": PowerSpeedup(exponent=np.array([0.0, 1.0]))},
        rescale_s=1800.0,
        widths=Widths(max=16),
    )
    instance = BoaInstance(classes={"job": job_class}, gpu_types={"gpu": GpuType()}, budget=Amount(2.5, BudgetUnit.GPU))

    answer = solve_algorithm1(instance, SolveRequest(seed=_seed_that_glues_nothing()), sort_segments, samples=1)
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.COMPLETED)
    assert (answer.solution, answer.objective, answer.bound) == (None, None, None)
    # From 2.5 down to 2 in steps of one per cent: 0.99^22 * 2.5 = 2.004, 0.99^23 * 2.5 = 1.984 is below the load of 2.
    assert answer.counters == {"configurations": 1.0, "inner_solves": 24.0}
    assert solve_algorithm1(instance, SolveRequest()).objective == pytest.approx(2.5 * 3600.0)  # some other one glues


def _seed_that_glues_nothing() -> int:
    return next(seed for seed in range(100) if np.random.default_rng(seed).integers(0, 2) == 0)


def test_too_small_a_budget_is_infeasible() -> None:
    """With the reason and the least budget, as every solver says it."""
    instance = random_boa(classes=2, epochs=3, widths=3)
    answer = solve_algorithm1(with_budget(instance, least_budget(instance)[0] * 0.99), SolveRequest())
    assert answer.status is Status.INFEASIBLE
    assert answer.infeasibility is not None
    assert answer.infeasibility.relaxations[0].least_feasible == pytest.approx(least_budget(instance)[0])


def test_progress_is_reported_and_the_time_limit_kept() -> None:
    """One event per configuration; a limit that has passed ends the search with what there is."""
    instance = random_boa(classes=2, epochs=3, widths=3)
    events: list[Event] = []
    solve_algorithm1(instance, SolveRequest(stopwatch=Stopwatch(None, events.append)), sort_segments, samples=4)
    assert [event.fraction for event in events] == [0.25, 0.5, 0.75, 1.0]
    assert {event.stage for event in events} == {"glue configurations"}
    late = solve_algorithm1(instance, SolveRequest(stopwatch=Stopwatch(1e-9)), sort_segments)
    assert (late.status, late.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert late.counters == {"configurations": 0.0, "inner_solves": 0.0}
