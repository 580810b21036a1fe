"""``solve``: its arguments, the choice of the solver, and what it makes of answers."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import (
    Answer,
    BoundProof,
    LagrangianCertificate,
    Relaxation,
    Result,
    Solution,
    SolveRequest,
    Status,
    Termination,
)
from optplan.contracts.conditions import Arrived, EpochsDone
from optplan.contracts.registry import SolverEntry
from optplan.errors import InfeasibleError, InternalError, UnsupportedError, UsageError, VerificationError
from optplan.formulations import formulations
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.exact.costs import describe
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.instances.generators import random_boa
from optplan.instances.library import build_named
from optplan.progress import Event
from optplan.solving import build_plan, choose_solver, frontier, solve
from optplan.units import Amount, BudgetUnit

Answering = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]


def named(name: str, **changes: Any) -> BoaInstance:  # noqa: ANN401 - any field of the instance
    """Return a BOA instance of the library with some fields changed."""
    instance = build_named(name)
    assert isinstance(instance, BoaInstance)
    return instance.replace(**changes)


def gpus(number: float) -> Amount:
    """Return a budget in GPUs."""
    return Amount(number, BudgetUnit.GPU)


def solved() -> Result[Solution]:
    """Return a result."""
    return solve(named("boa-one-table"))


def test_other_processes_can_solve() -> None:
    """Instance, result, plan and points of the frontier go from one process to another and stay what they are."""
    instance = named("boa-one-table")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        result = pool.submit(solve, instance).result()
    own = solve(instance)
    assert type(result) is type(own)
    assert (result.solution, result.objective, result.certificates) == (own.solution, own.objective, own.certificates)
    for record in (instance, result, build_plan(instance, result), *frontier(instance).points()):
        assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize("gap", [-1e-9, 1.0, math.nan, math.inf])
def test_the_gap_is_a_fraction(gap: float) -> None:
    """A relative gap of one or more would call anything optimal."""
    with pytest.raises(UsageError, match=r"gap: got .*; a relative gap from 0 to below 1 is needed, such as 1e-6"):
        solve(named("boa-one-table"), gap=gap)


def test_the_seed_is_not_negative() -> None:
    """NumPy takes none below zero; say so before anything starts."""
    with pytest.raises(UsageError, match=r"seed: got -1; a whole number of at least 0 is needed"):
        solve(named("boa-one-table"), seed=-1)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_the_time_limit_is_above_zero(limit: float) -> None:
    """No time at all is no limit that a solver could keep."""
    with pytest.raises(UsageError, match=r"time_limit_s: got .*; seconds above zero are needed"):
        solve(named("boa-one-table"), time_limit_s=limit)


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("gap", "a", "^gap: got 'a'; a relative gap from 0 to below 1 is needed, such as 1e-6$"),
        ("gap", None, "^gap: got None; a relative gap"),
        ("gap", False, "^gap: got False; a relative gap"),
        ("gap", 10**400, r"^gap: got 10{56}\.\.\.; a relative gap"),
        ("seed", None, "^seed: got None; a whole number of at least 0 is needed$"),
        ("seed", 1.5, r"^seed: got 1\.5; a whole number"),
        ("seed", True, "^seed: got True; a whole number"),
        ("time_limit_s", "60s", "^time_limit_s: got '60s'; seconds above zero are needed$"),
        ("solver", None, "^solver: got None; the name of a solver is needed, 'auto', or a function$"),
        ("on_event", "print", "^on_event: got 'print'; a function that takes an Event is needed$"),
    ],
)
def test_settings_of_another_type_are_refused(argument: str, value: object, message: str) -> None:
    """By name, with what was got and what is needed."""
    settings: dict[str, Any] = {argument: value}
    with pytest.raises(UsageError, match=message):
        solve(named("boa-one-table"), **settings)


def test_numbers_of_numpy_are_numbers() -> None:
    """Settings that come out of arrays are taken."""
    settings: dict[str, Any] = {"gap": np.float32(0.5), "seed": np.int64(3), "time_limit_s": np.float64(60.0)}
    result = solve(named("boa-one-table"), **settings)
    assert (result.gap_target, result.seed) == (0.5, 3)


@pytest.mark.parametrize("call", [solve, frontier, choose_solver, lambda one: build_plan(one, solved())])
@pytest.mark.parametrize(
    ("got", "message"),
    [
        (
            "boa-one-table",
            r"^instance: got 'boa-one-table'; an Instance is needed, such as read_instance\('boa-one-tab",
        ),
        (None, r"^instance: got None; an Instance is needed, such as read_instance\('boa-newtrace'\)$"),
    ],
)
def test_the_name_of_an_instance_is_not_an_instance(call: Callable[[Any], object], got: object, message: str) -> None:
    """The message says how to get the instance."""
    with pytest.raises(UsageError, match=message):
        call(got)


def test_something_else_is_no_result() -> None:
    """A plan is built for a result, not for the name of its file."""
    nothing: Any = "mine.json"
    with pytest.raises(UsageError, match=r"^result: got 'mine.json'; a Result is needed, such as read_result\('mine"):
        build_plan(named("boa-one-table"), nothing)
    record: Any = solved()
    with pytest.raises(UsageError, match=r"^instance: got <Result boa-one-table: optimal, .*>; an Instance"):
        solve(record)


def test_unknown_solvers_get_the_nearest_name() -> None:
    """With the formulation, which has solvers of its own."""
    with pytest.raises(UsageError, match=r"no solver 'layered-path' for boa; did you mean 'layered-paths'\?"):
        solve(named("boa-one-table"), solver="layered-path")


@pytest.mark.parametrize(
    ("changes", "solver", "reason"),
    [
        ({"problem": "continuous"}, "highs", "does not solve the 'continuous' problem; it solves rescaling, whole"),
        ({"problem": "whole"}, "published-algorithm1", "does not solve the 'whole' problem; it solves rescaling"),
        ({"policy": "mixed"}, "cp-sat", "makes no 'mixed' plans; it makes pure"),
    ],
)
def test_a_refusal_lists_who_takes_the_instance(changes: dict[str, str], solver: str, reason: str) -> None:
    """Why this one does not, and every one that does."""
    instance = named("boa-two-epochs", **changes)
    with pytest.raises(
        UnsupportedError, match=f"solver '{solver}' {reason}; solvers that take this instance: "
    ) as error:
        solve(instance, solver=solver)
    takers = str(error.value).rpartition(": ")[2].split(", ")
    assert choose_solver(instance).name in takers
    assert solver not in takers
    for taker in takers:
        assert choose_solver(instance, taker).name == taker


def test_a_refusal_for_size_says_how_large() -> None:
    """Enumeration is for tiny instances."""
    with pytest.raises(UnsupportedError, match=r"'enumeration' takes at most 60 choices \(this instance has 96\)"):
        solve(random_boa(classes=2, epochs=6, widths=8), solver="enumeration")


@pytest.mark.parametrize("problem", list(Problem))
@pytest.mark.parametrize("policy", list(Policy))
def test_auto_is_the_first_exact_solver_that_takes_the_instance(problem: Problem, policy: Policy) -> None:
    """In the order of the registry; a heuristic never."""
    instance = named("boa-two-epochs", problem=problem, policy=policy)
    result = solve(instance)
    mixed = problem is Problem.CONTINUOUS or policy is Policy.MIXED
    takers = [
        entry.name
        for entry in formulations()["boa"].solvers
        if entry.exact and problem in entry.problems and ("mixed" if mixed else "pure") in entry.policies
        if describe(instance).features <= entry.features
    ]
    assert result.solver == takers[0]
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("problem", list(Problem))
@pytest.mark.parametrize("budget", [gpus(3.0), Amount(4000.0, BudgetUnit.USD_PER_MONTH)])
def test_infeasible_is_an_answer(problem: Problem, budget: Amount) -> None:
    """With the reason, and a relaxation in the budget's own unit which is enough, where a little less is not."""
    instance = named("boa-two-classes", problem=problem, budget=budget)
    result = solve(instance)
    assert result.status is Status.INFEASIBLE
    assert (result.solution, result.objective, result.gap) == (None, None, None)
    assert result.infeasibility is not None
    assert "the least budget for which" in result.infeasibility.reason
    (relaxation,) = result.infeasibility.relaxations
    assert (relaxation.limit, relaxation.given, relaxation.unit) == ("budget", budget.value, str(budget.unit))
    assert sum(relaxation.parts.values()) == pytest.approx(relaxation.least_feasible, rel=1e-12)
    for factor, status in ((1.0, Status.OPTIMAL), (1.0 - 1e-6, Status.INFEASIBLE)):
        relaxed = instance.replace(budget=Amount(relaxation.least_feasible * factor, budget.unit))
        assert solve(relaxed).status is status


