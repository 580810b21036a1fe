"""Every registered solver on small instances with known optima: run, verified and compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from optplan.contracts import Instance, Status, Termination
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.formulations import formulation_of, formulations
from optplan.formulations.boa.data import BoaInstance, GpuType, JobClass, Policy, Problem, Widths
from optplan.formulations.boa.evaluation import path_costs
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.solving import solve
from optplan.speedup import PowerSpeedup, TableSpeedup
from optplan.units import Amount, BudgetUnit
from optplan.verification import verify

#: Relative tolerance between an exact solver's objective and the known one: the gap that is asked for.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Case:
    """An instance and its optimum; None: there is no plan within its limits."""

    name: str
    instance: Instance
    optimum: float | None


def boa_cases() -> Iterator[Case]:
    """Yield BOA's cases: hand figures, and tiny instances whose every plan is looked at here."""
    one, two = _named("boa-one-table"), _named("boa-two-epochs")
    yield Case("one-table", one, 2250.0)  # 1 / 1.6 h on two GPUs
    yield Case("two-epochs", two, 14580.0)  # (1, 1): 3 + 1 + 0.05 h
    # The points (GPUs, seconds) of the table are (1, 3600), (1.25, 2250), (2, 1800): at 1.1 GPUs 3600 - 0.1 * 5400, at
    # 1.5 GPUs 2250 - 0.25 * 600, and from 2 GPUs on 1800.
    for gpus, optimum in ((1.0, 3600.0), (1.1, 3060.0), (1.5, 2100.0), (2.0, 1800.0), (50.0, 1800.0)):
        for problem, policy in ((Problem.CONTINUOUS, Policy.PURE), (Problem.WHOLE, Policy.MIXED)):
            yield Case(f"one-table-{problem}-{gpus:g}", _with(one, gpus, problem=problem, policy=policy), optimum)
    for gpus, optimum in ((1.0, 3600.0), (1.1, 3600.0), (1.5, 2250.0), (50.0, 1800.0)):
        yield Case(f"one-table-pure-{gpus:g}", _with(one, gpus), optimum)
    # s(k) = k^0.5 and a job of one GPU-hour an hour: k / k^0.5 = b, so the time is 1 / b; 1800 s for two GPUs.
    yield Case("square-root", _square_root(2.0), 1800.0)
    yield Case("square-root-widest", _square_root(9.0), 450.0)  # at most 64 GPUs: 1 / 8 h
    yield Case("one-table-infeasible", _with(one, 0.99), None)
    yield Case("two-epochs-infeasible", _with(two, 4.04), None)
    yield Case("two-epochs-infeasible-mixed", _with(two, 4.04, policy=Policy.MIXED), None)
    yield Case("square-root-infeasible", _square_root(0.9), None)
    for seed, (problem, policy) in enumerate(itertools.product(Problem, Policy)):
        if (problem, policy) != (Problem.CONTINUOUS, Policy.MIXED):
            instance = random_boa(classes=2, epochs=3, widths=3, seed=seed, noise=0.0, problem=problem, policy=policy)
            yield Case(f"random-{problem}-{policy}", instance, _look_at_every_plan(instance))
    for scale in (1e-6, 1e6):
        for policy in Policy:
            instance = _scaled(random_boa(classes=2, epochs=3, widths=3, seed=8, policy=policy), scale)
            yield Case(f"scaled-{scale:g}-{policy}", instance, _look_at_every_plan(instance))
    # Tables that fall and that are convex: widths off the hull can be optimal.
    for problem, policy in itertools.product((Problem.WHOLE, Problem.RESCALING), Policy):
        instance = _odd_tables(problem, policy)
        yield Case(f"odd-tables-{problem}-{policy}", instance, _look_at_every_plan(instance))


CASES: dict[str, Callable[[], Iterator[Case]]] = {"boa": boa_cases}


def _named(name: str) -> BoaInstance:
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance


def _with(instance: BoaInstance, gpus: float, **changes: object) -> BoaInstance:
    return instance.replace(budget=Amount(gpus, BudgetUnit.GPU), **changes)


def _one_class(job_class: JobClass, gpus: float, problem: Problem, policy: Policy) -> BoaInstance:
    return BoaInstance(
        classes={"job": job_class},
        gpu_types={"gpu": GpuType()},
        budget=Amount(gpus, BudgetUnit.GPU),
        problem=problem,
        policy=policy,
    )


def _square_root(gpus: float) -> BoaInstance:
    job_class = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=np.ones(1),
        speedup={"gpu": PowerSpeedup(exponent=np.array(0.5))},
        widths=Widths(max=64),
    )
    return _one_class(job_class, gpus, Problem.CONTINUOUS, Policy.MIXED)


def _odd_tables(problem: Problem, policy: Policy) -> BoaInstance:
    job_class = JobClass(
        arrival_rate_per_hour=2.0,
        epoch_size_gpu_hours=np.array([1.0, 2.0, 1.0]),
        speedup={
            "gpu": TableSpeedup(
                gpus=np.array([1, 2, 4, 8]),
                speedup=np.array([[1.0, 1.1, 3.0, 2.9], [1.0, 2.4, 2.5, 6.0], [1.0, 0.9, 1.2, 1.2]]),
            )
        },
        rescale_s=120.0,
    )
    return _one_class(job_class, 10.5, problem, policy)


