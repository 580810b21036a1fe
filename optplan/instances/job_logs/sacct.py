"""Reader of what Slurm's ``sacct --parsable2`` prints.

Steps of jobs (``123.batch``, ``123.0``) are passed over; tasks of an array (``123_4``) are jobs of their own, and those
that wait together (``123_[5-9%2]``) as many as there are; components of a heterogeneous job (``123+1``) belong
together, as do the attempts of one that was requeued (``sacct --duplicates``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, compress
from pathlib import Path

import numpy as np

from optplan.errors import DataError, show_value
from optplan.instances.job_logs.columns import (
    IntColumn,
    Jobs,
    Memo,
    Times,
    Words,
    Wrong,
    fill_from_end,
    iterate,
    read_columns,
    to_texts,
)
from optplan.instances.job_logs.records import BROKEN, Clock, LeftOut, LogReading, read_count, read_ending, read_seconds

#: What prints a log that can be read.
COMMAND = (
    "sacct --allusers --parsable2 --duplicates --starttime 2026-03-01 --endtime 2026-04-01 "
    "--format JobID,JobName,User,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES"
)
#: Columns without which nothing can be said, each with what may stand for it.
_NEEDED = (("JobID",), ("State",), ("Submit", "Start"), ("Elapsed", "End"), ("AllocTRES", "ReqTRES"))
#: What is read of each row, in this order, before the column that names classes.
_READ = ("JobID", "State", "JobName", "Submit", "Start", "End", "Elapsed", "AllocTRES", "ReqTRES", "Cluster")
_WAITING = re.compile(r"(?P<array>.+)_\[(?P<tasks>[\d,:\-]+)(?:%\d+)?\]")
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
#: Tasks of an array at most, in Slurm.
_MOST_TASKS = 4_000_001
_GPU = re.compile(r"gres/gpu(?::(?P<type>[^=]+))?=(?P<count>\d+)", re.ASCII)


def read_sacct(path: Path, reading: LogReading, left_out: LeftOut) -> Jobs:
    """Return the rows of a log, with times of the cluster's zone; what is left out is counted."""
    reader = _Reader(reading.clock)
    place = partial(_find_columns, path, reading.class_column)
    rows = read_columns(path, place, reader.read, left_out, delimiter="|", quoted=False)
    return _part_tasks(rows, left_out) if reader.waits else rows


def _part_tasks(rows: Jobs, left_out: LeftOut) -> Jobs:
    """Repeat the rows of tasks that wait together, once for each of them."""
    counts = np.ones(len(rows), dtype=np.intp)
    ids: list[str] = []
    for place, id_ in enumerate(chain.from_iterable(iterate(rows.id))):
        match = _WAITING.fullmatch(id_) if "[" in id_ else None
        tasks = _count_tasks(match["tasks"]) if match else 1
        if tasks is None:
            left_out.add(BROKEN, int(rows.where[place]), f"{show_value(id_.partition('/')[2])} is no list of tasks")
        counts[place] = tasks or 0
        ids += [f"{id_}/{number}" for number in range(tasks or 0)] if match else [id_]
    rows.keep(np.repeat(np.arange(len(rows)), counts))
    rows.id = to_texts(ids)
    return rows


def _find_columns(path: Path, class_column: str | None, header: list[str]) -> list[int]:
    """Return the places of what is read; of columns that are not there, the one after the last."""
    if "JobID" not in header or len(header) < 2:
        found = "|".join(header)[:60] or "nothing"
        problem = f"does not begin with the header of `sacct --parsable2` (its first line is {found!r})"
        raise DataError(str(path), problem, f"make it anew: {COMMAND} > jobs.txt")
    for names in _NEEDED:
        if not any(name in header for name in names):
            problem = f"no column {' or '.join(names)}; found {', '.join(filter(None, header))}"
            raise DataError(str(path), problem, f"ask for it: {COMMAND} > jobs.txt")
    if "Start" not in header and "Elapsed" not in header:
        raise DataError(str(path), "no column Elapsed, and no Start beside End", f"ask for it: {COMMAND} > jobs.txt")
    if class_column is not None and class_column not in header:
        problem = f"no column {class_column}; found {', '.join(filter(None, header))}"
        raise DataError(str(path), problem, "name one of these as --class-column, or ask sacct for it")
    return [header.index(name) if name in header else len(header) for name in (*_READ, class_column or "")]


