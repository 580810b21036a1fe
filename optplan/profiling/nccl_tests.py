"""Reader of the table that nccl-tests prints.

``busbw`` is bus bandwidth in GB/s there. Small all-reduces round to ``0.00``, so the bandwidth is computed from the
time, the size and the ranks, and has to agree with what stands there: that catches a wrong number of ranks, or another
collective.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, NamedTuple

from optplan.errors import DataError, UsageError, show_value
from optplan.formulations.srift.data.bandwidth import BITS_PER_BYTE
from optplan.instances.plain_data import read_text
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place, bandwidth_of
from optplan.schema import LARGEST_EXACT

#: What mpirun writes before each line with --tag-output.
_TAG = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?")
_RANK = re.compile(
    r"^#\s+Rank\s+(?P<rank>\d+)\s+(?:Group\s+(?P<group>\d+)\s+)?.*\bdevice\s+\d+\s+\[[^\]]*\]\s*(?P<gpu>.*?)\s*$"
)
_PROGRAM = re.compile(r"^#\s*Collective test starting:\s*(?:.*[/\\])?(\S+)")
#: Columns of the table, twice each: first of the all-reduces out of place, then of those in place.
_TIME, _BUS, _WRONG = "time", "busbw", ("#wrong", "error")
#: What stands there where sums were not checked.
_UNCHECKED = "N/A"
#: By how much, beyond rounding, the bandwidth that stands there may differ from the one that the time tells.
_AGREEMENT = 0.01
_MICROSECONDS_PER_SECOND = 1e6
#: Powers of ten up to which a figure is a float.
_LARGEST_EXPONENT = 300

Which = Literal["both", "out-of-place", "in-place"]


class _Timing(NamedTuple):
    """One all-reduce as it stands in the file."""

    where: str
    size_bytes: int
    which: Which
    time_us: str
    bus_gbyte_per_s: str


def read_nccl_tests(
    paths: Sequence[Path | str], place: Place, *, ranks: int | None = None, which: Which = "both"
) -> AllreduceData:
    """Read results of nccl-tests' ``all_reduce_perf``.

    Parameters
    ----------
    paths
        Files of what stood on stdout; one file may have several runs.
    place
        What is known of the VMs; the GPU's name is taken from the results where it is left empty.
    ranks
        That took part, where the files do not say it; where they do, the two have to agree.
    which
        Which of the two columns are read.

    Returns
    -------
    AllreduceData
        Two rows for each size, unless one column is chosen.

    Raises
    ------
    DataError
        When a file cannot be read, is cut off, is of another collective, has wrong sums, times or bandwidths that
        cannot be, or bandwidths that do not fit the number of ranks.
    UsageError
        When there is no file.
    """
    if not paths:
        raise UsageError("paths: give at least one file of nccl-tests")
    runs = (run for path in map(Path, paths) for run in _read_runs(path))
    return AllreduceData(tuple(row for run in runs for row in run.list_rows(place, ranks, which)))


def _read_runs(path: Path) -> Iterator[_Run]:
    """Read what stood on stdout; lines that are none of nccl-tests' are passed over."""
    run = _Run(path)
    for number, raw in enumerate(read_text(path).splitlines(), start=1):
        line = _TAG.sub("", raw)
        if line.startswith("# Using devices") and run.timings:
            yield run
            run = _Run(path)
        run.take(f"{path}:{number}", line)
    if not run.timings:
        problem = "has no row of nccl-tests' table" if run.columns else "has no table of nccl-tests"
        raise DataError(str(path), problem, "give what all_reduce_perf wrote")
    yield run


