"""The jobs of a stream as they are announced, and its state: what follows from its records, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.execution import records as told
from optplan.execution.online.width_table import RemainingTimes, WidthTable
from optplan.execution.protocol import Operation
from optplan.execution.state import Member, OperationState, Phase, RunState
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.plain_data import read_data
from optplan.schema import FrozenModel

#: Each of them is written down and told; beyond this, what is meant is an iteration and no epoch.
_MOST_EPOCHS = 1_000_000

#: Beyond this, seconds are too coarse to time an epoch by.
_LATEST_S = 1e10


class StreamJob(FrozenModel):
    """A job that will arrive."""

    #: name, job_class: Its own name, and that of its class.
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    job_class: Annotated[str, Field(min_length=1)]
    at_s: Annotated[float, Field(ge=0, le=_LATEST_S)] = 0.0  #: When it arrives, in seconds since the stream began.
    #: How many it trains, 1,000,000 at most; None for as many as the plan says of its class.
    epochs: Annotated[int, Field(ge=1, le=_MOST_EPOCHS)] | None = None
    configuration: Mapping[str, Any] = Field(default_factory=dict)  #: What its trainable is set up with.


def read_jobs(path: Path | str) -> list[StreamJob]:
    """Read a list of jobs from a file of YAML or JSON, in the order of arrival."""
    data = read_data(Path(path))
    if not isinstance(data, list):
        raise DataError("jobs", f"{path} is no list", "list jobs, each with name, job_class and at_s")
    return order_jobs(StreamJob.parse(each, path=f"jobs.{number}") for number, each in enumerate(data))


def order_jobs(jobs: Iterable[StreamJob]) -> list[StreamJob]:
    """Return jobs in the order of arrival; DataError when two have the same name."""
    ordered = sorted(jobs, key=lambda job: (job.at_s, job.name))
    seen: set[str] = set()
    for job in ordered:
        if job.name in seen:
            raise DataError(f"jobs.{job.name}", "two jobs have this name", "give each job a name of its own")
        seen.add(job.name)
    return ordered


@dataclass(slots=True, kw_only=True)
class JobState(Member):
    """A job that has arrived, so many before it: what it is to do, and what it has held."""

    number: int
    job_class: str
    epochs: int
    row: int
    arrived_s: float
    #: Its operation; empty while it has none.
    operation: str = ""
    attempts: int = 0
    ended_s: float | None = None
    gpu_s: float = 0.0
    #: Widths in the order in which it had them, and changes between them.
    widths: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be done for it any more."""
        return self.ended_s is not None


class StreamState(RunState):
    """The state of a stream, whose jobs are in the order of arrival.

    ``taken`` are the GPUs that operations have by node; ``changed_jobs`` and ``changed_nodes`` what records have
    changed since whoever decides has taken them from here.
    """

    def __init__(self, plan: BoaPlan) -> None:
        super().__init__()
        self.table, self.remaining = WidthTable.from_plan(plan), RemainingTimes(plan)
        self.jobs: dict[str, JobState] = {}
        self.active: dict[str, JobState] = {}
        self.taken: dict[str, int] = {}
        self.tables = 0
        self.changed_jobs: dict[str, None] = {}
        self.changed_nodes: dict[str, None] = {}

    def has_free(self, place: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
        """Whether GPUs can be used and no operation has them; ``sizes`` are those of a node, by type."""
        return all(
            self.nodes[name].phase is Phase.READY and gpus <= sizes[self.nodes[name].resource] - self.taken.get(name, 0)
            for name, gpus in place.items()
        )

    def type_of(self, operation: Operation) -> str:
        """Return of which type the GPUs of an operation are."""
        return self.nodes[next(iter(operation.place))].resource

    def operation_of(self, wanted: told.OperationWanted) -> Operation:
        """Return what an intent asks the executor to start: the job, up to its next change of width or its end."""
        job = self.jobs[wanted.trial]
        return job.go_on(
            replace(wanted, segment=job.job_class),
            workers=sum(wanted.place.values()),
            gpus_per_worker=1,
            to_iterations=int(wanted.segment),
            step_s=self.remaining.epoch_s(job.job_class, job.iterations, job.row),
        )

    def _apply(self, record: told.Record) -> None:
        match record:
            case told.JobArrived():
                self.jobs[record.job] = self.active[record.job] = JobState(
                    record.job,
                    record.configuration,
                    number=len(self.jobs),
                    job_class=record.job_class,
                    epochs=record.epochs,
                    row=record.row,
                    arrived_s=record.t,
                )
                self.changed_jobs[record.job] = None
            case told.TablePublished():
                self.table, self.tables = WidthTable.parse(record.table, path="table"), self.tables + 1
            case told.OperationWanted():
                self._start(self.jobs[record.trial], record)
            case told.OperationEnded() | told.OperationFailed():
                self._end(self.operations.pop(record.operation), record)
            case told.EpochDone():
                job = self.jobs[self.operations[record.operation].operation.trial]
                job.iterations = record.epochs
                self.changed_jobs[job.name] = None
            case told.PlaceLeft():
                self.jobs[record.job].place = {}
                self.changed_jobs[record.job] = None
            case told.TrialDropped():
                job = self.active.pop(record.trial)
                job.why_dropped, job.ended_s, job.place = record.why, record.t, {}
                self.changed_jobs[job.name] = None
            case _:
                super()._apply(record)
                if isinstance(record, told.NodeChanged | told.NodeReleasing):
                    self.changed_nodes[record.node] = None

    def _start(self, job: JobState, record: told.OperationWanted) -> None:
        self.operations[record.operation] = OperationState(self.operation_of(record), Phase.WANTED, record.t)
        job.operation, job.place, job.attempts = record.operation, record.place, record.attempt
        for name, held in record.place.items():
            self.taken[name] = self.taken.get(name, 0) + held
        self.changed_jobs[job.name] = None
        gpus = sum(record.place.values())
        if not job.widths or job.widths[-1] != gpus:
            job.widths.append(gpus)

    def _end(self, ended: OperationState, record: told.OperationEnded | told.OperationFailed) -> None:
        operation = ended.operation
        job = self.jobs[operation.trial]
        job.operation = ""
        for node, gpus in operation.place.items():
            self.taken[node] -= gpus
        self.changed_jobs[job.name] = None
        job.gpu_s += (record.t - ended.wanted_s) * operation.workers
        job.see_end(record)
        if isinstance(record, told.OperationEnded):
            if job.iterations >= job.epochs:
                job.ended_s = record.t
                del self.active[job.name]
        elif record.iterations is None or record.checkpoint is None:
            job.iterations = 0 if job.checkpoint is None else operation.from_iterations
