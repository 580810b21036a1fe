"""What every log of jobs comes down to: its rows, how each of them ended, what that means, and what is left out.

How a log is to be read (:class:`LogReading`) says what its columns are called and which of its jobs are looked at. A
row is *kept* (an arrival, and its run says how long such a job is), *counted* (an arrival of which the log does not say
how long it is) or *dropped*. Unless told otherwise, whatever held GPUs is kept, so that the plan's load is the log's;
jobs that have not ended yet are counted.

Times and durations as logs write them.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from optplan.errors import DataError, UsageError, nearest_name_hint, show_value
from optplan.schema import LARGEST_COUNT
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, parse_duration

#: What stands for a time that is not known.
_NOTHING = frozenset({"", "unknown", "none", "n/a", "nan", "nat", "null", "-", "invalid"})
#: Numbers from which a time counts milliseconds, and no duration goes: as seconds they would be the year 5138.
_MILLISECONDS_FROM = 1e11
#: [days-][hours:]minutes:seconds[.fraction], as Slurm has it.
_ELAPSED = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+(?:\.\d+)?)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_ZERO = re.compile(r"0+(?:\.0*)?\s*[a-z]+", re.ASCII | re.IGNORECASE)


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name, such as ``Europe/Berlin``."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        ways = "write it as in Europe/Berlin or UTC, or pip install tzdata where the system has no list of them"
        raise UsageError(f"timezone: got {show_value(name)}, which is no time zone of this system; {ways}") from None


class Clock:
    """Reads times in the form of ``strptime``, or ISO 8601 and seconds since 1970; the zone is for those without."""

    def __init__(self, zone: tzinfo = UTC, form: str | None = None) -> None:
        self.zone, self.form = zone, form

    def read(self, text: str) -> float | None:
        """Return seconds since 1970, None where nothing is known; a ValueError says what is no time."""
        if text.casefold() in _NOTHING:
            return None
        try:
            found = datetime.strptime(text, self.form) if self.form else datetime.fromisoformat(text)
        except ValueError:
            return self._read_otherwise(text.strip())
        if found.tzinfo is None:
            found = found.replace(tzinfo=self.zone)
        return _count_seconds(found)

    def _read_otherwise(self, text: str) -> float:
        """Read a number, or an ISO time followed by the word UTC."""
        if self.form is None and _NUMBER.fullmatch(text):
            number = float(text)
            number = number / 1000.0 if number >= _MILLISECONDS_FROM else number
            if 0.0 <= number < _MILLISECONDS_FROM:
                return number
        elif self.form is None and text.endswith(" UTC"):
            return _count_seconds(datetime.fromisoformat(text.removesuffix(" UTC")).replace(tzinfo=UTC))
        shape = f"--time-format {self.form!r}" if self.form else "ISO 8601, as in 2026-03-02T00:37:00"
        raise ValueError(f"{show_value(text)} is no time in the form {shape}")


def _count_seconds(moment: datetime) -> float:
    """Return seconds since 1970; raise ValueError at the ends of what has a date."""
    try:
        return moment.timestamp()
    except OverflowError:
        raise ValueError(f"{moment.year} is no year of a log") from None


def read_seconds(text: str, unit_s: float = 1.0) -> float | None:
    """Return seconds of ``1-02:03:04``, ``1.5min`` or a number in a unit, None where unknown; else a ValueError."""
    text = text.strip()
    match = _ELAPSED.fullmatch(text)
    if text.casefold() in _NOTHING:
        return None
    seconds = math.inf
    if match:
        days, hours, minutes, rest = (float(each or 0) for each in match.groups())
        seconds = (days * HOURS_PER_DAY + hours) * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE + rest
    elif _NUMBER.fullmatch(text):
        seconds = float(text) * unit_s
    elif _ZERO.fullmatch(text):
        seconds = 0.0
    else:
        with contextlib.suppress(UsageError):
            seconds = parse_duration(text)
    if seconds >= _MILLISECONDS_FROM:
        message = f"{show_value(text)} is no duration; written as in 1-02:03:04, 90min or 5.62, with a decimal point"
        raise ValueError(message)
    return seconds


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
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(RULES))  #: What becomes of a job, by how it ended.
    #: since, until: Only jobs submitted from then on, and before then; ``since_s`` and ``until_s`` are seconds since
    #: 1970.
    since: str | None = None
    until: str | None = None
    gpu_type: str | None = None  #: Only jobs on it, and those of which the log does not say the type.
    since_s: float | None = field(init=False)
    until_s: float | None = field(init=False)
    clock: Clock = field(init=False)  # reads the times of the log

    def __post_init__(self) -> None:
        """Read the ends of the span, which are in ISO 8601 whatever the log's times are."""
        zone = find_zone(self.timezone)
        object.__setattr__(self, "clock", Clock(zone, self.time_format))
        for what, text in (("since", self.since), ("until", self.until)):
            try:
                moment = None if text is None else Clock(zone).read(text)
            except ValueError as error:
                raise DataError(what, str(error), "correct it") from None
            object.__setattr__(self, f"{what}_s", moment)
