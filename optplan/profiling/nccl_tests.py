"""Reader of what nccl-tests writes: the table on stdout, and the JSON report of its option ``-J``.

``busbw`` is bus bandwidth in GB/s there. Small all-reduces round to ``0.00``, so the bandwidth is computed from the
time, the size and the ranks, and has to agree with what stands there: that catches a wrong number of ranks, or another
collective.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from optplan.errors import DataError, UsageError, name_field, show_value
from optplan.instances.plain_data import read_data, read_text
from optplan.profiling.allreduce_data import AllreduceData, Buffers, Measurement, Place
from optplan.profiling.allreduce_tables import BANDWIDTHS, Conversion, read_measurements, reconcile
from optplan.schema import LARGEST_EXACT

#: Versions of the JSON report that are understood; all have the fields that are read here.
_VERSIONS = (1, 2, 3)
#: What mpirun writes before each line with --tag-output.
_TAG = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?")
_RANK = re.compile(
    r"^#\s+Rank\s+(?P<rank>\d+)\s+(?:Group\s+(?P<group>\d+)\s+)?.*\bdevice\s+\d+\s+\[[^\]]*\]\s*(?P<gpu>.*?)\s*$"
)
_PROGRAM = re.compile(r"^#\s*Collective test starting:\s*(\S+)")
#: Columns of the table, twice each: first of the all-reduces out of place, then of those in place.
_TIME, _BUS, _WRONG = "time", "busbw", ("#wrong", "error")
#: What stands there where sums were not checked.
_UNCHECKED = "N/A"
_NO_CPU_TIMES = "measure without the option -C: they do not say how long an all-reduce takes"
#: What the columns mean; and where switches add up (NCCL_ALGO=NVLS), for which nccl-tests has another factor.
_RING: dict[str, Conversion] = {_TIME: BANDWIDTHS["time_us"], _BUS: BANDWIDTHS["bus_gbyte_per_s"]}
_SWITCH: dict[str, Conversion] = {
    **_RING,
    _BUS: lambda value, size, ranks: BANDWIDTHS["bus_gbyte_per_s"](value, size, ranks) * 2.0 * (ranks + 1) / ranks,
}
#: Digits after the point in the JSON report.
_JSON_DIGITS = 6

Which = Literal["both", "out-of-place", "in-place"]


@dataclass(frozen=True)
class _Timing:
    """One all-reduce as it stands in the file."""

    where: str
    size_bytes: int
    buffers: Buffers
    texts: dict[str, str]
    is_wrong: bool


@dataclass(frozen=True)
class _Run:
    """One run of nccl-tests."""

    ranks: int | None
    gpu: str
    timings: tuple[_Timing, ...]


def read_nccl_tests(
    paths: Sequence[Path | str], place: Place, *, ranks: int | None = None, which: Which = "both"
) -> AllreduceData:
    """Read results of nccl-tests' ``all_reduce_perf``.

    Parameters
    ----------
    paths
        Files: ``.json`` is the report of ``-J``, ``.csv`` a table with the columns of
        :func:`~optplan.profiling.allreduce_tables.read_measurements`, and everything else what stood on stdout; of
        the last, one file may have several runs.
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
    rows: list[Measurement] = []
    for path in map(Path, paths):
        if path.suffix.lower() == ".csv":
            rows += read_measurements(path, unless_said=place).rows
            continue
        runs = [_read_report(path)] if path.suffix.lower() == ".json" else list(_read_runs(path))
        for run in runs:
            rows += _list_rows(run, path, place, ranks)
    wanted = [row for row in rows if which == "both" or row.buffers.value in ("", which)]
    if not wanted:
        raise DataError(str(paths[0]), f"has no {which} all-reduce", "read both columns")
    return AllreduceData(tuple(wanted))


