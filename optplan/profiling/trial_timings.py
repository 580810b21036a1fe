"""Times of trials on several numbers of GPUs, and what a search's instance takes them for (RubberBand, section 5).

Iterations of one trial on one number of GPUs vary around that trial's mean, and trials vary around the mean of all.
Both parts are estimated by the analysis of variance with one random factor, relative to the mean of each number of
GPUs, and pooled over these by their degrees of freedom: the first is the noise of an iteration, the second that of a
trial's pace. Of a class of jobs speedups come of the same timings, with confidence intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optplan.errors import MeasurementError
from optplan.formulations.rubberband.data.training import TrainingProfile
from optplan.schema import FloatArray
from optplan.speedup import Evidence, TableSpeedup, fit_table
from optplan.speedup.curves import LARGEST_ERROR

#: Digits that measured times keep; their own noise is far above the last one.
_DIGITS = 5
#: Seconds below which a start or a launch is none: starting a process takes many times as long.
_LEAST_S = 1e-3
#: Where zero is fewer deviations below the mean than this, a normal distribution would often be cut off there.
_NORMAL_DEVIATIONS = 6.0
#: Chance of taking starts for different that are not, from which on each number of GPUs has its own.
_SIGNIFICANCE = 0.05
#: Share of repeated experiments whose interval holds the true value.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TrialTiming:
    """A trial on its GPUs, from its start to its end."""

    trial: int  #: Which, from 1.
    gpus: int  #: That it had.
    resumed: bool  #: Whether it went on from a checkpoint.
    steps_s: tuple[float, ...]  #: Seconds of its iterations, those of the warm-up left out.
    work: tuple[float, ...]  #: What each of these did, in the user's unit; ones where all do the same.
    #: Seconds that it had its GPUs beyond its iterations: until the first one, what the warm-up took longer than
    #: others, storing its state, and ending.
    overhead_s: float
    #: launch_s, load_s, save_s: Of these, until its code runs, importing it with its set-up and loading of state, and
    #: storing; None where nobody saw them.
    launch_s: float | None = None
    load_s: float | None = None
    save_s: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A mean of repeated measurements."""

    #: mean, sd: Of the measurements; the deviation is that of a sample.
    mean: float
    sd: float
    count: int  #: How many.

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Estimate from at least one measurement; the deviation of a single one counts as zero."""
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), sd, len(values))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval that holds the true mean with 95 % confidence (Student's t); None for a single measurement.

        What is measured cannot be below zero: where the interval would begin there, it begins at zero.
        """
        if self.count < 2:
            return None
        from scipy.stats import t

        reach = float(t.ppf(0.5 + CONFIDENCE / 2.0, self.count - 1)) * self.sd / math.sqrt(self.count)
        return max(0.0, self.mean - reach), self.mean + reach


@dataclass(frozen=True)
class SearchTimings:
    """What the timings of trials amount to."""

    iteration_s: Mapping[int, Estimate]  #: By GPUs, the mean seconds of an iteration, over trials.
    #: iteration_noise, trial_noise: Standard deviation of single iterations around their trial's mean, and of trials
    #: around the mean of all, as fractions of it.
    iteration_noise: float
    trial_noise: float
    start_s: Mapping[int, Estimate]  #: By GPUs, the overhead of a trial that goes on from a checkpoint.
    restart_s: Estimate  #: The same on whatever GPUs.
    starts_differ: bool  #: Whether it depends on the GPUs: analysis of variance at the level of 5 %.
    #: launch_s, initialise_s, load_s, save_s: Seconds until a trial's code runs, of importing it with its set-up, of
    #: loading its state beyond that, and of storing it; None where nobody saw them.
    launch_s: Estimate | None
    initialise_s: Estimate | None
    load_s: Estimate | None
    save_s: Estimate | None

    def make_training(self) -> TrainingProfile:
        """Return the section ``training`` of an instance."""
        noises = {"iteration_noise": self.iteration_noise, "trial_noise": self.trial_noise}
        fields = {name: _describe_noise(share) for name, share in noises.items() if share > 0}
        least, *wider = sorted(self.start_s)
        if self.starts_differ:
            fields["start_s_on"] = {str(gpus): describe_seconds(self.start_s[gpus]) for gpus in wider}
            start = self.start_s[least]
        else:
            start = self.restart_s
        seconds = {
            "form": "measured",
            "gpus": sorted(self.iteration_s),
            "seconds": [_round(self.iteration_s[gpus].mean) for gpus in sorted(self.iteration_s)],
            "evidence": Evidence.MEASURED,
        }
        return TrainingProfile.parse(
            {"seconds_per_iteration": seconds, "start_s": describe_seconds(start), "least_gpus": least, **fields}
        )


