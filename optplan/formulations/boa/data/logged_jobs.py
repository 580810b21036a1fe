"""What a log said of a class's jobs: what its estimates rest on, and what the jobs took without a plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.schema import NUMBER, AmountOrZero, FrozenModel, PositiveAmount

#: A relative standard error; beyond 2 an estimate says nothing.
_Error = Annotated[float, Field(ge=0, le=2), NUMBER]


class LoggedJobs(FrozenModel):
    """The jobs of a class in a log.

    Parameters
    ----------
    jobs
        That arrived.
    measured_jobs
        Of these, those whose run counts for the sizes.
    span_hours
        In which they arrived.
    rate_low_per_hour, rate_high_per_hour
        95 % interval of the arrival rate, as of a Poisson process.
    dispersion
        Variance over mean of the arrivals in a bin of time: 1 unless it is more than chance explains.
    size_spread
        Standard deviation of the size of a single job, relative to the mean.
    gpus
        Mean width of the measured jobs.
    run_s
        Their mean time on GPUs.
    wait_s
        Mean time from submission to start; None where the log does not say it.
    gpu_hours
        That a measured job held on average.
    arrival_error, size_error, speedup_error
        Relative standard errors of the arrival rate, the sizes, and the speed at the widest width that ran, as far as
        the log says them.
    """

    jobs: Annotated[int, Field(ge=1), NUMBER]
    measured_jobs: Annotated[int, Field(ge=1), NUMBER]
    span_hours: PositiveAmount
    rate_low_per_hour: AmountOrZero
    rate_high_per_hour: AmountOrZero
    dispersion: Annotated[float, Field(ge=1), NUMBER] = 1.0
    size_spread: AmountOrZero
    gpus: PositiveAmount
    run_s: PositiveAmount
    wait_s: AmountOrZero | None = None
    gpu_hours: PositiveAmount
    arrival_error: _Error
    size_error: _Error
    speedup_error: _Error = 0.0
