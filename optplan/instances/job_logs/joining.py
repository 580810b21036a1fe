"""From rows of a log to jobs: attempts, components and pods of one job are put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from optplan.errors import DataError
from optplan.instances.job_logs.records import Job, LeftOut, LogReading, Row, Rule, is_completed, rule_of

#: Reasons for leaving something out that others look at, too.
NO_GPUS = "jobs without GPUs"
OVERLAPPING = "ids that come twice at overlapping times, taken for two jobs"


def join_rows(file: str, rows: Iterable[Row], reading: LogReading, left_out: LeftOut) -> list[Job]:
    """Put jobs together from the rows of a log, by the time of their submission; what is left out is counted."""
    # Rows of one id are attempts where they follow one another: runs are added up, except those whose rule is not to
    # keep them. Rows of different parts of one id run together: their GPUs are added up.
    jobs: list[Job] = []
    first: dict[str, Row] = {}
    groups: dict[str, list[Row]] = {}  # most jobs have one row, which needs no list
    for row in rows:
        if not row.id:
            _take([row], file, reading, left_out, jobs)
        elif (before := first.setdefault(row.id, row)) is not row:
            groups.setdefault(row.id, [before]).append(row)
    for id_, row in first.items():
        for one in [[row]] if id_ not in groups else _divide(groups[id_], left_out):
            _take(one, file, reading, left_out, jobs)
    if not jobs:
        raise DataError(file, "has no job that can be used", str(left_out) or "it has no rows")
    jobs.sort(key=lambda job: job.submit_s)
    return jobs


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


def _take(rows: list[Row], file: str, reading: LogReading, left_out: LeftOut, jobs: list[Job]) -> None:
    """Put one job together and append it, or count why it is left out."""
    last = rows[0] if len(rows) == 1 else max(rows, key=lambda row: (row.start_s is None, row.start_s or 0.0))
    rule = rule_of(last.ending, reading.rules, file, last.where)
    starts = [row.start_s for row in rows if row.start_s is not None]
    submit_s = min([row.submit_s for row in rows if row.submit_s is not None] or starts, default=None)
    gpu_type = last.gpu_type or next((row.gpu_type for row in rows if row.gpu_type), "")
    reason = _refuse(rows, last, rule, submit_s, gpu_type, reading)
    if reason or submit_s is None:
        left_out.add(reason, last.where)
        return
    gpus, run_s, kept = last.gpus, last.run_s, [last]
    if len(rows) > 1:
        kept = [row for row in rows if rule_of(row.ending, reading.rules, file, row.where) is Rule.KEEP or row is last]
        gpus, run_s = _overlay(kept)
    if rule is Rule.COUNT or last.run_s is None:
        run_s = None
        left_out.add(f"sizes of {last.ending} jobs", last.where)
    wait_s = None if last.submit_s is None or not starts else max(min(starts) - submit_s, 0.0)
    completed = all(is_completed(row.ending) for row in kept)
    jobs.append(Job(last.name, last.label, submit_s, wait_s, run_s, gpus, gpu_type, completed))


def _refuse(
    rows: Sequence[Row], last: Row, rule: Rule, submit_s: float | None, gpu_type: str, reading: LogReading
) -> str:
    """Say why a job is left out; nothing where it is not."""
    if not last.gpus and not any(row.gpus for row in rows):
        return NO_GPUS
    if rule is Rule.DROP:
        return f"{last.ending} jobs"
    if submit_s is None:
        return "jobs without a time"
    if last.run_s is None and last.start_s is None and last.ending not in ("running", "pending"):
        return f"{last.ending} jobs that never began"
    since_s, until_s = reading.since_s, reading.until_s
    if (since_s is not None and submit_s < since_s) or (until_s is not None and submit_s >= until_s):
        return "jobs submitted outside the span"
    if reading.gpu_type is not None and gpu_type not in ("", reading.gpu_type):
        return f"jobs on {gpu_type}"
    return ""


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
