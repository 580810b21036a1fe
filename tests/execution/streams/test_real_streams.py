"""A stream for real: thirty jobs in two minutes as processes, widths learned on the way, a driver killed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.errors import UsageError
from optplan.execution.journal import Journal
from optplan.execution.records import OperationEnded
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.trial_files import DRIVER_LOCK, is_locked
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.files import write_json

pytestmark = pytest.mark.real
pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

MakeInstance = Callable[..., BoaInstance]
MakePlan = Callable[[BoaInstance], BoaPlan]
MakeJobs = Callable[..., list[StreamJob]]

SLEEPER = f"{Path(__file__).with_name('sleeper.py')}:train"
#: What is believed; in truth four slots are 3.5 times as fast as one.
POOR = (1.0, 1.1, 1.2)
TERMS = {"every_s": 20.0, "settle_s": 2.0, "window_h": 100.0, "stated_jobs": 0.0}


def test_thirty_jobs_arrive_over_two_minutes(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """All are completed, tables are replaced as speeds are learned, jobs have other widths than at first.

    Jobs of four epochs of 2 s bring a load of two slots; a budget of four buys width 2 for jobs that hardly scale.
    """
    believed = make_instance(POOR, epochs=4, epoch_s=2.0, budget="4gpu")
    outcome = run_stream(
        plan_of(believed),
        make_jobs(30, 4.0, epoch_s=2.0),
        SLEEPER,
        instance=believed,
        executor="local",
        slots=24,
        gpus_per_node={"cpu": 4},
        out=tmp_path / "stream",
        terms=TERMS,
    )
    (one,) = outcome.classes
    assert (outcome.status, one.completed, outcome.dropped) == ("ended", 30, {})
    assert outcome.tables > 0
    assert 4 in one.widths
    assert outcome.time_s > 116.0
    assert outcome.gpu_hours <= outcome.node_gpu_hours


def _count_ended(out: Path) -> int:
    """Return how many segments of jobs have ended, as a stream's journal has it."""
    with contextlib.suppress(UsageError), Journal(out, writable=False) as journal:
        return sum(isinstance(record, OperationEnded) for record in journal.replay())
    return 0


def _kill_at(count: int, out: Path, *options: str | Path) -> None:
    """Start a driver as a process of its own, and kill it once so many segments have ended."""
    driver = subprocess.Popen([sys.executable, "-m", "optplan.cli", "run", *options])
    try:
        while _count_ended(out) < count:
            assert driver.poll() is None, "the driver ended before it could be killed"
            time.sleep(0.02)
    finally:
        driver.kill()
    assert driver.wait() == -signal.SIGKILL
    while is_locked(out / DRIVER_LOCK):  # by a process that it was about to start
        time.sleep(0.02)


def test_kill_9_of_the_driver_loses_nothing(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """Killed when 2, 4 and 6 segments of 14 had ended, it is followed by others: all jobs are completed once."""
    instance, out = make_instance(POOR, epochs=4), tmp_path / "stream"
    write_json(plan_of(instance), tmp_path / "plan.json")
    jobs = [job.model_dump() for job in make_jobs(14, 1.0, epoch_s=0.5)]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    here = ("--executor", "local", "--slots", "8", "--gpus-per-node", "4", "--train", SLEEPER)
    _kill_at(2, out, tmp_path / "plan.json", tmp_path / "jobs.json", *here, "--out", out)
    _kill_at(4, out, "--resume", out)
    _kill_at(6, out, "--resume", out)
    outcome = resume(out)
    assert (outcome.status, outcome.classes[0].jobs, outcome.classes[0].completed) == ("ended", 14, 14)
    assert read_run(out).describe() == outcome
