"""Srift on general engines: they agree with each other and with what can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import InfeasibleError, UnsupportedError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.models.general_engines import FleetModel, solve_enumeration, solve_highs
from optplan.formulations.srift.models.statement import list_groups
from optplan.progress import Stopwatch

MakeInstance = Callable[..., SriftInstance]
Solver = Callable[[SriftInstance, SolveRequest], Answer[SriftSolution]]
SOLVERS: list[Solver] = [solve_highs, solve_enumeration]
REQUEST = SolveRequest(gap=1e-9)


def fleet(answer: Answer[SriftSolution]) -> list[tuple[str, int, int]]:
    """Return (type, count, batch) by group."""
    assert answer.solution is not None
    return [(group.type, group.count, group.batch) for group in answer.solution.groups]


@pytest.mark.parametrize("solver", SOLVERS)
def test_both_problems_by_hand(solver: Solver, make_instance: MakeInstance) -> None:
    """Batches of b take b / 2 ms on the big VM and 4 b ms on a small one, far longer than the exchange.

    The big one takes 32 samples in 16 ms, and 8 small ones with 4 each as long: 1.6 s, the fastest. Their cost is
    (7.2 + 8 * 0.9) / 3600 * 1.6 = 0.0064 usd. The big one alone takes 3.2 s for 0.0064, but 8 small ones with 8 at 0.8
    usd/h 3.2 s for 0.00569.
    """
    fastest = solver(make_instance(objective="time"), REQUEST)
    assert fastest.status is Status.OPTIMAL
    assert fleet(fastest) == [("big", 1, 32), ("small", 8, 4)]
    assert fastest.objective == fastest.bound == pytest.approx(1.6)
    types = {
        "big": {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "available": 1},
        "small": {"price_usd_per_hour": 0.8, "available": 8, "batches": [4, 8]},
    }
    cheapest = solver(make_instance(types=types), REQUEST)
    assert fleet(cheapest) == [("small", 8, 8)]
    assert cheapest.objective == cheapest.bound == pytest.approx(8 * 0.8 / 3600 * 3.2)
    within = solver(make_instance(types=types, deadline_s=2), REQUEST)
    assert fleet(within) == [("big", 1, 32), ("small", 8, 4)]


@pytest.mark.parametrize("solver", SOLVERS)
def test_exchange_counts(solver: Solver, make_instance: MakeInstance) -> None:
    """With 1 MB of gradients over 0.008 Gbit/s, 1 MB/s, a rank of n exchanges for 2 (n - 1) / n s.

    One VM takes 64 samples in 256 ms and exchanges nothing. Two take 128 ms and exchange for 1 s.
    """
    instance = make_instance(types={"a": {"network_gbit_per_s": 0.008, "available": 2}}, objective="time")
    answer = solver(instance, REQUEST)
    assert fleet(answer) == [("a", 1, 64)]
    assert answer.objective == answer.bound == pytest.approx(25.6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_several_batches_of_a_type(solver: Solver, make_instance: MakeInstance) -> None:
    """4 VMs reach 112 samples with batches of 16 and 32 only if these may differ: 3 @ 32 and 1 @ 16."""
    types = {"a": {"available": 4, "batches": [16, 32]}}
    answer = solver(make_instance(types=types, global_batch=112, one_batch_per_type=False), REQUEST)
    assert fleet(answer) == [("a", 3, 32), ("a", 1, 16)]


@pytest.mark.parametrize("solver", SOLVERS)
def test_running_vms_are_kept(solver: Solver, make_instance: MakeInstance) -> None:
    """One dear VM is running; launching takes 1,000 s. So it takes all 64 samples, 25.6 s, and nothing is launched."""
    types = {"dear": {"price_usd_per_hour": 90, "running": 1}, "a": {}}
    answer = solver(make_instance(types=types, launch_s=1000, objective="time"), REQUEST)
    assert fleet(answer) == [("dear", 1, 64)]
    assert answer.objective == pytest.approx(25.6)


@pytest.mark.parametrize(
    ("case", "groups"),
    [
        ("case1", [("g4dn.8xlarge", 16, 64)]),
        ("case2", [("g4dn.8xlarge", 8, 128)]),
        ("case3", [("g3.8xlarge", 8, 128), ("g4dn.8xlarge", 8, 128), ("p3.8xlarge", 4, 1024)]),
        ("interruption", [("p3.8xlarge", 2, 512)]),
    ],
)
def test_highs_proves_the_published_fleets(
    case: str, groups: list[tuple[str, int, int]], golden: Callable[[str], SriftInstance]
) -> None:
    """Srift's rows of section 5.2, and its first choice in 5.4, are optimal by the calibrated profiles."""
    answer = solve_highs(golden(case), REQUEST)
    assert answer.status is Status.OPTIMAL
    assert sorted(fleet(answer)) == groups
    assert answer.bound == answer.objective


