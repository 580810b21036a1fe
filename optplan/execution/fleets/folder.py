"""Fleets in a folder that all VMs see: ranks report in files, orders are files; the page on the monitor lists them.

An operation of a fleet has a folder as others have, which all VMs share. Who starts ranks is up to the heirs of what
stands here: a process for each on this machine, a command of the user's, or for every VM a job of Slurm or an actor of
Ray. Such an actor is on a machine that offers a unit of the custom resource of its VM's type, so that Ray's autoscaler
launches machines of that type for actors that wait, and gives back what stands idle.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from optplan.contracts.plan import Plan
from optplan.errors import UsageError
from optplan.execution import records as told
from optplan.execution.executors import JobExecutor, ProcessExecutor, QueueExecutor, call_command
from optplan.execution.fleets.hook import CHECKPOINTS, ORDERS, RANKS
from optplan.execution.fleets.ranks import main, start_ranks
from optplan.execution.fleets.state import Heard
from optplan.execution.folders import FolderSettings, Running
from optplan.execution.protocol import Event, Operation
from optplan.execution.ray_cluster import connect
from optplan.execution.trial_files import OPERATION, STARTED, STOP, read, read_new_lines, write

#: Names in the folder of a run, and of a fleet.
NOTICES, _PLAN = "notices", "plan.json"
#: What a rank may say, and as what; what one of a newer hook says beside is left out.
_SAID: dict[str, Any] = {"at": int | float, "metrics": dict, "stored": str, "trouble": str}
_SAID |= dict.fromkeys(("iterations", "order", "ended", "left"), int)
#: Bytes at the end of a rank's reports in which it says how far it is.
_TAIL = 8_192


@dataclass(kw_only=True)
class Ranks(Heard):
    """The ranks of a fleet, as far as they were heard of."""

    said: Mapping[str, Any]
    #: By file, up to where it was read; and whether all were looked at.
    offsets: dict[Path, int] = field(default_factory=dict)
    is_known: bool = False
    #: What the rank that stores said with its last iteration.
    metrics: Mapping[str, Any] = field(default_factory=dict)
    #: Processes that this executor has started, by rank; and whether a command of the user's has ended all of them.
    children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    is_ended: bool = False

    @property
    def by_vm(self) -> Counter[str]:
        """How many there are on each VM."""
        return Counter(role["vm"] for role in self.said["ranks"])

    @property
    def have_left(self) -> bool:
        """Whether all of them have said that they end."""
        return len(self.left) == len(self.said["ranks"])


def ranks_of(running: Running[Ranks]) -> Ranks:
    """Return the ranks of a fleet: whatever was started or found has some."""
    assert running.handle is not None
    return running.handle


class FolderFleet(QueueExecutor[Ranks]):
    """Listens to ranks that report in files; that a VM is there is not known before they do."""

    look_s = 0.02

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        #: The plan that is followed, and the notices that were read.
        self._plan: Plan | None = None
        self._noticed: set[str] = set()
        settings.root.joinpath(NOTICES).mkdir(parents=True, exist_ok=True)

    def adopt(self, plan: Plan) -> None:
        """Leave this plan beside what is started from now on."""
        self._plan = plan

    def ask(self, operation: str, order: int, rank: int) -> None:
        """Leave an order."""
        path = self._folder_of(operation) / ORDERS / f"{order:04d}.json"
        write(path, {"order": order, "rank": rank, "do": "checkpoint"})

    def stop(self, operation: str, grace_s: float) -> None:
        """Leave word that all end, and who stores before that: the lowest rank that is there."""
        running = self._running.get(operation)
        if running is None:
            return
        ranks = ranks_of(running)
        if not (running.folder / STOP).exists():
            with contextlib.suppress(OSError):  # no room to ask in
                write(running.folder / STOP, {"rank": min(ranks.last_s.keys() - ranks.left, default=0)})
        super().stop(operation, grace_s)

    # -------------------------------------------------------------------------------------------------------- starting

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:  # noqa: ARG002 - ranks know no log
        folder = self._folder_of(operation.id)
        for name in (RANKS, ORDERS, CHECKPOINTS):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if self._plan is not None:
            write(folder / _PLAN, self._plan.to_json_data())
        ranks, settings = list(list_roles(operation)), self._settings
        kept = (role["rank"] for role in ranks if role["vm"] not in operation.started)
        return {
            "id": operation.id,
            "plan_id": "" if self._plan is None else self._plan.plan_id,
            "from_iterations": operation.from_iterations,
            "to_iterations": operation.to_iterations,
            "checkpoint": "" if operation.checkpoint is None else operation.checkpoint.path,
            "source": next(kept, 0),
            "heartbeat_s": settings.heartbeat_s,
            "checkpoint_every_s": settings.checkpoint_every_s,
            "started": list(operation.started),
            "ranks": ranks,
        }

    def _find(self, operation: Operation, folder: Path) -> Ranks | None:
        """Adopt the ranks of a fleet, and have those started that were not."""
        if not (folder / OPERATION).exists():
            return None
        return self._launch(operation, folder, self._log_of(operation.trial))

    def _launch(self, operation: Operation, folder: Path, log: Path) -> Ranks:  # noqa: ARG002 - its folder says it
        ranks = Ranks(said=read(folder / OPERATION) or {})
        if not (folder / STOP).exists():
            self._start(folder.resolve(), ranks, log.resolve())
        return ranks

    @abstractmethod
    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        """Have the ranks of a fleet started that are not; what they write goes to a log."""

    # --------------------------------------------------------------------------------------------------------- looking

    def _look_around(self) -> None:
        """Read notices of the provider's: a file for each VM, with the seconds that it has left."""
        super()._look_around()
        for path in sorted((self._settings.root / NOTICES).glob("*.json")):
            if path.name in self._noticed:
                continue
            with contextlib.suppress(ValueError, TypeError, KeyError):  # half written: the next look finds it whole
                said = json.loads(path.read_text(encoding="utf-8"))
                age_s = max(0.0, time.time() - path.stat().st_mtime)
                now_s = self.now_s()
                self._events.append(told.NodeNoticed(now_s, path.stem, now_s - age_s + float(said["in_s"])))
                self._noticed.add(path.name)

    def _read_progress(self, running: Running[Ranks]) -> None:
        ranks, operation, now_s = ranks_of(running), running.operation.id, self.now_s()
        for path in sorted((running.folder / RANKS).glob("*.jsonl")):
            lines, ranks.offsets[path] = read_new_lines(path, ranks.offsets.get(path, 0))
            for said in map(_understand, lines):
                running.offset += 1  # it has done something
                t, made_s = now_s, said.pop("at", math.inf)
                if not ranks.is_known:  # VMs' clocks may be off: later on it counts when somebody here looked
                    t = min(now_s, now_s - time.time() + made_s)
                self._take(running, ranks, told.Reported(t, operation, int(path.stem), **said))
        ranks.is_known = True
        for rank, child in list(ranks.children.items()):
            if child.poll() is not None:
                del ranks.children[rank]
                if rank not in ranks.last_s:
                    trouble = f"rank {rank} ended with exit code {child.returncode}; see its log"
                    self._take(running, ranks, told.Reported(now_s, operation, rank, trouble=trouble, left=True))

    def _take(self, running: Running[Ranks], ranks: Ranks, report: told.Reported) -> None:
        ranks.take(report)
        if report.metrics and report.rank == ranks.said["source"]:
            ranks.metrics = report.metrics
        self._events.append(report)
        done = report.iterations or 0
        if done > running.iterations:
            running.iterations = done
            self._events.append(told.Progressed(report.t, report.operation, done, report.metrics))

    def _is_late(self, running: Running[Ranks]) -> bool:
        """Whether ranks are to be ended that were asked to: too long ago, or all others have."""
        return running.kill_at_s is not None and (ranks_of(running).have_left or super()._is_late(running))

    def _conclude(self, running: Running[Ranks]) -> Event:
        operation, now_s, ranks = running.operation, self.now_s(), ranks_of(running)
        done, busy_s = running.iterations, now_s - operation.wanted_s
        checkpoint = told.Checkpoint(ranks.stored, "") if ranks.stored else operation.checkpoint
        complete, stored = ranks.said["source"] in ranks.ended, ranks.stored_iterations or operation.from_iterations
        if complete or running.kill_at_s is not None:
            stored = done if complete else stored
            return told.OperationEnded(now_s, operation.id, stored, ranks.metrics, checkpoint, busy_s, complete)
        why = ranks.trouble or "all of its ranks have ended before its time"
        return told.OperationFailed(now_s, operation.id, why, iterations=stored, checkpoint=checkpoint)


