"""The training profile: how long an iteration takes on how many GPUs, what varies, and what a start costs.

A trial of a stage on p GPUs first starts, then trains::

    start + max(0, x * S + I_1 + ... + I_x - x * s(p))

with x iterations of s(p) seconds each. I_i is the time of one iteration, drawn anew each time (``iteration_noise``),
S the trial's own pace, drawn once per trial and stage (``trial_noise``); without such noise each is s(p). So the first
kind of deviation grows with the square root of the iterations, the second with the iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator, model_validator

from optplan.errors import DataError
from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    Noise,
    warn_of_clipping,
)
from optplan.schema import (
    LARGEST_COUNT,
    ByName,
    Fields,
    FloatArray,
    FrozenModel,
    IntArray,
    Numbers,
    PositiveAmount,
    SmallCount,
    Takes,
    WholeNumbers,
    require_amounts,
    usual,
)
from optplan.speedup import Evidence, Speedup
from optplan.speedup.curves import find_weakest, list_widths, name_law_evidence


class MeasuredSeconds(FrozenModel):
    """Seconds of an iteration as measured at some widths; *throughput* is linear in between, nothing known outside."""

    LATER: ClassVar[frozenset[str]] = frozenset({"evidence"})

    form: Literal["measured"] = "measured"
    gpus: WholeNumbers  # (K,) of the trial, increasing
    seconds: Numbers  # (K,) mean of one iteration there; they may rise
    evidence: Evidence | None = None  # None where it is not said, whatever the form is called

    @model_validator(mode="after")
    def _check(self) -> MeasuredSeconds:
        gpus, seconds = self.gpus, self.seconds
        if gpus.ndim != 1 or not gpus.size or seconds.shape != gpus.shape:
            message = f"got {gpus.size} numbers of GPUs and {seconds.size} times; give one time for each, at least one"
            raise ValueError(message)
        if gpus[0] < 1 or np.any(np.diff(gpus) <= 0):
            raise ValueError(f"gpus is {gpus.tolist()}; numbers of at least 1 in increasing order are needed")
        if gpus[-1] > LARGEST_COUNT:
            raise ValueError(f"gpus ends at {gpus[-1]:,}; trials on at most {LARGEST_COUNT:,} GPUs are looked at")
        require_amounts(seconds)
        return self

    def knows(self, gpus: IntArray) -> NDArray[np.bool_]:
        """Say for each number of GPUs whether the seconds are known there."""
        known: NDArray[np.bool_] = (gpus >= self.gpus[0]) & (gpus <= self.gpus[-1])
        return known

    def at(self, gpus: IntArray) -> FloatArray:
        """Return the seconds of an iteration on each (known) number of GPUs."""
        seconds = 1.0 / np.interp(gpus, self.gpus, 1.0 / self.seconds)
        place = np.minimum(np.searchsorted(self.gpus, gpus), self.gpus.size - 1)
        return np.where(self.gpus[place] == gpus, self.seconds[place], seconds)

    @property
    def most_gpus(self) -> int | None:
        """Largest number of GPUs measured."""
        return int(self.gpus[-1])

    def list_known(self) -> str:
        """Write for a message where the seconds are known."""
        return f"measured on {list_widths(self.gpus)}"

    @property
    def comes_from(self) -> str:
        """Where the seconds come from: a value of :class:`Evidence`, or ``NOT_SAID``."""
        return name_law_evidence(self.evidence)


class ScaledSeconds(FrozenModel):
    """Seconds of an iteration by a speedup curve, such as one fitted to measurements."""

    form: Literal["scaled"] = "scaled"
    base_s: PositiveAmount  # mean of one iteration where the speedup is 1
    speedup: Speedup  # one for all iterations

    @field_validator("speedup")
    @classmethod
    def _check(cls, speedup: Speedup) -> Speedup:
        if speedup.num_epochs is not None:
            message = f"has {speedup.num_epochs} rows, one for each epoch; give one curve, which holds in all stages"
            raise ValueError(message)
        return speedup

    def knows(self, gpus: IntArray) -> NDArray[np.bool_]:
        """Say for each number of GPUs whether the seconds are known there."""
        widths = self.speedup.known_widths()
        return gpus >= 1 if widths is None else np.isin(gpus, widths)

    def at(self, gpus: IntArray) -> FloatArray:
        """Return the seconds of an iteration on each (known) number of GPUs."""
        seconds: FloatArray = self.base_s / self.speedup.at(gpus)[0]
        return seconds

    @property
    def most_gpus(self) -> int | None:
        """Largest number of GPUs that the curve knows; None when it knows any."""
        widths = self.speedup.known_widths()
        return None if widths is None else int(widths[-1])

    def list_known(self) -> str:
        """Write for a message where the seconds are known."""
        widths = self.speedup.known_widths()
        return "known for any number of GPUs" if widths is None else f"known for {list_widths(widths)}"

    @property
    def comes_from(self) -> str:
        """Where the seconds come from: a value of :class:`Evidence`, or ``NOT_SAID``; of a table its weakest width."""
        widths = self.speedup.known_widths()
        return find_weakest(self.speedup.evidence_at(np.ones(1, dtype=np.int64) if widths is None else widths))


class NodeFactors(FrozenModel):
    """By what factor an iteration takes longer when its GPUs are spread over several machines."""

    instances: WholeNumbers  # (K,) spanned, increasing; between two the factor is interpolated, beyond the last unknown
    factor: Numbers  # (K,) seconds there relative to the profile's

    @model_validator(mode="after")
    def _check(self) -> NodeFactors:
        instances, factor = self.instances, self.factor
        if instances.ndim != 1 or not instances.size or factor.shape != instances.shape:
            raise ValueError(f"got {instances.size} numbers of instances and {factor.size} factors; give one for each")
        if instances[0] != 1 or np.any(np.diff(instances) <= 0):
            raise ValueError(f"instances is {instances.tolist()}; increasing numbers that begin with 1 are needed")
        require_amounts(factor)
        return self


def _read_table(value: object) -> Any:  # noqa: ANN401 - what comes in, goes on to the union
    """Read ``{1: 4.0, 2: 2.2}`` as measured seconds."""
    if not isinstance(value, Mapping) or "form" in value or not value:
        return value
    try:
        pairs = sorted((int(str(gpus)), seconds) for gpus, seconds in value.items())
    except ValueError:
        return value
    return {"form": "measured", "gpus": [gpus for gpus, _ in pairs], "seconds": [seconds for _, seconds in pairs]}


_AnySeconds = Annotated[MeasuredSeconds | ScaledSeconds, Field(discriminator="form")]

#: Seconds of an iteration, as the type of a field; a mapping from GPUs to seconds is a measured table.
Seconds = Annotated[
    _AnySeconds,
    BeforeValidator(_read_table, json_schema_input_type=dict[str, float] | _AnySeconds),
]


class TrainingProfile(FrozenModel):
    """How long trials take (RubberBand, section 4.1); all trials share it."""

    seconds_per_iteration: Takes[Seconds, Fields]  #: Mean seconds of an iteration, s(p), by GPUs of the trial.
    #: What spanning several machines adds; None where the seconds were measured as trials will be placed.
    factor_by_instances: Takes[NodeFactors | None, Fields] = usual(None)
    #: iteration_noise, trial_noise: How single iterations, and a trial's pace through a stage, vary around the mean.
    iteration_noise: Takes[Noise | None, Fields] = usual(None)
    trial_noise: Takes[Noise | None, Fields] = usual(None)
    #: Seconds until a trial trains in a stage: loading its checkpoint, connecting its workers.
    start_s: Takes[Distribution, Fields | float] = usual(ConstantDistribution(value_s=0.0))
    #: By number of GPUs: the same on that many GPUs and more, up to the next number listed.
    start_s_on: Takes[ByName[Distribution], Mapping[str, Distribution | Fields | float]] = usual(
        Field(default_factory=dict)
    )
    least_gpus: SmallCount = 1  #: Least GPUs that a trial fits on, p0.
    most_gpus: SmallCount | None = None  #: Most GPUs that a trial may get; None leaves it to what is known.

    @field_validator("start_s_on", mode="before")
    @classmethod
    def _check_start_keys(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if not (str(key).isascii() and str(key).isdigit() and int(str(key)) >= 1):
                raise ValueError(f"got the key {key!r}; numbers of GPUs are needed, as in {{8: 12.5}}")
        return {str(int(str(key))): distribution for key, distribution in value.items()}

    @model_validator(mode="after")
    def _check(self) -> TrainingProfile:
        least = np.array([self.least_gpus], dtype=np.int64)
        if not self.seconds_per_iteration.knows(least)[0]:
            problem = f"is {self.seconds_per_iteration.list_known()}, not on {self.least_gpus}, the least of a trial"
            fix = f"measure an iteration on {self.least_gpus} GPUs, or set least_gpus to a number that is measured"
            raise DataError("seconds_per_iteration", problem, fix)
        if self.most_gpus is not None and self.most_gpus < self.least_gpus:
            raise DataError("most_gpus", f"is {self.most_gpus}, below least_gpus ({self.least_gpus})", "raise it")
        self._warn_of_noise()
        return self

    def _warn_of_noise(self) -> None:
        """Warn once for each distribution that is clipped; the quickest iterations are clipped most."""
        largest = self.largest_gpus or self.least_gpus
        widths = np.arange(self.least_gpus, min(largest, self.least_gpus + 1024) + 1, dtype=np.int64)
        widths = widths[self.seconds_per_iteration.knows(widths)]
        quickest = float(self.seconds_per_iteration.at(widths).min())
        for field, noise in (("iteration_noise", self.iteration_noise), ("trial_noise", self.trial_noise)):
            if noise is not None:
                warn_of_clipping(f"training.{field}", noise.around(quickest))
        warn_of_clipping("training.start_s", self.start_s)
        for gpus, start in self.start_s_on.items():
            warn_of_clipping(f"training.start_s_on.{gpus}", start)

    @property
    def largest_gpus(self) -> int | None:
        """Most GPUs that a trial can get as far as the profile knows; None when any."""
        known = self.seconds_per_iteration.most_gpus
        return min((most for most in (known, self.most_gpus) if most is not None), default=None)

    def extremes(self) -> tuple[float, float]:
        """Return mean seconds of an iteration that no number of GPUs and of machines spanned goes below, and above."""
        known, table = self.seconds_per_iteration, self.factor_by_instances
        factors = np.ones(1) if table is None else table.factor
        if isinstance(known, MeasuredSeconds):
            seconds = known.seconds
        elif (widths := known.speedup.known_widths()) is not None:
            seconds = known.at(widths)
        else:  # by a formula, seconds fall with the width
            seconds = known.at(np.array([self.least_gpus, self.largest_gpus or LARGEST_COUNT]))
        return float(seconds.min() * factors.min()), float(seconds.max() * factors.max())

    def knows(self, gpus: IntArray, instances: IntArray) -> NDArray[np.bool_]:
        """Say for numbers of GPUs and of machines spanned whether a trial may run so, and how fast is known."""
        known = self.seconds_per_iteration.knows(gpus) & (gpus >= self.least_gpus)
        if self.most_gpus is not None:
            known &= gpus <= self.most_gpus
        if self.factor_by_instances is not None:
            known &= instances <= self.factor_by_instances.instances[-1]
        return known

    def seconds(self, gpus: IntArray, instances: IntArray) -> FloatArray:
        """Return the mean seconds of an iteration, s(p), for (known) GPUs and machines spanned."""
        seconds = self.seconds_per_iteration.at(gpus)
        table = self.factor_by_instances
        return seconds if table is None else seconds * np.interp(instances, table.instances, table.factor)

    def iteration(self, mean_s: float) -> Distribution:
        """Return the distribution of one iteration's time, I, where its mean is s(p) = ``mean_s``."""
        constant = ConstantDistribution(value_s=mean_s)
        return constant if self.iteration_noise is None else self.iteration_noise.around(mean_s)

    def pace(self, mean_s: float) -> Distribution:
        """Return the distribution of a trial's pace in seconds per iteration, S, where its mean is ``mean_s``."""
        constant = ConstantDistribution(value_s=mean_s)
        return constant if self.trial_noise is None else self.trial_noise.around(mean_s)

    def start(self, gpus: int) -> Distribution:
        """Return the distribution of the seconds until a trial on that many GPUs trains."""
        reached = [listed for listed in self._start_widths if listed <= gpus]
        return self.start_s_on[str(reached[-1])] if reached else self.start_s

    def corners(self) -> tuple[int, ...]:
        """Return the GPUs between which times change smoothly: what was measured, and the last before another start."""
        known = self.seconds_per_iteration
        measured = known.gpus.tolist() if isinstance(known, MeasuredSeconds) else []
        return (*measured, *(gpus - 1 for gpus in self._start_widths))

    @cached_property
    def _start_widths(self) -> tuple[int, ...]:
        return tuple(sorted(int(gpus) for gpus in self.start_s_on))
