"""Times and durations as logs write them."""

from __future__ import annotations

import contextlib
import math
import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from optplan.errors import UsageError, show_value
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
