"""Who waited for GPUs and held them: levels, averages and what is enough, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.instances.job_logs.columns import to_texts
from optplan.instances.job_traces import JobTrace, Level, Stays

NAN = float("nan")


def _make_trace(*jobs: tuple[int, float, float, float, float]) -> JobTrace:
    """Make a trace of classes a and b from class, arrival, wait, run and GPUs of each job."""
    which, arrive_s, wait_s, run_s, gpus = (np.array(column) for column in zip(*jobs, strict=True))
    ids = to_texts([f"job-{number}" for number in range(len(jobs))])
    return JobTrace("jobs", ("a", "b"), which, arrive_s, np.ones(len(jobs)), ids, gpus, run_s, wait_s, 1000.0)


@pytest.fixture
def stays() -> Stays:
    """Two jobs: a waits 10 s for 4 GPUs and holds them for 20 s, b takes 2 at once at 20 s for 40 s."""
    found = Stays.of(_make_trace((0, 0.0, 10.0, 20.0, 4.0), (1, 20.0, 0.0, 40.0, 2.0)))
    assert found is not None
    return found


def test_levels_are_those_of_hand(stays: Stays) -> None:
    """Four GPUs are held from 10 to 20 s, six to 30 s, two to 60 s; four are waited for until 10 s."""
    held = stays.held()
    assert held.average(np.array([0.0, 10.0, 20.0, 30.0, 60.0, 70.0])).tolist() == [0.0, 4.0, 6.0, 2.0, 0.0]
    assert held.most == 6.0
    assert stays.held("b").most == 2.0
    assert stays.queued("a").average(np.array([0.0, 10.0, 20.0])).tolist() == [4.0, 0.0]
    assert stays.queued("b").most == 0.0
    assert stays.span_s == (0.0, 60.0)
    assert stays.gpu_hours().tolist() == pytest.approx([80 / 3600, 80 / 3600])


def test_what_is_enough_counts_idle_time(stays: Stays) -> None:
    """Of 60 s ten have none, thirty two, ten four and ten six: two are enough for two thirds, four for five sixths."""
    held = stays.held()
    assert [held.enough(share, 0.0, 60.0) for share in (1 / 6, 2 / 3, 0.7, 5 / 6, 0.95)] == [0.0, 2.0, 4.0, 4.0, 6.0]
    assert held.enough(0.5, 0.0, 600.0) == 0.0  # hours in which nobody is there


def test_those_that_end_make_room_first() -> None:
    """One job after the other on four GPUs are never eight."""
    assert Level.of(np.array([0.0, 10.0]), np.array([10.0, 20.0]), np.array([4.0, 4.0])).most == 4.0


def test_jobs_whose_run_is_not_known_are_left_out() -> None:
    """What never ran, or runs still, is in no picture; a log that says nothing has none; no wait counts as none."""
    found = Stays.of(_make_trace((0, 0.0, NAN, NAN, 4.0), (0, 5.0, NAN, 20.0, 1.0)))
    assert found is not None
    assert (found.queued_s.tolist(), found.begun_s.tolist(), found.ended_s.tolist()) == ([5.0], [5.0], [25.0])
    assert Stays.of(_make_trace((0, 0.0, 1.0, NAN, 4.0))) is None
    assert Level.of(*np.zeros((3, 0))).average(np.array([0.0, 1.0])).tolist() == [0.0]


@given(st.lists(st.tuples(st.integers(0, 1), *[st.floats(0.0, 1000.0)] * 3, st.integers(0, 8)), min_size=1))
def test_averages_add_up_to_what_was_held(jobs: list[tuple[int, float, float, float, int]]) -> None:
    """However time is divided, the averages times the stretches are the GPU-hours, and classes add up to all."""
    found = Stays.of(_make_trace(*sorted(jobs, key=lambda job: job[1])))
    assert found is not None
    edges_s = np.linspace(0.0, 3000.0, 32)
    whole = found.held().average(edges_s)
    assert whole @ np.diff(edges_s) / 3600.0 == pytest.approx(found.gpu_hours().sum(), abs=1e-6)
    assert found.held("a").average(edges_s) + found.held("b").average(edges_s) == pytest.approx(whole, abs=1e-9)
    assert found.held().enough(1.0, *found.span_s) <= found.held().most
