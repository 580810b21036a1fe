"""Tables of measured all-reduces in CSV.

Columns carry their unit in their name, because tools differ by a factor of eight: nccl-tests writes GB/s, clouds write
Gbit/s. A column that does not say its unit is refused, never guessed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from optplan.errors import DataError, DataWarning, nearest_name_hint, show_value
from optplan.formulations.srift.data.bandwidth import BITS_PER_BYTE
from optplan.instances.csv_tables import parse_number, parse_whole, read_header, read_rows
from optplan.profiling.allreduce_data import (
    COLUMNS,
    PLACE_NAMES,
    PLACE_NUMBERS,
    AllreduceData,
    Measurement,
    Origin,
    Place,
    bandwidth_of,
)

_MICROSECONDS_PER_SECOND = 1e6
#: By how much, beyond rounding, the bandwidths of one row may differ that are given in several units.
_AGREEMENT = 0.01

#: From a number, the size in bytes and the ranks to bus bandwidth in Gbit/s.
Conversion = Callable[[float, int, int], float]
#: Columns that say the bandwidth.
BANDWIDTHS: dict[str, Conversion] = {
    "bus_gbit_per_s": lambda value, size, ranks: value,  # noqa: ARG005 - one signature for all
    "bus_gbyte_per_s": lambda value, size, ranks: value * BITS_PER_BYTE,  # noqa: ARG005
    "time_us": lambda value, size, ranks: bandwidth_of(size, ranks, value / _MICROSECONDS_PER_SECOND),
}
_NEEDED = ("ranks", "size_bytes")
#: Names of figures, and parts of names, that do not say their unit.
_SIZES = ("size", "bytes", "message_size")
_TIMES = ("time", "latency", "duration", "seconds", "us", "ms")
_SPEAKING = ("bw", "bandwidth", "gbps", "gb/s", "gbit", "gbyte", "throughput")
_FEATURES = {"memory": "memory_gib", "cores": "cpu_cores", "rated": "rated_gbit_per_s", "network": "rated_gbit_per_s"}


def read_measurements(path: Path | str, *, unless_said: Place | None = None) -> AllreduceData:
    """Read measurements from CSV.

    Parameters
    ----------
    path
        A table with the columns ``ranks``, ``size_bytes`` and at least one of ``bus_gbit_per_s``, ``bus_gbyte_per_s``
        and ``time_us``; where a row has several of them, they have to agree. The other columns are the fields of
        :class:`Place`, and ``transfers`` and ``origin``.
    unless_said
        What is known of rows that do not say it themselves.

    Returns
    -------
    AllreduceData
        With the rows in the order of the file.

    Raises
    ------
    DataError
        When the file cannot be read, a column does not say its unit, or a row has no bandwidth or an impossible one;
        the message names the line.
    """
    path = Path(path)
    header = read_header(path)
    _check_header(path, header)
    known = [name for name in dict.fromkeys((*COLUMNS, *BANDWIDTHS)) if name in header]
    given = unless_said or Place("")
    if "vm_type" not in header and not given.vm_type:
        raise DataError(str(path), "no column vm_type", "add it, or say which type of VM the rows are of")
    rows = []
    for line, values in read_rows(path, known):
        texts = {name: value.strip() for name, value in zip(known, values, strict=True)}
        try:
            rows.append(_read_row(path, line, texts, given))
        except DataError as error:
            if error.path.startswith(str(path)):
                raise
            raise DataError(f"{path}:{line}", f"{error.path} {error.problem}", error.fix) from None
    if not rows:
        raise DataError(str(path), "has a header and no rows", "the file may be cut off")
    return AllreduceData(tuple(rows))


def _check_header(path: Path, header: Sequence[str]) -> None:
    others = [name for name in header if name not in (*COLUMNS, *BANDWIDTHS)]
    for name in others:
        fix = _ask_for_unit(name.lower())
        if fix:
            raise DataError(str(path), f"column {name!r} does not say what it holds in which unit", fix)
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise DataError(str(path), f"no column {', '.join(missing)}; found {', '.join(header)}", "add it")
    if not any(name in header for name in BANDWIDTHS):
        problem = f"no column {' or '.join(BANDWIDTHS)}; found {', '.join(header)}"
        raise DataError(str(path), problem, "add one of them; the name says the unit")
    if others:
        message = f"{path}: columns that are not read: {', '.join(map(repr, others))}"
        warnings.warn(message, DataWarning, stacklevel=3)


def _ask_for_unit(column: str) -> str:
    """Say how to name a column that speaks of a size, a bandwidth or a time, and is none of those that are known."""
    if column in _SIZES:
        return "name it size_bytes if it holds bytes"
    if column in _FEATURES:
        return f"name it {_FEATURES[column]}, in that unit"
    if column in _TIMES or any(part in column for part in _SPEAKING):
        return (
            "name it bus_gbit_per_s if it holds Gbit/s of bus bandwidth, bus_gbyte_per_s if GB/s, as nccl-tests "
            "writes, or time_us if microseconds; it is not guessed"
        )
    return ""


def _read_row(path: Path, line: int, texts: Mapping[str, str], unless_said: Place) -> Measurement:
    where, origins = f"{path}:{line}", (Origin.MEASURED.value, Origin.SYNTHETIC.value)
    if texts.get("origin", "") not in ("", *origins):
        raise DataError(where, f"origin is {texts['origin']!r}", nearest_name_hint(texts["origin"], origins))
    size, ranks = (parse_whole(path, line, name, texts[name]) for name in ("size_bytes", "ranks"))
    said: dict[str, Any] = {name: texts[name] for name in PLACE_NAMES if texts.get(name)}
    said |= {name: parse_number(path, line, name, texts[name]) for name in PLACE_NUMBERS if texts.get(name)}
    return Measurement(
        place=replace(unless_said, **said),
        size_bytes=size,
        ranks=ranks,
        bus_gbit_per_s=reconcile({name: texts.get(name, "") for name in BANDWIDTHS}, size, ranks, where=where),
        transfers=parse_whole(path, line, "transfers", texts.get("transfers") or "1"),
        synthetic=texts.get("origin") == Origin.SYNTHETIC,
    )


def reconcile(
    texts: Mapping[str, str],
    size_bytes: int,
    ranks: int,
    *,
    where: str,
    conversions: Mapping[str, Conversion] = BANDWIDTHS,
) -> float:
    """Return the bandwidth (Gbit/s) of the most exact figure, with which the others, as rounded, must agree."""
    figures = {column: _read_figure(where, column, text) for column, text in texts.items() if text}
    if not figures:
        raise DataError(where, f"no {' or '.join(texts)}", "fill one of them in, or leave the row out")
    best = min(figures, key=lambda column: figures[column].uncertainty)
    if figures[best].value == 0:
        fix = "measure again, or leave the row out; where a tool rounds to zero, give time_us, too"
        raise DataError(where, f"{best} is {texts[best]}; a number above zero is needed", fix)
    found = conversions[best](figures[best].value, size_bytes, ranks)
    for column, figure in figures.items():
        ends = sorted(conversions[column](end, size_bytes, ranks) for end in figure.ends)
        if not ends[0] * (1.0 - _AGREEMENT) <= found <= ends[1] * (1.0 + _AGREEMENT):
            problem = f"{best} {texts[best]} means {found:.4g} Gbit/s among {ranks} ranks, and so does not fit"
            raise DataError(where, f"{problem} {column} {texts[column]}", "check the units, the size and the ranks")
    return found


#: Powers of ten up to which a figure is a float.
_LARGEST_EXPONENT = 300


@dataclass(frozen=True)
class _Figure:
    """A number as written, and half a unit of its last digit."""

    value: float
    half_digit: float

    @property
    def uncertainty(self) -> float:
        """Relative to the value; infinite for zero."""
        return self.half_digit / self.value if self.value else math.inf

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest number that rounds to it, the least above zero."""
        return max(self.value - self.half_digit, 1e-300), self.value + self.half_digit


def _read_figure(where: str, column: str, text: str) -> _Figure:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or number < 0 or max(exponent, number.adjusted()) > _LARGEST_EXPONENT:
        raise DataError(
            where, f"{column} is {show_value(text)}; a number above zero is needed", "the file may be cut off"
        )
    return _Figure(float(number), 0.5 * 10.0**exponent)