def summarise(timings: Sequence[TrialTiming]) -> SearchTimings:
    """Estimate means and noises from the timings of trials.

    Parameters
    ----------
    timings
        Each number of GPUs has at least one from a checkpoint, with at least one timed iteration.

    Raises
    ------
    MeasurementError
        When there are none that went on from a checkpoint.
    """
    resumed = [each for each in timings if each.resumed]
    if not resumed:
        raise MeasurementError("no trial went on from a checkpoint; time at least one that does")
    widths = sorted({each.gpus for each in resumed})
    steps = {gpus: [np.array(each.steps_s) for each in resumed if each.gpus == gpus] for gpus in widths}
    overheads = {gpus: [each.overhead_s for each in resumed if each.gpus == gpus] for gpus in widths}
    within, between = _split_variance(list(steps.values()))
    initialise = _estimate([each.load_s for each in timings if not each.resumed])
    less = 0.0 if initialise is None else initialise.mean
    return SearchTimings(
        iteration_s={gpus: Estimate.of([float(one.mean()) for one in trials]) for gpus, trials in steps.items()},
        iteration_noise=math.sqrt(within),
        trial_noise=math.sqrt(between),
        start_s={gpus: Estimate.of(values) for gpus, values in overheads.items()},
        restart_s=Estimate.of([each.overhead_s for each in resumed]),
        starts_differ=_differ(list(overheads.values())),
        launch_s=_estimate([each.launch_s for each in timings]),
        initialise_s=initialise,
        load_s=_estimate([None if each.load_s is None else max(0.0, each.load_s - less) for each in resumed]),
        save_s=_estimate([each.save_s for each in timings]),
    )


def _estimate(values: Sequence[float | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return Estimate.of(known) if known else None


def _split_variance(groups: Sequence[Sequence[FloatArray]]) -> tuple[float, float]:
    """Return the relative variances within and between trials, pooled, of seconds by number of GPUs, by trial."""
    squares = freedom = between = weight = 0.0
    for trials in groups:
        mean = float(np.mean([trial.mean() for trial in trials]))
        relative = [trial / mean for trial in trials]
        squares += sum(float(((trial - trial.mean()) ** 2).sum()) for trial in relative)
        freedom += sum(trial.size - 1 for trial in relative)
    within = squares / freedom if freedom else 0.0
    for trials in groups:
        if len(trials) < 2:
            continue
        means = np.array([trial.mean() for trial in trials])
        # The mean of n iterations varies by the trials' own variance, and by 1/n of that within.
        inner = within * float(np.mean([1.0 / trial.size for trial in trials]))
        between += (len(trials) - 1) * (float(np.var(means / means.mean(), ddof=1)) - inner)
        weight += len(trials) - 1
    return within, max(0.0, between / weight) if weight else 0.0


def _differ(groups: Sequence[Sequence[float]]) -> bool:
    means = [float(np.mean(group)) for group in groups]
    if len(groups) < 2 or min(map(len, groups)) < 2 or max(means) <= min(means):
        return False
    if all(max(group) <= min(group) for group in groups):
        return True
    from scipy.stats import f_oneway

    return bool(f_oneway(*groups).pvalue < _SIGNIFICANCE)


def describe_seconds(estimate: Estimate) -> float | dict[str, object]:
    """Return a measured duration as a distribution of an instance: a number where all measurements were the same.

    It is normal, or log-normal where a normal one would reach below zero.
    """
    mean, sd = _round(estimate.mean), _round(estimate.sd)
    if mean < _LEAST_S:
        return 0.0
    if sd <= 0:
        return mean
    form = "normal" if mean >= _NORMAL_DEVIATIONS * sd else "log-normal"
    return {"form": form, "mean_s": mean, "sd_s": sd}


def _describe_noise(share: float) -> dict[str, object]:
    form = "normal" if _NORMAL_DEVIATIONS * share <= 1.0 else "log-normal"
    return {"form": form, "sd_fraction": _round(share)}


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


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
