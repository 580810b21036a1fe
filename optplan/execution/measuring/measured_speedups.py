"""Speedups of a class of jobs from jobs that ran on several numbers of GPUs, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optplan.errors import MeasurementError
from optplan.execution.measuring.trial_timings import CONFIDENCE, Estimate, TrialTiming
from optplan.speedup import TableSpeedup, fit_table
from optplan.speedup.curves import LARGEST_ERROR

#: Share of true speedups that lie within a curve's ``error``.
_BAND = 0.9


@dataclass(frozen=True)
class MeasuredWidth:
    """What was measured on so many GPUs."""

    gpus: int  #: How many.
    throughput: Estimate  #: Work per second, over repetitions.
    speedup: float  #: The mean throughput, relative to that on the fewest GPUs.
    #: Holds the true speedup with 95 % confidence; on the fewest GPUs it is 1 by definition.
    interval: tuple[float, float]


@dataclass(frozen=True)
class MeasuredSpeedup:
    """The speedup of a class."""

    widths: tuple[MeasuredWidth, ...]  #: By increasing numbers of GPUs.
    curve: TableSpeedup  #: As instances have it.
    rescale_s: Estimate  #: Overhead of a start from a checkpoint: what a change of width costs.

    @property
    def reference_width(self) -> int:
        """The fewest GPUs, where the speedup is 1."""
        return self.widths[0].gpus


def measure_speedup(timings: Sequence[TrialTiming]) -> MeasuredSpeedup:
    """Make a speedup of timed jobs.

    The throughput of a job is its work over the seconds of its iterations. A speedup is a ratio of two means; the
    interval of its logarithm is Welch's, with the relative errors of both means.

    Parameters
    ----------
    timings
        Of at least two repetitions on at least two numbers of GPUs.

    Raises
    ------
    MeasurementError
        When there are fewer, or a job did no work.
    """
    resumed = [each for each in timings if each.resumed]
    rates: dict[int, list[float]] = {}
    for each in sorted(resumed, key=lambda one: (one.gpus, one.trial)):
        work = sum(each.work)
        if not (work > 0 and math.isfinite(work)):
            raise MeasurementError(f"on {each.gpus} GPUs the iterations' work adds up to {work:g}; it has to be more")
        rates.setdefault(each.gpus, []).append(work / sum(each.steps_s))
    if len(rates) < 2 or min(map(len, rates.values())) < 2:
        raise MeasurementError("two numbers of GPUs, and two repetitions on each, are the least for a speedup")
    points = [(gpus, rate) for gpus, values in rates.items() for rate in values]
    curve = fit_table([gpus for gpus, _ in points], [rate for _, rate in points], reference_width=min(rates)).curve
    throughputs = {gpus: Estimate.of(values) for gpus, values in rates.items()}
    reference = throughputs[min(rates)]
    widths, errors = [], []
    for (gpus, own), speedup in zip(throughputs.items(), curve.speedup.tolist(), strict=True):
        reach = 0.0 if own is reference else _find_reach(CONFIDENCE, own, reference)
        widths.append(MeasuredWidth(gpus, own, speedup, (speedup * math.exp(-reach), speedup * math.exp(reach))))
        band = 0.0 if own is reference else math.expm1(_find_reach(_BAND, own, reference))
        errors.append(float(f"{min(band, LARGEST_ERROR):.3g}"))
    curve = curve.replace(speedup=[float(f"{speedup:.5g}") for speedup in curve.speedup.tolist()], error=errors)
    return MeasuredSpeedup(tuple(widths), curve, Estimate.of([each.overhead_s for each in resumed]))


def _find_reach(share: float, own: Estimate, reference: Estimate) -> float:
    """Return how far, in logarithms, a share of ratios of two means may be from the true one, by Welch's interval."""
    from scipy.stats import t

    parts = [(each.sd / each.mean) ** 2 / each.count for each in (own, reference)]
    variance = sum(parts)
    if variance <= 0:
        return 0.0
    freedom = variance**2 / sum(part**2 / (each.count - 1) for part, each in zip(parts, (own, reference), strict=True))
    return float(t.ppf(0.5 + share / 2.0, freedom)) * math.sqrt(variance)