def _scaled(instance: BoaInstance, scale: float) -> BoaInstance:
    """Return the instance with times in another unit: the same GPUs, other seconds."""
    classes = {
        name: c.replace(
            epoch_size_gpu_hours=c.epoch_size_gpu_hours * scale,
            rescale_s=c.rescale_s * scale,
            arrival_rate_per_hour=c.arrival_rate_per_hour / scale,
        )
        for name, c in instance.classes.items()
    }
    return instance.replace(classes=classes)


def _look_at_every_plan(instance: BoaInstance) -> float:
    """Return the best objective of all plans within the budget; of mixtures, the least chord between two plans.

    The continuous problem with tables is the mixed one: a real width is a fraction of the jobs at each of two widths.
    """
    points = np.zeros((1, 2))
    for costs in path_costs(instance):
        own = []
        for path in itertools.product(range(costs.nodes.size), repeat=len(costs.run_value)):
            value = consumption = 0.0
            for layer, node in enumerate(path):
                entering = layer == 0 or node != path[layer - 1]
                value += costs.run_value[layer, node] + entering * costs.enter_value[layer, node]
                consumption += costs.run_consumption[layer, node] + entering * costs.enter_consumption[layer, node]
            own.append((consumption, value))
        points = (points[:, None, :] + np.array(own)).reshape(-1, 2)
    budget = instance.budget_gpus() * (1 + 1e-9)
    below, above = points[points[:, 0] <= budget], points[points[:, 0] > budget]
    best = float(below[:, 1].min())
    if (instance.policy is Policy.PURE and instance.problem is not Problem.CONTINUOUS) or not len(above):
        return best
    share = (budget - below[:, None, 0]) / (above[:, 0] - below[:, None, 0])
    return min(best, float((below[:, None, 1] + share * (above[:, 1] - below[:, None, 1])).min()))


def _size_and_kind(entry: SolverEntry, instance: Instance) -> bool:
    """Whether an instance is of the kind and size that a solver takes, installed or not."""
    asked = formulation_of(instance).loaded("describe")(instance)
    fits = entry.max_cells is None or asked["cells"] <= entry.max_cells
    return fits and asked["problem"] in entry.problems and asked["policy"] in entry.policies


PAIRS = [
    (formulation, entry, case)
    for formulation in formulations().values()
    for case in CASES.get(formulation.name, lambda: iter(()))()
    for entry in formulation.solvers
    if _size_and_kind(entry, case.instance)
]


def skip_if_missing(formulation: Formulation, entry: SolverEntry) -> None:
    """Skip by name what cannot run here."""
    if not entry.available():
        pytest.skip(f"solver {entry.name} of {formulation.name}: package {entry.needs} is not installed")


@pytest.mark.parametrize(
    ("formulation", "entry", "case"), PAIRS, ids=[f"{f.name}-{entry.name}-{case.name}" for f, entry, case in PAIRS]
)
def test_solvers_reach_known_optima(formulation: Formulation, entry: SolverEntry, case: Case) -> None:
    """Exact solvers to the gap asked for, with a bound that proves it; heuristics never below; all of it verified."""
    skip_if_missing(formulation, entry)
    result = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1)
    assert verify(case.instance, result).ok
    assert result.solver == entry.name
    assert result.termination is Termination.COMPLETED
    if case.optimum is None:
        assert result.status is Status.INFEASIBLE
        assert result.infeasibility is not None
        assert result.infeasibility.relaxations
        return
    if entry.exact:
        assert result.status is Status.OPTIMAL
        assert result.bound_proof is entry.proof or result.certificates
        assert result.objective == pytest.approx(case.optimum, rel=2 * TOLERANCE)
        assert result.bound is not None
        assert result.bound <= case.optimum * (1 + TOLERANCE)
    elif result.objective is not None:
        assert result.status is Status.FEASIBLE
        assert result.objective >= case.optimum * (1 - 1e-9)
    again = solve(case.instance, solver=entry.name, gap=TOLERANCE, seed=1)
    assert again.objective == result.objective
    assert again.solution == result.solution


@pytest.mark.parametrize("formulation", formulations().values(), ids=lambda f: f.name)
def test_every_solver_has_cases(formulation: Formulation) -> None:
    """A new formulation or solver brings instances with known optima; a feasible and an infeasible one at least."""
    for entry in formulation.solvers:
        optima = [case.optimum for f, e, case in PAIRS if (f, e) == (formulation, entry)]
        assert None in optima, f"no infeasible case for {entry.name} of {formulation.name}"
        assert any(optimum is not None for optimum in optima), f"no case for {entry.name} of {formulation.name}"


INFEASIBLE = [
    (formulation, case)
    for formulation in formulations().values()
    for case in CASES.get(formulation.name, lambda: iter(()))()
    if case.optimum is None
]


@pytest.mark.parametrize(("formulation", "case"), INFEASIBLE, ids=[case.name for _, case in INFEASIBLE])
def test_all_solvers_give_the_same_reason(formulation: Formulation, case: Case) -> None:
    """Why there is no plan, and what would help, does not depend on who was asked."""
    said = {
        entry.name: solve(case.instance, solver=entry.name).infeasibility
        for entry in formulation.solvers
        if _size_and_kind(entry, case.instance) and entry.available()
    }
    assert len(said) > 1
    assert len(set(said.values())) == 1, said
