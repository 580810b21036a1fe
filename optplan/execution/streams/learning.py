"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions.

Afterwards it is written back into the instance: sizes, speeds, and what jobs and nodes take to start.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from optplan.errors import UsageError
from optplan.execution import records as told
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.estimates import mean_row
from optplan.execution.online.knowledge import Knowledge, Taking, Witness
from optplan.execution.online.messages import Terms, Verdict
from optplan.execution.online.width_table import WidthTable
from optplan.execution.state import NodeState, Phase
from optplan.execution.streams.state import StreamState
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.speedup import Evidence
from optplan.units import SECONDS_PER_HOUR, format_duration


class Reporter(Witness):
    """Tells of what records say; ``sizes`` are a node's GPUs, by type."""

    def __init__(self, knowledge: Knowledge, take: Taking, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(knowledge, take)
        self._sizes = sizes or {}
        # By job that is not over, its epochs that were seen.
        self._seen: dict[str, set[int]] = {}
        # Jobs that hold nothing, and since when; who has waited longest is the first.
        self._idle: dict[str, float] = {}

    def see(self, record: told.Record, state: StreamState) -> None:
        """Take note of a record of the stream, new or read from the journal, which is not in its state yet."""
        match record:
            case told.EpochDone():  # what comes most
                operation, seen = state.operations[record.operation].operation, record.epochs
                if record.seconds and seen not in self._seen[operation.trial]:  # one that comes again counts once
                    self._seen[operation.trial].add(seen)
                    where = operation.workers, record.seconds, record.t, state.type_of(operation)
                    self.note_epoch(operation.trial, seen, *where)
            case told.NodeChanged():
                self._see_node(record, state.nodes[record.node])
            case told.JobArrived():
                self._seen[record.job], self._idle[record.job] = set(), record.t
                self.note_arrival(record.job, record.job_class, record.t, record.committed)
            case told.OperationWanted():
                self._idle.pop(record.trial, None)
            case told.OperationEnded() | told.OperationFailed():
                held = state.operations[record.operation]
                job, held_s = state.jobs[held.operation.trial], record.t - held.wanted_s
                self._idle[job.name] = record.t
                self.note_held(job.name, held.operation.workers, held_s, state.type_of(held.operation))
                if isinstance(record, told.OperationEnded) and record.iterations >= job.epochs:
                    self._see_end(job.name, record.t, whole=True)
            case told.TrialDropped():
                self._see_end(record.trial, record.t, whole=False)

    def recall(self, records: Iterable[told.Record], state: StreamState) -> None:
        """Take note of what the journal knows, from the state before it on."""
        for record in records:
            self.see(record, state)
            state.apply(record)

    def _see_node(self, record: told.NodeChanged, node: NodeState) -> None:
        """Note how long a node took to start, or was paid until it went; when its launch began may be told late."""
        began_s, until_s = (record.t, node.ready_s) if record.phase == Phase.LAUNCHING else (node.launch_s, record.t)
        is_new = node.ready_s is None or record.phase == Phase.LAUNCHING
        if is_new and began_s is not None and until_s is not None and began_s < until_s:
            gpus, what = self._sizes.get(node.resource, 1), f"{record.node} {record.phase}"
            self.note_start(what, gpus, until_s - began_s, record.t, node.resource)

    def _see_end(self, job: str, at_s: float, *, whole: bool) -> None:
        del self._seen[job]
        self._idle.pop(job, None)
        self.note_end(job, at_s, whole=whole)


class Learner(Reporter):
    """Keeps a calculator on the run's clock."""

    def __init__(
        self, instance: BoaInstance, terms: Terms, sizes: Mapping[str, int] | None = None, most_gpus: float = math.inf
    ) -> None:
        self.calculator = WidthCalculator(instance, terms, now_s=0.0, most_gpus=most_gpus)
        super().__init__(self.calculator.knowledge, self.calculator.take, sizes)

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Let the calculator calculate; return a new table and why, None where the present one stays."""
        waiting = self.calculator.is_limited and next(iter(self._idle.values()), now_s) < now_s
        made = self.calculator.consider(now_s, waiting=waiting)
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


def calibrate(
    instance: BoaInstance, records: Sequence[told.Record], state: StreamState
) -> tuple[BoaInstance, tuple[str, ...]]:
    """Write what a stream measured into an instance; return a line for each figure that changed.

    ``state`` is that before its records. Sizes and speeds are those of the width calculator after the last one. A pause
    is all that a job holds its GPUs for besides its epochs: starting, loading, storing. How often jobs arrive stays as
    it was.
    """
    knowledge = Knowledge(instance, _TERMS, now_s=0.0)
    reporter = Reporter(knowledge, knowledge.take)
    # By class and GPU type, seconds for which operations held their GPUs besides their epochs; and by GPU type, seconds
    # from the request for a node until it could be used.
    pauses_s: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    starts_s: dict[str, list[float]] = defaultdict(list)
    for record in records:
        match record:
            case told.OperationEnded(timings={"steps": steps, "step_s": step_s}):
                operation = state.operations[record.operation].operation
                found = pauses_s[operation.segment][state.type_of(operation)]
                found.append(max(0.0, record.busy_s - steps * step_s))
            case told.NodeChanged(phase=Phase.READY):
                node = state.nodes[record.node]
                starts_s[node.resource].append(record.t - node.wanted_s)
        reporter.recall([record], state)
    knowledge.advance(state.t)
    if not (pauses_s.keys() & instance.classes.keys() or starts_s.keys() & instance.gpu_types.keys()):
        raise UsageError("nothing was measured: no job of these classes has done an epoch")
    said, estimated = list[str](), knowledge.estimate()
    classes = {
        name: _pause(name, _resize(instance, name, estimated.classes[name], said), pauses_s.get(name, {}), said)
        for name in instance.classes
    }
    types = dict(instance.gpu_types)
    for name in sorted(types.keys() & starts_s.keys()):
        start_s = fmean(starts_s[name])
        start_s = start_s if start_s > _AT_ONCE_S else 0.0
        _say(said, f"gpu_types.{name}.start_s", start_s, types[name].start_s or 0.0)
        types[name] = types[name].replace(start_s=start_s or None)
    said += [f"{name}: is not in the instance, and left out" for name in sorted(pauses_s.keys() - classes.keys())]
    if instance.problem is not Problem.RESCALING and any(job_class.rescale_s for job_class in classes.values()):
        said.append(f"problem {instance.problem} plans without pauses; {Problem.RESCALING} counts them")
    return instance.replace(classes=classes, gpu_types=types), tuple(said)


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


def _pause(name: str, known: JobClass, measured_s: Mapping[str, list[float]], said: list[str]) -> JobClass:
    """Take over what jobs of a class were measured to take to start, by type where the class has several."""
    on = dict(known.rescale_s_on)
    for gpu_type in sorted(measured_s.keys() & known.speedup.keys()):
        pause_s = fmean(measured_s[gpu_type])
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
