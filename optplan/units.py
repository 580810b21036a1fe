"""Quantities as users write them, and the one place that reads units and converts between them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from optplan.errors import UsageError, show_value

SECONDS_PER_MINUTE = 60.0
SECONDS_PER_HOUR = 3600.0
MINUTES_PER_HOUR = SECONDS_PER_HOUR / SECONDS_PER_MINUTE
HOURS_PER_DAY = 24.0
HOURS_PER_WEEK = 7.0 * HOURS_PER_DAY
#: A month is a twelfth of a year of 365 days, as cloud providers bill it.
HOURS_PER_MONTH = 365.0 * HOURS_PER_DAY / 12.0


class BudgetUnit(StrEnum):
    """What a budget counts."""

    GPU = "gpu"
    GPU_MINUTE = "gpu-min"
    GPU_HOUR = "gpu-h"
    USD = "usd"
    USD_PER_HOUR = "usd/hour"
    USD_PER_DAY = "usd/day"
    USD_PER_WEEK = "usd/week"
    USD_PER_MONTH = "usd/month"


#: Hours in the period of a budget that is a rate of money.
PERIOD_HOURS = {
    BudgetUnit.USD_PER_HOUR: 1.0,
    BudgetUnit.USD_PER_DAY: HOURS_PER_DAY,
    BudgetUnit.USD_PER_WEEK: HOURS_PER_WEEK,
    BudgetUnit.USD_PER_MONTH: HOURS_PER_MONTH,
}

_SECONDS_PER = {
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": SECONDS_PER_MINUTE,
    "m": SECONDS_PER_MINUTE,
    "h": SECONDS_PER_HOUR,
    "hour": SECONDS_PER_HOUR,
    "hours": SECONDS_PER_HOUR,
    "d": HOURS_PER_DAY * SECONDS_PER_HOUR,
    "day": HOURS_PER_DAY * SECONDS_PER_HOUR,
    "days": HOURS_PER_DAY * SECONDS_PER_HOUR,
}

_BUDGET_NAMES = {
    "gpu": BudgetUnit.GPU,
    "gpus": BudgetUnit.GPU,
    "gpu-min": BudgetUnit.GPU_MINUTE,
    "gpu-h": BudgetUnit.GPU_HOUR,
    "usd": BudgetUnit.USD,
    "usd/h": BudgetUnit.USD_PER_HOUR,
    "usd/hour": BudgetUnit.USD_PER_HOUR,
    "usd/d": BudgetUnit.USD_PER_DAY,
    "usd/day": BudgetUnit.USD_PER_DAY,
    "usd/week": BudgetUnit.USD_PER_WEEK,
    "usd/month": BudgetUnit.USD_PER_MONTH,
}

#: Capitals matter: Mb would be megabits.
_BYTES_PER = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*)?\s*", re.ASCII)
#: Money as people write it: $5,000/month, 5k usd/month. Groups have three digits, so that 5,5 is not taken for 55.
_MONEY = re.compile(
    r"\s*(\$?)\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:([kKM])(?![A-Za-z-]))?\s*(.*?)\s*", re.ASCII
)
_EXPONENTS = {"k": "e3", "K": "e3", "M": "e6"}


@dataclass(frozen=True)
class Amount:
    """A number with its unit, as in ``120gpu`` or ``3usd``."""

    value: float
    unit: BudgetUnit

    def __str__(self) -> str:
        """Write the amount as :func:`parse_budget` reads it."""
        return f"{self.value!r}".removesuffix(".0") + self.unit


def parse_duration(text: str, *, what: str = "duration", zero: bool = False) -> float:
    """Read a duration such as ``20min``, ``1.5h`` or ``60s``, or if ``zero`` allows it ``0s``; return seconds."""
    value, name = _split(text, what, "20min, 1.5h or 60s", zero=zero)
    unit = name.lower()
    if unit not in _SECONDS_PER:
        known = ", ".join(_SECONDS_PER)
        raise UsageError(f"{what}: {show_value(text)} has no known unit of time; use one of {known}, as in 20min")
    return value * _SECONDS_PER[unit]


def parse_budget(text: str, *, what: str = "budget") -> Amount:
    """Read a budget: ``120gpu``, ``80gpu-min``, ``3usd``, ``10,000usd/month`` or ``$10k/month`` (M for millions)."""
    value, name = _split(_write_plainly(text), what, "120gpu, 80gpu-min, 3usd or $10,000/month", text)
    unit = re.sub(r"\s*(/|\bper\b|\ba\b)\s*", "/", name.lower())
    if unit not in _BUDGET_NAMES:
        message = f"{what}: {show_value(text)} has no known unit; use one of {', '.join(_BUDGET_NAMES)}, as in 120gpu"
        raise UsageError(message)
    return Amount(value, _BUDGET_NAMES[unit])


def parse_bytes(text: str, *, what: str = "size") -> int:
    """Read a size such as ``16MiB``, ``9kB`` or ``4B``: kB, MB, GB are powers of 1000, KiB, MiB, GiB of 1024."""
    value, unit = _split(text, what, "16MiB, 9kB or 4B")
    if unit not in _BYTES_PER:
        known = ", ".join(_BYTES_PER)
        raise UsageError(f"{what}: {show_value(text)} has no known unit of size; use one of {known}, as in 16MiB")
    size = value * _BYTES_PER[unit]
    if size != round(size):
        raise UsageError(f"{what}: got {show_value(text)}, which is {size:g} bytes; a whole number of bytes is needed")
    return round(size)


def parse_bandwidth(text: str, *, what: str = "bandwidth") -> float:
    """Read a bandwidth such as ``400gbit`` or ``50GB/s``; return Gbit/s."""
    value, name = _split(text, what, "400gbit or 50GB/s")
    unit = name.removesuffix("/s")
    if unit in ("gbit", "Gbit"):
        return value
    if unit not in _BYTES_PER or unit == name:
        raise UsageError(f"{what}: {show_value(text)} has no known unit of bandwidth; use gbit or GB/s, as in 400gbit")
    return value * _BYTES_PER[unit] * 8 / 10**9


def format_duration(seconds: float) -> str:
    """Write seconds for a reader, rounded to what is shown: ``48 s``, ``53 min 34 s``, ``2 h 05 min``, ``3 d 04 h``."""
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if seconds < 10:
        return f"{sign}{seconds:.3g} s"
    if seconds < SECONDS_PER_HOUR - 0.5:
        minutes, s = divmod(round(seconds), 60)
        return f"{sign}{minutes} min {s:02d} s" if minutes else f"{sign}{s} s"
    if seconds < HOURS_PER_DAY * SECONDS_PER_HOUR - 30:
        hours, m = divmod(round(seconds / SECONDS_PER_MINUTE), 60)
        return f"{sign}{hours} h {m:02d} min"
    days, h = divmod(round(seconds / SECONDS_PER_HOUR), 24)
    return f"{sign}{days} d {h:02d} h"


def round_up_duration(seconds: float) -> float:
    """Return the least duration from there on that :func:`format_duration` shows without rounding it."""
    if seconds < SECONDS_PER_HOUR - SECONDS_PER_MINUTE:
        return float(math.ceil(seconds))
    step = SECONDS_PER_MINUTE if seconds < HOURS_PER_DAY * SECONDS_PER_HOUR - SECONDS_PER_HOUR else SECONDS_PER_HOUR
    return step * math.ceil(seconds / step)


def _write_plainly(text: str) -> str:
    """Write money without its dollar sign, commas and k: ``5000usd/month`` for ``$5,000/month`` and ``$5k/month``."""
    match = _MONEY.fullmatch(text)
    if match is None:
        return text
    dollar, number, thousands, unit = match.groups()
    if not (dollar or thousands or "," in number):
        return text
    if dollar:
        unit = unit if unit.lower().startswith("usd") else f"usd {unit}".rstrip()
    return f"{number.replace(',', '')}{_EXPONENTS.get(thousands, '')} {unit}"


def _split(text: str, what: str, examples: str, given: str | None = None, *, zero: bool = False) -> tuple[float, str]:
    match, text = _QUANTITY.fullmatch(text), text if given is None else given
    if match is None:
        raise UsageError(f"{what}: cannot read {show_value(text)}; write a number and a unit, as in {examples}")
    value = float(match[1])
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        needed = "zero or a finite number above it" if zero else "a finite number above zero"
        raise UsageError(f"{what}: got {show_value(text)}; {needed} is needed")
    return value, (match[2] or "").strip()
