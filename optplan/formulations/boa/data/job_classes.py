"""Job classes: streams of training jobs of one kind, and the widths that they may get."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, field_validator, model_validator

from optplan.quantities import PositiveGpus, PositiveSeconds
from optplan.schema import (
    NUMBER,
    AmountOrZero,
    ByName,
    Fields,
    FloatArray,
    FrozenModel,
    IntArray,
    NumberRow,
    Numbers,
    PositiveAmount,
    SmallCount,
    Takes,
    WholeNumbers,
    freeze,
    require_amounts,
    require_positive,
    usual,
)
from optplan.speedup import Speedup

#: A relative standard error; beyond 2 an estimate says nothing.
_Error = Annotated[float, Field(ge=0, le=2), NUMBER]


class LoggedJobs(FrozenModel):
    """The jobs of a class in a log."""

    jobs: Annotated[int, Field(ge=1), NUMBER]  # that arrived
    measured_jobs: Annotated[int, Field(ge=1), NUMBER]  # those of them whose run counts for the sizes
    span_hours: PositiveAmount  # in which they arrived
    rate_low_per_hour: AmountOrZero  # 95 % interval of the arrival rate, as of a Poisson process, up to the next field
    rate_high_per_hour: AmountOrZero
    #: variance over mean of arrivals in a bin of time; 1 unless it is more than chance explains
    dispersion: Annotated[float, Field(ge=1), NUMBER] = 1.0
    size_spread: AmountOrZero  # standard deviation of the size of a single job over the mean
    gpus: PositiveAmount  # mean width of the measured jobs
    run_s: PositiveAmount  # their mean time on GPUs
    wait_s: AmountOrZero | None = None  # mean, from submission to start; None where the log does not say it
    gpu_hours: PositiveAmount  # that a measured job held on average
    #: Relative standard errors, as far as the log says them.
    arrival_error: _Error
    size_error: _Error


HOURS_OF_DAY = 24
#: Beyond this, most jobs of a class would come in one clump, and a log says nothing of the next.
_MOST_DISPERSION = 1000.0


class ArrivalPattern(FrozenModel):
    """How arrivals differ from a steady Poisson stream."""

    #: (24,) Rate in each hour of the day, divided by its mean; all classes count the same hours.
    hourly: Takes[NumberRow, ArrayLike]
    #: Variance over mean of arrivals in a short time: clumps of (dispersion + 1) / 2 jobs on average.
    dispersion: Annotated[float, Field(ge=1, le=_MOST_DISPERSION), NUMBER] = 1.0

    @field_validator("hourly")
    @classmethod
    def _check_hours(cls, hourly: FloatArray) -> FloatArray:
        if hourly.size != HOURS_OF_DAY:
            raise ValueError(f"{hourly.size} numbers; {HOURS_OF_DAY} are needed, one for each hour of the day")
        require_positive(hourly, strictly=False)
        if hourly.sum() <= 0.0:
            raise ValueError("no hour has arrivals; at least one number above zero is needed")
        return freeze(hourly)

    @property
    def relative(self) -> FloatArray:
        """(24,) The same with mean 1."""
        relative: FloatArray = self.hourly / self.hourly.mean()
        return relative

    @property
    def repeat(self) -> float:
        """Chance that a job of a clump is followed by one more: sizes are geometric with variance as the dispersion."""
        return (self.dispersion - 1.0) / (self.dispersion + 1.0)


class Steps(StrEnum):
    """Which widths of a range a class may get."""

    #: Every one of them.
    ALL = "all"
    #: 1, 2, 4, 8, 16, ...
    POWERS_OF_TWO = "powers-of-two"
    #: Powers of two within a node and the node itself, then whole nodes.
    NODES = "nodes"


class Widths(FrozenModel):
    """Which widths a class may get: a rule, or a list."""

    LATER: ClassVar[frozenset[str]] = frozenset({"steps"})

    #: min, max: Least and largest number of GPUs.
    min: SmallCount = 1
    max: SmallCount | None = None
    multiple_of: SmallCount = 1  #: Only multiples of this.
    #: ``all`` of these; ``powers-of-two``; or ``nodes``: powers of two and the whole node within one, then whole nodes,
    #: which needs ``gpus_per_node``. A rule of nothing else may be written as this word alone.
    steps: Takes[Steps, str] = usual(Steps.ALL)
    #: The allowed widths one by one; excludes the other fields.
    only: Takes[WholeNumbers | None, ArrayLike] = usual(None)

    @model_validator(mode="before")
    @classmethod
    def _read_word(cls, data: Any) -> Any:  # noqa: ANN401 - whatever a file holds
        return {"steps": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _check(self) -> Widths:
        if self.only is not None:
            if self.max is not None or self.min != 1 or self.multiple_of != 1 or self.steps is not Steps.ALL:
                raise ValueError("'only' lists the widths, so min, max, multiple_of and steps must be left out")
            if self.only.size == 0:
                raise ValueError("'only' is empty; list at least one width")
            if self.only.min() < 1 or np.any(np.diff(self.only) <= 0):
                raise ValueError(f"'only' is {self.only.tolist()}; widths of at least 1 in increasing order are needed")
        elif self.max is not None and self.rule().size == 0:
            message = f"no multiple of {self.multiple_of} lies between {self.min} and {self.max}; widen the range"
            raise ValueError(message)
        return self

    def keep(self, widths: IntArray, gpus_per_node: int | None) -> IntArray:
        """Return those of some widths that the steps allow; a ValueError where these are nodes of unknown size."""
        if self.steps is Steps.ALL:
            return widths
        powers = (widths & (widths - 1)) == 0
        if self.steps is Steps.POWERS_OF_TWO:
            return np.asarray(widths[powers])
        if gpus_per_node is None:
            raise ValueError("steps are nodes, and how many GPUs a node has is not said")
        return np.asarray(widths[np.where(widths < gpus_per_node, powers, widths % gpus_per_node == 0)])

    def rule(self) -> IntArray:
        """List the widths (needs ``only`` or ``max``); all of them, whatever the steps."""
        if self.only is not None:
            return self.only
        if self.max is None:
            raise ValueError("an upper limit is needed")
        first = math.ceil(self.min / self.multiple_of) * self.multiple_of
        return np.arange(first, self.max + 1, self.multiple_of, dtype=np.int64)


class JobClass(FrozenModel):
    """A stream of jobs of one kind."""

    LATER: ClassVar[frozenset[str]] = frozenset({"logged", "arrivals", "most_mean_jct_s", "least_mean_gpus"})

    arrival_rate_per_hour: PositiveAmount  #: Long-run mean number of arrivals per hour, lambda_i.
    #: (E,) Mean time of each epoch on one GPU (on ``reference_width`` GPUs), E[X_ij], in hours.
    epoch_size_gpu_hours: Takes[Numbers, ArrayLike]
    #: By GPU type: speed at k GPUs relative to the reference width, s_ij(k).
    speedup: Takes[ByName[Speedup], Mapping[str, Speedup | Fields]]
    rescale_s: AmountOrZero = 0.0  #: Mean seconds that a start or a change of width takes without progress, r_i.
    #: By GPU type: where the seconds on it are others, r_i^(h).
    rescale_s_on: Takes[ByName[AmountOrZero], Mapping[str, float]] = usual(Field(default_factory=dict))
    #: Mean seconds that a change comes to take more when it is one of the GPU type, too.
    type_change_s: AmountOrZero = 0.0
    #: By GPU type left, then by GPU type entered: where these seconds are others.
    type_change_s_from: Takes[ByName[ByName[AmountOrZero]], Mapping[str, Mapping[str, float]]] = usual(
        Field(default_factory=dict)
    )
    weight: PositiveAmount = 1.0  #: Weight in the mean completion time.
    #: Allowed widths; None leaves it to the instance, and for tables to the table.
    widths: Takes[Widths | None, Fields | str] = usual(None)
    reference_width: SmallCount = 1  #: The width at which the sizes were measured.
    #: What a log said of these jobs, where the estimates come from one; nothing is solved with it.
    logged: Takes[LoggedJobs | None, Fields] = usual(None)
    #: How arrivals follow the day and clump, for how many GPUs are in use at once; None where nobody knows.
    arrivals: Takes[ArrivalPattern | None, Fields] = usual(None)
    #: Due date: a limit on the mean completion time of the jobs of this class, unweighted; None for none.
    most_mean_jct_s: Takes[PositiveSeconds | None, str] = usual(None)
    #: Floor: the least time-average number of GPUs on which jobs of this class run, pauses not counted; None for none.
    least_mean_gpus: Takes[PositiveGpus | None, str] = usual(None)

    @field_validator("epoch_size_gpu_hours")
    @classmethod
    def _check_sizes(cls, sizes: FloatArray) -> FloatArray:
        sizes = np.atleast_1d(sizes)
        if sizes.ndim != 1 or sizes.size == 0:
            raise ValueError("a list with one size per epoch is needed, at least one epoch")
        return freeze(require_amounts(sizes))

    @model_validator(mode="after")
    def _check_speedups(self) -> JobClass:
        if not self.speedup:
            raise ValueError("no speedup is given; add one for each GPU type that the class can run on")
        for gpu_type, curve in self.speedup.items():
            epochs = curve.num_epochs
            if epochs is not None and epochs != self.num_epochs:
                raise ValueError(
                    f"the speedup on {gpu_type} has {epochs} epochs and epoch_size_gpu_hours has {self.num_epochs}; "
                    "give one row per epoch, or one for all"
                )
        return self

    @property
    def num_epochs(self) -> int:
        """Number of epochs, l_i."""
        return int(self.epoch_size_gpu_hours.size)

    @property
    def size_gpu_hours(self) -> float:
        """Time of a whole job on one GPU, E[X_i]."""
        return float(self.epoch_size_gpu_hours.sum())

    def rescale_s_of(self, gpu_type: str) -> float:
        """Return the seconds of a start or a change of width on a GPU type."""
        return self.rescale_s_on.get(gpu_type, self.rescale_s)

    def type_change_s_of(self, left: str, entered: str) -> float:
        """Return the seconds that a change takes more because the job leaves one GPU type for another."""
        return self.type_change_s_from.get(left, {}).get(entered, self.type_change_s)
