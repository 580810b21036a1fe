"""What any scheduler could have made of the GPU-hours that jobs held: an audit, with the prices that prove it."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from optplan.contracts.judgement import Judged
from optplan.schema import ByName, FrozenModel, NumberRow

#: What is bounded while there is no more than so much of the other.
Measured: TypeAlias = Literal["mean_jct_s", "gpu_hours"]

#: What sums in another order may differ by, relative to the mean.
_ROUNDING = 1e-9


class AuditBound(FrozenModel):
    """What no policy can have less of, by weak duality: the sum of ``least`` minus ``price`` times ``given``."""

    of: Measured  #: Mean completion time of all jobs in seconds, or the GPU-hours that they hold together.
    pauses: bool  #: Whether for policies that pause at starts and changes as the instance says; otherwise for all.
    given: float  #: No more than so much of the other.
    bound: float
    price: Annotated[float, Field(ge=0)]  #: The multiplier: of ``of`` for one unit of the other.
    least: ByName[float]  #: By class the least that its jobs can take of ``of`` and of the other at the price.


class AuditedClass(FrozenModel):
    """The jobs of a class: what was had, and the sizes that the bounds are of."""

    jobs: Annotated[int, Field(ge=1, le=1_000_000_000)]
    #: (S,) Sizes relative to the mean of the class. Where jobs have more sizes than are told apart, those between two
    #: of these count as shares of both: what a job takes at least is concave in its size, so a chord is no more.
    sizes: NumberRow
    weights: NumberRow  #: (S,) How many jobs of each size there are, or stand for it.
    #: mean_jct_s, gpu_hours, wait_s: What was had, the hours in all; None where nobody says it.
    mean_jct_s: float | None = None
    gpu_hours: float | None = None
    wait_s: float | None = None
    best_gpus: float | None = None  #: GPUs of its jobs on average over time where the bound with pauses is reached.

    @model_validator(mode="after")
    def _check(self) -> AuditedClass:
        if not self.sizes.size == self.weights.size > 0:
            raise ValueError(f"{self.sizes.size} sizes and {self.weights.size} weights; one weight a size is needed")
        if min(self.sizes.min(), self.weights.min()) < 0.0:
            raise ValueError("sizes and weights must be at least 0")
        return self


class Gap(NamedTuple):
    """What a class adds to what the mean of all jobs is above its bound, in seconds of that mean."""

    waiting_s: float  #: Its jobs waited without GPUs.
    running_s: float  #: They ran on other widths, or changed them at other times, than on a least path.


class _OfJobs(Judged):
    """What is said of some jobs, for the judge of audits."""

    JUDGED_BY = "optplan.lab.audits.verification:verify_audit"

    version: Literal[1] = 1  #: Version of the schema.
    #: formulation, instance_name, instance_hash: For which instance.
    formulation: str
    instance_name: str
    instance_hash: str
    trace: str  #: What the jobs are called together.


class CapacityBound(_OfJobs):
    """What no policy on a cluster of so many GPUs can have less of than this mean completion time, by weak duality."""

    num_jobs: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=1)]  #: GPUs of the cluster.
    pauses: bool  #: Whether for policies that pause each job at its start as the instance says; otherwise for all.
    mean_jct_s: float  #: The bound.
    bucket_s: Annotated[float, Field(gt=0)]  #: Seconds of each of the buckets into which time is cut.
    #: (B,) What a GPU held for a second in a bucket costs, in seconds of completion time; later ones cost nothing.
    prices: NumberRow
    #: How many marks there are on the course of each class and size told apart, by which the bound follows from prices.
    marks: tuple[int, ...]


class Audit(_OfJobs):
    """What jobs took, beside what no policy can beat."""

    #: Whether what was had is what the trace says of each job, and only the jobs count of which it says all of it.
    as_logged: bool = False
    #: mean_jct_s, gpu_hours: What was had; None where nobody says it.
    mean_jct_s: float | None = None
    gpu_hours: float | None = None
    lost_gpu_hours: float | None = None  #: Of these, held by runs that were not completed; None where nobody says it.
    bounds: tuple[AuditBound, ...]
    capacity: CapacityBound | None = None  #: On a cluster of so many GPUs; None where nobody asked.
    classes: ByName[AuditedClass]
    #: Classes whose speedups are assumed or have errors, of which the bounds take the most favourable end.
    favoured: tuple[str, ...] = ()
    assumptions: tuple[str, ...]  #: For what the bounds hold.

    @property
    def num_jobs(self) -> int:
        """How many jobs are audited."""
        return sum(each.jobs for each in self.classes.values())

    def bound(self, of: Measured, *, pauses: bool) -> AuditBound | None:
        """Return a bound; None where there is none, as nothing can have so little of the other."""
        return next((each for each in self.bounds if each.of == of and each.pauses is pauses), None)

    @property
    def nearest(self) -> AuditBound | None:
        """The bound on the mean that what was had is held against: with pauses, unless some class had less."""
        found = [self.bound("mean_jct_s", pauses=pauses) for pauses in (True, False)]
        known = [each for each in found if each is not None and each.bound <= (self.mean_jct_s or 0.0)]
        least = -_ROUNDING * (self.mean_jct_s or 0.0)
        kept = (each for each in known if all(gap.running_s >= least for gap in self._split(each).values()))
        return next(kept, known[-1] if known else None)

    def gaps(self) -> dict[str, Gap]:
        """Return by class what it adds to the gap, which these add up to; nothing where that is not known by class."""
        return {} if self.nearest is None else self._split(self.nearest)

    def _split(self, bound: AuditBound) -> dict[str, Gap]:
        gaps = {}
        for name, own in self.classes.items() if self.as_logged else ():
            share = own.jobs / self.num_jobs
            waiting_s, took_s = share * (own.wait_s or 0.0), share * (own.mean_jct_s or 0.0)
            gaps[name] = Gap(waiting_s, took_s - waiting_s + bound.price * (own.gpu_hours or 0.0) - bound.least[name])
        return gaps
