"""What every log of jobs comes down to: its rows, how each of them ended, what that means, and what is left out.

How a log is to be read (:class:`LogReading`) says what its columns are called and which of its jobs are looked at. A
row is *kept* (an arrival, and its run says how long such a job is), *counted* (an arrival of which the log does not say
how long it is) or *dropped*. Unless told otherwise, whatever held GPUs is kept, so that the plan's load is the log's;
jobs that have not ended yet are counted.

From rows of a log to jobs: attempts, components and pods of one job are put together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value
from optplan.instances.job_logs.columns import BoolColumn, IntColumn, Jobs, iterate, leave_out
from optplan.instances.job_logs.times import Clock, find_zone
from optplan.schema import LARGEST_COUNT

#: How a job ended that did what it was to do.
COMPLETED = "completed"
#: Why a row cannot be used.
WRONG_FIELDS = "rows with fields missing or too many"
BACKWARDS = "jobs that end before they start"
BROKEN = "rows that cannot be read"
#: Share of such rows from which the whole log is refused.
_MOST_BROKEN = 0.5


class Rule(StrEnum):
    """What a job stands for."""

    KEEP = "keep"  #: An arrival, and its run counts for the sizes.
    COUNT = "count"  #: An arrival only.
    DROP = "drop"  #: Nothing.


#: What becomes of a job, by how it ended.
RULES = {
    COMPLETED: Rule.KEEP,
    "failed": Rule.KEEP,
    "timeout": Rule.KEEP,
    "cancelled": Rule.KEEP,
    "preempted": Rule.KEEP,
    "requeued": Rule.KEEP,
    "running": Rule.COUNT,
    "pending": Rule.COUNT,
}


#: How a job ended, by what logs call it.
_ENDINGS = {
    **{name: name for name in RULES},
    **dict.fromkeys(("succeeded", "success", "finished", "complete", "done", "exited"), COMPLETED),
    **dict.fromkeys(("node_fail", "out_of_memory", "boot_fail", "crashed", "error", "launch_failed"), "failed"),
    **dict.fromkeys(("deadline", "deadlineexceeded"), "timeout"),
    **dict.fromkeys(("canceled", "killed", "revoked", "stopped", "aborted"), "cancelled"),
    **dict.fromkeys(("evicted",), "preempted"),
    **dict.fromkeys(("requeue_hold", "requeue_fed", "special_exit"), "requeued"),
    **dict.fromkeys(("active", "completing", "suspended", "resizing", "stage_out", "signaling", "stopping"), "running"),
    **dict.fromkeys(("queued", "scheduled", "configuring", "created", "waiting", "resv_del_hold"), "pending"),
}


@lru_cache(maxsize=1000)
def read_ending(text: str) -> str:
    """Return how a job ended, in our words where it is known, else the log's: ``CANCELLED by 1000``, ``TIMEOU+``."""
    word = text.strip().casefold().partition(" ")[0].rstrip("+")
    return _ENDINGS.get(word, word)


@lru_cache(maxsize=1000)
def read_count(given: str | float, what: str = "gpus") -> int:
    """Read a number of GPUs, or of what has them; an empty field is none, and a ValueError says what no job has."""
    try:
        number = float(given or 0)
    except (ValueError, OverflowError):
        number = -1.0
    if not (0 <= number <= LARGEST_COUNT and number.is_integer()):
        raise ValueError(f"{what} is {show_value(given)}; a whole number from 0 to {LARGEST_COUNT:,} is needed")
    return int(number)


def read_rules(texts: Mapping[str, str]) -> dict[str, Rule]:
    """Read rules: by how a job ended (one of our words, or what the log calls it), ``keep``, ``count`` or ``drop``."""
    for ending, text in texts.items():
        if text not in list(Rule):
            raise UsageError(f"--rule: {ending}={show_value(text)} is not known; keep, count or drop are allowed")
    return {read_ending(ending): Rule(text) for ending, text in texts.items()}


def rule_of(ending: str, rules: Mapping[str, Rule], file: str, line: int) -> Rule:
    """Return what becomes of a job that ended so."""
    if ending not in rules:
        problem = f"the state {show_value(ending)} is not known"
        fix = f"say what it means, as in --rule {ending}=keep, count or drop; {nearest_name_hint(ending, rules)}"
        raise DataError(f"{file}:{line}", problem, fix)
    return rules[ending]


