"""Operations as folders: what executors that start processes have in common.

Each operation has a folder, ``operations/ID`` of the run, and processes that run :mod:`optplan.execution.worker` there.
They outlive a driver that is killed, and another one adopts them. What they wrote last counts, not who asked for it.
Users choose one by its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from optplan.errors import OptplanError, OutputError
from optplan.execution import trial_files as files
from optplan.execution.fields import Amount, Limit
from optplan.execution.options import TrainingOptions
from optplan.execution.protocol import Event, Executor, Observation, Operation
from optplan.execution.records import Checkpoint, NodeWanted, OperationEnded, OperationFailed, Progressed
from optplan.execution.supervision import is_running, read_code
from optplan.execution.trial_files import DRIVER_LOCK, Checkpoints
from optplan.units import format_duration

#: Characters of a log's end that tell why a process failed.
_TAIL = 2000
#: Seconds between two signs of life of a driver.
_SHOW_S = 1.0
#: How many times what is planned an iteration may take, and how many seconds it may take at least.
_TIMES, _LEAST_STEP_S = 20, 300.0
#: By name, what runs operations; and those of fleets, which have a rank for each GPU, on nodes of several types.
_EXECUTORS = {
    "local": ("executors:LocalExecutor", "fleets.folder:LocalFleet"),
    "command": ("executors:CommandExecutor", "fleets.folder:CommandFleet"),
    "slurm": ("executors:SlurmExecutor", "fleets.folder:SlurmFleet"),
    "ray": ("ray_cluster:RayExecutor", "fleets.folder:RayFleet"),
}
#: By what an executor knows the processes of an operation.
Handle = TypeVar("Handle")


class FolderSettings(TrainingOptions):
    """A run's folder (``root``), and how trials run in it: as options say, with the metric that they have to show.

    Without ``step_timeout_s`` :func:`limit_step` says when an iteration hangs; without ``slots`` there are the
    machine's GPUs, or as many slots as are asked for (of a Ray cluster that is made here one).
    """

    root: Path
    metric: str | None = "loss"
    checkpoint_every_s: Amount = 60.0
    heartbeat_s: Limit = 5.0
    step_wait_s: Amount = 0.0
    checkpoint_bytes: Amount = 10e9

    @property
    def name(self) -> str:
        """What tells the run from others on a cluster: a digest of its folder."""
        return hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:10]

    @property
    def is_joined(self) -> bool:
        """Whether each worker of a trial is a process of its own."""
        return self.launcher == "torchrun" and not self.command


@dataclass
class Running(Generic[Handle]):
    """An operation, as this driver knows it, up to where its progress was read."""

    operation: Operation
    folder: Path
    #: Its processes; None where none of them is there any more.
    handle: Handle | None
    offset: int = 0
    iterations: int = 0
    #: When it is killed; None unless it was asked to stop.
    kill_at_s: float | None = None
    #: When it began its iteration, or was seen first; None while it waits for its machine. Too long ago, it hangs.
    step_at_s: float | None = None
    hangs: bool = False


@dataclass(frozen=True)
class Ending:
    """Why processes have ended without an outcome, as far as an executor can say; see :class:`OperationFailed`."""

    why: str
    blameless: bool = False
    hopeless: bool = False
    no_room: bool = False


class FolderExecutor(Executor, Generic[Handle]):
    """Runs operations in folders; how their processes are started, found and killed is up to its heirs."""

    lateness = 0.01
    #: Seconds between two looks at the processes.
    look_s: float

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        self._gpus_per_node, self._settings = gpus_per_node, settings
        self._zero = time.monotonic() - now_s
        self._checkpoints = Checkpoints(settings.root)
        self._running: dict[str, Running[Handle]] = {}
        self._events: list[Event] = []
        self._shown_s = -_SHOW_S

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._zero

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:
        """Adopt what still runs, and what ended operations left."""
        there = self._find_nodes(nodes)
        for operation in operations:
            if operation.id in self._running:
                continue
            folder = self._folder_of(operation.id)
            handle = self._find(operation, folder)
            if handle is not None or (folder / files.OUTCOME).is_file():
                self._running[operation.id] = Running(operation, folder, handle, iterations=operation.from_iterations)
        return Observation(there, frozenset(self._running))

    def start(self, operation: Operation) -> None:
        """Start the processes of an operation, unless they run already."""
        if operation.id in self._running:
            return
        folder, log = self._folder_of(operation.id), self._log_of(operation.trial)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            log.parent.mkdir(parents=True, exist_ok=True)
            if not is_running(folder):  # what a driver that was killed had started under this name, and is gone
                for name in (files.PROGRESS, files.ENDED, files.STOP):
                    (folder / name).unlink(missing_ok=True)
            files.write(folder / files.OPERATION, self._describe(operation, log))
            handle = self._launch(operation, folder, log)
        except OptplanError:
            raise
        except OSError as error:
            message = f"{folder} cannot be written ({error.strerror}); make room, then go on with --resume"
            raise OutputError(message) from None
        self._running[operation.id] = Running(operation, folder, handle, iterations=operation.from_iterations)

    def stop(self, operation: str, grace_s: float) -> None:
        """Ask an operation to store its state and end; after the grace, or at once if it did nothing, it is killed."""
        if operation in self._running:
            running = self._running[operation]
            self._read_progress(running)
            running.kill_at_s = self.now_s() + (grace_s if running.offset else 0.0)
            try:
                (running.folder / files.STOP).touch()
            except OSError:  # no room to ask in
                running.kill_at_s = self.now_s()

    def poll(self, until_s: float) -> list[Event]:
        """Return what has happened; wait until something does, or until the time has come."""
        self._show_up()
        while True:
            self._look_around()
            for running in list(self._running.values()):
                self._look_at(running)
            if self._events or self.now_s() >= until_s:
                events, self._events = self._events, []
                return events
            time.sleep(min(self.look_s, max(0.0, until_s - self.now_s())))

    def prune(self, keep: Sequence[Checkpoint], droppable: Sequence[Checkpoint]) -> None:
        """Delete checkpoints that nobody needs."""
        busy = {running.operation.trial for running in self._running.values()}
        self._checkpoints.prune(keep, droppable, self._settings.checkpoint_bytes, busy)

    # ------------------------------------------------------------------------------------------ what its heirs can do

    def _find_nodes(self, nodes: Sequence[NodeWanted]) -> frozenset[str]:
        """Take over the nodes that are there, and return their names: all are, unless its heirs know better."""
        self.ensure_nodes(nodes)
        self._look_around()
        return frozenset(request.node for request in nodes)

    @abstractmethod
    def _find(self, operation: Operation, folder: Path) -> Handle | None:
        """Return the processes of an operation that an earlier driver has started; None where there are none."""

    @abstractmethod
    def _launch(self, operation: Operation, folder: Path, log: Path) -> Handle:
        """Start the processes of an operation, whose folder is written."""

    @abstractmethod
    def _is_alive(self, running: Running[Handle]) -> bool:
        """Whether any process of an operation is there."""

    @abstractmethod
    def _kill(self, running: Running[Handle]) -> None:
        """Kill the processes of an operation."""

    def _explain(self, running: Running[Handle]) -> Ending:
        """Say why the processes of an operation have ended; asked once they have."""
        return explain_code(read_code(running.folder))

    def _look_around(self) -> None:
        """Report what has happened to nodes."""

    # -------------------------------------------------------------------------------------------------------- starting

    def _folder_of(self, operation: str) -> Path:
        return self._settings.root / "operations" / operation

    def _log_of(self, trial: str) -> Path:
        return self._settings.root / "trials" / trial / "output.log"

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        settings, now = self._settings, time.time()
        until = None if operation.until_s is None else now + operation.until_s - self.now_s()
        return {
            **asdict(operation),
            **settings.model_dump(mode="json"),
            "gpus": operation.gpus,
            "folder": str(Path(settings.folder).resolve()),
            "root": str(settings.root.resolve()),
            "log": str(log.resolve()),
            "setup": list(settings.setup.commands),
            "wanted_wall": now - (self.now_s() - operation.wanted_s),
            "until_wall": until,
        }

    # --------------------------------------------------------------------------------------------------------- looking

    def _show_up(self) -> None:
        """Touch the driver's lock now and then, for operations on machines that cannot see whether it is held."""
        if self.now_s() >= self._shown_s + _SHOW_S:
            self._shown_s = self.now_s()
            with contextlib.suppress(OSError):
                os.utime(self._settings.root / DRIVER_LOCK)

    def _look_at(self, running: Running[Handle]) -> None:
        self._read_progress(running)
        if not self._is_alive(running):
            self._read_progress(running)
            del self._running[running.operation.id]
            self._events.append(self._conclude(running))
        elif self._is_late(running):
            self._kill(running)

    def _is_late(self, running: Running[Handle]) -> bool:
        """Whether an operation is to be killed: it did not end in time when it was asked to, or hangs."""
        if running.kill_at_s is not None:
            return self.now_s() >= running.kill_at_s
        limit_s = limit_step(running.operation.step_s, self._settings.step_timeout_s)
        if running.step_at_s is None and self._has_begun(running.folder):
            running.step_at_s = self.now_s()
        if limit_s is not None and running.step_at_s is not None:
            running.hangs = running.hangs or self.now_s() >= running.step_at_s + limit_s
        return running.hangs

    def _has_begun(self, folder: Path) -> bool:
        """Whether an operation has its machine, and that is set up."""
        return (folder / files.PROGRESS).exists() or (
            not self._settings.setup.commands and (folder / files.PROCESS).exists()
        )

    def _read_progress(self, running: Running[Handle]) -> None:
        lines, running.offset = files.read_new_lines(running.folder / files.PROGRESS, running.offset)
        for data in map(json.loads, lines):
            done = data["iterations"], data["metrics"], data.get("seconds")
            if data["iterations"] <= running.iterations:
                continue  # it was there before
            running.iterations, running.step_at_s = data["iterations"], self.now_s()
            self._events.append(Progressed(self.now_s(), running.operation.id, *done))

    def _conclude(self, running: Running[Handle]) -> Event:
        operation, now_s = running.operation, self.now_s()
        outcome = files.read(running.folder / files.OUTCOME)
        if outcome is not None:
            checkpoint = None if outcome["checkpoint"] is None else Checkpoint(**outcome["checkpoint"])
            if checkpoint is None or self._checkpoints.is_whole(checkpoint):
                done = (outcome["iterations"], outcome["metrics"], checkpoint)
                busy_s = now_s - operation.wanted_s
                return OperationEnded(now_s, operation.id, *done, busy_s, outcome["complete"], outcome["timings"])
        if running.kill_at_s is not None and not running.offset:  # it had done nothing yet: it is as it was
            was = operation.from_iterations, operation.metrics, operation.checkpoint
            return OperationEnded(now_s, operation.id, *was, now_s - operation.wanted_s, complete=False)
        stored = files.read(running.folder / files.STORED) or {}
        kept = Checkpoint(**stored["checkpoint"]) if stored.get("checkpoint") else None
        if kept is not None and not self._checkpoints.is_whole(kept):
            stored, kept = {}, None
        ending = self._explain(running)
        if running.hangs:
            limit_s = limit_step(operation.step_s, self._settings.step_timeout_s) or 0.0
            ending = Ending(f"was killed: an iteration took longer than {format_duration(limit_s)} (--step-timeout)")
        elif running.kill_at_s is not None:
            ending = Ending("did not end in time and was killed", blameless=True)
        return OperationFailed(
            now_s,
            operation.id,
            **asdict(ending),
            tail=_read_tail(self._log_of(operation.trial)),
            iterations=stored.get("iterations"),
            metrics=stored.get("metrics", {}),
            checkpoint=kept,
        )


