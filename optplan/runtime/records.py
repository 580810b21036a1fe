"""What the journal holds: intents, written before the executor is called, and facts, written after they are known.

A run's state is what follows from its records alone (:mod:`optplan.runtime.state`). Every record has the time ``t`` in
seconds since the run began.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any, get_args

from optplan.errors import DataError, nearest_name_hint


@dataclass(frozen=True)
class Began:
    """The run has begun; what was drawn for its trials."""

    t: float
    configurations: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Resumed:
    """Another driver goes on."""

    t: float


@dataclass(frozen=True)
class NodeWanted:
    """Intent: a node is asked for."""

    t: float
    node: str
    pool: str
    resource: str
    segment: str
    replacement: bool = False


@dataclass(frozen=True)
class NodeChanged:
    """Fact: a node is ``launching``, ``ready``, ``released`` or ``lost``."""

    t: float
    node: str
    phase: str
    why: str = ""
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class NodeReleasing:
    """Intent: a node is given back."""

    t: float
    node: str


@dataclass(frozen=True)
class SegmentOpened:
    """Decision: a segment's condition holds; these trials are its members, the best first."""

    t: float
    segment: str
    members: list[str]


@dataclass(frozen=True)
class SegmentBegan:
    """Decision: the segment has its nodes; its members start."""

    t: float
    segment: str


@dataclass(frozen=True)
class OperationWanted:
    """Intent: a trial is started on its GPUs."""

    t: float
    operation: str
    segment: str
    trial: str
    attempt: int
    place: dict[str, int]


@dataclass(frozen=True)
class OperationStarted:
    """Fact: it was started."""

    t: float
    operation: str


@dataclass(frozen=True)
class StopWanted:
    """Intent: an operation is asked to store its state and end."""

    t: float
    operation: str
    why: str


@dataclass(frozen=True)
class OperationEnded:
    """Fact: an operation has ended in good order."""

    t: float
    operation: str
    iterations: int
    metrics: dict[str, Any]
    checkpoint: dict[str, str] | None
    busy_s: float
    complete: bool
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class OperationFailed:
    """Fact: an operation has crashed or was lost."""

    t: float
    operation: str
    why: str
    tail: str = ""
    blameless: bool = False
    hopeless: bool = False
    iterations: int | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    checkpoint: dict[str, str] | None = None


@dataclass(frozen=True)
class JobArrived:
    """Fact: a job of a stream is there; which row of the width table it follows."""

    t: float
    job: str
    job_class: str
    epochs: int
    row: int
    configuration: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TablePublished:
    """Decision: from now on jobs of a stream hold what another width table says."""

    t: float
    table: dict[str, Any]
    why: str


@dataclass(frozen=True)
class TrialDropped:
    """Decision: a trial is given up."""

    t: float
    trial: str
    why: str


@dataclass(frozen=True)
class SegmentEnded:
    """Decision: a segment is over; its members, the best first."""

    t: float
    segment: str
    ranking: list[str]


@dataclass(frozen=True)
class Replanned:
    """Decision: from now on another plan is followed, which supersedes the one before; what the meter showed."""

    t: float
    plan: dict[str, Any]
    why: str
    spent_usd: float
    spent_gpu_hours: float


@dataclass(frozen=True)
class NodeNoticed:
    """Fact: the provider has said that it will take a node back, and when."""

    t: float
    node: str
    at_s: float


@dataclass(frozen=True)
class CheckpointWanted:
    """Intent: a rank of an operation is asked to store what all ranks share; orders are numbered."""

    t: float
    operation: str
    order: int
    rank: int
    why: str


@dataclass(frozen=True)
class CheckpointStored:
    """Fact: a rank has stored it, after so many iterations in all; where the file is."""

    t: float
    operation: str
    rank: int
    iterations: int
    path: str
    order: int = 0


@dataclass(frozen=True)
class LimitsAsked:
    """Decision: nothing keeps the limits any more; what would, as an infeasibility says it."""

    t: float
    infeasibility: dict[str, Any]


@dataclass(frozen=True)
class LimitsChanged:
    """The user has given other limits: ``deadline`` in seconds, ``budget`` in US dollars."""

    t: float
    limits: dict[str, float]


@dataclass(frozen=True)
class Noted:
    """Something that a reader of the run should know."""

    t: float
    text: str


@dataclass(frozen=True)
class Paused:
    """The run rests; it can be resumed."""

    t: float
    why: str
    code: int


@dataclass(frozen=True)
class Ended:
    """The run is over."""

    t: float
    winner: str | None
    why: str = ""
    code: int = 0
    finalists: list[str] = field(default_factory=list)


Record = (
    Began
    | Resumed
    | NodeWanted
    | NodeChanged
    | NodeReleasing
    | SegmentOpened
    | SegmentBegan
    | OperationWanted
    | OperationStarted
    | StopWanted
    | OperationEnded
    | OperationFailed
    | JobArrived
    | TablePublished
    | TrialDropped
    | SegmentEnded
    | Replanned
    | NodeNoticed
    | CheckpointWanted
    | CheckpointStored
    | LimitsAsked
    | LimitsChanged
    | Noted
    | Paused
    | Ended
)

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Record)}
_FIELDS = {kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in _KINDS.values()}


def describe(record: Record) -> dict[str, Any]:
    """Return a record as plain data, its kind first."""
    return {"kind": type(record).__name__, **{name: getattr(record, name) for name in _FIELDS[type(record)]}}


def encode(record: Record) -> str:
    """Write a record as a line of JSON."""
    return json.dumps(plain(describe(record)), allow_nan=False, ensure_ascii=False)


def decode(line: str) -> Record:
    """Read what :func:`encode` wrote.

    Raises
    ------
    DataError
        When the line is no record.
    """
    fields = json.loads(line)
    kind = fields.pop("kind", "")
    if kind not in _KINDS:
        raise DataError("journal", f"has a record {kind!r}", nearest_name_hint(kind, _KINDS))
    record: Record = _KINDS[kind](**fields)
    return record


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a trainable reports
    """Return a value as plain data; numbers that are none become None, and what is no data becomes text."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:  # a number of NumPy or PyTorch
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)
