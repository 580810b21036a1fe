"""From rows of a log to jobs: attempts, components and pods of one job are put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from optplan.errors import DataError
from optplan.instances.job_logs.columns import BoolColumn, IntColumn, Jobs, iterate, leave_out
from optplan.instances.job_logs.records import LeftOut, LogReading, Row, Rule, is_completed, rule_of

#: Reasons for leaving something out that others look at, too.
NO_GPUS = "jobs without GPUs"
OVERLAPPING = "ids that come twice at overlapping times, taken for two jobs"
EARLY = "waits of jobs that start before they were submitted, taken for none"
#: Seconds: whoever waits or runs for longer has wrong times; by how much the clocks of two machines may differ.
_LONGEST_S, _CLOCKS_S = 10 * 365.25 * 86_400.0, 60.0


def join_rows(file: str, rows: Jobs, reading: LogReading, left_out: LeftOut) -> Jobs:
    """Put jobs together from the rows of a log, by the time of their submission; what is left out is counted."""
    # Rows of one id are attempts where they follow one another: runs are added up, except those whose rule is not to
    # keep them. Rows of different parts of one id run together: their GPUs are added up.
    rows.completed = np.array([is_completed(word) for word in rows.words], dtype=np.bool_)[rows.ending]
    groups = _find_groups(rows)
    if groups:
        single = np.ones(len(rows), dtype=np.bool_)
        merged = []
        for places in groups:
            single[places] = False
            of_one_id = list(rows[np.array(places)])
            merged += [_merge(one, file, reading) for one in _divide(of_one_id, left_out)]
        rows.keep(single)
        rows.put(Jobs.of(merged, rows.words), len(rows))
        rows.keep(slice(int(single.sum()) + len(merged)))
    kept = np.flatnonzero(_choose(file, rows, reading, left_out))
    if not kept.size:
        raise DataError(file, "has no job that can be used", str(left_out) or "it has no rows")
    rows.keep(kept[np.lexsort((rows.where[kept], rows.arrive_s[kept]))])
    return rows


def _find_groups(rows: Jobs) -> list[list[int]]:
    """Return the places of rows that share an id with others."""
    # Most jobs have one row: hashes find those few that may have more.
    hashes = np.fromiter(map(hash, chain.from_iterable(iterate(rows.id))), np.int64, len(rows))
    ordered = np.sort(hashes)
    shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    groups: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(np.isin(hashes, shared)).tolist() if shared.size else ():
        groups[rows.id[place]].append(place)
    return [places for id_, places in groups.items() if id_ and len(places) > 1]


def _choose(file: str, jobs: Jobs, reading: LogReading, left_out: LeftOut) -> BoolColumn:
    """Return (N,) which jobs count; those that are arrivals only have no time that they ran then."""
    arrive_s = jobs.arrive_s
    endings = np.unique(jobs.ending)
    rules = {
        place: rule_of(word, reading.rules, file, int(jobs.where[jobs.ending == place].min()))
        for place, word in zip(endings.tolist(), jobs.list_words(endings), strict=True)
    }
    dropped, counted = (
        np.isin(jobs.ending, [p for p, r in rules.items() if r is rule]) for rule in (Rule.DROP, Rule.COUNT)
    )
    open_ = np.isin(jobs.ending, [jobs.words["running"], jobs.words["pending"]])
    unknown = np.isnan(jobs.run_s)
    since_s, until_s = reading.since_s, reading.until_s
    outside = np.zeros(len(jobs), dtype=np.bool_)
    if since_s is not None:
        outside |= arrive_s < since_s
    if until_s is not None:
        outside |= arrive_s >= until_s
    other = np.zeros(len(jobs), dtype=np.bool_)
    if reading.gpu_type is not None:
        other = ~np.isin(jobs.gpu_type, [jobs.words[""], jobs.words[reading.gpu_type]])
    kept = np.ones(len(jobs), dtype=np.bool_)
    for which, reason, by in (
        (jobs.gpus == 0, NO_GPUS, None),
        (dropped, "{} jobs", jobs.ending),
        (np.isnan(arrive_s), "jobs without a time", None),
        (unknown & np.isnan(jobs.start_s) & ~open_, "{} jobs that never began", jobs.ending),
        (outside, "jobs submitted outside the span", None),
        (np.fmax(jobs.run_s, jobs.wait_s) > _LONGEST_S, "jobs that waited or ran for more than ten years", None),
        (other, "jobs on {}", jobs.gpu_type),
    ):
        _leave_out_by(jobs, kept & which, reason, by, left_out)
        kept &= ~which
    _leave_out_by(jobs, kept & (counted | unknown), "sizes of {} jobs", jobs.ending, left_out)
    leave_out(jobs, kept & (jobs.start_s < jobs.submit_s - _CLOCKS_S), EARLY, left_out)
    jobs.run_s[counted] = np.nan
    return kept


def _leave_out_by(jobs: Jobs, which: BoolColumn, reason: str, by: IntColumn | None, left_out: LeftOut) -> None:
    """Count some of the jobs as left out, each under a reason that has a word of its own."""
    if by is None:
        leave_out(jobs, which, reason, left_out)
        return
    places = np.unique(by[which])
    for place, word in zip(places, jobs.list_words(places), strict=True):
        leave_out(jobs, which & (by == place), reason.format(word), left_out)


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


def _merge(rows: list[Row], file: str, reading: LogReading) -> Row:
    """Return the rows of one job as one, which ended as the last of them."""
    last = rows[0] if len(rows) == 1 else max(rows, key=lambda row: (row.start_s is None, row.start_s or 0.0))
    if len(rows) == 1 or not any(row.gpus for row in rows):
        return last
    kept = [row for row in rows if rule_of(row.ending, reading.rules, file, row.where) is Rule.KEEP or row is last]
    gpus, run_s = _overlay(kept)
    has_begun = last.start_s is not None or last.ending in ("running", "pending")
    return last._replace(
        submit_s=min((row.submit_s for row in rows if row.submit_s is not None), default=None),
        start_s=min((row.start_s for row in rows if row.start_s is not None), default=None) if has_begun else None,
        run_s=None if last.run_s is None else run_s,
        gpus=gpus,
        gpu_type=last.gpu_type or next((row.gpu_type for row in rows if row.gpu_type), ""),
        completed=all(row.completed for row in kept),
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
