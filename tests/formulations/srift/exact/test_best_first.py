"""The exact solver: the published choices, what pruning rules lose, and what must not change an optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from optplan.contracts.result import BoundProof, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup, write_fleet
from optplan.formulations.srift.exact import search
from optplan.formulations.srift.exact.best_first import solve_best_first
from optplan.formulations.srift.exact.goals import JudgedFleet, LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.progress import Stopwatch

Golden = Callable[[str], SriftInstance]
DrawInstance = Callable[[int], SriftInstance]


class Others(LeastGoal):
    """The best fleet but one."""

    def __init__(self, instance: SriftInstance, excluded: tuple[VmGroup, ...]) -> None:
        super().__init__(instance)
        self.excluded = excluded

    def offer(self, fleet: JudgedFleet) -> None:
        """Leave the one out."""
        if fleet.groups != self.excluded:
            super().offer(fleet)


def best(instance: SriftInstance, excluded: tuple[VmGroup, ...] = ()) -> tuple[str, float, float]:
    """Return the best fleet, or the best but one, with its time and cost."""
    goal = Others(instance, excluded)
    FleetSpace(instance).search(goal, Stopwatch())
    assert goal.best is not None
    return write_fleet(goal.best.groups), goal.best.time_s, goal.best.cost_usd


def objective(instance: SriftInstance) -> float:
    """Return the optimum, infinite where there is no fleet."""
    answer = solve_best_first(instance, SolveRequest(gap=0.0))
    return float("inf") if answer.objective is None else answer.objective


@pytest.mark.parametrize(
    ("name", "fleet", "time_s", "cost_usd"),
    [
        ("case1", "16 g4dn.8xlarge@64", 914.0, None),
        ("case2", "8 g4dn.8xlarge@128", None, 3.21),
        ("case3", "4 p3.8xlarge@1024 + 8 g3.8xlarge@128 + 8 g4dn.8xlarge@128", 378.0, 2.72),
        ("interruption", "2 p3.8xlarge@512", 152.0, None),
    ],
)
def test_published_choices_are_optimal(
    golden: Golden, name: str, fleet: str, time_s: float | None, cost_usd: float | None
) -> None:
    """Section 5.2 and 5.4: the very configurations, proven, with the published predictions within 2 %."""
    answer = solve_best_first(golden(name), SolveRequest())
    assert answer.status is Status.OPTIMAL
    assert answer.bound_proof is BoundProof.TREE
    assert answer.solution is not None
    assert sorted(write_fleet(answer.solution.groups).split(" + ")) == sorted(fleet.split(" + "))
    measures = evaluate(golden(name), answer.solution).measures
    assert time_s is None or measures["time_s"] == pytest.approx(time_s, rel=0.02)
    assert cost_usd is None or measures["cost_usd"] == pytest.approx(cost_usd, rel=0.02)


def test_next_best_fleets_are_those_of_the_calibration(golden: Golden) -> None:
    """Case 2: 16 g4dn@64 at .3284 cents an iteration; 5.4: 4 p3@256 at .333 usd; case 3: no other fleet at all."""
    case2, start = golden("case2"), golden("interruption")
    fleet, _, cost = best(case2, (VmGroup(type="g4dn.8xlarge", count=8, batch=128),))
    assert fleet == "16 g4dn.8xlarge@64"
    assert cost / case2.iterations * 100 == pytest.approx(0.3284, rel=1e-3)
    fleet, _, cost = best(start, (VmGroup(type="p3.8xlarge", count=2, batch=512),))
    assert fleet == "4 p3.8xlarge@256"
    assert cost == pytest.approx(0.333, rel=0.02)
    case3 = golden("case3")
    only = solve_best_first(case3, SolveRequest()).solution
    assert only is not None
    goal = Others(case3, only.groups)
    FleetSpace(case3).search(goal, Stopwatch())
    assert goal.best is None


def offer(instance: SriftInstance, **changes: dict[str, Any]) -> SriftInstance:
    """Change types by name (with dots as underscores)."""
    types = {name: vm.replace(**changes.get(name.replace(".", "_"), {})) for name, vm in instance.types.items()}
    return instance.replace(types=types)


def test_powers_of_two_lose_the_optimum(golden: Golden) -> None:
    """Batch 1152 on up to 12 VMs: 12 with 96 samples each beat 9 with 128, the only fleet of a power of two."""
    powers = offer(golden("case1").replace(global_batch=1152), g4dn_8xlarge={"available": 12})
    every = offer(powers, g4dn_8xlarge={"batches": [16, 32, 48, 64, 80, 96, 112, 128]})
    assert best(powers)[0] == "9 g4dn.8xlarge@128"
    fleet, time_s, _ = best(every)
    assert fleet == "12 g4dn.8xlarge@96"
    assert time_s < best(powers)[1] * 0.8


def test_one_batch_per_type_loses_the_optimum(golden: Golden) -> None:
    """VGG19, batch 1024 on 12 g4dn: 4 with 86 and 8 with 85 samples beat 8 with 128."""
    only = golden("case2").types["g4dn.8xlarge"].replace(available=12, batches=[85, 86, 128])
    instance = golden("case2").replace(types={"g4dn.8xlarge": only}, objective="time")
    assert best(instance)[0] == "8 g4dn.8xlarge@128"
    fleet, time_s, _ = best(instance.replace(one_batch_per_type=False))
    assert fleet == "4 g4dn.8xlarge@86 + 8 g4dn.8xlarge@85"
    assert time_s < best(instance)[1] * 0.8


def test_homogeneous_first_loses_the_optimum(golden: Golden) -> None:
    """VGG19, batch 1024, 8 of each: 8 g3 and 8 g4dn with 64 take 1.27 s an iteration, the best of one type 2.01 s."""
    eight = {"available": 8}
    instance = offer(golden("case2").replace(objective="time"), g4dn_8xlarge=eight, g3_8xlarge=eight)
    fleet, time_s, _ = best(instance)
    assert sorted(fleet.split(" + ")) == ["8 g3.8xlarge@64", "8 g4dn.8xlarge@64"]
    assert time_s / instance.iterations == pytest.approx(1.27, rel=0.01)
    alone = best(instance.replace(mixed=False))
    assert alone[0] == "8 g4dn.8xlarge@128"
    assert alone[1] / instance.iterations == pytest.approx(2.01, rel=0.01)


def test_more_availability_time_or_money_never_hurts(draw_instance: DrawInstance) -> None:
    """The optimum with one VM more of any type, or with a later deadline or a larger budget, is no worse."""
    for seed in range(60):
        free = draw_instance(seed)
        least = objective(free)
        for name, vm in free.types.items():
            if vm.available is not None:
                more = free.replace(types={**free.types, name: vm.replace(available=vm.available + 1)})
                assert objective(more) <= least * (1 + 1e-9)
        if least == float("inf"):
            continue
        for field, unit in (("deadline_s", 1.0), ("budget", None)):
            amounts = [least * factor for factor in (0.5, 1.0, 2.0, 8.0)]
            found = [objective(free.replace(**{field: f"{a:.12f}usd" if unit is None else a})) for a in amounts]
            assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(found))
            assert found[-1] >= least * (1 - 1e-9)


def test_the_order_of_types_changes_nothing(draw_instance: DrawInstance) -> None:
    """Time and cost of the optimum are the same when types are given the other way round, ties in time or not."""
    for seed in range(90):
        one = draw_instance(seed)
        other = one.replace(types=dict(reversed(one.types.items())))
        found = [solve_best_first(instance, SolveRequest(gap=0.0)) for instance in (one, other)]
        assert (found[0].solution is None) == (found[1].solution is None)
        pairs = [
            evaluate(one, SriftSolution(groups=answer.solution.groups)).consumption
            for answer in found
            if answer.solution is not None
        ]
        assert all(pairs[0][limit] == pytest.approx(pairs[-1][limit], rel=1e-9) for pair in pairs for limit in pair)


@dataclass
class LooksAtTheClock(Stopwatch):
    """Expires when it is looked at for the so-many-th time."""

    looks: int = 0

    @property
    def expired(self) -> bool:
        """Whether it was looked at often enough."""
        self.looks -= 1
        return self.looks < 0


def test_whenever_time_runs_out_the_optimum_lies_between_bound_and_objective(golden: Golden) -> None:
    """Without a fleet there is a bound; with one that is not proven the answer says what would help."""
    instance = golden("interruption").replace(objective="time", deadline_s=None, budget="0.4usd")
    optimum = objective(instance)
    seen = set()
    for looks in range(60):
        answer = solve_best_first(instance, SolveRequest(gap=0.0, stopwatch=LooksAtTheClock(looks=looks)))
        seen.add(answer.status)
        assert answer.bound is not None
        assert answer.bound <= optimum
        assert optimum <= (answer.objective or optimum)
        if answer.status is not Status.OPTIMAL:
            assert answer.termination is Termination.TIME_LIMIT
            assert "what would: more time; fewer types, or fewer choices of batches" in answer.warnings[0]
    assert seen == {Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL}


def test_where_memory_runs_out_time_does_not_help(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer names what leaves less to be looked at."""
    monkeypatch.setattr(search, "_MOST_WAITING", 0)
    instance = golden("case2").replace(one_batch_per_type=False)
    answer = solve_best_first(instance, SolveRequest())
    assert answer.status is Status.UNKNOWN
    assert answer.termination is Termination.WORK_LIMIT
    assert "none is excluded; what would: fewer types" in answer.warnings[0]
    assert "one batch per type" in answer.warnings[0]


def test_a_gap_ends_the_search_early(golden: Golden) -> None:
    """With half of the objective as the gap the bound stays below it, and the answer counts as optimal."""
    answer = solve_best_first(golden("interruption"), SolveRequest(gap=0.5))
    assert answer.status is Status.OPTIMAL
    assert answer.objective is not None
    assert answer.bound is not None
    assert answer.objective * 0.5 <= answer.bound <= answer.objective
