"""From rows of a log to jobs: attempts, components and pods of one job are put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from optplan.errors import DataError
from optplan.instances.job_logs.records import Job, LeftOut, Row, Rule, rule_of

#: Reasons for leaving something out that others look at, too.
NO_GPUS = "jobs without GPUs"
OVERLAPPING = "ids that come twice at overlapping times, taken for two jobs"


@dataclass(frozen=True)
class Selection:
    """Which jobs are looked at.

    Parameters
    ----------
    rules
        What becomes of a job, by how it ended.
    since_s, until_s
        Only jobs submitted from then on, and before then; seconds since 1970.
    gpu_type
        Only jobs on it, and those of which the log does not say the type; None for all.
    """

    rules: Mapping[str, Rule]
    since_s: float | None = None
    until_s: float | None = None
    gpu_type: str | None = None


def join_rows(file: str, rows: Iterable[Row], selection: Selection, left_out: LeftOut) -> list[Job]:
    """Put jobs together from the rows of a log.

    Rows of one id are attempts of one job where they follow one another: their runs are added up, except those whose
    rule is not to keep them. Rows of different parts of one id run together: their GPUs are added up.

    Parameters
    ----------
    file
        Its name, for complaints.
    rows
        In any order.
    selection
        Which jobs are looked at.
    left_out
        What is left out is counted here.

    Returns
    -------
    list of Job
        By the time of their submission.

    Raises
    ------
    DataError
        When a state is not known, or no job is left.
    """
    alone: list[Row] = []
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        (groups[row.id] if row.id else alone).append(row)
    jobs: list[Job] = []
    for row in alone:
        _take([row], file, selection, left_out, jobs)
    for group in groups.values():
        if len(group) == 1:
            _take(group, file, selection, left_out, jobs)
        else:
            for one in _divide(group, left_out):
                _take(one, file, selection, left_out, jobs)
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


def _take(rows: list[Row], file: str, selection: Selection, left_out: LeftOut, jobs: list[Job]) -> None:
    """Put one job together and append it, or count why it is left out."""
    last = rows[-1]
    if len(rows) > 1:
        last = max(rows, key=lambda row: (row.start_s is None, row.start_s or 0.0))
    where = last.where
    if not any(row.gpus for row in rows):
        left_out.add(NO_GPUS, where)
        return
    rules = selection.rules
    rule = rule_of(last.ending, rules, f"{file}:{where}")
    submits = [row.submit_s for row in rows if row.submit_s is not None]
    starts = [row.start_s for row in rows if row.start_s is not None]
    if rule is Rule.DROP:
        left_out.add(f"{last.ending} jobs", where)
        return
    if not submits and not starts:
        left_out.add("jobs without a time", where)
        return
    if last.ending not in ("running", "pending") and last.run_s is None and not starts:
        left_out.add(f"{last.ending} jobs that never began", where)
        return
    submit_s = min(submits or starts)
    if (selection.since_s is not None and submit_s < selection.since_s) or (
        selection.until_s is not None and submit_s >= selection.until_s
    ):
        left_out.add("jobs submitted outside the span", where)
        return
    gpu_type = next((row.gpu_type for row in rows if row.gpu_type), "")
    if selection.gpu_type is not None and gpu_type not in ("", selection.gpu_type):
        left_out.add(f"jobs on {gpu_type}", where)
        return
    gpus, run_s = last.gpus, last.run_s
    if len(rows) > 1:
        parts = [row for row in rows if row is last or rule_of(row.ending, rules, f"{file}:{row.where}") is Rule.KEEP]
        gpus, run_s = _overlay(parts)
    known = rule is Rule.KEEP and last.run_s is not None
    if not known:
        left_out.add(f"sizes of {last.ending} jobs", where)
    jobs.append(
        Job(
            name=last.name,
            label=last.label,
            submit_s=submit_s,
            wait_s=max(min(starts) - submit_s, 0.0) if submits and starts else None,
            run_s=run_s if known else None,
            gpus=gpus,
            gpu_type=gpu_type,
        )
    )


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