def _list_rows(run: _Run, path: Path, place: Place, asked: int | None) -> Iterator[Measurement]:
    """Make rows of a run; the ranks that the user and the file say have to be the same."""
    ranks = run.ranks or asked
    if ranks is None:
        raise DataError(str(path), "does not say how many ranks took part", "say it")
    if asked is not None and asked != ranks:
        raise DataError(str(path), f"has {ranks} ranks, and {asked} are said", "leave the number out, or correct it")
    if ranks < 2:
        raise DataError(str(path), f"has {ranks} rank", "an all-reduce has two ranks or more")
    here = replace(place, gpu=place.gpu or run.gpu)
    for timing in run.timings:
        if timing.is_wrong:
            raise DataError(timing.where, f"sums are wrong ({timing.buffers.value})", "mend the machine, measure again")
        if timing.size_bytes == 0:  # nccl-tests times empty buffers, too, when asked for sizes from 0 on
            continue
        bandwidth = _reconcile(timing, ranks)
        try:
            yield Measurement(here, timing.size_bytes, ranks, bandwidth, buffers=timing.buffers)
        except DataError as error:
            raise DataError(timing.where, f"{error.path} {error.problem}", error.fix) from None


def _reconcile(timing: _Timing, ranks: int) -> float:
    """Return the bandwidth that the time tells, in Gbit/s; the one that was written has to agree."""
    try:
        return reconcile(timing.texts, timing.size_bytes, ranks, where=timing.where, conversions=_RING)
    except DataError as error:
        try:
            return reconcile(timing.texts, timing.size_bytes, ranks, where=timing.where, conversions=_SWITCH)
        except DataError:
            raise error from None


def _read_runs(path: Path) -> Iterator[_Run]:
    """Read what stood on stdout; lines that are none of nccl-tests' are passed over."""
    table = _Table(path)
    for number, raw in enumerate(read_text(path).splitlines(), start=1):
        line = _TAG.sub("", raw)
        if line.startswith("# Using devices") and table.timings:
            yield table.to_run()
            table = _Table(path)
        table.take(number, line)
    if not table.timings:
        problem = "has no row of nccl-tests' table" if table.columns else "has no table of nccl-tests"
        raise DataError(str(path), problem, "give what all_reduce_perf wrote, or its JSON report as .json")
    yield table.to_run()


class _Table:
    """What is read of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._devices: dict[tuple[int, int], str] = {}
        self.columns: list[str] = []
        self.timings: list[_Timing] = []

    def take(self, number: int, line: str) -> None:
        """Take a line."""
        words = line.split()
        if line.startswith("#"):
            self._take_comment(number, line)
        elif self.columns and words and words[0].isdecimal():
            self._take_row(f"{self._path}:{number}", words)

    def _take_comment(self, number: int, line: str) -> None:
        where = f"{self._path}:{number}"
        program, rank, names = _PROGRAM.match(line), _RANK.match(line), line[1:].split()
        if program:
            _check_program(where, program[1])
        elif rank:
            self._devices[int(rank["group"] or 0), int(rank["rank"])] = rank["gpu"]
        elif names[:2] == ["size", "count"]:
            self.columns = names
            _check_times(where, names)
        elif names[:1] == ["(B)"] and not {"(us)", "(GB/s)"} <= set(names):
            raise DataError(where, f"has the units {' '.join(names)}", "microseconds and GB/s are understood")

    def _take_row(self, where: str, words: Sequence[str]) -> None:
        names = [*self.columns, "of day"] if self.columns[-1] == "timestamp" else self.columns
        if len(words) != len(names):
            problem = f"has {len(words)} fields where the header has {len(names)}"
            raise DataError(where, problem, "the line may be cut off, or mixed with another")
        starts = [place for place, name in enumerate(names) if name == _TIME]
        for buffers, start in zip((Buffers.OUT_OF_PLACE, Buffers.IN_PLACE), starts, strict=True):
            wrong = next((words[place] for place in range(start, len(names)) if names[place] in _WRONG), _UNCHECKED)
            self.timings.append(
                _Timing(
                    where=where,
                    size_bytes=_read_size(where, words[0]),
                    buffers=buffers,
                    texts={_TIME: words[start], _BUS: words[names.index(_BUS, start)]},
                    is_wrong=_is_wrong(where, wrong),
                )
            )

    def to_run(self) -> _Run:
        """Return the run."""
        groups = {group for group, _ in self._devices}
        if len(groups) > 1:
            problem = f"has {len(groups)} groups of ranks, whose all-reduces ran at once"
            raise DataError(str(self._path), problem, "measure one group")
        return _Run(len(self._devices) or None, _name_gpus(self._devices.values()), tuple(self.timings))


def _read_size(where: str, value: str | float) -> int:
    """Read the bytes of a buffer, none or more."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (0.0 <= number <= LARGEST_EXACT and number.is_integer()):
        raise DataError(where, f"has a size of {show_value(value)}", "whole bytes up to 2^53 are understood")
    return int(number)