def test_a_missing_budget_is_asked_for() -> None:
    """A wrong call, not an infeasible instance."""
    with pytest.raises(UsageError, match="instance 'boa-two-epochs' has no budget; give one, as in --budget 120gpu"):
        solve(named("boa-two-epochs", budget=None))


def test_seed_and_gap_are_recorded() -> None:
    """They are what reproduces the result."""
    result = solve(named("boa-two-epochs"), solver="published-algorithm1", seed=11, gap=0.01)
    assert (result.seed, result.gap_target) == (11, 0.01)
    assert result.instance_hash == named("boa-two-epochs").content_hash()


def test_events_are_emitted() -> None:
    """Stages in order of time; what is said about objective and bound is never wrong."""
    events: list[Event] = []
    result = solve(named("boa-two-classes"), on_event=events.append)
    assert events
    assert [event.elapsed_s for event in events] == sorted(event.elapsed_s for event in events)
    assert all(event.stage for event in events)
    assert result.objective is not None
    for event in events:
        assert event.objective is None or event.objective >= result.objective * (1 - 1e-9)
        assert event.bound is None or event.bound <= result.objective * (1 + 1e-9)


def test_a_result_keeps_how_it_came_about() -> None:
    """Every event that says something new of objective or bound, in order, and the result as the last of them."""
    events: list[Event] = []
    result = solve(named("boa-two-classes"), on_event=events.append)
    last = result.events[-1]
    assert (last.objective, last.bound) == (result.objective, result.bound)
    told = {(event.stage, event.elapsed_s) for event in events} | {("result", result.solve_seconds)}
    assert told >= {(event.stage, event.elapsed_s) for event in result.events}
    known = [(event.objective, event.bound) for event in result.events]
    assert all(one != other for one, other in itertools.pairwise(known))


