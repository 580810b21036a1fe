"""What the journal holds: intents, written before the executor is called, and facts, written after they are known.

A run's state is what follows from its records alone (:mod:`optplan.execution.state`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, dataclass_transform

from optplan.errors import DataError, nearest_name_hint


@dataclass(frozen=True)
class Checkpoint:
    """The stored state of a trial: a folder below the run's, and the SHA-256 of its files' names and contents.

    Of a fleet it is a file that a rank has written, whose content nobody has hashed.
    """

    path: str
    sha256: str


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Record:
    """What is written down at a time ``t``, in seconds since the run began; its heirs are frozen dataclasses, too."""

    t: float

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Began(Record):
    """The run has begun; what was drawn for its trials."""

    configurations: dict[str, dict[str, Any]]


class Resumed(Record):
    """Another driver goes on; options that are others from now on."""

    options: dict[str, Any] = field(default_factory=dict)


class NodeWanted(Record):
    """Intent: a node is asked for."""

    node: str
    pool: str
    resource: str
    segment: str
    replacement: bool = False


class NodeChanged(Record):
    """Fact: a node is ``launching``, ``ready``, ``released`` or ``lost``, and what ran on it.

    From ``launching`` on it may be paid, where it is known at a price of its own; when it is ``ready`` it can train.
    """

    node: str
    phase: str
    why: str = ""
    usd_per_hour: float | None = None


class NodeReleasing(Record):
    """Intent: a node is given back."""

    node: str


class SegmentOpened(Record):
    """Decision: a segment's condition holds; these trials are its members, the best first."""

    segment: str
    members: list[str]


class SegmentBegan(Record):
    """Decision: the segment has its nodes; its members start."""

    segment: str


class OperationWanted(Record):
    """Intent: a trial is started on its GPUs."""

    operation: str
    segment: str
    trial: str
    attempt: int
    place: dict[str, int]


class OperationStarted(Record):
    """Fact: it was started."""

    operation: str


class StopWanted(Record):
    """Intent: an operation is asked to store its state and end."""

    operation: str
    why: str


class OperationEnded(Record):
    """Fact: an operation has ended in good order: it did its iterations, or stopped when it was asked to.

    ``iterations`` and ``metrics`` are the trial's last; ``checkpoint`` is None where it stored none; ``busy_s`` is for
    how long it had its GPUs, without waiting for others; ``complete`` is False where it was stopped before. ``timings``
    are seconds until the first iteration (``start_s``), of an iteration (``step_s``, mean and ``step_sd_s``), of
    loading and of storing (``load_s``, ``save_s``), and how many iterations (``steps``); what does not tell iterations
    from the start has no ``step_s``.
    """

    operation: str
    iterations: int
    metrics: Mapping[str, Any]
    checkpoint: Checkpoint | None
    busy_s: float
    complete: bool
    timings: Mapping[str, float] = field(default_factory=dict)


class OperationFailed(Record):
    """Fact: an operation has crashed, or was killed or lost.

    ``tail`` has the last lines of its output. A ``blameless`` failure, as when its node is lost, does not count as one
    of the trial; a ``hopeless`` one would come again, as when there is nothing to import; with ``no_room`` it could not
    write: the run is paused. The rest is what it had stored on the way, for the next attempt.
    """

    operation: str
    why: str
    tail: str = ""
    blameless: bool = False
    hopeless: bool = False
    no_room: bool = False
    iterations: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None


class Progressed(Record):
    """An operation has done another iteration, ``iterations`` in all: told, and not written down.

    ``seconds`` is None where it was not timed.
    """

    operation: str
    iterations: int
    metrics: Mapping[str, Any]
    seconds: float | None = None


class MetricsShown(Record):
    """What operations have shown on the way since the last such record: by operation, iterations in all and the metric.

    Of long ones not every iteration is there (:class:`~optplan.execution.loop.Curves`).
    """

    curves: dict[str, list[tuple[int, float]]]


class JobArrived(Record):
    """Fact: a job of a stream is there; which row of the width table it follows, and what it will take of the budget.

    The latter is in the budget's unit times hours; None where nobody calculates widths, or did not when it came.
    """

    job: str
    job_class: str
    epochs: int
    row: int
    configuration: dict[str, Any] = field(default_factory=dict)
    committed: float | None = None


class EpochDone(Record):
    """Fact: a job of a stream has done so many epochs; seconds of the last one, where they are known."""

    operation: str
    epochs: int
    seconds: float | None = None


class PlaceLeft(Record):
    """Decision: a job between two operations does not keep the place that it had."""

    job: str


class TablePublished(Record):
    """Decision: from now on jobs of a stream hold what another width table says."""

    table: dict[str, Any]
    why: str


class TrialDropped(Record):
    """Decision: a trial is given up."""

    trial: str
    why: str


class SegmentEnded(Record):
    """Decision: a segment is over; its members, the best first."""

    segment: str
    ranking: list[str]


class Replanned(Record):
    """Decision: from now on another plan is followed, which supersedes the one before; what the meter showed."""

    plan: dict[str, Any]
    why: str
    spent_usd: float
    spent_gpu_hours: float


class NodeNoticed(Record):
    """Fact: the provider has said that it will take a node back, and when."""

    node: str
    at_s: float


class CheckpointWanted(Record):
    """Intent: a rank of an operation is asked to store what all ranks share; orders are numbered."""

    operation: str
    order: int
    rank: int
    why: str


class Reported(Record):
    """A rank of a fleet's operation said something; whatever that is, it is alive. That it stored is written down.

    ``iterations`` are done in all, None where it does not say, and ``metrics`` what the last one showed; ``stored`` is
    the file that it has stored after these, ``order`` the order that asked for it, 0: unasked. It has ``ended`` all of
    its iterations, or its process ends (``left``). ``trouble`` is what has gone wrong for it, such as a neighbour that
    does not answer: it waits for orders.
    """

    operation: str
    rank: int
    iterations: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    stored: str = ""
    order: int = 0
    ended: bool = False
    left: bool = False
    trouble: str = ""


class Noted(Record):
    """Something that a reader of the run should know."""

    text: str


class Paused(Record):
    """The run rests; it can be resumed. Where nothing keeps a fleet's limits, an infeasibility says what would."""

    why: str
    code: int
    infeasibility: dict[str, Any] | None = None


class Ended(Record):
    """The run is over."""

    winner: str | None
    why: str = ""
    code: int = 0
    finalists: list[str] = field(default_factory=list)


_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in Record.__subclasses__()}


def encode(record: Record) -> str:
    """Write a record as a line of JSON, its kind first."""
    return json.dumps(plain({"kind": type(record).__name__, **vars(record)}), allow_nan=False)


def decode(line: str) -> Record:
    """Read what :func:`encode` wrote."""
    fields = json.loads(line)
    kind = fields.pop("kind", "")
    if kind not in _KINDS:
        raise DataError("journal", f"has a record {kind!r}", nearest_name_hint(kind, _KINDS))
    if isinstance(fields.get("checkpoint"), dict):
        fields["checkpoint"] = Checkpoint(**fields["checkpoint"])
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
    if isinstance(value, Checkpoint):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def read_metric(value: object) -> float:
    """Return what a trial showed as a number; NaN where it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        number = float(value)
    except OverflowError:  # whole numbers of JSON have no end
        return math.nan
    return number if math.isfinite(number) else math.nan
