"""The best-first search finds what listing every fleet finds, however tight the limits and whatever the instance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from optplan.contracts.result import Termination
from optplan.contracts.time_and_money import Objective
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact import search
from optplan.formulations.srift.exact.goals import FrontierGoal, LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Event, Stopwatch

Fleet = tuple[float, float, tuple[VmGroup, ...]]
DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[Fleet]]
SEEDS, FRONTIERS = 182, 100
SAME = 1e-9


def amount_of(fleet: Fleet, place: int) -> float:
    """Return the time (0) or the cost (1) of a fleet."""
    return fleet[1] if place else fleet[0]


def add_limits(instance: SriftInstance, fleets: list[Fleet], seed: int) -> SriftInstance:
    """Limit time, cost or both to what some fleet takes, or a little more or less."""
    stream = np.random.default_rng((seed, 1))
    changes: dict[str, object] = {}
    for field, unit, place in (("deadline_s", "", 0), ("budget", "usd", 1)):
        if fleets and stream.random() < 0.5:
            amount = amount_of(fleets[int(stream.integers(len(fleets)))], place) * float(
                stream.choice([1.0, 1.0, 0.99, 1.3])
            )
            changes[field] = f"{amount:.17g}{unit}" if unit else amount
    return instance.replace(**changes)


def keep(instance: SriftInstance, fleets: list[Fleet]) -> list[Fleet]:
    """Return the fleets within the limits."""
    most_s = instance.limits.get("deadline", math.inf) * (1 + SAME)
    most_usd = instance.limits.get("budget", math.inf) * (1 + SAME)
    return [fleet for fleet in fleets if fleet[0] <= most_s and fleet[1] <= most_usd]


def same(one: float, other: float) -> bool:
    """Whether two amounts differ by no more than rounding."""
    return abs(one - other) <= SAME * max(one, other)


@pytest.mark.parametrize("first", [0, SEEDS])
def test_the_optimum_and_its_ties_are_those_of_brute_force(
    first: int, draw_instance: DrawInstance, judge_all: JudgeAll
) -> None:
    """Objective, then the other of time and cost, then the VMs."""
    found = 0
    for seed in range(first, first + SEEDS):
        free = draw_instance(seed)
        fleets = judge_all(free)
        instance = add_limits(free, fleets, seed)
        place = 1 if instance.objective is Objective.COST else 0
        goal = LeastGoal(instance)
        end = FleetSpace(instance).search(goal, Stopwatch())
        assert end.termination is Termination.COMPLETED
        kept = keep(instance, fleets)
        if not kept:
            assert goal.best is None, seed
            continue
        found += 1
        assert goal.best is not None, seed
        assert same(goal.best.objective, min(amount_of(fleet, place) for fleet in kept)), seed
        tied = [fleet for fleet in kept if same(amount_of(fleet, place), goal.best.objective)]
        other = min(amount_of(fleet, 1 - place) for fleet in tied)
        assert same((goal.best.cost_usd, goal.best.time_s)[place], other), seed
        vms = min(sum(group.count for group in fleet[2]) for fleet in tied if same(amount_of(fleet, 1 - place), other))
        assert sum(group.count for group in goal.best.groups) == vms, seed
    assert found > SEEDS / 4


def test_the_frontier_is_that_of_brute_force(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Every fleet that no other beats, and no other fleet, by more than rounding."""
    points = 0
    for seed in range(FRONTIERS):
        instance = draw_instance(1000 + seed)
        goal = FrontierGoal()
        FleetSpace(instance).search(goal, Stopwatch())
        expected: list[tuple[float, float]] = []
        for time_s, cost_usd, _ in sorted(judge_all(instance), key=lambda fleet: fleet[:2]):
            if not expected or cost_usd < expected[-1][1] * (1 - SAME):
                if expected and same(time_s, expected[-1][0]):
                    expected.pop()
                expected.append((time_s, cost_usd))
        got = [(fleet.time_s, fleet.cost_usd) for fleet in goal.fleets]
        assert len(got) == len(expected), seed
        assert all(same(a, b) for pair in zip(got, expected, strict=True) for a, b in zip(*pair, strict=True)), seed
        points += len(got)
    assert points > FRONTIERS / 2


def test_of_equal_fleets_the_one_with_more_of_the_first_type_is_taken(
    make_instance: Callable[..., SriftInstance],
) -> None:
    """Two types that differ by name only: 2 VMs with 32 samples, of which any split takes and costs the same."""
    twin = {"available": 8, "batches": [32]}
    for names in ("ab", "ba"):
        instance = make_instance(types={name: dict(twin) for name in names}, objective="time")
        goal = LeastGoal(instance)
        FleetSpace(instance).search(goal, Stopwatch())
        assert goal.best is not None
        assert goal.best.groups == (VmGroup(type=names[0], count=2, batch=32),)


def test_an_expired_stopwatch_leaves_a_bound(golden: Callable[[str], SriftInstance]) -> None:
    """Nothing is looked at, and the bound is that of the most promising branch, below the optimum."""
    instance = golden("case2")
    end = FleetSpace(instance).search(LeastGoal(instance), Stopwatch(1e-9))
    assert end.termination is Termination.TIME_LIMIT
    assert 0.0 < end.bound < 3.2107
    assert end.counters["fleets"] == 0


def test_too_many_waiting_fleets_end_the_search_with_a_bound(
    golden: Callable[[str], SriftInstance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is limited, too."""
    monkeypatch.setattr(search, "_MOST_WAITING", 1)
    instance = golden("interruption")
    goal = LeastGoal(instance)
    end = FleetSpace(instance).search(goal, Stopwatch())
    assert end.termination is Termination.WORK_LIMIT
    assert end.bound <= 0.3116121


def test_progress_tells_objective_and_a_bound_below_it(golden: Callable[[str], SriftInstance]) -> None:
    """Events carry the best objective so far and what nothing left can go below."""
    events: list[Event] = []
    instance = golden("interruption")
    goal = LeastGoal(instance)
    FleetSpace(instance).search(goal, Stopwatch(None, events.append))
    assert goal.best is not None
    bounds = [event.bound for event in events if event.bound is not None]
    assert bounds
    assert max(bounds) <= goal.best.objective * (1 + SAME)
    assert events[-1].objective == goal.best.objective
