"""Stopwatches: limits, interruptions, and who hears of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from optplan.contracts import Status, Termination
from optplan.instances.library import build_named
from optplan.progress import Event, OutOfTime, Stopwatch, interruptible
from optplan.solving import solve
from optplan.verification import verify


def test_an_interruption_is_the_end_of_the_time() -> None:
    """Whatever the limit, and for good."""
    stopwatch = Stopwatch()
    assert (stopwatch.expired, stopwatch.remaining_s) == (False, None)
    stopwatch.require()
    stopwatch.interrupt()
    assert (stopwatch.expired, stopwatch.interrupted, stopwatch.remaining_s) == (True, True, 0.0)
    with pytest.raises(OutOfTime):
        stopwatch.require()


def test_a_limit_that_has_passed_is_no_interruption() -> None:
    """Expired, and nobody has asked for it."""
    stopwatch = Stopwatch(0.0)
    assert (stopwatch.expired, stopwatch.interrupted) == (True, False)


def test_all_of_a_block_hear_of_its_interruption_and_others_do_not() -> None:
    """Those made in it, also before it was uttered; neither those outside nor those of a block within."""
    outside = Stopwatch()
    with interruptible() as interruption:
        early = Stopwatch(10.0)
        interruption.interrupt()
        with interruptible():
            within = Stopwatch()
        late = Stopwatch()
    assert [each.interrupted for each in (outside, early, within, late, Stopwatch())] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_an_interrupted_solve_returns_the_best_plan_so_far() -> None:
    """With a bound that was checked as ever, and says why it stopped."""
    instance = build_named("boa-newtrace").replace(budget="120gpu")
    with interruptible() as interruption:

        def stop(event: Event) -> None:
            if event.objective is not None:
                interruption.interrupt()

        result = solve(instance, gap=0.0, on_event=stop)
    assert (result.status, result.termination) == (Status.FEASIBLE, Termination.INTERRUPTED)
    assert result.bound is not None
    assert verify(instance, result).ok


@pytest.mark.parametrize(
    ("name", "budget", "solver"),
    [
        ("boa-newtrace", "120gpu", "highs"),
        ("rubberband-resnet50-512", None, "highs"),
        ("rubberband-resnet50-512", None, "cp-sat"),
    ],
)
def test_engines_that_prepare_for_long_are_stopped(name: str, budget: str | None, solver: str) -> None:
    """They took 11 to 20 s where 2 were allowed; what they have by then is verified and returned."""
    instance = build_named(name) if budget is None else build_named(name).replace(budget=budget)
    result = solve(instance, solver=solver, time_limit_s=0.3)
    assert result.termination is Termination.TIME_LIMIT
    assert result.status in (Status.UNKNOWN, Status.FEASIBLE)


_POOL = """
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor
from optplan.progress import end_with_parent
if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent)
    pool.submit(os.getpid).result()
    pool.submit(signal.pause)
    print("ready", flush=True)
    signal.pause()
"""


def test_processes_of_a_pool_end_with_the_one_that_began_them() -> None:
    """Also where that one is killed: its standard output, which they share, comes to its end."""
    with subprocess.Popen([sys.executable, "-c", _POOL], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert not parent.communicate(timeout=60.0)[0]
