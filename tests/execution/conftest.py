"""Plans of the library, plans made by hand, a small stream and a small fleet, and what tests have started."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import BoundProof, Plan, Result, Status, Termination
from optplan.execution.streams.arrivals import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve


@functools.cache
def _plan_of(name: str, solver: str = "auto") -> Plan:
    instance = read_instance(name)
    return build_plan(instance, solve(instance, solver=solver, gap=1e-2))


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Return the plan of an instance of the library."""
    return _plan_of


def _plan_stages(*stages: tuple[int, int, int], iterations: int = 4) -> Plan:
    """Plan stages of so many trials, on so many nodes of two GPUs, of which so many are used."""
    data: dict[str, Any] = {
        "formulation": "rubberband",
        "experiment": {
            "form": "stages",
            "stages": [{"trials": trials, "iterations": iterations} for trials, _, _ in stages],
        },
        "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
        "deadline_s": 1e6,
    }
    chain = [{"instances": nodes, "gpus": gpus} for _, nodes, gpus in stages]
    return _plan_chain(RubberBandInstance.parse(data), chain)


def _plan_chain(instance: RubberBandInstance, chain: list[dict[str, int]]) -> Plan:
    """Plan a search by hand: the instances and GPUs of each stage."""
    solution = RubberBandSolution.parse({"brackets": [chain]})
    result = Result[RubberBandSolution](
        formulation="rubberband",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="by-hand",
        engine="none",
        engine_version="0",
        optplan_version="0",
        status=Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=evaluate(instance, solution).objective,
        objective_unit="usd",
        gap_target=0.0,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )
    return build_plan(instance, result)


@pytest.fixture(scope="session")
def plan_chain() -> Callable[..., Plan]:
    """Return the plan of a search by hand: an instance, and the instances and GPUs of each stage."""
    return _plan_chain


@pytest.fixture
def plan_stages() -> Callable[..., Plan]:
    """Return a plan of stages, each by its trials, its nodes of two GPUs, and the GPUs that are used."""
    return _plan_stages


@pytest.fixture(scope="session")
def small_plan() -> SriftPlan:
    """Return the plan of 60 iterations of 64 samples on two spot VMs of one rank with 32 samples each."""

    def vm(price: float, *, spot: bool) -> dict[str, object]:
        return {
            "gpu": "cpu",
            "price_usd_per_hour": price,
            "network_gbit_per_s": 1.0,
            "available": 4,
            "batches": [32],
            "spot": spot,
        }

    seconds = {"batches": [1, 64], "forward_s": [0.02, 0.02], "backward_s": [0.04, 0.04], "deviation": 0.0}
    instance = SriftInstance.parse(
        {
            "name": "small",
            "formulation": "srift",
            "job": {"layers": {"gradient_bytes": [20.0], "ready": [0.0]}, "devices": {"cpu": seconds}},
            "global_batch": 64,
            "iterations": 60,
            "types": {"spot": vm(1.0, spot=True), "steady": vm(3.0, spot=False)},
            "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
            "deadline_s": 600,
        }
    )
    return build_plan(instance, solve(instance))


@pytest.fixture(scope="session")
def make_instance() -> Callable[..., BoaInstance]:
    """Return what makes an instance of one class ``a``: seconds of an epoch on one slot, speedups at 1, 2 and 4."""

    def make(
        speedup: tuple[float, float, float],
        per_hour: float = 900.0,
        epochs: int = 3,
        epoch_s: float = 1.0,
        budget: str = "1.5gpu",
    ) -> BoaInstance:
        curve = {"cpu": {"form": "table", "gpus": [1, 2, 4], "speedup": list(speedup)}}
        stated = {
            "arrival_rate_per_hour": per_hour,
            "epoch_size_gpu_hours": [epoch_s / 3600.0] * epochs,
            "speedup": curve,
        }
        fields = {"name": "small", "formulation": "boa", "gpu_types": {"cpu": {}}, "budget": budget}
        return BoaInstance.parse({**fields, "classes": {"a": stated}, "problem": "whole"})

    return make


@pytest.fixture(scope="session")
def make_jobs() -> Callable[..., list[StreamJob]]:
    """Return what lets jobs of class ``a`` arrive evenly."""

    def make(count: int, every_s: float, **configuration: object) -> list[StreamJob]:
        return [
            StreamJob(name=f"job-{number:02d}", job_class="a", at_s=number * every_s, configuration=configuration)
            for number in range(count)
        ]

    return make


#: Slurm in scripts: a job is a session of its own whose process is its number.
SBATCH = """
import subprocess, sys
given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
with open(given["output"], "a") as log:
    job = subprocess.Popen(["bash", "-c", given["wrap"]], stdout=log, stderr=log, start_new_session=True)
open(FOLDER + "/" + str(job.pid), "w").write(given["job-name"] + " " + given["gres"])
print(job.pid, "cluster", sep=";")
"""
SQUEUE = """
import os, sys
name = next((word[7:] for word in sys.argv if word.startswith("--name=")), None)
for number in os.listdir(FOLDER):
    try:
        state = open("/proc/" + number + "/stat").read().rpartition(")")[2].split()[0]
    except OSError:
        continue
    if state != "Z" and name in (None, open(FOLDER + "/" + number).read().split()[0]):
        print(number)
"""
SCANCEL = """
import os, signal, sys
os.kill(int(sys.argv[1]), signal.SIGUSR1)
"""
SCONTROL = """
import os, sys
print("JobId=" + sys.argv[3] + "\\n   JobState=" + os.environ.get("OPTPLAN_TEST_STATE", "FAILED") + " Reason=None")
"""


@pytest.fixture
def played_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play Slurm; return where its jobs are noted."""
    jobs, commands = tmp_path / "slurm-jobs", tmp_path / "bin"
    jobs.mkdir()
    commands.mkdir()
    for name, body in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL), ("scontrol", SCONTROL)):
        script = commands / name
        script.write_text(f"#!{sys.executable}\nFOLDER = {str(jobs)!r}\n{body}", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    return jobs


class Processes:
    """What a test has started, found by a mark in the environment; and what its programs have written down."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder)
        #: Where ``forking.py`` writes the numbers of its own process, of a helper, and of a daemon without environment.
        self.seen = folder / "seen"

    def find(self) -> list[Any]:
        """Return the processes that run, but this one."""
        psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                own = process.environ().get("OPTPLAN_TEST") == self._mark or process.pid in self._list_daemons()
                if own and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return [process for process in found if process.pid != os.getpid()]

    def count_seen(self) -> int:
        """Return how many programs have begun."""
        return len(self._read()) // 3

    def wait_until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds."""
        until = time.monotonic() + 120.0
        while not holds():
            assert time.monotonic() < until, what
            time.sleep(0.01)

    def _read(self) -> list[int]:
        return [int(line) for line in self.seen.read_text(encoding="utf-8").splitlines()] if self.seen.exists() else []

    def _list_daemons(self) -> list[int]:
        import psutil

        daemons = []
        for pid in self._read()[2::3]:
            with contextlib.suppress(psutil.Error):
                if psutil.Process(pid).name() == "sleep":
                    daemons.append(pid)
        return daemons


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """Mark everything that a test starts; nothing of it is there when the test ends."""
    monkeypatch.setenv("OPTPLAN_TEST", str(tmp_path))
    own = Processes(tmp_path)
    yield own
    left = own.find()
    for process in left:
        process.kill()
    assert not left
