"""Measured all-reduces: what the bandwidth model of section 4.2 learns from.

The label is the *bus bandwidth* ``V / t`` with the volume ``V = 2 s (n - 1) / n`` of s bytes among n ranks. It is
kept in Gbit/s, as clouds rate their networks. Tables in CSV carry the unit in the column's name, because tools differ
by a factor of eight: no unit is guessed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from optplan.errors import DataError, DataWarning, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, volume_factor
from optplan.instances.csv_tables import parse_number, parse_whole, read_header, read_rows

#: Largest bus bandwidth that is believed, in Gbit/s: ten times what the fastest links between GPUs carry.
MOST_GBIT_PER_S = 1e5
#: Shortest all-reduce that is believed: a tenth of what a single memory access over a network takes.
LEAST_TIME_S = 1e-7
#: Characters of a fingerprint that texts show.
_SHOWN_FINGERPRINT = 12


class Origin(StrEnum):
    """Where rows come from."""

    MEASURED = "measured"
    SYNTHETIC = "synthetic"
    MIXED = "partly synthetic"


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of the VMs that took part: the paper's features but for size, ranks and transfers (4.2)."""

    vm_type: str  #: The name under which instances ask for the bandwidth.
    #: cloud, region, zone, gpu, cpu: Empty where not known.
    cloud: str = ""
    region: str = ""
    zone: str = ""
    gpu: str = ""
    cpu: str = ""
    #: cpu_cores, memory_gib, rated_gbit_per_s: Of a VM; None where not known. The last is the provider's figure.
    cpu_cores: float | None = None
    memory_gib: float | None = None
    rated_gbit_per_s: float | None = None


#: Features of a place that are names, and those that are numbers.
PLACE_NAMES = ("vm_type", "cloud", "region", "zone", "gpu", "cpu")
PLACE_NUMBERS = ("cpu_cores", "memory_gib", "rated_gbit_per_s")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timed all-reduce, or the mean of several that were timed together."""

    place: Place  #: Where.
    size_bytes: int  #: Of each rank's buffer.
    ranks: int  #: That took part.
    bus_gbit_per_s: float  #: Bus bandwidth.
    transfers: int = 1  #: All-reduces that ran at once.
    synthetic: bool = False  #: Whether the row was generated, not measured.

    def __post_init__(self) -> None:
        """Refuse what no all-reduce can be."""
        if not self.place.vm_type:
            raise DataError("vm_type", "is empty", "name the type of VM, as instances call it")
        if self.ranks < 2:
            raise DataError("ranks", f"is {self.ranks}", "an all-reduce has two ranks or more")
        for name in ("size_bytes", "transfers"):
            if getattr(self, name) < 1:
                raise DataError(name, f"is {getattr(self, name)}; whole numbers from 1 on are allowed")
        if not self.bus_gbit_per_s > 0:
            problem = f"is {self.bus_gbit_per_s!r}; a bandwidth above zero is needed"
            raise DataError("bus_gbit_per_s", problem, "leave out all-reduces that failed")
        for name in PLACE_NUMBERS:
            value = getattr(self.place, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise DataError(name, f"is {value!r}; a number above zero is needed", "leave it empty if not known")
        if self.bus_gbit_per_s > MOST_GBIT_PER_S:
            problem = f"is {self.bus_gbit_per_s:g} Gbit/s, which no network carries"
            raise DataError("bus_gbit_per_s", problem, f"up to {MOST_GBIT_PER_S:g} is believed; check the unit")
        if self.time_s < LEAST_TIME_S:
            problem = f"is {self.bus_gbit_per_s:g} Gbit/s: {self.size_bytes} bytes in {self.time_s:.3g} s"
            raise DataError("bus_gbit_per_s", problem, f"no all-reduce takes less than {LEAST_TIME_S:g} s; check units")

    @property
    def time_s(self) -> float:
        """How long the all-reduce took."""
        return time_of(self.size_bytes, self.ranks, self.bus_gbit_per_s)

    @property
    def point(self) -> tuple[object, ...]:
        """What was measured, whatever came out: repetitions share it."""
        return self.place, self.size_bytes, self.ranks, self.transfers


def time_of(size_bytes: int, ranks: int, bus_gbit_per_s: float) -> float:
    """Return the seconds of an all-reduce with a bus bandwidth."""
    return volume_factor(ranks) * size_bytes / (bus_gbit_per_s * BYTES_PER_GBIT)


def bandwidth_of(size_bytes: int, ranks: int, time_s: float) -> float:
    """Return the bus bandwidth, in Gbit/s, of an all-reduce that takes some seconds."""
    return volume_factor(ranks) * size_bytes / time_s / BYTES_PER_GBIT


@dataclass(frozen=True, eq=False)
class AllreduceData:
    """Measurements of all-reduces, one or more."""

    rows: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        """Refuse an empty table with a DataError."""
        if not self.rows:
            raise DataError("measurements", "there are none", "measure, or read a table with rows")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content, the same for every order of rows and columns."""
        lines = format_csv(self).splitlines()[1:]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()

    @property
    def origin(self) -> Origin:
        """Whether the rows were measured or generated."""
        kinds = {row.synthetic for row in self.rows}
        if len(kinds) > 1:
            return Origin.MIXED
        return Origin.SYNTHETIC if kinds == {True} else Origin.MEASURED

    @property
    def places(self) -> tuple[Place, ...]:
        """Where measurements were made."""
        return tuple(dict.fromkeys(row.place for row in self.rows))

    @property
    def label(self) -> str:
        """Origin and fingerprint in words, for whatever is derived from the data."""
        return say_origin(self.origin, self.fingerprint)


