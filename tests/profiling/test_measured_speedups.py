"""Speedups of jobs that were run: throughput, ratios and their intervals."""

from __future__ import annotations

import math

import pytest

from optplan.errors import MeasurementError
from optplan.profiling.trial_timings import TrialTiming, measure_speedup


def job(trial: int, gpus: int, work: float, *, seconds: float = 1.0, overhead_s: float = 30.0) -> TrialTiming:
    """Return a job of two iterations, each of so much work."""
    return TrialTiming(trial, gpus, True, (seconds, seconds), (work, work), overhead_s)


def test_a_ratio_of_means_and_its_interval() -> None:
    """10 and 10, then 18 and 22 a second: twice as fast; a relative error of 0.1 with one degree of freedom."""
    measured = measure_speedup([job(1, 1, 10.0), job(2, 1, 10.0), job(1, 2, 18.0), job(2, 2, 22.0)])
    assert measured.curve.gpus.tolist() == [1, 2]
    assert measured.curve.speedup.tolist() == [1.0, 2.0]
    assert measured.widths[0].interval == (1.0, 1.0)
    reach = 0.1 * 12.7062
    assert measured.widths[1].interval == pytest.approx((2.0 * math.exp(-reach), 2.0 * math.exp(reach)), rel=1e-4)
    assert measured.curve.error is not None
    assert measured.curve.error.tolist() == [0.0, 0.88]  # of the 90 % band: exp(0.1 x 6.3138) - 1
    assert measured.rescale_s.mean == 30.0


def test_work_that_grows_with_the_gpus_counts() -> None:
    """An iteration of twice the samples in the same time is twice as fast, and one in 1.25 times the time 1.6 times."""
    jobs = [job(n, gpus, work, seconds=s) for n in (1, 2) for gpus, work, s in ((2, 8.0, 1.0), (4, 16.0, 1.25))]
    measured = measure_speedup(jobs)
    assert measured.curve.speedup.tolist() == [1.0, 1.6]
    assert measured.reference_width == 2
    assert measured.widths[1].interval == pytest.approx((1.6, 1.6))  # nothing varied


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job(1, 1, 1.0), job(2, 1, 1.0)], "two numbers of GPUs, and two repetitions on each"),
        ([job(1, 1, 1.0), job(1, 2, 1.0)], "two numbers of GPUs, and two repetitions on each"),
        ([job(1, 1, 0.0)], "on 1 GPUs the iterations' work adds up to 0"),
    ],
)
def test_too_little_is_refused(jobs: list[TrialTiming], message: str) -> None:
    """One width has no ratio, one repetition no interval, and no work no speed."""
    with pytest.raises(MeasurementError, match=message):
        measure_speedup(jobs)
