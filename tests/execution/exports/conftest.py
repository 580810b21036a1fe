"""A Slurm of four nodes with fake GPUs on this machine, on loopback only; small plans; a training run of shell."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
NODES, GPUS, KIND = 4, 4, "tesla_v100"
#: Looks at a daemon that starts or ends, and seconds between two of them.
_LOOKS, _LOOK_S = 200, 0.1


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

    def wait(self, done_s: float = 90) -> None:
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
            with suppress(ProcessLookupError):
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


@pytest.fixture
def train_command() -> str:
    """Return the command of a training run of shell."""
    return f"bash {Path(__file__).parent / 'train.sh'} {{gpus}}"


@pytest.fixture
def write_training() -> Callable[[Path], None]:
    """Return what writes the training program of the pages, `train.py`, into a folder."""
    page = (Path(__file__).parents[3] / "docs" / "exports.md").read_text(encoding="utf-8")
    (program,) = re.findall(r'^```python title="train.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)

    def write(folder: Path) -> None:
        (folder / "train.py").write_text(program)

    return write


@contextmanager
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