def say_origin(origin: Origin, fingerprint: str) -> str:
    """Say where data comes from, and which it is."""
    kind = origin.value if origin is Origin.MEASURED else origin.value.upper()
    return f"{kind} all-reduces, fingerprint {fingerprint[:_SHOWN_FINGERPRINT]}"


#: Columns of a table in the order in which they are written.
COLUMNS = (
    *PLACE_NAMES,
    *PLACE_NUMBERS,
    "ranks",
    "size_bytes",
    "transfers",
    "bus_gbit_per_s",
    "origin",
)


def list_records(data: AllreduceData) -> list[dict[str, str | float | None]]:
    """List the rows as plain data, by column."""
    return [
        {
            **{name: getattr(row.place, name) for name in PLACE_NAMES},
            # 16.0 for 16, so that both are written alike
            **{name: None if (n := getattr(row.place, name)) is None else float(n) for name in PLACE_NUMBERS},
            "ranks": row.ranks,
            "size_bytes": row.size_bytes,
            "transfers": row.transfers,
            "bus_gbit_per_s": float(row.bus_gbit_per_s),
            "origin": (Origin.SYNTHETIC if row.synthetic else Origin.MEASURED).value,
        }
        for row in data.rows
    ]


def format_csv(data: AllreduceData) -> str:
    """Write measurements as CSV, without loss; :func:`read_measurements` reads it back."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(list_records(data))
    return text.getvalue()


#: Columns that every table has, beside the type of VM.
_NEEDED = ("ranks", "size_bytes", "bus_gbit_per_s")


def read_measurements(path: Path | str, *, unless_said: Place | None = None) -> AllreduceData:
    """Read measurements from CSV.

    Parameters
    ----------
    path
        A table with the columns ``ranks``, ``size_bytes`` and ``bus_gbit_per_s``. The other columns are the fields of
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
        When the file cannot be read, a column is missing, or a row has no bandwidth or an impossible one; the message
        names the line.
    """
    path = Path(path)
    header = read_header(path)
    _check_header(path, header)
    known = [name for name in COLUMNS if name in header]
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
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        fix = "add it, or name so what is in that unit: GB/s of bus bandwidth, as nccl-tests writes, are eight Gbit/s"
        raise DataError(str(path), f"no column {', '.join(missing)}; found {', '.join(header)}", fix)
    others = [name for name in header if name not in COLUMNS]
    if others:
        message = f"{path}: columns that are not read: {', '.join(map(repr, others))}"
        warnings.warn(message, DataWarning, stacklevel=3)


def _read_row(path: Path, line: int, texts: Mapping[str, str], unless_said: Place) -> Measurement:
    where, origins = f"{path}:{line}", (Origin.MEASURED.value, Origin.SYNTHETIC.value)
    if texts.get("origin", "") not in ("", *origins):
        raise DataError(where, f"origin is {texts['origin']!r}", nearest_name_hint(texts["origin"], origins))
    said: dict[str, Any] = {name: texts[name] for name in PLACE_NAMES if texts.get(name)}
    said |= {name: parse_number(path, line, name, texts[name]) for name in PLACE_NUMBERS if texts.get(name)}
    return Measurement(
        place=replace(unless_said, **said),
        size_bytes=parse_whole(path, line, "size_bytes", texts["size_bytes"]),
        ranks=parse_whole(path, line, "ranks", texts["ranks"]),
        bus_gbit_per_s=parse_number(path, line, "bus_gbit_per_s", texts["bus_gbit_per_s"]),
        transfers=parse_whole(path, line, "transfers", texts.get("transfers") or "1"),
        synthetic=texts.get("origin") == Origin.SYNTHETIC,
    )