def is_completed(ending: str) -> bool:
    """Whether a job that ended so did what it was to do; a state of the user's own that is kept did."""
    return ending == COMPLETED or ending not in RULES


class Row(NamedTuple):
    """What one row of a log says, or all rows of a job; times are seconds since 1970."""

    id: str  #: Of the job, which several rows may have; empty: the log has none.
    part: str  #: Component or pod: different ones of a job run together.
    name: str
    label: str  #: What the column says that names classes.
    submit_s: float | None
    start_s: float | None
    run_s: float | None  #: None: not begun, or not ended.
    gpus: int
    gpu_type: str
    ending: str
    where: int  #: Line or position in the file.
    completed: bool = True  #: Ran to its end without a break; others say nothing of how fast they were.

    @property
    def wait_s(self) -> float | None:
        """From the submission to the start, where both are known."""
        return None if self.start_s is None or self.submit_s is None else max(self.start_s - self.submit_s, 0.0)


class LeftOut:
    """What is left out of a log, by reason: how often, where first (line, or item of a list), what was wrong there."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._found: dict[str, tuple[int, float, str]] = {}

    def add(self, reason: str, where: float = math.inf, wrong: str = "", count: int = 1) -> None:
        """Count what is left out from a line on, where it has one."""
        before, first, said = self._found.get(reason, (0, math.inf, ""))
        self._found[reason] = (before + count, *((where, wrong) if where < first or not before else (first, said)))

    def count(self, reason: str) -> int:
        """Return how many were left out for a reason."""
        return self._found[reason][0] if reason in self._found else 0

    def __str__(self) -> str:
        """List numbers and reasons by their lines, as in ``3 jobs without GPUs (first: line 7)``."""
        said = []
        for reason, (count, first, wrong) in sorted(self._found.items(), key=lambda each: each[1][1]):
            where = f"{self._unit} {first:,}" if first < math.inf else ""
            said.append(f"{count:,} {reason} (first: {', '.join(filter(None, (where, wrong)))})")
        return "; ".join(said)

    def require_readable(self, file: str, rows: int) -> None:
        """Refuse a log of which more than half cannot be read: it is not what it is taken for."""
        lost = sum(self.count(reason) for reason in (WRONG_FIELDS, BACKWARDS, BROKEN))
        if lost > _MOST_BROKEN * max(rows, 1):
            problem = f"{lost:,} of {max(rows, lost):,} rows cannot be used: {self}"
            fix = "check --from, --columns, --time-format and the log's language (LC_ALL=C SLURM_TIME_FORMAT=standard)"
            raise DataError(file, problem, fix)


class LogFormat(StrEnum):
    """Who wrote a log."""

    SACCT = "sacct"
    KUBERNETES = "kubernetes"
    CSV = "csv"


@dataclass(frozen=True)
class LogReading:
    """How a log is to be read."""

    form: LogFormat  #: Who wrote it.
    timezone: str = "UTC"  #: Of times that say none.
    time_format: str | None = None  #: How times are written, as ``strptime`` takes it; None for ISO 8601.
    #: By what we call a column (:data:`optplan.instances.job_logs.tables.KNOWN_NAMES`), what the table calls it; the
    #: others are found under their usual names.
    columns: Mapping[str, str] = field(default_factory=dict)
    class_column: str | None = None  #: The column (label of Kubernetes) whose values name classes.
    gpus: int | None = None  #: How many GPUs each job has, where the table does not say it.
    delimiter: str | None = None  #: Between two fields; None finds out.
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(RULES))  #: What becomes of a job, by how it ended.
    #: since, until: Only jobs submitted from then on, and before then; ``since_s`` and ``until_s`` are seconds since
    #: 1970.
    since: str | None = None
    until: str | None = None
    gpu_type: str | None = None  #: Only jobs on it, and those of which the log does not say the type.
    since_s: float | None = field(init=False)
    until_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        """Read the ends of the span."""
        clock = Clock(find_zone(self.timezone))
        for what, text in (("since", self.since), ("until", self.until)):
            try:
                moment = None if text is None else clock.read(text)
            except ValueError as error:
                raise DataError(what, str(error), "correct it") from None
            object.__setattr__(self, f"{what}_s", moment)


#: Reasons for leaving something out that others look at, too.
NO_GPUS = "jobs without GPUs"
OVERLAPPING = "ids that come twice at overlapping times, taken for two jobs"
EARLY = "waits of jobs that start before they were submitted, taken for none"
#: Seconds: whoever waits or runs for longer has wrong times; by how much the clocks of two machines may differ.
_LONGEST_S, _CLOCKS_S = 10 * 365.25 * 86_400.0, 60.0


def join_rows(file: str, rows: Jobs, reading: LogReading, left_out: LeftOut) -> Jobs:
    """Put jobs together from the rows of a log, by the time of their submission; what is left out is counted."""
    # Rows of one id are attempts where they follow one another: runs are added up, except those whose rule is not to
    # keep them. Rows of different parts of one id run together: their GPUs are added up.
    rows.completed = np.array([is_completed(word) for word in rows.words], dtype=np.bool_)[rows.ending]
    groups = _find_groups(rows)
    if groups:
        single = np.ones(len(rows), dtype=np.bool_)
        merged = []
        for places in groups:
            single[places] = False
            of_one_id = list(rows[np.array(places)])
            merged += [_merge(one, file, reading) for one in _divide(of_one_id, left_out)]
        rows.keep(single)
        rows.put(Jobs.of(merged, rows.words), len(rows))
        rows.keep(slice(int(single.sum()) + len(merged)))
    kept = np.flatnonzero(_choose(file, rows, reading, left_out))
    if not kept.size:
        raise DataError(file, "has no job that can be used", str(left_out) or "it has no rows")
    rows.keep(kept[np.lexsort((rows.where[kept], rows.arrive_s[kept]))])
    return rows


def _find_groups(rows: Jobs) -> list[list[int]]:
    """Return the places of rows that share an id with others."""
    # Most jobs have one row: hashes find those few that may have more.
    hashes = np.fromiter(map(hash, chain.from_iterable(iterate(rows.id))), np.int64, len(rows))
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    groups: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(np.isin(hashes, shared)).tolist() if shared.size else ():
        groups[rows.id[place]].append(place)
    return [places for id_, places in groups.items() if id_ and len(places) > 1]


def _choose(file: str, jobs: Jobs, reading: LogReading, left_out: LeftOut) -> BoolColumn:
    """Return (N,) which jobs count; those that are arrivals only have no time that they ran then."""
    arrive_s = jobs.arrive_s
    rules = {place: _find_rule(place, jobs, file, reading) for place in np.unique(jobs.ending).tolist()}
    dropped, counted = (
        np.isin(jobs.ending, [p for p, r in rules.items() if r is rule]) for rule in (Rule.DROP, Rule.COUNT)
    )
    open_ = np.isin(jobs.ending, [jobs.words["running"], jobs.words["pending"]])
    unknown = np.isnan(jobs.run_s)
    since_s, until_s = reading.since_s, reading.until_s
    outside = np.zeros(len(jobs), dtype=np.bool_)
    if since_s is not None:
        outside |= arrive_s < since_s
    if until_s is not None:
        outside |= arrive_s >= until_s
    other = np.zeros(len(jobs), dtype=np.bool_)
    if reading.gpu_type is not None:
        other = ~np.isin(jobs.gpu_type, [jobs.words[""], jobs.words[reading.gpu_type]])
    kept = np.ones(len(jobs), dtype=np.bool_)
    for which, reason, by in (
        (jobs.gpus == 0, NO_GPUS, None),
        (dropped, "{} jobs", jobs.ending),
        (np.isnan(arrive_s), "jobs without a time", None),
        (unknown & np.isnan(jobs.start_s) & ~open_, "{} jobs that never began", jobs.ending),
        (outside, "jobs submitted outside the span", None),
        (np.fmax(jobs.run_s, jobs.wait_s) > _LONGEST_S, "jobs that waited or ran for more than ten years", None),
        (other, "jobs on {}", jobs.gpu_type),
    ):
        _leave_out_by(jobs, kept & which, reason, by, left_out)
        kept &= ~which
    _leave_out_by(jobs, kept & (counted | unknown), "sizes of {} jobs", jobs.ending, left_out)
    leave_out(jobs, kept & (jobs.start_s < jobs.submit_s - _CLOCKS_S), EARLY, left_out)
    jobs.run_s[counted] = np.nan
    return kept


def _find_rule(ending: int, jobs: Jobs, file: str, reading: LogReading) -> Rule:
    """Return what becomes of jobs that ended so."""
    return rule_of(
        jobs.list_words(np.array([ending]))[0], reading.rules, file, int(jobs.where[jobs.ending == ending].min())
    )


def _leave_out_by(jobs: Jobs, which: BoolColumn, reason: str, by: IntColumn | None, left_out: LeftOut) -> None:
    """Count some of the jobs as left out, each under a reason that has a word of its own."""
    if by is None:
        leave_out(jobs, which, reason, left_out)
        return
    places = np.unique(by[which])
    for place, word in zip(places, jobs.list_words(places), strict=True):
        leave_out(jobs, which & (by == place), reason.format(word), left_out)


def _divide(rows: Sequence[Row], left_out: LeftOut) -> Iterator[list[Row]]:
    """Yield the rows of each job among those of one id: repeated rows are left out, overlapping ones are two jobs."""
    distinct: dict[Row, int] = {}
    for row in rows:
        key = row._replace(where=0)
        if key in distinct:
            left_out.add("rows that are repeated", row.where)
        else:
            distinct[key] = row.where
    kept = [row._replace(where=where) for row, where in distinct.items()]
    kept.sort(key=lambda row: (row.part, row.start_s is None, row.start_s or 0.0))
    others = []
    last: Row | None = None
    together = []
    for row in kept:
        if last is not None and last.part == row.part and _overlap(last, row):
            left_out.add(OVERLAPPING, row.where)
            others.append(row)
        else:
            together.append(row)
            last = row
    yield together
    for row in others:
        yield [row]


def _overlap(first: Row, second: Row) -> bool:
    """Whether the second, which starts no earlier, starts before the first has ended."""
    if first.start_s is None or first.run_s is None or second.start_s is None:
        return False
    return second.start_s < first.start_s + first.run_s


def _merge(rows: list[Row], file: str, reading: LogReading) -> Row:
    """Return the rows of one job as one, which ended as the last of them."""
    last = rows[0] if len(rows) == 1 else max(rows, key=lambda row: (row.start_s is None, row.start_s or 0.0))
    if len(rows) == 1 or not any(row.gpus for row in rows):
        return last
    kept = [row for row in rows if rule_of(row.ending, reading.rules, file, row.where) is Rule.KEEP or row is last]
    gpus, run_s = _overlay(kept)
    has_begun = last.start_s is not None or last.ending in ("running", "pending")
    return last._replace(
        submit_s=min((row.submit_s for row in rows if row.submit_s is not None), default=None),
        start_s=min((row.start_s for row in rows if row.start_s is not None), default=None) if has_begun else None,
        run_s=None if last.run_s is None else run_s,
        gpus=gpus,
        gpu_type=last.gpu_type or next((row.gpu_type for row in rows if row.gpu_type), ""),
        completed=all(row.completed for row in kept),
    )


def _overlay(rows: Sequence[Row]) -> tuple[int, float]:
    """Return the width that was held longest, and for how many seconds any GPU was held."""
    timed = [row for row in rows if row.start_s is not None and row.run_s is not None and row.gpus]
    if not timed:
        return sum(row.gpus for row in {row.part: row for row in rows}.values()), sum(r.run_s or 0.0 for r in rows)
    changes = sorted(
        change
        for row in timed
        for change in ((row.start_s, row.gpus), ((row.start_s or 0.0) + (row.run_s or 0.0), -row.gpus))
    )
    held: dict[int, float] = defaultdict(float)
    width, before = 0, 0.0
    for moment, change in changes:
        if width:
            held[width] += (moment or 0.0) - before
        width, before = width + change, moment or 0.0
    longest = max(held, key=lambda each: (held[each] * each, each), default=timed[0].gpus)
    return longest, sum(held.values())
