"""Job traces: which jobs of an instance's classes arrive when, drawn from the instance or read from a jobs table.

Who waited for GPUs and who held them, from when until when, by a log or a replay; and how many that is at once.
"""

from __future__ import annotations

import math
import warnings
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint, show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.csv_tables import read_rows
from optplan.instances.job_logs.columns import TextArray, to_texts
from optplan.instances.job_logs.jobs_table import part_ids, tabulate_jobs
from optplan.instances.job_logs.naming import Classes
from optplan.schema import FloatArray, IntArray, freeze
from optplan.units import SECONDS_PER_HOUR

#: Columns of numbers that are read of a jobs table.
_NUMBERS = ("submit_s", "start_s", "run_s", "gpus", "completed", "size_gpu_hours")
#: The largest of these: seconds until the year 5138.
_LARGEST = 1e11
#: Fields of a trace that have an entry for each job.
_OF_EACH = ("class_index", "arrive_s", "size", "ids", "gpus", "run_s", "wait_s")
#: What stands for whether a run was completed.
_TRUTHS = {"true": 1.0, "false": 0.0}
#: Most jobs that are drawn.
_MOST_JOBS = 10_000_000
#: How much longer a span is taken when it had too few jobs.
_LONGER = 1.25


@dataclass(frozen=True, eq=False)
class JobTrace:
    """The N jobs of a trace in the order of arrival; classes are those of an instance, in its order."""

    name: str
    classes: tuple[str, ...]
    class_index: IntArray  #: (N,) Of which of the classes each job is.
    arrive_s: FloatArray  #: (N,) When each arrives, in seconds from the start of the trace, ascending.
    size: FloatArray  #: (N,) Its size, relative to the mean size of its class in the instance.
    ids: TextArray  #: (N,) What each is called, each by a name of its own.
    #: gpus, run_s, wait_s: (N,) What the cluster of a log gave each: GPUs, seconds on them, and seconds before; NaN
    #: where nobody says it.
    gpus: FloatArray
    run_s: FloatArray
    wait_s: FloatArray
    span_s: float  #: Seconds over which the jobs arrive.
    completed: FloatArray | None = None  #: (N,) Whether its run was completed, 1 or 0; None where nobody says it.
    left_out: str = ""  #: What was left out or taken for granted, in words.
    began_s: float = 0.0  #: When it starts, in seconds since 1970, as its log counts them; 0 where nobody says it.

    def __post_init__(self) -> None:
        """Refuse columns of which one does not fit the others."""
        if len({getattr(self, name).size for name in _OF_EACH}) != 1:
            counts = ", ".join(f"{name} {getattr(self, name).size}" for name in _OF_EACH)
            raise DataError("jobs", f"the columns are of different length: {counts}", "give each job one of each")
        if not self.ids.size:
            raise DataError("jobs", f"the trace {self.name!r} has no job", "give at least one")
        for name in ("class_index", "arrive_s", "size"):
            column = getattr(self, name)
            if not (np.isfinite(column) & (column >= 0.0)).all():
                raise DataError(f"jobs.{name}", "not all are numbers of at least 0", "correct them")
        if int(self.class_index.max()) >= len(self.classes):
            raise DataError("jobs.class_index", f"there are {len(self.classes)} classes", "count them from 0")
        if (np.diff(self.arrive_s) < 0.0).any() or self.arrive_s[-1] > self.span_s:
            raise DataError("jobs.arrive_s", "do not ascend to the end of the span", "sort the jobs by their arrival")

    def __len__(self) -> int:
        """Count the jobs."""
        return int(self.ids.size)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by class, of those that have none, too."""
        counts = np.bincount(self.class_index, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    def list_logged(self) -> IntArray:
        """Return the places of the jobs of which a log says GPUs, run and wait."""
        return np.flatnonzero(np.isfinite(self.gpus * self.run_s + self.wait_s))

    def take(self, which: IntArray) -> JobTrace:
        """Return some jobs (n,), in their order, as a trace of the same span."""
        completed = None if self.completed is None else self.completed[which]
        return replace(self, completed=completed, **{name: getattr(self, name)[which] for name in _OF_EACH})

    def tell_had(self, which: IntArray) -> dict[str, float]:
        """Return what a log's cluster gave some jobs (n,): the mean completion time and wait, and all GPU-hours."""
        held_h = self.gpus[which] * self.run_s[which] / SECONDS_PER_HOUR
        wait_s = self.wait_s[which]
        mean_jct_s = float((wait_s + self.run_s[which]).mean())
        return {"mean_jct_s": mean_jct_s, "gpu_hours": float(held_h.sum()), "wait_s": float(wait_s.mean())}

    def of_class(self, name: str) -> IntArray:
        """Return the places of the jobs of a class."""
        return np.flatnonzero(self.class_index == self.classes.index(name))


