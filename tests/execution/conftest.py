"""Plans, a small stream and a small fleet, Slurm as it is and as it is played, and what tests have started."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import BoundProof, Plan, Result, Status, Termination
from optplan.execution.streams.state import StreamJob
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


#: A Slurm of daemons on this machine: four nodes with fake GPUs, on loopback only.
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
NODES, GPUS, KIND = 4, 4, "tesla_v100"
#: Looks at a daemon that starts or ends, and seconds between two of them.
_LOOKS, _LOOK_S = 200, 0.1
#: Scripts that play Slurm, and a user's command.
STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture
def played_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play Slurm by scripts; return where its jobs are noted."""
    jobs, commands = tmp_path / "slurm-jobs", tmp_path / "bin"
    jobs.mkdir()
    commands.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        line = shlex.join([sys.executable, str(STAND_INS / f"{name}.py")])
        (commands / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OPTPLAN_TEST_JOBS", str(jobs))
    return jobs


@pytest.fixture
def starter() -> str:
    """Return a command that starts and ends the processes of operations."""
    return shlex.join([sys.executable, str(STAND_INS / "starter.py")])


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


class SlurmCluster:
    """What runs, and the environment in which its commands find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def call(self, *command: str, cwd: Path | None = None) -> str:
        """Run a command of Slurm and return what it printed."""
        done = subprocess.run(command, env=self.environment, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout

    def wait(self, done_s: float = 300) -> None:
        """Wait until no job is left."""
        until = time.monotonic() + done_s
        while self.call("squeue", "--noheader", "--all").strip():
            assert time.monotonic() < until, self.call("squeue", "--all")
            time.sleep(_LOOK_S)

    def start(self) -> None:
        """Start the daemons, and wait until all nodes are idle."""
        munge = self.folder / "munge.socket"
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        munged = ["munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}", "--num-threads=1"]
        munged += [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        self._spawn("munged", munged)
        self._await(munge.exists, "munged")
        (self.folder / "slurm.conf").write_text(self._configure(munge), encoding="utf-8")
        (self.folder / "gres.conf").write_text(self._list_gpus(), encoding="utf-8")
        self._spawn("slurmctld", ["slurmctld", "-D", "-i", "-f", str(self.folder / "slurm.conf")])
        for number in range(1, NODES + 1):
            self._spawn(f"slurmd{number}", ["slurmd", "-D", "-N", f"n{number}", "-f", str(self.folder / "slurm.conf")])
        self._await(self._is_idle, "slurmctld")

    def stop(self) -> None:
        """End every daemon by its own process id, with the processes of jobs."""
        if (self.folder / "slurm.conf").exists():
            subprocess.run(
                ["scancel", "--user", getpass.getuser()], env=self.environment, check=False, capture_output=True
            )
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self._daemons.append(daemon)

    def _await(self, ready: object, name: str) -> None:
        assert callable(ready)
        for _ in range(_LOOKS):
            if ready():
                return
            time.sleep(_LOOK_S)
        logs = "".join(f"{log.name}:\n{log.read_text(errors='replace')[-1500:]}" for log in self.folder.glob("*.log"))
        raise AssertionError(f"{name} did not start: {logs}")

    def _is_idle(self) -> bool:
        command = ["sinfo", "--noheader", "--Node", "--partition=main", "--format=%t"]
        shown = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return shown.stdout.split() == ["idle"] * NODES

    def _configure(self, munge: Path) -> str:
        ports = _free_ports(NODES + 1)
        user, folder = getpass.getuser(), self.folder
        lines = [
            "ClusterName=fake",
            "SlurmctldHost=localhost(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={munge},cred_expire=5",  # a job that is queued again waits for so long
            "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none",
            "SlurmdParameters=config_overrides",
            "GresTypes=gpu",
            "ReturnToService=2",
            "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0",
            "MinJobAge=2",
            "KillWait=3",
            "InactiveLimit=0",
            "RequeueExit=",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid",
            f"SlurmdPidFile={folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld-own.log",
            f"SlurmdLogFile={folder}/slurmd-%n-own.log",
        ]
        nodes = [
            f"NodeName=n{number} NodeAddr=127.0.0.1 Port={ports[number]} CPUs=16 RealMemory=200000 "
            f"Gres=gpu:{KIND}:{GPUS}"
            for number in range(1, NODES + 1)
        ]
        lines.remove("RequeueExit=")
        (folder / "state").mkdir()
        partitions = [
            f"PartitionName={name} Nodes=n[1-{NODES}] MaxTime=INFINITE" for name in ("main Default=YES", "gpu")
        ]
        return "\n".join([*lines, *nodes, *partitions, ""])

    def _list_gpus(self) -> str:
        for number in range(GPUS):
            (self.folder / f"gpu{number}").touch()
        return f"Name=gpu Type={KIND} File={self.folder}/gpu[0-{GPUS - 1}]\n"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Return a running cluster."""
    with _start_slurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@contextlib.contextmanager
def _start_slurm(folder: Path) -> Iterator[SlurmCluster]:
    """Yield a running cluster."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    assert not missing, f"not installed: {missing}"
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
