"""RubberBand on general engines: they agree with each other, with looking at every plan, and with the exact engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.contracts.judgement import PathCosts
from optplan.errors import EngineError, UnsupportedError, UsageError
from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.exact.both_limits import solve_held_paths
from optplan.formulations.rubberband.exact.bracket_choice import isolate_brackets
from optplan.formulations.rubberband.exact.chains import cost_steps, state_chains
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.models.general_engines import (
    list_undominated,
    solve_cp_sat,
    solve_enumeration,
    solve_highs,
)
from optplan.progress import Stopwatch
from optplan.solvers.programs import cpsat, highs
from optplan.solvers.programs.program import ProgramOutcome

REQUEST = SolveRequest(gap=1e-9)
Solver = Callable[[RubberBandInstance, SolveRequest], Answer[RubberBandSolution]]
ENGINES: list[Solver] = [solve_highs, solve_cp_sat]
HYPERBAND = {"form": "hyperband", "most_iterations": 2, "eta": 2, "order": "side-by-side"}


def make(
    *,
    cloud: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of any kind
) -> RubberBandInstance:
    """Make eight trials of one iteration, then one of ten more; an instance-second costs 0.001 usd.

    With all at once the first stage takes 12 s on 2 instances (8 GPUs), 7 s on 4, 4 s on 8, 3 s on 16; on one it takes
    two waves, 24 s. The second takes 40 s on one instance (4 GPUs) and 30 s on two (8 GPUs).
    """
    stages = [{"trials": 8, "iterations": 1}, {"trials": 1, "iterations": 10}]
    return RubberBandInstance.parse(
        {
            "experiment": {"form": "stages", "stages": stages},
            "training": {"seconds_per_iteration": {1: 12, 2: 7, 4: 4, 8: 3}, **(training or {})},
            "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 3.6, "minimum_charge_s": 0, **(cloud or {})},
            **changes,
        }
    )


def plan(answer: Answer[RubberBandSolution]) -> list[tuple[int, int]]:
    """Return (instances, GPUs) by stage."""
    assert answer.solution is not None
    return [(stage.instances, stage.gpus) for chain in answer.solution.brackets for stage in chain]


@pytest.mark.parametrize("solver", [*ENGINES, solve_enumeration])
def test_both_problems_by_hand(solver: Solver) -> None:
    """Within 55 s: 12 s on two instances, then 40 s on one: 64 instance-seconds. Within 0.084 usd: 84 on two, 42 s."""
    cheapest = solver(make(deadline_s=55), REQUEST)
    assert cheapest.status is Status.OPTIMAL
    assert plan(cheapest) == [(2, 8), (1, 4)]
    assert cheapest.objective == pytest.approx(0.064)
    assert cheapest.bound == pytest.approx(0.064)
    fastest = solver(make(objective="time", budget="0.084usd"), REQUEST)
    assert fastest.status is Status.OPTIMAL
    assert fastest.objective == pytest.approx(42.0)
    assert plan(fastest) == [(2, 8), (2, 8)]


@pytest.mark.parametrize("solver", [*ENGINES, solve_enumeration, solve_held_paths])
def test_holding_idle_instances_can_be_best(solver: Solver) -> None:
    """Two trials between six and one need one instance; those before and after want two, and growing takes 60 s.

    An iteration takes 12 s on up to 4 GPUs and 3 s on 8. Held throughout, two instances are paid for 12 + 12 + 60 s:
    168. Given back in between: 24 + 12, 60 for the one that waits, 120: 216. One first, two for the last stage: 216,
    too. One throughout: 24 + 12 + 240.
    """
    stages = [{"trials": 6, "iterations": 1}, {"trials": 2, "iterations": 1}, {"trials": 1, "iterations": 20}]
    instance = make(
        experiment={"form": "stages", "stages": stages},
        training={"seconds_per_iteration": {1: 12, 4: 12, 8: 3}},
        cloud={"provision_s": 60, "most_instances": 4},
        mode="fair",
        deadline_s=1000,
    )
    answer = solver(instance, REQUEST)
    assert [held for held, _ in plan(answer)] == [2, 2, 2]
    assert answer.objective == pytest.approx(0.168)


@pytest.mark.parametrize("solver", ENGINES)
def test_minimum_charges_are_reported_as_a_gap(solver: Solver) -> None:
    """Every instance pays 100 s at least: 12 + 40 s on two and one instance cost 200 instance-seconds, not 64.

    Engines see 64 and say so. Looking at every plan finds that one instance for 64 s is too slow and two cost 200.
    """
    instance = make(deadline_s=55, cloud={"minimum_charge_s": 100})
    answer = solver(instance, REQUEST)
    assert answer.status is Status.FEASIBLE
    assert answer.objective == pytest.approx(0.2)
    assert answer.bound == pytest.approx(0.064)
    assert "does not see minimum charges" in answer.warnings[0]
    every = solve_enumeration(instance, REQUEST)
    assert every.status is Status.OPTIMAL
    assert every.objective == pytest.approx(0.2)


@pytest.mark.parametrize("solver", ENGINES)
def test_where_minimum_charges_break_a_budget_the_next_cheaper_plan_is_asked_for(solver: Solver) -> None:
    """Every instance pays 50 s at least. Two instances throughout cost 84 for 42 s, with minimum charges 100.

    Within 110 engines see plans from 33 s on first, which start 4 instances and more and so cost 200 and more. Within
    90 they come to (2, 1), 64 for 52 s, with minimum charges 102, and no further; the cheapest plan of all, one
    instance throughout for 64, is known from before they were asked.
    """
    instance = make(objective="time", budget="0.11usd", cloud={"minimum_charge_s": 50})
    answer = solver(instance, REQUEST)
    assert answer.status is Status.FEASIBLE
    assert plan(answer) == [(2, 8), (2, 8)]
    assert answer.objective == pytest.approx(42.0)
    assert answer.bound == pytest.approx(33.0)
    assert "does not see minimum charges" in answer.warnings[0]
    assert solve_enumeration(instance, REQUEST).objective == pytest.approx(42.0)
    instance = make(objective="time", budget="0.09usd", cloud={"minimum_charge_s": 50})
    answer = solver(instance, REQUEST)
    assert answer.status is Status.FEASIBLE
    assert answer.objective == pytest.approx(64.0)
    assert answer.bound == pytest.approx(37.0)
    assert "does not see minimum charges" in answer.warnings[0]
    assert solve_enumeration(instance, REQUEST).objective == pytest.approx(64.0)


def test_enumeration_has_a_limit() -> None:
    """Three stages of hundreds of choices are too many."""
    stages = [{"trials": 30, "iterations": 1}] * 3
    with pytest.raises(UnsupportedError, match=r"enumeration looks at 2,000,000 plans at most and this problem has"):
        solve_enumeration(make(experiment={"form": "stages", "stages": stages}, deadline_s=1e6), REQUEST)


@pytest.mark.parametrize("solver", [*ENGINES, solve_enumeration])
def test_infeasible_limits_are_answered(solver: Solver) -> None:
    """The fastest is 3 + 30 s; the cheapest is 64 instance-seconds."""
    slow = solver(make(deadline_s=30), REQUEST)
    dear = solver(make(objective="time", budget="0.06usd"), REQUEST)
    for answer, least in ((slow, 33.0), (dear, 0.064)):
        assert answer.status is Status.INFEASIBLE
        assert answer.infeasibility is not None
        assert answer.infeasibility.relaxations[0].least_feasible == pytest.approx(least)
    with pytest.raises(UsageError, match="has no deadline"):
        solver(make(), REQUEST)


@pytest.mark.parametrize("solver", [*ENGINES, solve_enumeration])
@pytest.mark.parametrize("limit", [{"deadline_s": 55}, {"objective": "time", "budget": "1usd"}])
def test_time_that_has_run_out(solver: Solver, limit: dict[str, Any]) -> None:
    """Nothing is known, with one bracket and with several."""
    for experiment in ({}, {"experiment": HYPERBAND}):
        answer = solver(make(**limit, **experiment), SolveRequest(stopwatch=Stopwatch(limit_s=0.0)))
        assert answer.status is Status.UNKNOWN
        assert answer.termination is Termination.TIME_LIMIT


def test_an_engine_that_finds_no_plan_where_there_is_one_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infeasibility is decided before engines are asked."""
    for module, solver, who in ((highs, solve_highs, "HiGHS"), (cpsat, solve_cp_sat, "CP-SAT")):
        nothing = replace(module.nothing_yet(), status=Status.INFEASIBLE, termination=Termination.COMPLETED)
        monkeypatch.setattr(module, "solve_program", lambda *_, nothing=nothing, **__: nothing)
        with pytest.raises(EngineError, match=f"{who} finds no plan within the deadline, although there is one"):
            solver(make(deadline_s=55), REQUEST)
        with pytest.raises(EngineError, match=f"{who} finds no plan within the budget, although there is one"):
            solver(make(objective="time", budget="1usd"), REQUEST)