def draw_trace(
    instance: BoaInstance, *, jobs: int | None = None, span_s: float | None = None, seed: int = 0
) -> JobTrace:
    """Draw arrivals from the rates of the classes: Poisson streams, which follow their pattern where they have one.

    Clumps arrive at once. Sizes are all the mean, but of classes of a log lognormal with the spread that it had.

    Parameters
    ----------
    instance
        The classes.
    jobs, span_s
        How many jobs, the first ones; or all that arrive within so many seconds, which begin at midnight.
    seed
        The same seed gives the same jobs.

    Raises
    ------
    UsageError
        When not exactly one of the two is given, or is out of its range.
    DataError
        When no job arrives in the span.
    """
    if (jobs is None) is (span_s is None):
        raise UsageError("--jobs, --span: give one of them, how many jobs are drawn or for how long they arrive")
    rate_per_s = instance.total_rate_per_hour / SECONDS_PER_HOUR
    until_s = jobs / rate_per_s if jobs is not None else span_s
    if until_s is None or not 0.0 < until_s * rate_per_s <= _MOST_JOBS:
        problem = f"{jobs} jobs" if jobs is not None else f"{span_s} s, in which {span_s or 0.0:g} jobs arrive"
        raise UsageError(f"--jobs, --span: got {problem}; from 1 to {_MOST_JOBS:,} jobs are drawn")
    while True:
        arrivals = [_draw_arrivals(name, each, until_s, seed) for name, each in instance.classes.items()]
        if jobs is None or sum(each.size for each in arrivals) >= jobs:
            break
        until_s *= _LONGER  # what was drawn before is drawn again
    sizes = [
        _draw_sizes(name, each, times_s.size, seed)
        for (name, each), times_s in zip(instance.classes.items(), arrivals, strict=True)
    ]
    arrive_s = np.concatenate(arrivals)
    if not arrive_s.size:
        raise DataError("span", f"no job arrives in {until_s:g} s", "draw a longer span, or a number of jobs")
    order = np.argsort(arrive_s, kind="stable")[:jobs]
    digits = len(str(order.size))  # sorted by name, jobs that arrive at once stay in their order
    unknown = freeze(np.full(order.size, np.nan))
    return JobTrace(
        name=instance.name,
        classes=tuple(instance.classes),
        class_index=freeze(np.repeat(np.arange(len(arrivals)), [each.size for each in arrivals])[order]),
        arrive_s=freeze(arrive_s[order]),
        size=freeze(np.concatenate(sizes)[order]),
        ids=to_texts([f"job-{number:0{digits}}" for number in range(1, order.size + 1)]),
        gpus=unknown,
        run_s=unknown,
        wait_s=unknown,
        span_s=float(arrive_s[order[-1]]) if span_s is None else span_s,
    )


def _draw_arrivals(name: str, job_class: JobClass, until_s: float, seed: int) -> FloatArray:
    """Draw when jobs of a class arrive (n,), ascending; a longer span begins with what a shorter one has."""
    # Clumps come one time unit apart on average, in a time that runs as fast as they come (time rescaling theorem).
    per_clump = 1.0 if job_class.arrivals is None else 1.0 - job_class.arrivals.repeat
    hourly = np.ones(1) if job_class.arrivals is None else job_class.arrivals.relative
    hours = math.ceil(until_s / SECONDS_PER_HOUR) + 1
    passed = np.append(0.0, np.cumsum(job_class.arrival_rate_per_hour * per_clump * np.resize(hourly, hours)))
    gaps, more = _stream(name, seed, 0), max(1, int(passed[-1]))
    at = np.zeros(0)
    while not at.size or at[-1] < passed[-1]:
        at = np.append(at, (at[-1] if at.size else 0.0) + np.cumsum(gaps.exponential(size=more)))
    times_s = np.interp(at[at < passed[-1]], passed, np.arange(hours + 1) * SECONDS_PER_HOUR)
    clumps = _stream(name, seed, 1).geometric(per_clump, size=times_s.size)
    times_s = np.repeat(times_s, clumps)
    return times_s[times_s <= until_s]


def _draw_sizes(name: str, job_class: JobClass, jobs: int, seed: int) -> FloatArray:
    """Draw the sizes of jobs of a class (n,), with mean 1."""
    spread = 0.0 if job_class.logged is None else job_class.logged.size_spread
    variance = math.log1p(spread**2)
    return _stream(name, seed, 2).lognormal(-variance / 2.0, math.sqrt(variance), jobs) if variance else np.ones(jobs)