class _Run:
    """One run of nccl-tests, as far as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._devices: dict[tuple[int, int], str] = {}
        self.columns: list[str] = []
        self.timings: list[_Timing] = []

    def take(self, where: str, line: str) -> None:
        """Take a line."""
        words = line.split()
        if line.startswith("#"):
            self._take_comment(where, line)
        elif self.columns and words and words[0].isdecimal():
            self._take_row(where, words)

    def list_rows(self, place: Place, asked: int | None, which: Which) -> Iterator[Measurement]:
        """Make rows of a column, or of both; the ranks that the user and the file say have to be the same."""
        path = str(self._path)
        groups = {group for group, _ in self._devices}
        if len(groups) > 1:
            raise DataError(
                path, f"has {len(groups)} groups of ranks, whose all-reduces ran at once", "measure one group"
            )
        ranks = len(self._devices) or asked
        if ranks is None:
            raise DataError(path, "does not say how many ranks took part", "say it")
        if asked is not None and asked != ranks:
            raise DataError(path, f"has {ranks} ranks, and {asked} are said", "leave the number out, or correct it")
        if ranks < 2:
            raise DataError(path, f"has {ranks} rank", "an all-reduce has two ranks or more")
        here = replace(place, gpu=place.gpu or " + ".join(sorted(set(self._devices.values()))))
        for timing in self.timings:
            if timing.size_bytes == 0:  # nccl-tests times empty buffers, too, when asked for sizes from 0 on
                continue
            bandwidth = _compute(timing, ranks)
            try:
                row = Measurement(here, timing.size_bytes, ranks, bandwidth)
            except DataError as error:
                raise DataError(timing.where, f"{error.path} {error.problem}", error.fix) from None
            if which in ("both", timing.which):
                yield row

    def _take_comment(self, where: str, line: str) -> None:
        program, rank, names = _PROGRAM.match(line), _RANK.match(line), line[1:].split()
        if program and "all_reduce" not in program[1]:
            raise DataError(where, f"is a run of {program[1]}", "all-reduces are needed: run all_reduce_perf")
        if rank:
            self._devices[int(rank["group"] or 0), int(rank["rank"])] = rank["gpu"]
        elif names[:2] == ["size", "count"]:
            self.columns = names
            if "cputime" in names:
                fix = "measure without the option -C: they do not say how long an all-reduce takes"
                raise DataError(where, "has CPU times", fix)
            if names.count(_TIME) != 2 or names.count(_BUS) != 2:
                problem = f"has the columns {', '.join(names)}"
                raise DataError(where, problem, "time and busbw are needed, out of place and in place")
        elif names[:1] == ["(B)"] and not {"(us)", "(GB/s)"} <= set(names):
            raise DataError(where, f"has the units {' '.join(names)}", "microseconds and GB/s are understood")

    def _take_row(self, where: str, words: Sequence[str]) -> None:
        names = [*self.columns, "of day"] if self.columns[-1] == "timestamp" else self.columns
        if len(words) != len(names):
            problem = f"has {len(words)} fields where the header has {len(names)}"
            raise DataError(where, problem, "the line may be cut off, or mixed with another")
        if float(words[0]) > LARGEST_EXACT:
            problem = f"has a size of {show_value(words[0])}"
            raise DataError(where, problem, "whole bytes up to 2^53 are understood")
        starts = [place for place, name in enumerate(names) if name == _TIME]
        columns: tuple[Which, Which] = ("out-of-place", "in-place")
        for which, start in zip(columns, starts, strict=True):
            wrong = next((words[place] for place in range(start, len(names)) if names[place] in _WRONG), _UNCHECKED)
            if _is_wrong(where, wrong):
                raise DataError(where, f"sums are wrong ({which})", "mend the machine, measure again")
            bus = words[names.index(_BUS, start)]
            self.timings.append(_Timing(where, int(words[0]), which, words[start], bus))


def _compute(timing: _Timing, ranks: int) -> float:
    """Return the bandwidth that the time tells, in Gbit/s; the one that was written, as rounded, has to agree."""
    time_us, _ = _read_figure(timing.where, _TIME, timing.time_us)
    if time_us == 0:
        raise DataError(timing.where, f"{_TIME} {timing.time_us} is no time", "measure again, or leave the row out")
    found = bandwidth_of(timing.size_bytes, ranks, time_us / _MICROSECONDS_PER_SECOND)
    written, half_digit = _read_figure(timing.where, _BUS, timing.bus_gbyte_per_s)
    # Where switches add up (NCCL_ALGO=NVLS), nccl-tests has another factor.
    for factor in (1.0, 2.0 * (ranks + 1) / ranks):
        least, most = (BITS_PER_BYTE * factor * (written + sign * half_digit) for sign in (-1.0, 1.0))
        if least * (1.0 - _AGREEMENT) <= found <= most * (1.0 + _AGREEMENT):
            return found
    problem = f"{_TIME} {timing.time_us} means {found:.4g} Gbit/s among {ranks} ranks, and so does not fit"
    fix = "check the units, the size and the ranks"
    raise DataError(timing.where, f"{problem} {_BUS} {timing.bus_gbyte_per_s}", fix)


def _read_figure(where: str, column: str, text: str) -> tuple[float, float]:
    """Return a number as written, and half a unit of its last digit."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or number < 0 or max(exponent, number.adjusted()) > _LARGEST_EXPONENT:
        problem = f"{column} is {show_value(text)}; a number above zero is needed"
        raise DataError(where, problem, "the file may be cut off")
    return float(number), 0.5 * 10.0**exponent


def _is_wrong(where: str, count: str) -> bool:
    if count == _UNCHECKED:
        return False
    try:
        return float(count) > 0
    except ValueError:
        raise DataError(
            where, f"#wrong is {count!r}; a number is needed", "the line may be mixed with another"
        ) from None