def _read_report(path: Path) -> _Run:
    """Read the JSON report."""
    report = read_data(path)
    if not isinstance(report, dict) or not {"version", "config", "results"} <= set(report):
        raise DataError(path.name, "is no report of nccl-tests", "give what its option -J wrote")
    if report["version"] not in _VERSIONS:
        known = ", ".join(map(str, _VERSIONS))
        raise DataError(
            name_field(path.name, "version"),
            f"got {report['version']!r}; understood: {known}",
            "give what stood on stdout",
        )
    try:
        if report.get("args"):
            _check_program(name_field(path.name, "args"), report["args"][0])
        config = report["config"]
        # Each process lists its first GPU only.
        ranks = len(config["devices"]) * config["nthreads"] * config["ngpus"]
        gpu = _name_gpus(device["device_info"] for device in config["devices"])
        timings = [
            timing
            for index, result in enumerate(report["results"])
            for timing in _read_result(name_field(path.name, f"results[{index}]"), result)
        ]
    except DataError:
        raise
    except (KeyError, TypeError, IndexError, ValueError) as error:
        problem = f"lacks a field of nccl-tests' report, or has another kind of value there ({error})"
        raise DataError(path.name, problem, "the file may have been changed") from None
    if not timings:
        raise DataError(name_field(path.name, "results"), "is empty", "the run may have failed; measure again")
    return _Run(ranks, gpu, tuple(timings))


def _read_result(where: str, result: Mapping[str, Any]) -> Iterator[_Timing]:
    """Read one size: two timings, of which the one out of place may be missing."""
    for buffers, name in ((Buffers.OUT_OF_PLACE, "out_of_place"), (Buffers.IN_PLACE, "in_place")):
        timing = result[name]
        if timing is None:
            continue
        if "cpu_time" in timing:
            raise DataError(f"{where}.{name}", "has CPU times", _NO_CPU_TIMES)
        texts = {_TIME: timing["time"], _BUS: timing["bus_bw"]}
        yield _Timing(
            where=f"{where}.{name}",
            size_bytes=_read_size(where, result["size"]),
            buffers=buffers,
            texts={
                key: f"{value:.{_JSON_DIGITS}f}" if isinstance(value, float) else str(value)
                for key, value in texts.items()
            },
            is_wrong=bool(timing.get("nwrong")),
        )


def _is_wrong(where: str, count: str) -> bool:
    if count == _UNCHECKED:
        return False
    try:
        return float(count) > 0
    except ValueError:
        raise DataError(
            where, f"#wrong is {count!r}; a number is needed", "the line may be mixed with another"
        ) from None


def _check_program(where: str, program: str) -> None:
    name = re.split(r"[/\\]", str(program))[-1]
    if "all_reduce" not in name:
        raise DataError(where, f"is a run of {name}", "all-reduces are needed: run all_reduce_perf")


def _check_times(where: str, names: Sequence[str]) -> None:
    if "cputime" in names:
        raise DataError(where, "has CPU times", _NO_CPU_TIMES)
    if names.count(_TIME) != 2 or names.count(_BUS) != 2:
        problem = f"has the columns {', '.join(names)}"
        raise DataError(where, problem, "time and busbw are needed, out of place and in place")


def _name_gpus(names: Iterable[str]) -> str:
    return " + ".join(sorted(set(names)))
