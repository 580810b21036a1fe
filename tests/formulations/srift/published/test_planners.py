"""The paper's planners: what its pruning loses, what the eager mode does step by step, what CAP and TAP cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.models.general_engines import solve_enumeration
from optplan.formulations.srift.published import planners
from optplan.formulations.srift.published.planners import (
    fill_cost_aware,
    fill_throughput_aware,
    solve_cost_aware,
    solve_eager,
    solve_exhaustive,
    solve_throughput_aware,
)
from optplan.progress import Event, Stopwatch

MakeInstance = Callable[..., SriftInstance]
REQUEST = SolveRequest()
Planner = Callable[[SriftInstance, SolveRequest], Answer[SriftSolution]]
PLANNERS: list[Planner] = [solve_exhaustive, solve_eager, solve_cost_aware, solve_throughput_aware]


def fleet(answer: Answer[SriftSolution]) -> list[tuple[str, int, int]]:
    """Return (type, count, batch) by group; nothing without a solution."""
    return [] if answer.solution is None else [(g.type, g.count, g.batch) for g in answer.solution.groups]


def best(instance: SriftInstance) -> list[tuple[str, int, int]]:
    """Return the best fleet there is."""
    return fleet(solve_enumeration(instance, REQUEST))


def prune(instance: SriftInstance) -> list[tuple[str, int, int]]:
    """Return the best fleet that the paper's pruning leaves."""
    return fleet(solve_exhaustive(instance, REQUEST))


def test_powers_of_two_lose_fleets(make_instance: MakeInstance) -> None:
    """12 VMs take 576 samples as 12 @ 48, 192 ms; with powers of two alone as 9 @ 64, 256 ms."""
    types = {"a": {"available": 12, "batches": [16, 32, 48, 64]}}
    instance = make_instance(types=types, global_batch=576, objective="time")
    assert best(instance) == [("a", 12, 48)]
    assert prune(instance) == [("a", 9, 64)]


def test_powers_of_two_are_those_of_a_gpu(make_instance: MakeInstance) -> None:
    """A VM with 3 GPUs and 48 samples has 16 on each."""
    instance = make_instance(types={"a": {"gpus": 3, "batches": [48]}}, global_batch=96)
    assert prune(instance) == [("a", 2, 48)]


def test_one_batch_per_type_loses_fleets(make_instance: MakeInstance) -> None:
    """4 VMs reach 112 samples as 3 @ 32 + 1 @ 16, and in no other way."""
    types = {"a": {"available": 4, "batches": [16, 32]}}
    instance = make_instance(types=types, global_batch=112, one_batch_per_type=False)
    assert best(instance) == [("a", 3, 32), ("a", 1, 16)]
    pruned = solve_exhaustive(instance, REQUEST)
    assert (pruned.status, pruned.bound_proof) == (Status.UNKNOWN, BoundProof.NONE)
    assert pruned.warnings == ("no fleet within the paper's pruning reaches the batch within the limits",)


def test_homogeneous_first_loses_fleets(make_instance: MakeInstance) -> None:
    """8 of each of two types take 64 samples as 16 @ 4, 16 ms; one type alone as 8 @ 8, 32 ms.

    With a deadline of 2 s for 100 iterations no type alone will do, and both are looked at together.
    """
    types = {"a": {"available": 8, "batches": [4, 8]}, "b": {"available": 8, "batches": [4, 8]}}
    instance = make_instance(types=types, objective="time")
    assert best(instance) == [("a", 8, 4), ("b", 8, 4)]
    assert prune(instance) == [("a", 8, 8)]
    assert prune(instance.replace(deadline_s=2.0)) == [("a", 8, 4), ("b", 8, 4)]


def test_larger_first_loses_fleets(make_instance: MakeInstance) -> None:
    """VMs with two GPUs cost four times as much as those with one: dearer, and looked at first.

    With GPUs of another kind the larger VM is no rival; and it is none where there are too few to reach the batch.
    """
    one, two = {"gpu": "slow", "price_usd_per_hour": 1}, {"gpu": "slow", "gpus": 2, "price_usd_per_hour": 4}
    instance = make_instance(types={"one": one | {"batches": [8]}, "two": two | {"batches": [16]}})
    assert best(instance) == [("one", 8, 8)]
    assert prune(instance) == [("two", 4, 16)]
    other = make_instance(
        types={"one": one | {"batches": [8]}, "two": two | {"batches": [16], "gpu": "fast", "price_usd_per_hour": 9}}
    )
    assert prune(other) == best(other) == [("one", 8, 8)]
    few = make_instance(types={"one": one | {"batches": [8]}, "two": two | {"batches": [16], "available": 3}})
    assert prune(few) == [("one", 8, 8)]


