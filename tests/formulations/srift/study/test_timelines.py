"""The course of a run that loses VMs: segments without gaps, sums that agree with limits and evaluator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.study.replanning import FleetStanding, Happening, Timeline, build_timeline, replan
from optplan.instances.files import read_instance

#: After 2 big VMs (of 2 GPUs) until 5 s: one with 32 samples and 4 small ones with 8.
NEW = SriftSolution(groups=(VmGroup(type="big", count=1, batch=32), VmGroup(type="small", count=4, batch=8)))


@pytest.fixture
def run(make_instance: Callable[..., SriftInstance]) -> SriftInstance:
    """Return the problem of a run: 100 iterations within 20 s and 1 usd, new VMs after 2 s."""
    types = {
        "big": {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "available": 4},
        "small": {"gpu": "slow", "price_usd_per_hour": 0.9, "available": 8},
    }
    return make_instance(name="run", types=types, deadline_s=20, budget="1usd", launch_s=2)


@pytest.fixture
def state() -> FleetStanding:
    """Return where it stands: after 5 s and 60 iterations, one of the two big VMs is lost; detaching takes 1 s."""
    return FleetStanding(elapsed_s=5, iterations_done=60, running={"big": 1}, lost={"big": 1}, detach_s=1)


def lay_out(run: SriftInstance, state: FleetStanding) -> Timeline:
    """Lay a run out up to its predicted end."""
    return build_timeline(run, state, replan(run, state), new=NEW)


def test_the_course_of_a_run(run: SriftInstance, state: FleetStanding) -> None:
    """Launch 2 s, train 3 s for 2 * 0.002 usd/s, pause 1 s, launch 2 s, train 40 iterations of 32 ms (the small VMs).

    8 samples on a slow GPU take 32 ms, 16 on each of the fast ones 16 ms. Big and small cost .002 + 4 * .00025 usd/s.
    """
    timeline = lay_out(run, state)
    courses = [(one.happening.value, one.start_s, one.end_s) for one in timeline.segments]
    assert courses == [
        ("launch", 0, 2),
        ("train", 2, 5),
        ("pause", 5, 6),
        ("launch", 6, 8),
        ("train", 8, pytest.approx(9.28)),
    ]
    assert [one.iterations_to for one in timeline.segments] == [0, 60, 60, 60, 100]
    spent = [one.spent_to_usd for one in timeline.segments]
    assert spent == pytest.approx([0, 0.012, 0.012, 0.012, 0.012 + 1.28 * 0.003])
    assert [one.predicted for one in timeline.segments] == [False, False, True, True, True]
    fleets = [one.fleet for one in timeline.segments]
    assert fleets == ["2 big"] * 2 + ["1 big"] + ["1 big@32 + 4 small@8"] * 2
    assert (timeline.lost, timeline.interrupted_s) == ({"big": 1}, 5)
    assert timeline.end_s == pytest.approx(9.28)
    assert timeline.spare == pytest.approx({"deadline": 10.72, "budget": 1 - timeline.spent_usd})


def test_segments_follow_without_gaps(run: SriftInstance, state: FleetStanding) -> None:
    """Time, iterations and money of a segment begin where those of the one before end."""
    for before, after in pairwise(lay_out(run, state).segments):
        assert before.end_s == after.start_s
        assert before.iterations_to == after.iterations_from
        assert before.spent_to_usd == after.spent_from_usd


def test_launches_that_are_billed(run: SriftInstance, state: FleetStanding) -> None:
    """With launch_billed, 5 s of two big VMs, 1 s of one, and 2 s of the new fleet before it trains."""
    spent = [one.spent_to_usd for one in lay_out(run.replace(launch_billed=True), state).segments]
    assert spent == pytest.approx([0.008, 0.02, 0.022, 0.028, 0.028 + 1.28 * 0.003])


def test_iterations_that_are_lost(run: SriftInstance, state: FleetStanding) -> None:
    """What was done since the last checkpoint is gone after the pause, and done again at the end."""
    timeline = lay_out(run, state.replace(iterations_lost=10))
    assert [one.iterations_to for one in timeline.segments] == [0, 60, 50, 50, 100]


def test_without_a_new_fleet_it_ends_with_the_loss(run: SriftInstance, state: FleetStanding) -> None:
    """A run that has no plan ends with its pause."""
    timeline = build_timeline(run, state, replan(run, state))
    assert [one.happening for one in timeline.segments] == [Happening.LAUNCH, Happening.TRAIN, Happening.PAUSE]
    assert timeline.segments[0].fleet == "2 big"


def test_a_run_that_has_not_begun(run: SriftInstance) -> None:
    """Segments that take no time are left out, even if none remains."""
    state = FleetStanding(elapsed_s=0, iterations_done=0)
    timeline = build_timeline(run, state, replan(run, state))
    assert (timeline.segments, timeline.end_s, timeline.spent_usd) == ((), 0.0, 0.0)


def test_the_interruption_of_the_paper() -> None:
    """Section 5.4 and figure 8: 124 s are left to train, 100 are predicted, and the run ends at 476 s of 500.

    The paper prints 479 s for the end; 222 + 4 + 150 + 100 is 476.
    """
    before = read_instance("srift-interruption")
    assert isinstance(before, SriftInstance)
    vms = {"p3.8xlarge": 1}
    state = FleetStanding(
        elapsed_s=222, iterations_done=200, running=vms, lost=vms, ready_s=138, launch_s=150, detach_s=4, spent_usd=0.2
    )
    remainder = replan(before, state)
    assert remainder.instance.deadline_s is not None
    assert remainder.instance.deadline_s - remainder.instance.launch_s == pytest.approx(124)
    stored = read_instance("srift-interruption-replan")
    assert isinstance(stored, SriftInstance)
    assert stored == remainder.instance.replace(name=stored.name, description=stored.description)
    groups = (VmGroup(type="p3.8xlarge", count=1, batch=512), VmGroup(type="g3.8xlarge", count=8, batch=64))
    timeline = build_timeline(before, state, remainder, new=SriftSolution(groups=groups))
    training = timeline.segments[-1]
    assert training.end_s - training.start_s == pytest.approx(100.3, abs=0.1)
    assert timeline.end_s == pytest.approx(476.3, abs=0.1)
    assert timeline.spent_usd == pytest.approx(0.2 + 0.256, abs=0.001)
