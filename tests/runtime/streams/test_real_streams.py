"""A stream for real: thirty jobs in two minutes as processes, widths learned on the way, a driver killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan
from optplan.runtime.streams.arrivals import StreamJob
from optplan.runtime.streams.running import read_stream, resume_stream, run_stream

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


def _serve(plan: BoaPlan, jobs: list[StreamJob], out: Path, options: dict[str, Any]) -> None:
    run_stream(plan, jobs, SLEEPER, out=out, **options)


def test_kill_9_of_the_driver_loses_nothing(
    make_instance: MakeInstance,
    plan_of: MakePlan,
    make_jobs: MakeJobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed three times on its way, it is followed by others, and every job is completed once."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where a process that is spawned finds this module
    instance = make_instance(POOR, epochs=4)
    options = {"executor": "local", "slots": 8, "gpus_per_node": {"cpu": 4}}
    out = tmp_path / "stream"
    begin = (_serve, (plan_of(instance), make_jobs(8, 1.0, epoch_s=0.5), out, options))
    context = multiprocessing.get_context("spawn")
    for target, arguments in (begin, (resume_stream, (out,)), (resume_stream, (out,))):
        driver = context.Process(target=target, args=arguments)
        driver.start()
        time.sleep(5.0)
        assert driver.pid is not None
        if driver.is_alive():
            os.kill(driver.pid, signal.SIGKILL)
        driver.join()
    outcome = resume_stream(out)
    assert (outcome.status, outcome.classes[0].jobs, outcome.classes[0].completed) == ("ended", 8, 8)
    assert read_stream(out) == outcome