def test_spot_first_loses_fleets(make_instance: MakeInstance) -> None:
    """Spot VMs of the slow kind are preferred to on-demand ones that are four times as fast, within 20 s."""
    types = {"spot": {"spot": True, "available": 2}, "sure": {"gpu": "fast", "available": 2}}
    instance = make_instance(types=types, objective="time", deadline_s=20)
    assert best(instance) == [("sure", 2, 32)]
    assert prune(instance) == [("spot", 2, 32)]
    assert prune(instance.replace(deadline_s=10.0)) == [("sure", 2, 32)]


def test_running_vms_are_part_of_every_fleet(make_instance: MakeInstance) -> None:
    """One VM of the type that nobody would choose is running; 64 samples are 32 on it and 32 on a fast one."""
    types = {"slow": {"running": 1, "available": 1, "batches": [32]}, "fast": {"gpu": "fast", "batches": [32]}}
    instance = make_instance(types=types)
    for planner in PLANNERS:
        assert fleet(planner(instance, REQUEST)) == [("slow", 1, 32), ("fast", 1, 32)]
    alone = instance.replace(mixed=False)
    assert fleet(solve_exhaustive(alone, REQUEST)) == fleet(solve_eager(alone, REQUEST)) == []


def test_the_exhaustive_search_ends_with_its_time(make_instance: MakeInstance) -> None:
    """Out of time before the first fleet."""
    answer = solve_exhaustive(make_instance(), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert answer.counters == {"fleets": 0.0}


def test_eager_steps_allow_one_type_after_another(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast VMs come first for the time. With steps of 2, up to 2 of them reach 64 samples in 64 and 32 ms, 4 in 16 ms.

    The third step adds slow ones; none of these fleets is quicker than 16 ms. All fleets are looked at once.
    """
    types = {
        "slow": {"available": 2, "batches": [16]},
        "fast": {"gpu": "fast", "available": 4, "batches": [16, 32, 64]},
    }
    instance = make_instance(types=types, objective="time")
    events: list[Event] = []
    request = SolveRequest(stopwatch=Stopwatch(60, events.append))
    monkeypatch.setattr(planners, "EAGER_STEP", 2)
    answer = solve_eager(instance, request)
    assert fleet(answer) == [("fast", 4, 16)]
    assert [event.objective for event in events] == [None, pytest.approx(3.2), pytest.approx(1.6)]
    # 1 @ 64, 2 @ 32; 4 @ 16; 2 slow + 1 fast @ 32, 2 slow + 2 fast @ 16, 1 slow + 3 fast @ 16
    assert answer.counters == {"fleets": 6.0}
    assert (answer.status, answer.bound, answer.bound_proof) == (Status.FEASIBLE, None, BoundProof.NONE)


def test_eager_mode_prefers_what_is_cheap_for_its_speed(make_instance: MakeInstance) -> None:
    """A fast VM at 8 usd/h is dearer for its speed than a slow one at 1: for the cost the slow ones come first."""
    types = {"fast": {"gpu": "fast", "price_usd_per_hour": 8, "available": 1}, "slow": {"available": 1}}
    events: list[Event] = []
    answer = solve_eager(make_instance(types=types), SolveRequest(stopwatch=Stopwatch(60, events.append)))
    assert fleet(answer) == [("slow", 1, 64)]
    assert [event.objective for event in events] == [None, pytest.approx(25.6 / 3600)]


def test_eager_mode_ends_with_its_budget(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """To use up its own budget of solving time is its normal end; the time limit of a request cuts it off."""
    instance, message = make_instance(), "no fleet of the eager mode reaches the batch within the limits"
    monkeypatch.setattr(planners, "EAGER_BUDGET_S", 1e-9)
    own = solve_eager(instance, REQUEST)
    assert (own.status, own.termination) == (Status.UNKNOWN, Termination.COMPLETED)
    note = "the eager mode has used up its budget of 1e-09 s; with a time limit it takes as long as that"
    assert own.warnings == (message, note)
    limited = solve_eager(instance, SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert (limited.status, limited.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert limited.warnings == (message,)
    longer = solve_eager(instance, SolveRequest(stopwatch=Stopwatch(60)))
    assert (longer.status, longer.termination) == (Status.FEASIBLE, Termination.COMPLETED)
    assert not longer.warnings


def test_static_policies_fill_by_rank(make_instance: MakeInstance) -> None:
    """200 samples: CAP takes both slow VMs at 64, TAP the fast one at 64 first; the rest goes to the next rank."""
    types = {
        "slow": {"price_usd_per_hour": 1, "available": 2, "batches": [32, 64]},
        "fast": {"gpu": "fast", "price_usd_per_hour": 2, "available": 3, "batches": [36]},
    }
    instance = make_instance(types=types, global_batch=200)
    assert fleet(solve_cost_aware(instance, REQUEST)) == [("slow", 2, 64), ("fast", 2, 36)]
    instance = instance.replace(global_batch=172)
    answer = solve_throughput_aware(instance, REQUEST)
    assert fleet(answer) == [("slow", 1, 64), ("fast", 3, 36)]
    assert (answer.status, answer.bound_proof) == (Status.FEASIBLE, BoundProof.NONE)


def test_a_remainder_is_not_representable(make_instance: MakeInstance) -> None:
    """100 samples are one full VM and 36 that would load another in part."""
    instance = make_instance(types={"a": {"price_usd_per_hour": 1}, "b": {"price_usd_per_hour": 2}}, global_batch=100)
    for policy, name in ((solve_cost_aware, "cost-aware"), (solve_throughput_aware, "throughput-aware")):
        answer = policy(instance, REQUEST)
        assert (answer.status, answer.solution) == (Status.UNKNOWN, None)
        assert answer.warnings == (
            f"the {name} policy makes no fleet: 36 of 100 samples are left for a VM of a, which it would load in part: "
            "a full one takes 64; not representable",
        )
    small = fill_cost_aware(make_instance(types={"a": {"batches": [8, 64]}}, global_batch=48))
    assert isinstance(small, str)
    assert small.startswith("48 of 48 samples are left for a VM of a")


def test_too_few_or_too_many_vms(make_instance: MakeInstance) -> None:
    """Two VMs of a type, or one type of two that must not be mixed, do not take 192 samples; four running take more."""
    types = {"a": {"available": 2}, "b": {"price_usd_per_hour": 2, "available": 2}}
    message = "all VMs that it can have, fully loaded, leave 64 of 192 samples"
    assert fill_cost_aware(make_instance(types=types, global_batch=192, mixed=False)) == message
    assert fill_throughput_aware(make_instance(types={"a": types["a"]}, global_batch=192)) == message
    running = make_instance(types={"a": {"running": 4}}, global_batch=192)
    message = "the running VMs, fully loaded, take 64 samples more than there are"
    assert fill_throughput_aware(running) == message


def test_static_policies_look_at_no_limit(make_instance: MakeInstance) -> None:
    """One slow VM takes 256 ms for 64 samples, 25.6 s in all; what breaks a limit is said as the judge says it."""
    instance = make_instance(types={"a": {"batches": [32, 64]}}, deadline_s=20)
    answer = solve_cost_aware(instance, REQUEST)
    assert (answer.status, answer.solution) == (Status.UNKNOWN, None)
    assert answer.warnings == (
        "the cost-aware policy makes 1 a@64, which breaks deadline: the time must not exceed the deadline "
        "(25.6 against 20)",
    )


G3, G4DN, P3 = "g3.8xlarge", "g4dn.8xlarge", "p3.8xlarge"
Golden = Callable[[str], SriftInstance]


@pytest.mark.parametrize(
    ("case", "fill", "groups", "iteration_s", "usd_per_iteration", "published"),
    [
        ("case1", fill_cost_aware, [(G4DN, 8, 128)], 1.7771, None, 1.776),
        ("case1", fill_throughput_aware, [(G4DN, 8, 128)], 1.7771, None, 1.776),
        ("case2", fill_cost_aware, [(G3, 16, 64)], None, 0.003935, 0.00393),
        ("case2", fill_throughput_aware, [(G4DN, 8, 128)], None, 0.003211, 0.00321),
        ("case3", fill_cost_aware, [(P3, 2, 1024), (G3, 8, 256), (G4DN, 8, 256)], 0.7540, 0.003904, 0.751),
        ("case3", fill_throughput_aware, [(P3, 4, 1024), (G4DN, 8, 256)], 0.7431, 0.004228, 0.742),
    ],
)
def test_static_policies_make_the_published_fleets(
    case: str,
    fill: Callable[[SriftInstance], tuple[VmGroup, ...] | str],
    groups: list[tuple[str, int, int]],
    iteration_s: float | None,
    usd_per_iteration: float | None,
    published: float,
    golden: Golden,
) -> None:
    """The rows CAP and TAP of the tables of section 5.2, by the calibrated profiles, and within 2 % of the paper's."""
    instance = golden(case)
    made = fill(instance)
    assert not isinstance(made, str)
    assert sorted((group.type, group.count, group.batch) for group in made) == sorted(groups)
    measures = evaluate(instance, SriftSolution(groups=made)).measures
    predicted = measures["cost_usd_per_iteration" if iteration_s is None else "iteration_s"]
    assert predicted == pytest.approx(published, rel=0.02)
    if iteration_s is not None:
        assert measures["iteration_s"] == pytest.approx(iteration_s, rel=2e-3)
    if usd_per_iteration is not None:
        assert measures["cost_usd_per_iteration"] == pytest.approx(usd_per_iteration, rel=2e-3)


def test_static_policies_exceed_both_limits_of_case_3(golden: Golden) -> None:
    """10 minutes and 3 dollars: CAP and TAP take 751 and 742 s by the paper, for 3.88 and 4.22 usd."""
    for policy, most in (
        (solve_cost_aware, (r"75[34]\.\d+", r"3\.90\d+")),
        (solve_throughput_aware, (r"743", r"4\.22")),
    ):
        (warning,) = policy(golden("case3"), REQUEST).warnings
        assert re.search(rf"the time must not exceed the deadline \({most[0]}.* against 600\); ", warning)
        assert re.search(rf"the cost must not exceed the budget \({most[1]}.* against 3\)", warning)


@pytest.mark.parametrize(
    ("case", "groups"),
    [
        ("case1", [(G4DN, 16, 64)]),
        ("case2", [(G4DN, 8, 128)]),
        ("case3", [(P3, 4, 1024), (G3, 8, 128), (G4DN, 8, 128)]),
        ("interruption", [(P3, 2, 512)]),
    ],
)
@pytest.mark.parametrize("planner", [solve_exhaustive, solve_eager])
def test_searches_find_the_published_fleets(
    planner: Planner, case: str, groups: list[tuple[str, int, int]], golden: Golden
) -> None:
    """Srift's rows of section 5.2, and its first choice in 5.4."""
    assert sorted(fleet(planner(golden(case), SolveRequest(stopwatch=Stopwatch(60))))) == sorted(groups)


@settings(max_examples=60)
@given(data=st.data())
def test_planners_keep_every_rule_and_none_beats_the_optimum(
    data: st.DataObject, tiny_instances: st.SearchStrategy[SriftInstance]
) -> None:
    """What they find is sound, and no better than the best fleet; the eager mode finds one where there is any."""
    instance = data.draw(tiny_instances)
    optimum = solve_enumeration(instance, REQUEST).objective
    in_time = SolveRequest(stopwatch=Stopwatch(60))
    for planner in PLANNERS:
        answer = planner(instance, in_time)
        assert answer.termination is Termination.COMPLETED
        if answer.solution is not None:
            evaluation = evaluate(instance, answer.solution)
            assert all(check.holds for check in evaluation.checks)
            assert answer.objective == pytest.approx(evaluation.objective, rel=1e-9)
            assert optimum is not None
            assert evaluation.objective >= optimum * (1 - 1e-9)
    if instance.one_batch_per_type:
        assert (solve_eager(instance, in_time).objective is None) == (optimum is None)
