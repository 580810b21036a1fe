"""A BOA instance from a log of jobs: rates, sizes and speedups with what they rest on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optplan.errors import DataError, DataWarning, nearest_name_hint
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass, LoggedJobs, Widths
from optplan.instances.arrivals import Rate, estimate_rate, learn_patterns, tell_patterns, warn_few_jobs
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.gpu_types import TypedSpeedup, find_speedups, list_types
from optplan.instances.job_logs.naming import Classes
from optplan.instances.job_logs.records import LeftOut
from optplan.instances.job_logs.speedups import SpeedupSources
from optplan.quantities import round_shared
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR

#: Largest width that is allowed at least, where a formula says the speedup.
_LEAST_MAX_WIDTH = 8
#: Relative standard deviation of sizes that is taken where no class has two jobs.
_UNKNOWN_SPREAD = 1.0
_LARGEST_ERROR = 2.0


@dataclass(frozen=True)
class LogTerms:
    """What the user says besides the log."""

    name: str  #: Of the instance.
    source: Mapping[str, str]  #: Where the log comes from and how it was read, by what is said.
    classes: str  #: How classes were found, in words.
    #: since_s, until_s: Ends of the span, seconds since 1970; None takes the first and the last submission.
    since_s: float | None = None
    until_s: float | None = None
    gpu_type: str | None = None  #: What the instance calls the GPUs; None takes the log's words.
    #: Largest width where a formula says the speedup; None takes the widest of the log, or 8 if that is more.
    max_width: int | None = None
    #: Seconds of a start or a change of width; None for what was measured of a class, and nothing where it was not.
    rescale_s: float | None = None
    #: Relative sizes of the epochs, by class, or under an empty name for all others; one epoch unless given.
    epochs: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Estimate:
    """What a log says of one class."""

    jobs: Jobs
    gpus: IntArray  # (N,) of the runs that count for the sizes, as are the next two
    run_s: FloatArray
    sizes_h: FloatArray
    rate: Rate
    speedup: TypedSpeedup


def build_log_instance(
    classes: Classes, speedups: SpeedupSources, terms: LogTerms, left_out: LeftOut | None = None
) -> tuple[BoaInstance, dict[str, FloatArray]]:
    """Make an instance from the classes of a log.

    The size of a job is the time that it ran, times the speedup at the width at which it ran; the mean over the jobs
    whose run counts is the size of the class. Jobs at widths beyond those of a table count as arrivals only.

    Parameters
    ----------
    classes
        The jobs of each class; see :mod:`optplan.instances.job_logs.naming`.
    speedups
        What is known about speedups.
    terms
        What the user says besides.
    left_out
        What was left out already; more is added.

    Returns
    -------
    BoaInstance
        Problem rescaling, without budget or price; ``source`` says what each figure rests on, ``classes.*.logged`` how
        far it can be believed.
    dict of FloatArray
        By class, (N,) the size of each of its jobs in hours at the reference width; NaN where it is not known.

    Raises
    ------
    DataError
        When the log has several GPU types and none is chosen, a speedup is not known, no class has a job whose size is
        known, or the span is too short.
    """
    left_out = left_out if left_out is not None else LeftOut()
    types = [terms.gpu_type] if terms.gpu_type else list_types(classes)
    since_s, until_s = _find_span(classes, terms)
    asked: dict[str, Mapping[str, object]] = {"--epochs": terms.epochs, "--assume": speedups.assumed}
    asked |= {"--card": speedups.cards, "--fit-runs": speedups.fit_runs}
    for option, name in ((option, name) for option, given in asked.items() for name in given):
        if name and name not in classes:
            raise DataError(option, f"there is no class {name!r}", nearest_name_hint(name, classes))
    for name in speedups.cards.keys() & speedups.assumed.keys():
        raise DataError("--assume, --card", f"class {name!r} is given both", "leave one of them away")
    widest = max(int(jobs.gpus.max()) for jobs in classes.values())
    max_width = terms.max_width or max(widest, _LEAST_MAX_WIDTH)
    most = {name: _find_most(name, jobs, speedups, terms, max_width) for name, jobs in classes.items()}
    typed = {}
    for name, jobs in classes.items():
        if (jobs.run_s > 0.0).any():
            typed[name] = find_speedups(name, jobs, speedups, types, most[name], left_out)
        else:
            left_out.add("jobs of classes of which none has a known size", wrong=name, count=len(jobs))
    if not typed:
        raise DataError("classes", "no job has a known size", str(left_out) or "give a log of jobs that have ended")
    estimates = {
        name: _estimate(name, classes[name], speedup, since_s, until_s, left_out) for name, speedup in typed.items()
    }
    # What is typical of the others is taken for classes whose one job does not say it.
    spreads = [_spread(e.sizes_h) for e in estimates.values() if e.sizes_h.size > 1]
    spread = float(np.median(spreads)) if spreads else _UNKNOWN_SPREAD
    submits_h = {name: e.jobs.arrive_s / SECONDS_PER_HOUR for name, e in estimates.items()}
    patterns = learn_patterns(submits_h, since_s / SECONDS_PER_HOUR, until_s / SECONDS_PER_HOUR)
    pauses = speedups.measured.rescale_s
    instance = BoaInstance(
        name=terms.name,
        description=f"{sum(len(e.jobs) for e in estimates.values()):,} jobs of {len(estimates)} classes of a log.",
        source=_tell_source(estimates, terms, (since_s, until_s), max_width, left_out)
        | _tell_pauses(estimates, pauses, terms)
        | tell_patterns(patterns, hours="midnight UTC"),
        classes={
            name: _make_class(name, estimate, most[name], terms, spread, until_s - since_s).replace(
                rescale_s=pauses.get(name, 0.0) if terms.rescale_s is None else terms.rescale_s,
                arrivals=patterns.get(name),
            )
            for name, estimate in estimates.items()
        },
        gpu_types={each: GpuType() for each in types if any(each in speedup.curves for speedup in typed.values())},
    )
    for name, estimate in estimates.items():
        for doubt in _list_doubts(estimate):
            warnings.warn(f"classes.{name}{doubt}", DataWarning, stacklevel=2)
    warn_few_jobs(instance, {name: len(estimate.jobs) for name, estimate in estimates.items()})
    return instance, {name: each.speeds * classes[name].run_s / SECONDS_PER_HOUR for name, each in typed.items()}


def _list_doubts(estimate: _Estimate) -> Iterator[str]:
    """Say why figures of a class may be off."""
    if estimate.speedup.found.warning:
        yield f".speedup: {estimate.speedup.found.warning}"
    if not estimate.jobs.completed[estimate.jobs.run_s > 0.0].any():
        yield ": no run completed; sizes are those of runs that ended otherwise, perhaps too small"
    if estimate.run_s.size == 1:
        yield ": its size rests on one job; how much sizes differ is taken from the other classes"


def _find_most(name: str, jobs: Jobs, speedups: SpeedupSources, terms: LogTerms, max_width: int) -> int:
    """Return the largest width of a class: of a fitted law twice the widest that ran, beyond which bands fall short."""
    if terms.max_width or speedups.assumed.keys() & {name, ""}:
        return max_width
    return min(max_width, 2 * int(jobs.gpus.max()))


def _find_span(classes: Classes, terms: LogTerms) -> tuple[float, float]:
    """Return the span of the log: as given, or from the first submission to a mean gap after the last."""
    submits = [jobs.arrive_s for jobs in classes.values()]
    first, last = min(float(each.min()) for each in submits), max(float(each.max()) for each in submits)
    since_s = first if terms.since_s is None else terms.since_s
    until_s = terms.until_s
    if until_s is None and last > since_s:
        until_s = last + (last - since_s) / max(sum(map(len, submits)) - 1, 1)
    if until_s is None or until_s <= since_s:
        problem = "covers no time: all jobs were submitted at once"
        raise DataError("span", problem, "say over which time they came, by --since and --until")
    return since_s, until_s


def _estimate(
    name: str, jobs: Jobs, speedup: TypedSpeedup, since_s: float, until_s: float, left_out: LeftOut
) -> _Estimate:
    ran = np.isfinite(jobs.run_s) & speedup.is_placed
    gpus, run_s, speeds = jobs.gpus[ran].astype(np.int64), jobs.run_s[ran], speedup.speeds[ran]
    known = np.isfinite(speeds)
    if not known.any():
        problem = f"jobs ran on {np.unique(gpus).tolist()} GPUs, which its table does not reach"
        raise DataError(f"classes.{name}.speedup", problem, "measure the throughput at these widths, too")
    if not known.all():
        wrong = f"{name} on {gpus[~known][0]} GPUs"
        left_out.add("sizes of jobs at widths beyond their table", wrong=wrong, count=int((~known).sum()))
    rate = estimate_rate(jobs.arrive_s, since_s, until_s)
    return _Estimate(jobs, gpus[known], run_s[known], run_s[known] / SECONDS_PER_HOUR * speeds[known], rate, speedup)


def _spread(sizes: FloatArray) -> float:
    mean = float(sizes.mean())
    return float(sizes.std(ddof=1)) / mean if mean > 0 else 0.0


def _make_class(
    name: str,
    estimate: _Estimate,
    max_width: int,
    terms: LogTerms,
    pooled: float,
    span_s: float,
) -> JobClass:
    shares = np.asarray(terms.epochs.get(name, terms.epochs.get("", (1.0,))), dtype=np.float64)
    size_h = float(estimate.sizes_h.mean())
    spread = _spread(estimate.sizes_h) if estimate.sizes_h.size > 1 else pooled
    waits = estimate.jobs.wait_s
    waits = waits[np.isfinite(waits)]
    gpus, run_s = estimate.gpus, estimate.run_s
    found = estimate.speedup.found
    return JobClass(
        arrival_rate_per_hour=float(round_shared(estimate.rate.per_hour)),
        epoch_size_gpu_hours=round_shared(size_h * shares / shares.sum()),
        speedup=estimate.speedup.curves,
        reference_width=found.reference_width,
        widths=Widths(max=max_width) if _has_law(estimate) else None,
        logged=LoggedJobs(
            jobs=len(estimate.jobs),
            measured_jobs=run_s.size,
            span_hours=_round(span_s / SECONDS_PER_HOUR),
            rate_low_per_hour=_round(estimate.rate.low),
            rate_high_per_hour=_round(estimate.rate.high),
            dispersion=_round(estimate.rate.dispersion),
            size_spread=_round(spread),
            gpus=_round(float(gpus.mean())),
            run_s=_round(float(run_s.mean())),
            wait_s=_round(float(np.mean(waits))) if waits.size else None,
            gpu_hours=_round(float((gpus * run_s).mean()) / SECONDS_PER_HOUR),
            arrival_error=_round(min(estimate.rate.relative_error, _LARGEST_ERROR)),
            size_error=_round(min(spread / run_s.size**0.5, _LARGEST_ERROR)),
        ),
    )


def _has_law(estimate: _Estimate) -> bool:
    """Whether a formula says the speedup, which has no largest width."""
    return any(curve.known_widths() is None for curve in estimate.speedup.curves.values())


def _tell_source(
    estimates: Mapping[str, _Estimate],
    terms: LogTerms,
    span: tuple[float, float],
    max_width: int,
    left_out: LeftOut,
) -> dict[str, str]:
    hours = (span[1] - span[0]) / SECONDS_PER_HOUR
    ends = "as given" if terms.until_s is not None else "to a mean gap after the last submission"
    source = {
        **terms.source,
        "classes": terms.classes,
        "arrival rates": f"jobs over {hours:,.6g} h, {ends}{_tell_dispersion(estimates)}",
        "sizes": "run times, times the speedup at the width that ran",
        "speedups": "; ".join(f"{name}: {e.speedup.words}" for name, e in estimates.items()),
    }
    if any(map(_has_law, estimates.values())):
        said = (
            "as given"
            if terms.max_width
            else "assumed, of the log or 8 if that is more; of fitted laws no more than twice the widest that ran"
        )
        source["largest width"] = f"{max_width}, {said}"
    if any(len(e.speedup.curves) > 1 for e in estimates.values()):
        source["GPU types"] = (
            "a class's completed runs compare them, as if nobody gave larger jobs the faster GPUs; "
            "on others classes do not run"
        )
    if not terms.epochs:
        source["epochs"] = "assumed: one, with one speedup"
    if str(left_out):
        source["left out"] = str(left_out)
    return source


def _tell_pauses(estimates: Mapping[str, object], measured: Mapping[str, float], terms: LogTerms) -> dict[str, str]:
    if terms.rescale_s is not None:
        return {}
    known, unknown = [name for name in estimates if name in measured], [n for n in estimates if n not in measured]
    said = [f"measured: {', '.join(known)}"] if known else []
    if unknown:
        whose = f" of {', '.join(unknown)}" if known else ""
        said.append(f"assumed{whose}: none; the log does not say what a start or a change of width costs")
    return {"pauses": "; ".join(said)}


def _tell_dispersion(estimates: Mapping[str, _Estimate]) -> str:
    clumped = [(name, e.rate) for name, e in estimates.items() if e.rate.dispersion > 1.0]
    if not clumped:
        return ""
    said = ", ".join(f"{name} {rate.dispersion:.2g}" for name, rate in clumped)
    return (
        f"; more uneven than by chance, as variance over mean in {clumped[0][1].bin_h:g}-h bins: {said}; the errors of "
        "these rates allow for it"
    )


def _round(number: float) -> float:
    return float(f"{number:.9g}")
