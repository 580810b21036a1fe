"""Reader of what Slurm's ``sacct --parsable2`` prints.

Steps of jobs (``123.batch``, ``123.0``) are passed over; tasks of an array (``123_4``) are jobs of their own, and those
that wait together (``123_[5-9%2]``) as many as there are; components of a heterogeneous job (``123+1``) belong
together, as do the attempts of one that was requeued (``sacct --duplicates``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from optplan.errors import DataError, show_value
from optplan.instances.job_logs.records import BROKEN, LeftOut, Row, read_count, read_ending, read_fields
from optplan.instances.job_logs.times import Clock, read_seconds

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


def read_sacct(
    path: Path, *, clock: Clock, class_column: str | None, left_out: LeftOut, delimiter: str | None = None
) -> Iterator[Row]:
    """Yield the rows of a log, with times of the cluster's zone; what is left out is counted."""
    rows = read_fields(
        path,
        lambda header: _find_columns(path, header, class_column),
        lambda fields, where: _read_row(fields, clock, where),
        left_out,
        delimiter=delimiter or "|",
        quoted=False,
    )
    for row in rows:
        waiting = _WAITING.fullmatch(row.id) if "[" in row.id else None
        if waiting is None:
            yield row
            continue
        tasks = _count_tasks(waiting["tasks"])
        if tasks is None:
            left_out.add(BROKEN, row.where, f"{show_value(row.id.partition('/')[2])} is no list of tasks")
        for number in range(tasks or 0):
            yield row._replace(id=f"{row.id}/{number}")


def _find_columns(path: Path, header: list[str], class_column: str | None) -> list[int]:
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


def _read_row(fields: Sequence[str], clock: Clock, where: int) -> Row | None:
    """Read a row, None of a step of a job; raise ValueError saying what is wrong with it."""
    id_, state, name, submit, start, end, elapsed, allocated, requested, cluster, label = fields
    if "." in id_:
        return None
    start_s, ending = clock.read(start), read_ending(state)
    run_s = read_seconds(elapsed) if elapsed else None
    if run_s is None and start_s is not None:
        end_s = clock.read(end)
        run_s = None if end_s is None else end_s - start_s
    if ending in ("running", "pending") or (start_s is None and not run_s):
        run_s = None  # it has not ended, or never began
    gpus, gpu_type = read_gpus(allocated or requested)
    base, _, part = id_.partition("+")
    submit_s = clock.read(submit)
    return Row(f"{cluster}/{base}", part, name, label, submit_s, start_s, run_s, gpus, gpu_type, ending, where)


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