class _Reader:
    """Reads blocks of columns; what it has read once it knows."""

    def __init__(self, clock: Clock) -> None:
        self._words = words = Words()
        self._times, self._elapsed = Times(clock.read), Times(read_seconds)
        self._endings = Memo(lambda state: words[read_ending(state)])
        self.waits = False  #: Whether tasks of an array wait together.
        self._gpus, self._types = Memo(lambda tres: read_gpus(tres)[0]), Memo(lambda tres: words[read_gpus(tres)[1]])

    def read(self, columns: Sequence[Sequence[str]], lines: IntColumn, wrong: Wrong) -> Jobs:
        """Read a block, without the steps of jobs."""
        marks = set("".join(columns[0])) & set(".+[")
        self.waits |= "[" in marks
        if "." in marks:
            jobs = ["." not in id_ for id_ in columns[0]]
            columns, lines = [list(compress(column, jobs)) for column in columns], lines[jobs]
        ids, states, names, submit, start, end, elapsed, allocated, requested, clusters, labels = columns
        start_s = self._times.column(start, wrong)
        run_s = fill_from_end(self._elapsed.column(elapsed, wrong), start_s, end, self._times, wrong)
        ending = self._endings.column(states, wrong).astype(np.int32)
        open_ = (ending == self._words["running"]) | (ending == self._words["pending"])
        run_s[open_ | (np.isnan(start_s) & (run_s == 0.0))] = np.nan  # it has not ended, or never began
        tres = [given or asked for given, asked in zip(allocated, requested, strict=True)]
        gpus = np.nan_to_num(self._gpus.column(tres, wrong))
        parts = [""] * len(ids)
        if "+" in marks:
            ids, _, parts = (list(each) for each in zip(*(id_.partition("+") for id_ in ids), strict=True))
        return Jobs(
            self._words,
            id=to_texts(list(map("/".join, zip(clusters, ids, strict=True)))),
            part=self._words.column(parts),
            name=to_texts(names),
            label=self._words.column(labels),
            submit_s=self._times.column(submit, wrong),
            start_s=start_s,
            run_s=run_s,
            gpus=gpus.astype(np.int32),
            gpu_type=np.nan_to_num(self._types.column(tres, wrong)).astype(np.int32),
            ending=ending,
            where=lines,
            completed=np.zeros(len(ids), dtype=np.bool_),
        )


@lru_cache(maxsize=4096)  # a log of a million jobs asks for few different things
def read_gpus(tres: str) -> tuple[int, str]:
    """Return the GPUs of ``billing=8,gres/gpu=4,gres/gpu:a100=4``, four, and their type, of several the commonest."""
    total, types = 0, dict[str, int]()
    for each in tres.split(","):
        match = _GPU.fullmatch(each.strip())
        if match and match["type"]:
            types[match["type"]] = types.get(match["type"], 0) + read_count(match["count"])
        elif match:
            total = read_count(match["count"])
    return total or sum(types.values()), max(types, key=lambda name: types[name], default="")


def _count_tasks(tasks: str) -> int | None:
    """Count the tasks of ``1,3,5-9:2``; None where it is none, or more than Slurm allows."""
    count = 0
    for part in tasks.split(","):
        match = _TASKS.fullmatch(part)
        if match is None:
            return None
        first, last, step = (int(each or 0) for each in match.groups())
        count += len(range(first, max(last, first) + 1, step or 1))
    return count if count <= _MOST_TASKS else None
