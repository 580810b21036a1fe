"""What the width calculator is told: arrivals, completions, throughput measurements, AdaptDL's hints, starts of nodes.

Every event has an id. One that comes again, after a lost answer or from a file that is read twice, does no harm.

AdaptDL's scheduling hints, as its jobs send them: what they measured of themselves, as a performance model.

A job puts its hints to ``{supervisor}/hints/{namespace}/{name}`` every half a minute, as JSON with the names below.
AdaptDL's own fit of the seven parameters arrives with them, so that nothing is fitted again; the speedup is the goodput
that they predict (:class:`~optplan.speedup.GoodputSpeedup`).

References
----------
petuum/adaptdl, ``adaptdl/sched_hints.py`` and ``adaptdl/torch/_metrics.py``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field

from optplan.errors import DataError, name_kind, show_value
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