def test_a_long_solve_keeps_some_of_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 1,000 every other one goes; the first and the last stay."""

    def improving(_: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        for step in range(3000):
            request.stopwatch.emit("step", bound=float(step))
        request.stopwatch.emit("step", bound=math.inf)
        return Answer(Status.UNKNOWN, Termination.COMPLETED)

    monkeypatch.setattr(SolverEntry, "load", lambda _: improving)
    bounds = [event.bound for event in solve(named("boa-two-epochs")).events]
    assert (bounds[0], bounds[-1]) == (0.0, 2999.0)
    assert 500 <= len(bounds) <= 1000
    assert bounds == sorted(bounds, key=lambda bound: bound or 0.0)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answering], None]:
    """Return what makes every solver answer as told."""

    def replace_solver(answering: Answering) -> None:
        monkeypatch.setattr(SolverEntry, "load", lambda _: answering)

    return replace_solver


ONE_ONE = BoaSolution(branches={"job": (Branch(widths=np.ones(2)),)})


@pytest.mark.parametrize("made", [lambda: Relaxation.parse({"limit": "budget"}), lambda: BoaSolution.parse({})])
def test_a_solver_s_mistake_is_not_the_user_s(made: Callable[[], object], pretend: Callable[[Answering], None]) -> None:
    """A record that the solver makes and that lacks a field is a bug of the solver, not data to add."""

    def mistaken(*_: object) -> Answer[BoaSolution]:
        made()
        pytest.fail("it is valid")

    pretend(mistaken)
    with pytest.raises(
        InternalError, match=r"^solver 'layered-paths' of boa made a record that is not valid \("
    ) as told:
        solve(named("boa-two-epochs"))
    assert "is missing" in str(told.value)
    assert "add it" not in str(told.value)


def test_an_answer_that_makes_no_result_is_the_solver_s_mistake(pretend: Callable[[Answering], None]) -> None:
    """A bound without what it rests on."""
    pretend(lambda *_: Answer(Status.UNKNOWN, Termination.COMPLETED, bound=1.0))
    with pytest.raises(InternalError, match=r"a bound and what it rests on come together.*please report this bug$"):
        solve(named("boa-two-epochs"))


def test_answers_that_break_a_rule_are_refused(pretend: Callable[[Answering], None]) -> None:
    """16 GPUs throughout exceed the budget: the family, both sides and the tolerance are named."""
    too_wide = BoaSolution(branches={"job": (Branch(widths=np.full(2, 16.0)),)})
    pretend(lambda *_: Answer(Status.FEASIBLE, Termination.COMPLETED, solution=too_wide, objective=1.0))
    with pytest.raises(
        VerificationError, match=r"^budget: time-average GPUs.* \(left 1\d\.\d+, right 4\.104, tolerance 4\.1\d?e-09"
    ):
        solve(named("boa-two-epochs"))


def test_bounds_that_prove_too_much_are_refused(pretend: Callable[[Answering], None]) -> None:
    """At multiplier 0 the bound is the fastest plan's time, not the slowest's."""
    certificate = LagrangianCertificate(multipliers={"budget": 0.0}, bound=14580.0)
    pretend(
        lambda *_: Answer(
            Status.OPTIMAL,
            Termination.COMPLETED,
            solution=ONE_ONE,
            objective=14580.0,
            bound=14580.0,
            bound_proof=BoundProof.LAGRANGIAN,
            certificates=(certificate,),
        )
    )
    with pytest.raises(VerificationError, match=r"^certificate lagrangian\[1\]: the certificate must prove exactly"):
        solve(named("boa-two-epochs"))
    unchecked = solve(named("boa-two-epochs"), check=False)
    assert (unchecked.status, unchecked.verify_seconds) == (Status.OPTIMAL, 0.0)


@pytest.mark.parametrize(
    ("said", "bound", "status"),
    [
        (Status.OPTIMAL, 13000.0, Status.FEASIBLE),
        (Status.FEASIBLE, 14580.0, Status.OPTIMAL),
        (Status.OPTIMAL, 14579.9999, Status.OPTIMAL),
        (Status.OPTIMAL, None, Status.FEASIBLE),
    ],
)
def test_the_status_follows_from_the_gap(
    pretend: Callable[[Answering], None], said: Status, bound: float | None, status: Status
) -> None:
    """Whatever the solver calls it: optimal means a bound within the stated gap of the recomputed objective."""
    proof = BoundProof.NONE if bound is None else BoundProof.SEARCHED
    pretend(
        lambda *_: Answer(said, Termination.COMPLETED, solution=ONE_ONE, objective=1.0, bound=bound, bound_proof=proof)
    )
    result = solve(named("boa-two-epochs"))
    assert result.status is status
    assert result.objective == pytest.approx(14580.0)  # the evaluator's, not the solver's 1.0


@pytest.mark.parametrize(
    ("below", "status"),
    [(0.0, Status.OPTIMAL), (1e-15, Status.OPTIMAL), (9e-10, Status.OPTIMAL), (2e-9, Status.FEASIBLE)],
)
def test_a_gap_of_zero_allows_for_rounding(pretend: Callable[[Answering], None], below: float, status: Status) -> None:
    """A bound that is a relative 1e-9 or less below the objective meets it; the gap itself is told as it is."""
    bound = 14580.0 * (1.0 - below)
    pretend(
        lambda *_: Answer(
            Status.FEASIBLE,
            Termination.COMPLETED,
            solution=ONE_ONE,
            objective=14580.0,
            bound=bound,
            bound_proof=BoundProof.SEARCHED,
        )
    )
    result = solve(named("boa-two-epochs"), gap=0.0)
    assert result.status is status
    assert result.gap_target == 0.0
    assert result.gap == pytest.approx(below, rel=1e-3, abs=2e-16)


def test_solvers_are_told_gap_seed_and_time_limit(pretend: Callable[[Answering], None]) -> None:
    """Through the request; a bound survives without an incumbent."""
    requests: list[SolveRequest] = []

    def answer(_: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        requests.append(request)
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, bound=12.0, bound_proof=BoundProof.SEARCHED)

    pretend(answer)
    result = solve(named("boa-two-epochs"), gap=0.5, seed=3, time_limit_s=7.0)
    assert (requests[0].gap, requests[0].seed, requests[0].stopwatch.limit_s) == (0.5, 3, 7.0)
    assert (result.status, result.termination, result.bound) == (Status.UNKNOWN, Termination.TIME_LIMIT, 12.0)
    with pytest.raises(UsageError, match=r"the result has no solution to plan \(status unknown\)"):
        build_plan(named("boa-two-epochs"), result)


def test_plans_are_built_for_results() -> None:
    """The plan of the textbook case: 1 GPU from arrival to the end."""
    instance = named("boa-two-epochs")
    plan = build_plan(instance, solve(instance))
    assert [(each.enter, each.exit, each.gpus) for each in plan.segments] == [(Arrived(), EpochsDone(epochs=2), 1)]
    assert plan.bound == pytest.approx(14580.0)


@pytest.mark.parametrize("problem", list(Problem))
def test_the_frontier_goes_through_the_optima(problem: Problem) -> None:
    """At any budget it gives the optimum of the mixed problem, with a certificate that the judge confirms."""
    instance = named("boa-two-classes", problem=problem, policy=Policy.MIXED)
    line = frontier(instance.replace(budget=None))
    if line.exact_between:
        assert np.all(np.diff(line.budgets) > 0)
        assert np.all(np.diff(line.objectives) < 0)
    accuracy = 1e-9 if line.exact_between else 1e-7  # closed forms are solved by an interior-point method
    for budget in (line.budgets[0] * 1.01, 8.0, 12.0):
        at_budget = instance.replace(budget=gpus(float(budget)))
        point, result = line.at(float(budget)), solve(at_budget)
        assert point.objective == pytest.approx(result.objective, rel=1e-9)
        proven = dual_bound(at_budget, dict(point.certificate.multipliers))
        assert proven == pytest.approx(point.objective, rel=accuracy)
        assert line.budget_for(point.objective).budget == pytest.approx(budget, rel=accuracy)
    for point in line.points():
        proven = dual_bound(instance.replace(budget=gpus(point.budget)), dict(point.certificate.multipliers))
        assert proven == pytest.approx(point.objective, rel=accuracy)
    with pytest.raises(InfeasibleError, match=r"the frontier starts at a budget of .* GPUs; got 1"):
        line.at(1.0)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), more=st.floats(1.0, 2.0), policy=st.sampled_from(list(Policy)))
def test_more_budget_never_hurts(seed: int, more: float, policy: Policy) -> None:
    """What fits a budget fits a larger one."""
    instance = random_boa(classes=2, epochs=4, widths=5, seed=seed, policy=policy)
    wider = instance.replace(budget=gpus(instance.budget_amount() * more))
    narrow, wide = solve(instance, gap=0.0).objective, solve(wider, gap=0.0).objective
    assert narrow is not None
    assert wide is not None
    assert wide <= narrow * (1 + 1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(list(Policy)))
def test_names_and_order_of_classes_do_not_matter(seed: int, policy: Policy) -> None:
    """Objective and bound stay within the tolerance."""
    instance = random_boa(classes=3, epochs=4, widths=5, seed=seed, policy=policy)
    turned = instance.replace(classes={f"new {n}": c for n, c in reversed(instance.classes.items())})
    first, second = solve(instance), solve(turned)
    assert first.objective == pytest.approx(second.objective, rel=2e-6)
    assert first.bound == pytest.approx(second.bound, rel=2e-6)


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real widths of closed forms are for CVXPY alone: without it the answer says what to install."""
    monkeypatch.setattr(SolverEntry, "available", lambda self: self.needs != "cvxpy")
    curve = {"v100": {"form": "amdahl", "serial_fraction": 0.1}}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": curve, "widths": {"max": 8}}
    data = {"formulation": "boa", "classes": {"a": job}, "gpu_types": {"v100": {"price_usd_per_hour": 2.0}}}
    instance = BoaInstance.parse(data | {"budget": "4gpu", "problem": "continuous", "policy": "mixed"})
    message = r"takes this instance: solver 'conic' needs the package 'cvxpy', .* run: pip install \"optplan\[conic\]\""
    with pytest.raises(UnsupportedError, match=message):
        solve(instance)