def _stream(name: str, seed: int, what: int) -> np.random.Generator:
    """Return the random numbers of a class, which do not depend on the others."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), what])


def read_trace(path: Path | str, instance: BoaInstance) -> JobTrace:
    """Read the jobs table (CSV or Parquet) that ``optplan import log --jobs`` wrote, with the instance of it.

    Jobs whose size nobody knows have the mean size of their class, with a DataWarning.

    Parameters
    ----------
    path
        The table.
    instance
        That of the same import.

    Raises
    ------
    DataError
        When the table cannot be read, or has another class.
    """
    path = Path(path)
    ids: list[str] = []
    labels: list[str] = []
    numbers = {name: array("d") for name in _NUMBERS}
    for line, (id_, label, *texts) in read_rows(path, ("id", "class", *_NUMBERS)):
        ids.append(id_)
        labels.append(label)
        for (name, values), text in zip(numbers.items(), texts, strict=True):
            values.append(_read_number(path, line, name, text))
    return _make_trace(instance, path.stem, ids, labels, {name: np.array(values) for name, values in numbers.items()})


def _read_number(path: Path, line: int, column: str, text: str) -> float:
    """Read a number; NaN where there is none."""
    try:
        number = _TRUTHS[text] if text in _TRUTHS else float(text) if text else math.nan
    except ValueError:
        number = -1.0
    if not (0.0 <= number <= _LARGEST or math.isnan(number)):
        problem = f"{column} is {show_value(text)}; a number from 0 to {_LARGEST:g} is needed, or nothing"
        raise DataError(f"{path}:{line}", problem, "correct the row")
    return number


def gather_trace(instance: BoaInstance, classes: Classes, sizes: Mapping[str, FloatArray], name: str) -> JobTrace:
    """Make a trace of the jobs of a log, with the instance and the sizes that were made of them."""
    table = tabulate_jobs(classes, sizes)
    numbers = {column: np.array(table[column], dtype=np.float64) for column in _NUMBERS}  # None becomes NaN
    return _make_trace(instance, name, table["id"], table["class"], numbers)


def _make_trace(
    instance: BoaInstance, name: str, ids: list[str], labels: list[str], numbers: Mapping[str, FloatArray]
) -> JobTrace:
    """Put jobs of a log (N,) in their order; classes of which no size is known may be missing in the instance."""
    places = {each: place for place, each in enumerate(instance.classes)}
    class_index = np.array([places.get(label, -1) for label in labels], dtype=np.int64)
    submit_s, start_s, run_s, gpus, completed, sizes_h = numbers.values()
    arrive_s = np.where(np.isnan(submit_s), start_s, submit_s)
    left_out: list[str] = []
    for label in sorted({label for label in labels if label not in places}):
        of_it = np.array([each == label for each in labels])
        if np.isfinite(sizes_h[of_it]).any():
            problem = f"class {label!r} of {int(of_it.sum()):,} jobs is not in the instance {instance.name!r}"
            hint = nearest_name_hint(label, instance.classes)
            raise DataError(f"{name}.class", problem, f"{hint}; give the instance that was imported with this table")
        left_out.append(f"{int(of_it.sum()):,} jobs of class {label}, of which no size is known")
    kept = np.flatnonzero(class_index >= 0)
    if not kept.size:
        raise DataError(name, "has no job of the instance's classes", f"these are {', '.join(instance.classes)}")
    if np.isnan(arrive_s[kept]).any():
        raise DataError(f"{name}.submit_s", "is missing, and so is start_s", "say when each job was submitted")
    kept = kept[np.argsort(arrive_s[kept], kind="stable")]
    means_h = np.array([job_class.size_gpu_hours for job_class in instance.classes.values()])
    size = sizes_h[kept] / means_h[class_index[kept]]
    unknown = int(np.isnan(size).sum())
    if unknown:
        left_out.append(f"the sizes of {unknown:,} jobs, which are not known: they have the mean of their class")
    for each in left_out:
        warnings.warn(f"{name}: left out {each}", DataWarning, stacklevel=3)
    ids = [ids[place] or f"job-{number}" for number, place in enumerate(kept.tolist(), 1)]
    part_ids(ids)
    began_s = float(arrive_s[kept[0]])
    arrive_s = arrive_s[kept] - began_s
    return JobTrace(
        name=name,
        classes=tuple(instance.classes),
        class_index=freeze(class_index[kept]),
        arrive_s=freeze(arrive_s),
        size=freeze(np.where(np.isnan(size), 1.0, size)),
        ids=to_texts(ids),
        gpus=freeze(gpus[kept]),
        run_s=freeze(run_s[kept]),
        wait_s=freeze(np.maximum(start_s - submit_s, 0.0)[kept]),
        span_s=float(arrive_s[-1]) * kept.size / max(kept.size - 1, 1),
        completed=freeze(completed[kept]),
        left_out="; ".join(left_out),
        began_s=began_s,
    )


@dataclass(frozen=True, eq=False)
class Level:
    """How many GPUs at once: ``gpus`` (T,) from each of ``times_s`` (T,) on; none before the first."""

    times_s: FloatArray
    gpus: FloatArray

    @classmethod
    def of(cls, from_s: FloatArray, until_s: FloatArray, gpus: FloatArray) -> Level:
        """Add up spans (N,) of time, each of so many GPUs."""
        at_s, change = np.concatenate([from_s, until_s]), np.concatenate([gpus, -gpus])
        order = np.argsort(at_s, kind="stable")
        times_s, gpus = at_s[order], np.cumsum(change[order])
        lasts = np.flatnonzero(np.diff(times_s, append=np.inf))  # of several changes at once
        return cls(times_s[lasts], gpus[lasts])

    @property
    def most(self) -> float:
        """The most at once."""
        return float(self.gpus.max(initial=0.0))

    def average(self, edges_s: FloatArray) -> FloatArray:
        """Return the time averages (B,) between edges (B + 1,)."""
        if not self.times_s.size:
            return np.zeros(edges_s.size - 1)
        passed = np.append(0.0, np.cumsum(self.gpus[:-1] * np.diff(self.times_s)))
        averages: FloatArray = np.diff(np.interp(edges_s, self.times_s, passed)) / np.diff(edges_s)
        return averages

    def enough(self, share: float, from_s: float, until_s: float) -> float:
        """Return the GPUs that are enough for a share of the time between two times, around all others."""
        times_s = np.concatenate([[from_s], self.times_s, [until_s]])
        gpus, lasted_s = np.append(0.0, self.gpus), np.diff(times_s)
        order = np.argsort(gpus, kind="stable")
        passed = np.cumsum(lasted_s[order]) >= share * lasted_s.sum() * (1.0 - 1e-9)
        return float(gpus[order[int(np.argmax(passed))]])


@dataclass(frozen=True, eq=False)
class Stays:
    """S times that jobs waited (``queued_s`` to ``begun_s``) and held GPUs (to ``ended_s``), seconds from the start."""

    classes: tuple[str, ...]
    class_index: IntArray
    queued_s: FloatArray
    begun_s: FloatArray
    ended_s: FloatArray
    gpus: FloatArray

    @classmethod
    def of(cls, trace: JobTrace) -> Stays | None:
        """Take the jobs of which a log says what they held; None without any; unknown waits are none."""
        known = np.flatnonzero(np.isfinite(trace.gpus * trace.run_s))
        if not known.size:
            return None
        arrive_s = trace.arrive_s[known]
        begun_s = arrive_s + np.nan_to_num(trace.wait_s[known])
        ended_s = begun_s + trace.run_s[known]
        return cls(trace.classes, trace.class_index[known], arrive_s, begun_s, ended_s, trace.gpus[known])

    def held(self, *names: str) -> Level:
        """Return the GPUs that jobs held: all, or those of some classes."""
        return self._add_up(self.begun_s, self.ended_s, names)

    def queued(self, *names: str) -> Level:
        """Return the GPUs that jobs waited for: all, or those of some classes."""
        return self._add_up(self.queued_s, self.begun_s, names)

    @property
    def span_s(self) -> tuple[float, float]:
        """When the first arrives, and when the last is over, a second later at least."""
        first_s = float(self.queued_s.min())
        return first_s, max(float(self.ended_s.max()), first_s + 1.0)

    def gpu_hours(self) -> FloatArray:
        """Return what each class held in all (C,)."""
        held_h = self.gpus * (self.ended_s - self.begun_s) / SECONDS_PER_HOUR
        return np.bincount(self.class_index, held_h, minlength=len(self.classes)).astype(np.float64)

    def _add_up(self, from_s: FloatArray, until_s: FloatArray, names: tuple[str, ...]) -> Level:
        places = [place for place, name in enumerate(self.classes) if name in names or not names]
        which = np.isin(self.class_index, places)
        return Level.of(from_s[which], until_s[which], self.gpus[which])