@settings(max_examples=80)
@given(data=st.data())
def test_highs_and_enumeration_agree(data: st.DataObject, tiny_instances: st.SearchStrategy[SriftInstance]) -> None:
    """Both find the optimum, or both none; what they find keeps every rule."""
    instance = data.draw(tiny_instances)
    by_engine, by_looking = solve_highs(instance, REQUEST), solve_enumeration(instance, REQUEST)
    assert by_engine.status is by_looking.status
    if by_looking.solution is None:
        assert by_engine.infeasibility == by_looking.infeasibility
        return
    assert by_engine.solution is not None
    assert by_engine.objective == pytest.approx(by_looking.objective, rel=1e-9)
    assert by_engine.bound == pytest.approx(by_engine.objective, rel=1e-9)
    assert (by_engine.bound_proof, by_looking.bound_proof) == (BoundProof.ENGINE, BoundProof.SEARCHED)
    for answer in (by_engine, by_looking):
        assert answer.solution is not None
        evaluation = evaluate(instance, answer.solution)
        assert all(check.holds for check in evaluation.checks)
        assert evaluation.objective == pytest.approx(answer.objective, rel=1e-9)


def test_a_fleet_that_presolve_loses_is_found() -> None:
    """CP-SAT 9.15 on a model with a product took 1 a @ 1, 1 b @ 12 and 1 c @ 1, at 0.000156 usd.

    2 b @ 6 in place of one @ 12 compute in 120.5 ms instead of 160.7 and cost, for 4.5 usd/h in all, 0.000151.
    """
    device = {"batches": [1, 8], "forward_s": [0.0625, 0.0625], "backward_s": [0.03125, 0.125], "deviation": 0}
    common = {"gpu": "x", "network_gbit_per_s": 1.0}
    instance = SriftInstance.parse(
        {
            "formulation": "srift",
            "job": {"layers": {"gradient_bytes": [1e4, 1e4], "ready": [0, 0]}, "devices": {"x": device}},
            "global_batch": 14,
            "iterations": 1,
            "types": {
                "a": common | {"price_usd_per_hour": 1.5, "available": 2, "batches": [1, 2]},
                "b": common | {"gpus": 2, "price_usd_per_hour": 1.0, "available": 2, "batches": [6, 12], "running": 1},
                "c": common | {"price_usd_per_hour": 1.0, "available": 1, "batches": [1], "running": 1},
            },
            "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
            "one_batch_per_type": False,
        }
    )
    answer = solve_highs(instance, REQUEST)
    assert fleet(answer) == [("a", 1, 1), ("b", 2, 6), ("c", 1, 1)]
    assert answer.objective == answer.bound == pytest.approx(4.5 / 3600 * (0.0625 + 0.03125 + 0.09375 * 2 / 7))


@settings(max_examples=40)
@given(data=st.data())
def test_the_relaxation_is_one(data: st.DataObject, tiny_instances: st.SearchStrategy[SriftInstance]) -> None:
    """Every fleet of the model is proposed before one with a lower bound, and none is better than its bound."""
    instance = data.draw(tiny_instances)
    unlimited = instance.replace(deadline_s=None, budget=None)
    if not list_groups(unlimited):
        with pytest.raises(InfeasibleError, match="there are no VMs to be had of any type"):
            FleetModel(unlimited, REQUEST)
        return
    model = FleetModel(unlimited, REQUEST)
    seen: list[tuple[VmGroup, ...]] = []
    while (proposed := model.propose()) is not None and len(seen) < 6:
        evaluation = evaluate(unlimited, SriftSolution(groups=proposed))
        assert all(check.holds for check in evaluation.checks)
        assert model.bound <= evaluation.objective * (1 + 1e-12)
        seen.append(proposed)
    assert len(seen) == len(set(seen))


def test_highs_without_time_has_a_bound_or_nothing(make_instance: MakeInstance) -> None:
    """Out of time before the first solve: no fleet, no claim."""
    answer = solve_highs(make_instance(), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert (answer.status, answer.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert answer.bound is None
    assert answer.warnings == ("no fleet that HiGHS proposes reaches the batch within the limits",)


def test_highs_stops_at_the_gap(make_instance: MakeInstance) -> None:
    """A gap of 90 % is closed by the first fleet; the bound says how far it goes."""
    answer = solve_highs(make_instance(types={"a": {}}), SolveRequest(gap=0.9))
    assert answer.status is Status.OPTIMAL
    assert answer.objective is not None
    assert answer.bound is not None
    assert answer.objective * 0.1 <= answer.bound <= answer.objective


def test_running_vms_that_take_no_batch_leave_no_fleet(make_instance: MakeInstance) -> None:
    """The running VM takes 64 samples at least and there are 32; alone there is nothing to state."""
    dear = {"price_usd_per_hour": 90, "running": 1, "batches": [64]}
    for types in ({"dear": dear, "a": {}}, {"dear": dear}):
        answer = solve_highs(make_instance(types=types, global_batch=32), REQUEST)
        assert answer.status is Status.INFEASIBLE
        assert answer.infeasibility is not None


def test_enumeration_has_a_limit(make_instance: MakeInstance) -> None:
    """Three types with hundreds of counts each are too many, and one with several batches may be."""
    instance = make_instance(types={name: {} for name in "abc"}, global_batch=1000)
    with pytest.raises(UnsupportedError, match=r"enumeration looks at 500,000 choices at most and this problem has"):
        solve_enumeration(instance, REQUEST)
    instance = make_instance(types={"a": {}}, global_batch=1000, one_batch_per_type=False)
    with pytest.raises(UnsupportedError, match=r"500,000 choices at most and a alone has 1\.01e\+21; choose a solver"):
        solve_enumeration(instance, REQUEST)