class LocalFleet(FolderFleet, ProcessExecutor[Ranks]):
    """A group of processes for each rank, on this machine (:mod:`optplan.execution.supervision`).

    A monitor that begins anew neither starts nor forgets one.
    """

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        words = shlex.split(self._settings.command)
        if shutil.which(words[0]) is None:
            problem = f"command: {words[0]!r} cannot be started ({os.strerror(errno.ENOENT)})"
            raise UsageError(f"{problem}; give a program that is there")
        ranks.children |= start_ranks(folder, ranks.said, words, log)

    def _list_children(self, running: Running[Ranks]) -> Iterable[subprocess.Popen[bytes]]:
        return ranks_of(running).children.values()


class CommandFleet(FolderFleet):
    """VMs and ranks that a command of the user's starts and ends.

    It gets ``OPTPLAN_FLEET``, the folder of a fleet, and ``OPTPLAN_ACTION``: ``start`` (make the VMs that
    ``operation.json`` calls ``started``, and run the ranks), ``stop`` (end the ranks) or ``release`` (give all VMs of
    the run back); and returns once that is under way. After a monitor was killed it may be called again for the same
    fleet.
    """

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Have the command give all VMs back; a run does so when it ends."""
        super().release_nodes(nodes)
        known = sorted((self._settings.root / "operations").glob("*"))
        self._call("release", known[-1] if known else self._settings.root)

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:  # noqa: ARG002 - where it logs is its own affair
        if not (folder / STARTED).exists():
            self._call("start", folder)
            write(folder / STARTED, {"vms": ranks.said["started"]})

    def _is_alive(self, running: Running[Ranks]) -> bool:
        """Whether ranks may be there: what those leave that say that they end is ended, too."""
        ranks = ranks_of(running)
        if ranks.have_left and not ranks.is_ended:
            self._kill(running)
        return not ranks.is_ended

    def _kill(self, running: Running[Ranks]) -> None:
        self._call("stop", running.folder)
        ranks_of(running).is_ended = True

    def _call(self, action: str, folder: Path) -> None:
        root = self._settings.root
        call_command(self._settings.command, root, action, OPTPLAN_FLEET=str(folder.resolve()))


class SlurmFleet(FolderFleet, JobExecutor[Ranks]):
    """Has a job for each VM; ``{type}`` in an option of sbatch is the type of the VM.

    A VM that goes on with another fleet is another job.
    """

    def _names_of(self, operation: Operation) -> list[str]:
        return [self._name(operation.id, vm) for vm in operation.place]

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        settings = self._settings
        self._list_jobs()
        for vm, count in ranks.by_vm.items():
            name, noted = self._name(folder.name, vm), folder / f"{vm}.submitted"
            if noted.exists() or name in self._jobs:
                continue  # it runs, or has
            given = {name: value.replace("{type}", vm.rpartition(".vm-")[0]) for name, value in settings.sbatch.items()}
            if settings.gres:
                given = {"gres": f"{settings.gres}:{count}", **given}
            words = [sys.executable, "-m", "optplan.execution.fleets.ranks", str(folder), vm, str(log)]
            line = f"exec {shlex.join([*words, *shlex.split(settings.command)])}"
            options = {"nodes": "1", "ntasks": "1", "output": str(log), "open-mode": "append", **given}
            noted.write_text(self._submit(name, options, line), encoding="utf-8")


class VmWorker:
    """Runs the ranks of a VM, which end with it."""

    def run(self, folder: str, vm: str, log: str, command: list[str]) -> None:
        """End with them, so that the VM is free."""
        from ray.actor import exit_actor

        main(Path(folder), vm, Path(log), command)
        exit_actor()


class RayFleet(FolderFleet):
    """Has a detached actor for each VM, by its name, so that a monitor that begins anew starts none again."""

    look_s = 0.2  # at each look Ray is asked for every VM

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._ray = connect(settings)
        self._has_gpus = self._ray.cluster_resources().get("GPU", 0.0) > 0

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        command = shlex.split(self._settings.command)
        for vm, count in ranks.by_vm.items():
            options = self._ray.remote(VmWorker).options(
                name=f"{folder.name}.{vm}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=count,
                num_gpus=count if self._has_gpus else 0,
                resources={vm.rpartition(".vm-")[0]: 1},
            )
            # Asked again, it does nothing: its ranks have written their reports, or hold their locks.
            options.remote().run.remote(str(folder), vm, str(log), command)

    def _is_alive(self, running: Running[Ranks]) -> bool:
        return bool(self._list_actors(running))

    def _kill(self, running: Running[Ranks]) -> None:
        for actor in self._list_actors(running):
            self._ray.kill(actor)

    def _list_actors(self, running: Running[Ranks]) -> list[Any]:
        """Return the actors that have not ended."""
        found = []
        for vm in running.operation.place:
            with contextlib.suppress(ValueError):  # it has gone
                found.append(self._ray.get_actor(f"{running.folder.name}.{vm}"))
        return found

    def close(self) -> None:
        """Leave the cluster, and alone what runs there."""
        self._ray.shutdown()


def list_roles(operation: Operation) -> Iterator[dict[str, Any]]:
    """Yield what each rank does: its VM, its part of the global batch, and the weight of its loss."""
    batches = operation.batches or (1,) * operation.workers
    firsts = [*accumulate(batches, initial=0)]
    for vm, ranks in operation.ranks.items():
        for local_rank, rank in enumerate(ranks):
            weight = operation.workers * batches[rank] / sum(batches)
            own = {"first_sample": firsts[rank], "batch": batches[rank], "loss_weight": weight}
            yield {"rank": rank, "vm": vm, "local_rank": local_rank} | own


def _understand(line: bytes) -> dict[str, Any]:
    """Return what a line of a rank's says as :data:`_SAID` knows it; any line says that the rank is alive."""
    said: Any = {}
    with contextlib.suppress(ValueError):  # none of JSON, or cut off
        said = json.loads(line)
    known = said if isinstance(said, dict) else {}
    return {name: known[name] for name, kind in _SAID.items() if isinstance(known.get(name), kind)}


def read_iterations(root: Path, operation: str) -> int:
    """Return the iterations that the ranks of a fleet say they have done in all; 0 where they have not said any."""
    done = 0
    for path in (root / "operations" / operation / RANKS).glob("*.jsonl"):
        lines, _ = read_new_lines(path, max(0, path.stat().st_size - _TAIL))
        done = max([done, *(said.get("iterations", 0) for said in map(_understand, lines))])
    return done
