"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions.

Afterwards it is written back into the instance: sizes, speeds, and what jobs and nodes take to start.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from optplan.errors import UsageError
from optplan.execution import records as told
from optplan.execution.online.calculations import Verdict
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.estimates import mean_row
from optplan.execution.online.knowledge import Knowledge
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.online.witness import Witness
from optplan.execution.records import JobArrived, NodeChanged, NodeWanted, OperationEnded, OperationWanted, Record
from optplan.execution.state import Phase
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.speedup import Evidence
from optplan.units import SECONDS_PER_HOUR, format_duration


class Reporter(Witness):
    """Collects events; ``sizes`` are a node's GPUs, by type."""

    def __init__(self, instance: BoaInstance, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(instance)
        self._sizes = sizes or {}
        # By job that is not over: its epochs in all, and those that were seen.
        self._jobs: dict[str, tuple[int, set[int]]] = {}
        self._types: dict[str, str] = {}
        self._launched_s: dict[str, float] = {}
        # By operation: its job, GPUs, their type, and since when.
        self._holding: dict[str, tuple[str, int, str, float]] = {}
        # Jobs that hold nothing, and since when; who has waited longest is the first.
        self._idle: dict[str, float] = {}

    def see(self, record: told.Record) -> None:
        """Take note of a record of the stream, whether it is new or read from the journal."""
        match record:
            case told.EpochDone():  # what comes most
                self._see_epoch(record)
            case told.NodeWanted():
                self._types[record.node] = record.resource
            case told.NodeChanged():
                self._see_node(record)
            case told.JobArrived():
                self._jobs[record.job] = record.epochs, set()
                self._idle[record.job] = record.t
                self.note_arrival(record.job, record.job_class, record.t, record.committed)
            case told.OperationWanted():
                gpus, gpu_type = sum(record.place.values()), self._types[next(iter(record.place))]
                self._holding[record.operation] = record.trial, gpus, gpu_type, record.t
                self._idle.pop(record.trial, None)
            case told.OperationEnded():
                job = self._leave(record)
                if record.iterations >= self._jobs[job][0]:
                    self._see_end(job, record.t, whole=True)
            case told.OperationFailed():
                self._leave(record)
            case told.TrialDropped():
                self._see_end(record.trial, record.t, whole=False)

    def recall(self, records: Iterable[told.Record]) -> None:
        """Take note of what the journal knows."""
        for record in records:
            self.see(record)

    def _see_node(self, record: told.NodeChanged) -> None:
        """Note how long a node took to start."""
        if record.phase == Phase.LAUNCHING:
            self._launched_s[record.node] = record.t
        elif (launched_s := self._launched_s.pop(record.node, record.t)) < record.t:
            gpu_type, seconds = self._types[record.node], record.t - launched_s
            self.note_start(f"{record.node} {record.phase}", self._sizes.get(gpu_type, 1), seconds, record.t, gpu_type)

    def _leave(self, record: told.OperationEnded | told.OperationFailed) -> str:
        """Note what an operation held that is over, and return its job."""
        job, gpus, gpu_type, since_s = self._holding.pop(record.operation)
        self._idle[job] = record.t
        self.note_held(job, gpus, record.t - since_s, gpu_type)
        return job

    def _see_epoch(self, record: told.EpochDone) -> None:
        """Note where an epoch ran for how long; one that comes again counts once."""
        (job, gpus, gpu_type, _), epoch = self._holding[record.operation], record.epochs
        seen = self._jobs[job][1]
        if not record.seconds or epoch in seen:
            return
        seen.add(epoch)
        self.note_epoch(job, epoch, gpus, record.seconds, record.t, gpu_type)

    def _see_end(self, job: str, at_s: float, *, whole: bool) -> None:
        del self._jobs[job]
        self._idle.pop(job, None)
        self.note_end(job, at_s, whole=whole)


class Learner(Reporter):
    """Keeps a calculator on the run's clock."""

    def __init__(
        self, instance: BoaInstance, terms: Terms, sizes: Mapping[str, int] | None = None, most_gpus: float = math.inf
    ) -> None:
        super().__init__(instance, sizes)
        self.calculator = WidthCalculator(instance, terms, now_s=0.0, most_gpus=most_gpus)

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell the calculator what was seen; return a new table and why, None where the present one stays."""
        waiting = self.calculator.is_limited and next(iter(self._idle.values()), now_s) < now_s
        made = self.tell(self.calculator, now_s, waiting=waiting)
        if made is None or made.verdict is not Verdict.PUBLISHED or self.calculator.table is None:
            return None
        holds = made.followed in (None, made.budget)
        return self.calculator.table, made.reason if holds else f"{made.reason}; {made.notes[0]}"


#: The whole stream counts, however long ago, and beside it nothing that was stated.
_TERMS = Terms(window_h=1e9, stated_jobs=0.0)
#: Relative differences below it are none.
_SAME = 1e-3
#: Nodes that are there within so many seconds did not have to start.
_AT_ONCE_S = 1.0


def calibrate(instance: BoaInstance, records: Sequence[Record]) -> tuple[BoaInstance, tuple[str, ...]]:
    """Write what a stream measured into an instance; return a line for each figure that changed.

    Sizes and speeds are those of the width calculator after the stream's last record. A pause is all that a job holds
    its GPUs for besides its epochs: starting, loading, storing. How often jobs arrive stays as it was.
    """
    reporter = Reporter(instance)
    reporter.recall(records)
    knowledge = Knowledge(instance, _TERMS, now_s=0.0)
    knowledge.take(reporter.take_events(), max((record.t for record in records), default=0.0))
    estimated, pauses, starts = knowledge.estimate(), _measure_pauses(records), _measure_starts(records)
    if not (pauses.keys() & instance.classes.keys() or starts.keys() & instance.gpu_types.keys()):
        raise UsageError("nothing was measured: no job of these classes has done an epoch")
    said: list[str] = []
    classes = {
        name: _pause(name, _resize(instance, name, estimated.classes[name], said), pauses.get(name, {}), said)
        for name in instance.classes
    }
    types = dict(instance.gpu_types)
    for name in sorted(types.keys() & starts.keys()):
        _say(said, f"gpu_types.{name}.start_s", starts[name], types[name].start_s or 0.0)
        types[name] = types[name].replace(start_s=starts[name] or None)
    said += [f"{name}: is not in the instance, and left out" for name in sorted(pauses.keys() - classes.keys())]
    if instance.problem is not Problem.RESCALING and any(job_class.rescale_s for job_class in classes.values()):
        said.append(f"problem {instance.problem} plans without pauses; {Problem.RESCALING} counts them")
    return instance.replace(classes=classes, gpu_types=types), tuple(said)


def _measure_pauses(records: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Return, by class and GPU type, the mean seconds for which operations held their GPUs besides their epochs."""
    classes, types, wanted = dict[str, str](), dict[str, str](), dict[str, OperationWanted]()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        match record:
            case JobArrived():
                classes[record.job] = record.job_class
            case NodeWanted():
                types[record.node] = record.resource
            case OperationWanted():
                wanted[record.operation] = record
            case OperationEnded(timings={"steps": steps, "step_s": step_s}):
                operation = wanted[record.operation]
                on = types[next(iter(operation.place))]
                found[classes[operation.trial]][on].append(max(0.0, record.busy_s - steps * step_s))
    return {name: {on: math.fsum(s) / len(s) for on, s in by_type.items()} for name, by_type in found.items()}


def _measure_starts(records: Iterable[Record]) -> dict[str, float]:
    """Return, by GPU type, the mean seconds from the request for a node until it could be used."""
    wanted, found = dict[str, NodeWanted](), defaultdict[str, list[float]](list)
    for record in records:
        match record:
            case NodeWanted():
                wanted[record.node] = record
            case NodeChanged(phase=Phase.READY):
                asked = wanted[record.node]
                found[asked.resource].append(record.t - asked.t)
    means = {name: math.fsum(seconds) / len(seconds) for name, seconds in found.items()}
    return {name: mean_s if mean_s > _AT_ONCE_S else 0.0 for name, mean_s in means.items()}


def _resize(instance: BoaInstance, name: str, estimated: JobClass, said: list[str]) -> JobClass:
    """Take over the size and the speeds of a class as far as they are others than the instance says."""
    known, fields = instance.classes[name], dict[str, Any]()
    size_s, before_s = (SECONDS_PER_HOUR * each.size_gpu_hours for each in (estimated, known))
    if not math.isclose(size_s, before_s, rel_tol=_SAME):
        _say(said, f"classes.{name}.epoch_size_gpu_hours in all", size_s, before_s)
        fields["epoch_size_gpu_hours"] = estimated.epoch_size_gpu_hours
    for gpu_type, curve in estimated.speedup.items():
        widths = instance.allowed_widths(name, gpu_type)
        now, before = mean_row(curve, widths), mean_row(known.speedup[gpu_type], widths)
        if np.allclose(now, before, rtol=_SAME, atol=0.0):
            continue
        kinds = curve.evidence_at(widths)
        said += [
            f"classes.{name}.speedup.{gpu_type} on {gpus} GPUs: {faster:.3g}, was {stated:.3g}"
            for gpus, faster, stated, kind in zip(widths.tolist(), now, before, kinds, strict=True)
            if kind == Evidence.MEASURED and not math.isclose(faster, stated, rel_tol=_SAME)
        ]
        fields.setdefault("speedup", dict(known.speedup))[gpu_type] = curve
    return known.replace(**fields)


def _pause(name: str, known: JobClass, measured_s: Mapping[str, float], said: list[str]) -> JobClass:
    """Take over what jobs of a class were measured to take to start, by type where the class has several."""
    on = dict(known.rescale_s_on)
    for gpu_type, pause_s in sorted(measured_s.items()):
        if gpu_type not in known.speedup:
            continue
        by_type = len(known.speedup) > 1 or gpu_type in on
        what = f"rescale_s_on.{gpu_type}" if by_type else "rescale_s"
        _say(said, f"classes.{name}.{what}", pause_s, known.rescale_s_of(gpu_type))
        if by_type:
            on[gpu_type] = pause_s
        else:
            known = known.replace(rescale_s=pause_s)
    return known.replace(rescale_s_on=on)


def _say(said: list[str], what: str, now_s: float, before_s: float) -> None:
    """Note a time that is another one now."""
    if not math.isclose(now_s, before_s, rel_tol=_SAME, abs_tol=1e-9):
        said.append(f"{what}: {format_duration(now_s)}, was {format_duration(before_s)}")
