"""What the width calculator is told, what it goes by besides the instance, and what it says of a calculation.

It is told of arrivals, completions, throughput measurements, AdaptDL's hints and starts of nodes. Every event has an
id. One that comes again, after a lost answer or from a file that is read twice, does no harm.

Jobs of AdaptDL send what they measured of themselves, as a performance model. A job puts its hints to
``{supervisor}/hints/{namespace}/{name}`` every half a minute, as JSON with the names below. AdaptDL's own fit of the
seven parameters arrives with them, so that nothing is fitted again; the speedup is the goodput that they predict
(:class:`~optplan.speedup.GoodputSpeedup`).

References
----------
petuum/adaptdl, ``adaptdl/sched_hints.py`` and ``adaptdl/torch/_metrics.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field, field_validator

from optplan.errors import DataError, UsageError, name_kind, show_value
from optplan.execution.online.fields import ServiceFields
from optplan.instances.job_logs.speedups import read_assumption
from optplan.schema import NUMBER, FrozenModel, PositiveAmount
from optplan.speedup import GoodputSpeedup
from optplan.speedup.goodput import ThroughputParameters

_Batch = Annotated[int, Field(ge=1, le=10**12)]
_Statistic = Annotated[float, Field(ge=0, le=1e300)]


class GradientStatistics(FrozenModel):
    """Squared norm of the mean gradient, and the gradient's variance at the initial batch size."""

    norm: _Statistic
    var: _Statistic


class Hints(FrozenModel):
    """What AdaptDL's ``post_sched_hints`` sends; fields of other versions are passed over, as its supervisor does."""

    model_config = ConfigDict(extra="ignore")

    initBatchSize: _Batch  # noqa: N815 - AdaptDL's names
    localBszBounds: Annotated[tuple[_Batch, ...], Field(min_length=2, max_length=2)] | None = None  # noqa: N815
    maxBatchSize: _Batch | None = None  # noqa: N815
    gradParams: GradientStatistics | None = None  # noqa: N815
    perfParams: ThroughputParameters | None = None  # noqa: N815

    def speedup(self, gpus_per_node: int) -> GoodputSpeedup | None:
        """Return the speedup that the hints predict; None where they do not predict one yet.

        Without a largest batch the job keeps its batch size; without statistics of gradients, larger batches are taken
        to gain nothing, as they are before the first one was measured.
        """
        if self.perfParams is None:
            return None
        most = max(self.initBatchSize, self.maxBatchSize or self.initBatchSize)
        low, high = self.localBszBounds or (1, most)
        noise = 0.0
        if self.gradParams is not None and self.gradParams.norm > 0:
            noise = self.initBatchSize * self.gradParams.var / self.gradParams.norm
        low = min(low, most)
        return GoodputSpeedup(
            parameters=self.perfParams,
            gpus_per_node=gpus_per_node,
            init_batch_size=self.initBatchSize,
            max_batch_size=most,
            min_local_batch_size=low,
            max_local_batch_size=max(low, high),
            noise_scale_samples=np.array(min(noise, 1e18)),
        )


#: Characters of a name or an id at most: they are kept, and shown.
_LONGEST_NAME = 200

_Name = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Seconds = Annotated[float, Field(ge=0, le=1e12), NUMBER]
_Gpus = Annotated[int, Field(ge=1, le=1_000_000), NUMBER]


class _Event(FrozenModel):
    """Something that happened at seconds since 1970.

    None is when it is heard of, and what lies ahead of the calculator's clock counts as now. A second event with the
    same id is a repetition.
    """

    id: _Name
    at_s: _Seconds | None = None


class _JobEvent(_Event):
    """Something that happened to a job of a class."""

    job_class: _Name


class Arrival(_JobEvent):
    """A job was submitted.

    ``committed`` is what it will take of the budget, in its unit times hours, where somebody knows better than the
    table.
    """

    kind: Literal["arrival"] = "arrival"
    committed: Annotated[float, Field(ge=0, le=1e12), NUMBER] | None = None


class Run(FrozenModel):
    """GPUs that a job held, of a type where there are several, and seconds it trained, without starts and pauses."""

    gpus: _Gpus
    gpu_type: _Name | None = None
    seconds: _Seconds


class NodeStart(_Event, Run):
    """A node has started: how many GPUs were paid meanwhile, of a type where there are several, and for how long."""

    kind: Literal["node-start"] = "node-start"


class Completion(_JobEvent):
    """A job ended.

    From ``ran``, at which widths and for how long, the mean size of the class and the budget used are estimated; of a
    job that is not ``whole`` (it failed or was cancelled) only what it held counts.
    """

    kind: Literal["completion"] = "completion"
    ran: Annotated[tuple[Run, ...], Field(max_length=10_000)] = ()
    whole: bool = True
    #: What it held for how long, starts and pauses included: what it took of the budget; ``ran`` where it is left out.
    held: Annotated[tuple[Run, ...], Field(max_length=10_000)] = ()


class Measurement(_JobEvent):
    """How fast a job of a class runs at a width."""

    kind: Literal["measurement"] = "measurement"
    #: gpus, gpu_type: What it held; the type may be left out where there is one.
    gpus: _Gpus
    gpu_type: _Name | None = None
    #: Progress per second, in whatever unit is the same for all jobs of the class: samples at a fixed batch size,
    #: goodput where the batch changes with the width.
    speed: PositiveAmount
    #: In which epoch of the job, from 1; left out where its speedup is the same in all.
    epoch: Annotated[int, Field(ge=1), NUMBER] | None = None


class HintsReported(_JobEvent):
    """A job of AdaptDL reported its performance model; the latest of a class counts for all its jobs (5.3)."""

    kind: Literal["hints"] = "hints"
    gpu_type: _Name | None = None
    hints: Hints