def make_executor(
    name: str, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0, fleet: bool = False
) -> Executor:
    """Make the executor ``local``, ``command``, ``ray`` or ``slurm``; parameters as of their common base."""
    kind = resolve_name(f"optplan.execution.{_EXECUTORS[name][fleet]}")
    made: Executor = kind(gpus_per_node, settings, now_s=now_s)
    return made


def limit_step(planned_s: float | None, asked_s: float | None) -> float | None:
    """Return the seconds after which an iteration hangs that is planned to take so long; None where nobody knows.

    What is asked for counts, or else many times what is planned.
    """
    if asked_s is not None or planned_s is None:
        return asked_s
    return max(_LEAST_STEP_S, _TIMES * planned_s)


def tell_step_limit(planned_s: Iterable[float | None], asked_s: float | None) -> str:
    """Say beforehand after what time trials are taken to hang, whose iterations are planned to take so long."""
    limits = [limit_step(each, asked_s) for each in planned_s]
    known = [each for each in limits if each is not None]
    if not known:
        return "nobody knows how long iterations take: trials that hang are not noticed; --step-timeout limits them"
    span = " to ".join(dict.fromkeys(format_duration(each) for each in (min(known), max(known))))
    rule = f"{_TIMES} times what is planned, at least {format_duration(_LEAST_STEP_S)}; " if asked_s is None else ""
    rest = "" if len(known) == len(limits) else ", where that is planned"
    return f"a trial fails when an iteration takes longer than {span}{rest} ({rule}--step-timeout)"


def explain_code(code: int | None) -> Ending:
    """Say how a process has ended without an outcome, by its exit code; None where that is not known."""
    if code is None:
        return Ending("ended and left nothing behind")
    if code == files.NO_ROOM:
        return Ending("could not write what it has to store", blameless=True, no_room=True)
    why = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return Ending(why, hopeless=code == files.HOPELESS)


def _read_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
