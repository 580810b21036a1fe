"""The state of a stream: what follows from its records, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optplan.execution.online.rows import RemainingTimes
from optplan.execution.online.width_table import WidthTable
from optplan.execution.protocol import Operation
from optplan.execution.records import (
    Checkpoint,
    EpochDone,
    JobArrived,
    NodeChanged,
    NodeReleasing,
    NodeWanted,
    OperationEnded,
    OperationFailed,
    OperationWanted,
    PlaceLeft,
    Record,
    TablePublished,
    TrialDropped,
)
from optplan.execution.run_state import OperationState, Phase, RunState


@dataclass(slots=True)
class JobState:
    """A job that has arrived, so many before it: how far it is, what it holds, and what it has held."""

    number: int
    name: str
    job_class: str
    epochs: int
    row: int
    arrived_s: float
    configuration: Mapping[str, Any]
    epochs_done: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    #: Its operation; empty while it has none.
    operation: str = ""
    #: Where it is, or was last.
    place: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    failures: int = 0
    last_failure: str = ""
    is_hopeless: bool = False
    ended_s: float | None = None
    why_dropped: str = ""
    gpu_s: float = 0.0
    #: Widths in the order in which it had them, and changes between them.
    widths: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.ended_s is not None


class StreamState(RunState):
    """The state of a stream, whose jobs are in the order of arrival.

    ``taken`` are the GPUs that operations have by node, ``made`` the nodes that were ever asked for by type;
    ``changed_jobs`` and ``changed_nodes`` what records have changed since whoever decides has taken them from here.
    """

    def __init__(self, table: WidthTable, remaining: RemainingTimes | None = None) -> None:
        super().__init__()
        self.table, self.remaining = table, remaining
        self.jobs: dict[str, JobState] = {}
        self.active: dict[str, JobState] = {}
        self.taken: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.tables = 0
        self.changed_jobs: dict[str, None] = {}
        self.changed_nodes: dict[str, None] = {}

    def has_free(self, place: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
        """Whether GPUs can be used and no operation has them; ``sizes`` are those of a node, by type."""
        return all(
            self.nodes[name].phase is Phase.READY and gpus <= sizes[self.nodes[name].resource] - self.taken.get(name, 0)
            for name, gpus in place.items()
        )

    def operation_of(self, wanted: OperationWanted) -> Operation:
        """Return what an intent asks the executor to start: the job, up to its next change of width or its end."""
        job = self.jobs[wanted.trial]
        gpus = sum(wanted.place.values())
        return Operation(
            id=wanted.operation,
            segment=job.job_class,
            trial=job.name,
            attempt=wanted.attempt,
            place=wanted.place,
            workers=gpus,
            gpus_per_worker=1,
            configuration=job.configuration,
            from_iterations=job.epochs_done,
            to_iterations=int(wanted.segment),
            checkpoint=job.checkpoint,
            metrics=job.metrics,
            wanted_s=wanted.t,
            step_s=None if self.remaining is None else self.remaining.epoch_s(job.job_class, job.epochs_done, job.row),
        )

    def _apply(self, record: Record) -> None:
        match record:
            case JobArrived():
                known = (record.job, record.job_class, record.epochs, record.row, record.t, record.configuration)
                self.jobs[record.job] = self.active[record.job] = JobState(len(self.jobs), *known)
                self.changed_jobs[record.job] = None
            case TablePublished():
                self.table, self.tables = WidthTable.parse(record.table, path="table"), self.tables + 1
            case OperationWanted():
                self._start(self.jobs[record.trial], record)
            case OperationEnded() | OperationFailed():
                self._end(self.operations.pop(record.operation), record)
            case EpochDone():
                job = self.jobs[self.operations[record.operation].operation.trial]
                job.epochs_done = record.epochs
                self.changed_jobs[job.name] = None
            case PlaceLeft():
                self.jobs[record.job].place = {}
                self.changed_jobs[record.job] = None
            case TrialDropped():
                job = self.active.pop(record.trial)
                job.why_dropped, job.ended_s, job.place = record.why, record.t, {}
                self.changed_jobs[job.name] = None
            case _:
                super()._apply(record)
                if isinstance(record, NodeWanted):
                    self.made[record.resource] = self.made.get(record.resource, 0) + 1
                elif isinstance(record, NodeChanged | NodeReleasing):
                    self.changed_nodes[record.node] = None

    def _start(self, job: JobState, record: OperationWanted) -> None:
        self.operations[record.operation] = OperationState(self.operation_of(record), Phase.WANTED, record.t)
        job.operation, job.place, job.attempts = record.operation, record.place, record.attempt
        for name, held in record.place.items():
            self.taken[name] = self.taken.get(name, 0) + held
        self.changed_jobs[job.name] = None
        gpus = sum(record.place.values())
        if not job.widths or job.widths[-1] != gpus:
            job.widths.append(gpus)

    def _end(self, ended: OperationState, record: OperationEnded | OperationFailed) -> None:
        operation = ended.operation
        job = self.jobs[operation.trial]
        job.operation = ""
        for node, gpus in operation.place.items():
            self.taken[node] -= gpus
        self.changed_jobs[job.name] = None
        job.gpu_s += (record.t - ended.wanted_s) * operation.workers
        if isinstance(record, OperationEnded):
            job.epochs_done, job.metrics, job.failures = record.iterations, record.metrics, 0
            job.checkpoint = record.checkpoint or job.checkpoint
            if job.epochs_done >= job.epochs:
                job.ended_s = record.t
                del self.active[job.name]
            return
        job.failures += not record.blameless
        job.last_failure, job.is_hopeless = record.why, record.hopeless
        if record.iterations is not None and record.checkpoint is not None:
            job.epochs_done, job.metrics, job.checkpoint = record.iterations, record.metrics, record.checkpoint
        else:
            job.epochs_done = 0 if job.checkpoint is None else operation.from_iterations
