"""The profiler: trials on more and more GPUs, timed (RubberBand, section 5).

Each repetition is one trial with a configuration of its own. It starts on the fewest GPUs, only to warm up, stores its
state, and goes on from there on each number of GPUs in turn; so starts and checkpoints are those of a search whose
trials are resized. The warm-up of every start is left out of the times of iterations, and counts as part of the start.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from optplan.contracts.configurations import Configuration
from optplan.errors import MeasurementError, UsageError
from optplan.execution.folders import FolderSettings, make_executor
from optplan.execution.options import draw
from optplan.execution.protocol import Executor, Metrics, Operation
from optplan.execution.records import Checkpoint, NodeChanged, NodeWanted, OperationEnded, OperationFailed, Progressed
from optplan.execution.state import Phase
from optplan.execution.trial_files import DRIVER_LOCK, hold_lock
from optplan.profiling.trial_timings import TrialTiming
from optplan.progress import Event as Told
from optplan.progress import Listener
from optplan.units import format_duration

#: The one node that a profile asks for, and its kind.
_NODE, RESOURCE = "profile-node", "gpus"
#: Seconds between two looks at a clock that does not jump, and that a stopped trial has to end.
_ROUND_S, _GRACE_S = 0.5, 5.0
#: Seconds after which a checkpoint is stored on the way: none is, they would be taken for time of the start.
_NEVER_S = 1e9
#: Seconds after which a trial ends whose profiler was killed.
_ORPHAN_S = 10.0


@dataclass(frozen=True)
class ProfileSettings:
    """What is timed, and how often."""

    gpus: tuple[int, ...]  #: Numbers of GPUs, increasing.
    #: iterations, warm_up: Timed on each of them, and before those.
    iterations: int = 20
    warm_up: int = 2
    repetitions: int = 3  #: Trials; each runs on every number of GPUs.
    work: str = ""  #: Name of the metric that says how much an iteration did; empty where all do the same.
    #: Seconds for everything: each start gets an equal part of what is left, and does as many iterations as it can.
    time_limit_s: float | None = None
    node_wait_s: float = 600.0  #: Seconds to wait for the GPUs.

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.gpus or min(self.gpus) < 1 or sorted(set(self.gpus)) != list(self.gpus):
            message = f"gpus: got {list(self.gpus)}; whole numbers from 1 on, each once and increasing, are needed"
            raise UsageError(f"{message}, as in 1,2,4")
        for name, least in (("iterations", 2), ("warm_up", 1), ("repetitions", 2)):
            if getattr(self, name) < least:
                raise UsageError(f"{name}: got {getattr(self, name)}; whole numbers from {least} on are allowed")


@dataclass(frozen=True)
class Profile:
    """What was timed."""

    timings: tuple[TrialTiming, ...]  #: In their order.
    #: request_s, launch_s: Seconds from asking for the node to the beginning of its launch, and from there until it
    #: could train. One node is held for all: a second one might be the first, which has not gone yet.
    request_s: float
    launch_s: float


def profile_here(
    settings: ProfileSettings,
    *,
    executor: Literal["local", "ray"] = "local",
    space: object = None,
    seed: int = 0,
    scratch: Path | None = None,
    on_event: Listener | None = None,
    **how: Any,  # noqa: ANN401 - the fields of FolderSettings
) -> Profile:
    """Time trials as processes on this machine, or as actors of a Ray cluster.

    Parameters
    ----------
    settings
        What is timed.
    executor
        Where it runs.
    space, seed
        What configurations are drawn from, one for each repetition (:mod:`optplan.execution.options`); None has none.
    scratch
        Where trials write, in a folder of its own that is removed at the end; all machines of a cluster have to see
        it. None takes the place for temporary files.
    on_event
        Told before each start.
    **how
        ``train`` or ``command``, and other fields of :class:`~optplan.execution.folders.FolderSettings` but the root.

    Raises
    ------
    MeasurementError
        When a trial fails, or does not get as far as to be timed.
    MissingExtraError
        When psutil or Ray is not installed.
    UsageError
        When ``scratch`` is no folder.
    """
    if scratch is not None and not scratch.is_dir():
        raise UsageError(f"scratch: {str(scratch)!r} is no folder; make it, or give one that all machines see")
    configurations = draw({} if space is None else space, settings.repetitions, seed=seed)
    with TemporaryDirectory(prefix="optplan-profile-", dir=scratch) as root:
        gpus = max(settings.gpus)
        usual: dict[str, Any] = {
            "root": Path(root),
            "checkpoint_every_s": _NEVER_S,
            "orphan_after_s": _ORPHAN_S,
            "slots": gpus if executor == "ray" else None,
        }
        with ExitStack() as held:
            held.callback(os.close, hold_lock(Path(root) / DRIVER_LOCK, f"{root}: another profiler is there"))
            made = make_executor(executor, {RESOURCE: gpus}, FolderSettings(**usual | how))
            held.callback(made.close)
            return profile_trials(made, configurations, settings, on_event=on_event)


def profile_trials(
    executor: Executor,
    configurations: Sequence[Configuration],
    settings: ProfileSettings,
    *,
    on_event: Listener | None = None,
) -> Profile:
    """Time trials on an executor whose nodes have the most GPUs asked for, one for each configuration."""
    profiler = _Profiler(executor, settings, len(configurations), on_event or (lambda _: None))
    request_s, launch_s = profiler.await_node()
    for number, configuration in enumerate(configurations, start=1):
        profiler.time_trial(number, configuration)
    executor.release_nodes([_NODE])
    return Profile(tuple(profiler.timings), request_s, launch_s)


class _Profiler:
    def __init__(self, executor: Executor, settings: ProfileSettings, trials: int, on_event: Listener) -> None:
        self._executor = executor
        self._settings = settings
        self._on_event = on_event
        #: The first start is on the fewest GPUs, and only warms up.
        self._legs = (settings.gpus[0], *settings.gpus)
        self._left = self._starts = trials * len(self._legs)
        self._zero_s = executor.now_s()
        self.timings: list[TrialTiming] = []

    def time_trial(self, number: int, configuration: Configuration) -> None:
        done, settings = 0, self._settings
        checkpoint: Checkpoint | None = None
        metrics: Metrics = {}
        for leg, gpus in enumerate(self._legs):
            wanted = Operation(
                id=f"profile.trial-{number}.{leg + 1}",
                segment="profile",
                trial=f"trial-{number}",
                attempt=leg + 1,
                place={_NODE: gpus},
                workers=gpus,
                gpus_per_worker=1,
                configuration=configuration,
                from_iterations=done,
                to_iterations=done + settings.warm_up + (settings.iterations if leg else 0),
                until_s=self._share_time(),
                checkpoint=checkpoint,
                metrics=metrics,
                wanted_s=self._executor.now_s(),
            )
            share, elapsed_s = 1.0 - self._left / self._starts, self._executor.now_s() - self._zero_s
            self._on_event(Told(f"trial {number} on {gpus} GPUs", elapsed_s, fraction=share))
            ended, steps = self._run(wanted)
            done, checkpoint, metrics = ended.iterations, ended.checkpoint, ended.metrics
            self.timings.append(_time(number, wanted, ended, steps, settings))
            self._left -= 1

    def _share_time(self) -> float | None:
        """Return when the next start has to end, so that those after it have as long."""
        if self._settings.time_limit_s is None:
            return None
        now_s = self._executor.now_s()
        return now_s + max(0.0, self._zero_s + self._settings.time_limit_s - now_s) / self._left

    def await_node(self) -> tuple[float, float]:
        """Ask for the GPUs, wait for them, and return the seconds until the launch began, and from there on."""
        executor, settings = self._executor, self._settings
        wanted_s = executor.now_s()
        executor.ensure_nodes([NodeWanted(wanted_s, _NODE, RESOURCE, RESOURCE, "profile")])
        launching_s: float | None = None
        while (now_s := executor.now_s()) <= wanted_s + settings.node_wait_s:
            for event in executor.poll(now_s + _ROUND_S):
                if not isinstance(event, NodeChanged):
                    continue
                if event.phase == Phase.LAUNCHING:
                    launching_s = event.t
                elif event.phase == Phase.READY:
                    began_s = event.t if launching_s is None else launching_s
                    return began_s - wanted_s, event.t - began_s
        wait = format_duration(settings.node_wait_s)
        raise MeasurementError(f"{max(settings.gpus)} GPUs did not come within {wait}; ask for fewer")

    def _run(self, wanted: Operation) -> tuple[OperationEnded, list[Progressed]]:
        """Run an operation to its end; when that is cut short, nothing of it is left behind."""
        executor, steps = self._executor, list[Progressed]()
        executor.start(wanted)
        ended: OperationEnded | OperationFailed | None = None
        try:
            while ended is None:
                for event in executor.poll(executor.now_s() + _ROUND_S):
                    match event:
                        case Progressed():
                            steps.append(event)
                        case OperationEnded() | OperationFailed():
                            ended = event
        finally:
            if ended is None:
                executor.stop(wanted.id, 0.0)
                executor.poll(executor.now_s() + _GRACE_S)
        if isinstance(ended, OperationFailed):
            last = next((line for line in reversed(ended.tail.splitlines()) if line.strip()), "")
            said = f"; the last that it wrote: {last.strip()}" if last else ""
            raise MeasurementError(f"{wanted.trial} on {wanted.workers} GPUs {ended.why}{said}")
        return ended, steps


def _time(
    number: int, wanted: Operation, ended: OperationEnded, steps: Sequence[Progressed], settings: ProfileSettings
) -> TrialTiming:
    timed = [step for step in steps[settings.warm_up :] if step.seconds is not None]
    resumed, most = wanted.attempt > 1, settings.iterations
    if resumed and len(timed) < 2:
        did = f"did {len(steps)} iterations on {wanted.workers} GPUs, of which {settings.warm_up} warm it up"
        fix = "give it more time, or let it train longer"
        if len(steps) >= settings.warm_up + most:
            did += f" and {len(timed)} could be timed"
            fix = "they report faster than anybody looks; do more in each, or more of them"
        raise MeasurementError(f"{wanted.trial} {did}; two more are the least to be timed: {fix}")
    seconds = tuple(step.seconds for step in timed if step.seconds is not None)
    mean_s = math.fsum(seconds) / len(seconds) if seconds else 0.0
    load_s, start_s = ended.timings.get("load_s"), ended.timings.get("start_s")
    return TrialTiming(
        trial=number,
        gpus=wanted.workers,
        resumed=resumed,
        steps_s=seconds,
        work=tuple(_read_work(step, settings.work) for step in timed),
        overhead_s=max(0.0, ended.busy_s - mean_s * len(steps)),
        launch_s=None if load_s is None or start_s is None else start_s - load_s,
        load_s=load_s,
        save_s=ended.timings.get("save_s"),
    )


def _read_work(step: Progressed, name: str) -> float:
    work = step.metrics.get(name) if name else 1.0
    if isinstance(work, bool) or not isinstance(work, int | float) or not work > 0:
        known = ", ".join(step.metrics) or "nothing"
        message = f"the work of an iteration, {name!r}, is {work!r}; a number above zero is needed (reported: {known})"
        raise MeasurementError(message)
    return float(work)
