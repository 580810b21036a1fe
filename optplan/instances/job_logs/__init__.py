"""Logs of jobs that ran, of a scheduler or an experiment tracker, and what they say about the jobs to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from optplan.errors import DataError
from optplan.instances.job_logs.joining import Selection, join_rows
from optplan.instances.job_logs.kubernetes import read_kubernetes
from optplan.instances.job_logs.records import RULES, Job, LeftOut, Rule
from optplan.instances.job_logs.sacct import read_sacct
from optplan.instances.job_logs.tables import Columns, read_table
from optplan.instances.job_logs.times import Clock, find_zone


class LogFormat(StrEnum):
    """Who wrote a log."""

    SACCT = "sacct"
    KUBERNETES = "kubernetes"
    CSV = "csv"


@dataclass(frozen=True)
class LogReading:
    """How a log is to be read.

    Attributes
    ----------
    form
        Who wrote it.
    timezone
        Of times that say none.
    time_format
        How times are written, as ``strptime`` takes it; None for ISO 8601.
    columns
        By what we call a column (:data:`optplan.instances.job_logs.tables.KNOWN_NAMES`), what the table calls it.
    class_column
        The column (label of Kubernetes) whose values name classes.
    gpus
        How many GPUs each job has, where the table does not say it.
    delimiter
        Between two fields; None finds out.
    rules
        What becomes of a job, by how it ended.
    since, until
        Only jobs submitted from then on, and before then.
    gpu_type
        Only jobs on it, and those of which the log does not say the type.
    """

    form: LogFormat
    timezone: str = "UTC"
    time_format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    class_column: str | None = None
    gpus: int | None = None
    delimiter: str | None = None
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(RULES))
    since: str | None = None
    until: str | None = None
    gpu_type: str | None = None

    def read_moment(self, text: str | None, what: str) -> float | None:
        """Return a time that the user gave, as seconds since 1970.

        Raises
        ------
        DataError
            When it is no time.
        """
        if text is None:
            return None
        try:
            return Clock(find_zone(self.timezone)).read(text)
        except ValueError as error:
            raise DataError(what, str(error), "correct it") from None


def read_log(path: Path, reading: LogReading) -> tuple[list[Job], LeftOut]:
    """Read the jobs of a log, by the time of their submission, and what was left out of it.

    Raises
    ------
    DataError
        When the log cannot be read, is not what it is taken for, or has no job that can be used.
    UsageError
        When there is no such time zone.
    """
    clock = Clock(find_zone(reading.timezone), reading.time_format)
    left_out = LeftOut("item" if reading.form is LogFormat.KUBERNETES else "line")
    selection = Selection(
        rules=reading.rules,
        since_s=reading.read_moment(reading.since, "since"),
        until_s=reading.read_moment(reading.until, "until"),
        gpu_type=reading.gpu_type,
    )
    if reading.form is LogFormat.SACCT:
        rows = read_sacct(
            path,
            clock=clock,
            class_column=reading.class_column,
            left_out=left_out,
            delimiter=reading.delimiter,
        )
    elif reading.form is LogFormat.KUBERNETES:
        rows = read_kubernetes(path, clock=clock, class_column=reading.class_column, left_out=left_out)
    else:
        columns = Columns(reading.columns, reading.class_column, reading.gpus, reading.delimiter)
        rows = read_table(path, columns, clock=clock, left_out=left_out)
    return join_rows(path.name, rows, selection, left_out), left_out
