"""Streams of jobs for readers: what was planned of each class beside what happened."""

from __future__ import annotations

from optplan.execution.streams.outcomes import StreamOutcome
from optplan.reporting.pages import Definitions, Page, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.tables import Column, Table, numbers

_COLUMNS = (
    Column("class"),
    Column(""),
    *numbers("jobs", "mean completion time", "GPU-hours of a job", "GPUs of a job"),
)

#: By exit code, what is known in a word, and how good it is.
_BADGES = {0: ("done", "good"), 1: ("jobs were given up", "bad")}


def class_table(outcome: StreamOutcome) -> Table:
    """Make the table of planned against actual, two rows for each class."""
    rows: list[tuple[str, ...]] = []
    for one in outcome.classes:
        planned = (_seconds(one.planned_jct_s), _hours(one.planned_gpu_hours))
        widths = ", ".join(map(str, one.widths)) or NOTHING
        rows.append((one.job_class, "planned", f"{one.jobs:,}", *planned, ""))
        actual = (_seconds(one.actual_jct_s), _hours(one.actual_gpu_hours))
        rows.append(("", "virtual" if outcome.virtual else "actual", f"{one.completed:,}", *actual, widths))
    title = "Planned, and on the virtual clock" if outcome.virtual else "Planned against actual"
    return Table(title, _COLUMNS, rows, num_keys=2)


def build_stream_page(outcome: StreamOutcome) -> Page:
    """Build the page of a stream: its figures, and what was planned of each class beside what happened."""
    title = f"{len(outcome.classes):,} classes of jobs: {outcome.status}"
    lead = "virtual stream: nothing was trained; times are those of the instance" if outcome.virtual else ""
    badge = _BADGES.get(outcome.code, (outcome.status, "fair"))
    sections = [
        Section("classes", "Classes of jobs", [class_table(outcome)]),
        Section("facts", "The whole stream", [Definitions(list_facts(outcome))]),
    ]
    return Page("", title, lead, *badge, sections=sections, window_title="stream of jobs")


def list_facts(outcome: StreamOutcome) -> list[tuple[str, str]]:
    """List the main figures, each with its name."""
    facts = [
        ("status", outcome.status + (f": {outcome.why}" if outcome.why else "")),
        ("mean completion time", f"{_seconds(outcome.actual_jct_s)} (planned {_seconds(outcome.planned_jct_s)})"),
        ("GPU-hours held by jobs", _hours(outcome.gpu_hours)),
        ("GPU-hours of nodes", _hours(outcome.node_gpu_hours) + _say_starting(outcome)),
        ("tables learned", f"{outcome.tables:,}"),
        ("changes of width", f"{outcome.changes:,}"),
        ("time", format_seconds(outcome.time_s)),
    ]
    return [*facts, *((f"given up: {name}", why) for name, why in outcome.dropped.items())]


def _say_starting(outcome: StreamOutcome) -> str:
    starting = outcome.starting_gpu_hours
    share = format_share(starting / outcome.node_gpu_hours) if starting else ""
    return f" ({_hours(starting)} of them, {share}, while they started)" if starting else ""


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else format_seconds(value)


def _hours(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"