OnlineEvent: TypeAlias = Arrival | Completion | Measurement | HintsReported | NodeStart

#: Every kind of event, by its name.
KINDS: dict[str, type[OnlineEvent]] = {
    each.model_fields["kind"].default: each for each in (Arrival, Completion, Measurement, HintsReported, NodeStart)
}


def parse_event(data: object, *, path: str = "") -> OnlineEvent:
    """Read an event from plain data."""
    if not isinstance(data, dict):
        fix = "an object with kind, id and job_class is needed"
        raise DataError(path or "event", f"got {show_value(data)}", fix)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        problem = "is missing" if kind is None else f"got {show_value(kind)}"
        raise DataError(f"{path}.kind".lstrip("."), problem, f"one of {', '.join(KINDS)} is needed")
    return KINDS[kind].parse(data, path=path)


def parse_events(data: object) -> list[OnlineEvent | DataError]:
    """Read one event, a list, or ``{"events": [...]}``; in the place of one that is malformed is what is wrong."""
    told = data["events"] if isinstance(data, dict) and set(data) == {"events"} else data
    if not isinstance(told, dict | list):
        raise DataError("events", f"got {name_kind(told)}", "an event or a list of events is needed")
    events: list[OnlineEvent | DataError] = []
    for number, each in enumerate(told if isinstance(told, list) else [told]):
        try:
            events.append(parse_event(each, path=f"events.{number}"))
        except DataError as error:
            events.append(error)
    return events


class Verdict(StrEnum):
    """What became of a calculation."""

    PUBLISHED = "published"
    #: The present table stays: the new one gains too little.
    KEPT = "kept"
    #: No table keeps the limits; the present one stays.
    OVER_BUDGET = "over-budget"
    #: There is no plan; the present table stays.
    FAILED = "failed"


class Calculation(FrozenModel):
    """One calculation, and what became of it.

    ``at_s`` is in seconds since 1970; ``reason`` is why it was made, ``changes`` what had moved since the last one, in
    words. ``notes`` say why the table was kept, which classes are probed, or that a budget is too small. ``number`` is
    of the table that holds from now on, None before the first. ``mean_jct_s``, ``bound_s`` and ``gap`` are the new
    plan's; while classes are probed there is no bound, and the gap is that of the others. ``present_jct_s`` is what the
    table before promises under the same estimates; None where it breaks a limit or lacks a class. ``budget``,
    ``followed`` (what widths are made for, so that the budget holds), ``planned`` (what the table that holds takes) and
    ``needed`` (the least that carries the load, where the given one does not) are in ``unit``; ``debt_h`` is in hours
    of the budget, as :class:`~optplan.execution.online.ledger.Ledger` has it.
    """

    at_s: float
    verdict: Verdict
    reason: str
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    number: int | None = None
    mean_jct_s: float | None = None
    bound_s: float | None = None
    gap: float | None = None
    present_jct_s: float | None = None
    budget: float
    followed: float | None = None
    debt_h: float = 0.0
    planned: float | None = None
    needed: float | None = None
    unit: str


def find_excess(limits: Mapping[str, float], takes: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the limit that is exceeded most, and by which part of it; None where all are kept."""
    excess = {name: takes[name] / amount - 1.0 for name, amount in limits.items() if amount > 0}
    worst = max(excess, key=lambda name: excess[name])
    return (worst, excess[worst]) if excess[worst] > 0 else None


def say_kept(
    new_s: float, present_s: float | None, excess: tuple[str, float] | None, least_gain: float, at_most: str = ""
) -> str:
    """Return why the present table stays; empty where the new one is to be published."""
    if present_s is None or (excess is not None and excess[1] > least_gain):
        return ""
    gain = 1.0 - new_s / present_s
    if gain >= least_gain:
        return ""
    beyond = f"; it takes {excess[1]:.2%} more than the limit {excess[0]}" if excess is not None else ""
    return f"the table stays: a gain of{at_most} {max(gain, 0.0):.2%} is below {least_gain:.2%}{beyond}"


_Positive = Annotated[float, Field(gt=0, le=1e9)]
_Part = Annotated[float, Field(ge=0, le=1)]


class Terms(FrozenModel, ServiceFields):
    """The calculator's settings.

    At the start the instance's mean sizes weigh as much as ``stated_jobs`` jobs that ended. Widths are not calculated
    again before ``settle_s``, and to within the relative ``gap``.

    A class that the instance does not have is taken to have ``new_speedup`` until it is measured (what rests on it
    is said to be assumed) and ``new_size_gpu_hours`` (None:
    the median of the others'), and its first arrival counts as the only one in ``new_watched_h``. Its jobs run at
    ``probe_widths`` in turn until each of them was measured, or ``probe_jobs`` have ended, unless that takes more than
    ``probe_part`` of the budget. Beyond ``most_classes`` new ones arrivals are refused, as names are then taken for
    classes.
    """

    stated_jobs: Annotated[float, Field(ge=0, le=1e9)] = 20.0
    settle_s: Annotated[float, Field(ge=0, le=1e9)] = 5.0
    gap: Annotated[float, Field(ge=0, le=0.1)] = 1e-6
    new_size_gpu_hours: _Positive | None = None
    new_watched_h: _Positive = 1.0
    probe_widths: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = (1, 2, 4, 8)
    probe_jobs: Annotated[int, Field(ge=0)] = 20
    probe_part: _Part = 0.25
    most_classes: Annotated[int, Field(ge=0, le=10_000)] = 200

    @field_validator("new_speedup")
    @classmethod
    def _check_speedup(cls, text: str) -> str:
        try:
            read_assumption(text)
        except UsageError as error:
            raise ValueError(str(error).removeprefix("assume: ")) from None
        return text