def test_an_engine_without_a_plan_keeps_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted engines have a bound, or zero."""
    for bound, expected in ((0.05, 0.05), (None, 0.0)):
        outcome = ProgramOutcome(Status.UNKNOWN, Termination.TIME_LIMIT, bound=bound)
        monkeypatch.setattr(cpsat, "solve_program", lambda *_, outcome=outcome: outcome)
        answer = solve_cp_sat(make(deadline_s=55), REQUEST)
        assert answer.status is Status.UNKNOWN
        assert answer.termination is Termination.TIME_LIMIT
        assert answer.bound == expected
        assert answer.bound_proof is BoundProof.ENGINE


def test_a_graph_has_one_node_for_each_count_or_each_useful_allocation() -> None:
    """Per instance one node for 1, 2, 4, 8, 16; per function as many as the stage with most allocations needs."""

    def state(instance: RubberBandInstance) -> PathCosts:
        (chain,) = state_chains(instance)
        return cost_steps(instance, chain, "1")

    # One trial in the second stage takes 40 s on 4 GPUs, 30 s on 8: on more than two instances nobody would stay.
    graph = state(make(mode="fair"))
    assert graph.labels == ("1.1", "2.2", "4.3", "8.4", "16.5")
    assert graph.run_consumption[0].tolist() == [[24, 12, 7, 4, 3], [40, 30, math.inf, math.inf, math.inf]]
    assert graph.run_value[1, :2].tolist() == pytest.approx([0.04, 0.06])
    # On one instance trials cost 96 GPU-seconds, however many run at a time: only the fastest is kept. The last trial
    # takes 40, 50.9, 70 and 120 s on 4, 3, 2 and 1 GPUs, and 160, 152.7, 140 and 120 GPU-seconds.
    graph = state(make(mode="fair", cloud={"billing": "per-function", "most_instances": 1}))
    assert graph.labels == ("1.1", "1.2", "1.3", "1.4")
    assert graph.run_consumption[0, 0].tolist() == [24, math.inf, math.inf, math.inf]
    assert graph.run_consumption[0, 1].tolist() == pytest.approx([40, 50.909091, 70, 120])
    assert graph.run_value[1].tolist() == pytest.approx([0.04, 0.0381818, 0.035, 0.03])


def every_allowed_plan(alone: RubberBandInstance, most: int) -> list[tuple[float, float]]:
    """List expected seconds and dollars of all plans on at most so many instances, by the evaluator alone."""
    per_stage = [
        [
            StageAllocation(instances=held, gpus=gpus)
            for held in range(1, most + 1)
            for gpus in range(1, held * alone.cloud.gpus_per_instance + 1)
            if not explain_refusal(alone, stage, gpus)
        ]
        for stage in alone.brackets[0]
    ]
    found = []
    for chain in itertools.product(*per_stage):
        evaluation = evaluate(alone, RubberBandSolution(brackets=(chain,)))
        if all(check.holds for check in evaluation.checks):
            found.append((evaluation.measures["expected_s"], evaluation.measures["expected_usd"]))
    return found


@st.composite
def tiny_instances(draw: st.DrawFn, minimum_charges: st.SearchStrategy[float]) -> RubberBandInstance:
    """Draw one or two stages, or two clusters side by side, on at most three instances; no limit yet."""
    trials = sorted(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)), reverse=True)
    stages = [{"trials": count, "iterations": draw(st.sampled_from([1, 2, 5]))} for count in trials]
    search = {"form": "stages", "stages": stages}
    seconds = draw(st.sampled_from([[12.0, 7.0, 4.0], [12.0, 11.0, 10.5], [12.0, 5.0, 6.0]]))
    delay = st.sampled_from([0.0, 4.0, 30.0, {"form": "log-normal", "mean_s": 10.0, "sd_s": 6.0}])
    noise: dict[str, Any] = draw(st.sampled_from([{}, {"trial_noise": {"form": "log-normal", "sd_fraction": 0.3}}]))
    return make(
        experiment=draw(st.sampled_from([search, search, HYPERBAND])),
        training={"seconds_per_iteration": dict(zip((1, 2, 4), seconds, strict=True)), **noise},
        cloud={
            "gpus_per_instance": draw(st.sampled_from([1, 2, 4])),
            "billing": draw(st.sampled_from(["per-instance", "per-function"])),
            "minimum_charge_s": draw(minimum_charges),
            "provision_s": draw(delay),
            "initialise_s": draw(delay),
            "data_gb": draw(st.sampled_from([0.0, 1.0])),
            "data_price_usd_per_gb": 0.005,
            "most_instances": draw(st.integers(1, 3)),
        },
        mode=draw(st.sampled_from(["any", "fair"])),
    )


def limit(instance: RubberBandInstance, looseness: float, *, time: bool) -> RubberBandInstance:
    """Give an instance a limit: so many times the least that any plan needs."""
    listed = [list_undominated(alone)[0] for alone in isolate_brackets(instance)]
    if time:
        least = sum(plans[-1].usd for plans in listed)
        return instance.replace(objective="time", budget=f"{looseness * least!r}usd")
    return instance.replace(deadline_s=looseness * max(plans[0].seconds for plans in listed))


LOOSENESS = st.sampled_from([1.0, 1.05, 1.3, 2.0, 5.0])


@settings(max_examples=60)
@given(instance=tiny_instances(st.just(0.0)), looseness=LOOSENESS, time=st.booleans())
def test_engines_agree_with_every_plan(instance: RubberBandInstance, looseness: float, time: bool) -> None:
    """Without minimum charges they find what there is, and prove it; so does the exact engine."""
    instance = limit(instance, looseness, time=time)
    every = solve_enumeration(instance, REQUEST)
    assert every.objective is not None
    for solver in (*ENGINES, solve_held_paths):
        answer = solver(instance, REQUEST)
        assert answer.status is Status.OPTIMAL
        assert answer.objective == pytest.approx(every.objective, rel=5e-9)
        assert answer.bound == pytest.approx(every.objective, rel=5e-9)
        assert answer.solution is not None
        assert all(check.holds for check in evaluate(instance, answer.solution).checks)


@settings(max_examples=25)
@given(instance=tiny_instances(st.sampled_from([20.0, 100.0])), looseness=LOOSENESS, time=st.booleans())
def test_bounds_hold_with_minimum_charges(instance: RubberBandInstance, looseness: float, time: bool) -> None:
    """The optimum lies between an engine's bound and its plan, and a plan that is called optimal is."""
    instance = limit(instance, looseness, time=time)
    every = solve_enumeration(instance, REQUEST)
    assert every.objective is not None
    for solver in ENGINES:
        answer = solver(instance, REQUEST)
        assert answer.bound is not None
        assert answer.bound <= every.objective * (1 + 5e-9)
        if answer.objective is not None:
            assert answer.objective >= every.objective * (1 - 5e-9)
            assert answer.solution is not None
            assert all(check.holds for check in evaluate(instance, answer.solution).checks)
        if answer.status is Status.OPTIMAL:
            assert answer.objective == pytest.approx(every.objective, rel=5e-9)


@settings(max_examples=25)
@given(instance=tiny_instances(st.sampled_from([0.0, 60.0])))
def test_every_plan_means_every_plan(instance: RubberBandInstance) -> None:
    """No allowed allocation on any number of instances is outside what the listed plans dominate."""
    for alone in isolate_brackets(instance):
        listed, _ = list_undominated(alone)
        for seconds, usd in every_allowed_plan(alone, instance.cloud.most_instances or 0):
            assert any(each.seconds <= seconds * (1 + 1e-9) and each.usd <= usd * (1 + 1e-9) for each in listed), (
                seconds,
                usd,
            )
