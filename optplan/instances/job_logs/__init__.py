"""Logs of jobs that ran, of a scheduler or an experiment tracker, and what they say about the jobs to come."""

from __future__ import annotations

from pathlib import Path

from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.joining import join_rows
from optplan.instances.job_logs.kubernetes import read_kubernetes
from optplan.instances.job_logs.records import LeftOut, LogFormat, LogReading
from optplan.instances.job_logs.sacct import read_sacct
from optplan.instances.job_logs.tables import read_table
from optplan.instances.job_logs.times import Clock, find_zone

__all__ = ["LogFormat", "LogReading", "read_log"]


def read_log(path: Path, reading: LogReading) -> tuple[Jobs, LeftOut]:
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
    if reading.form is LogFormat.CSV:
        rows = read_table(path, reading, clock=clock, left_out=left_out)
    elif reading.form is LogFormat.SACCT:
        column, delimiter = reading.class_column, reading.delimiter
        rows = read_sacct(path, clock=clock, class_column=column, left_out=left_out, delimiter=delimiter)
    else:
        rows = read_kubernetes(path, clock=clock, class_column=reading.class_column, left_out=left_out)
    return join_rows(path.name, rows, reading, left_out), left_out
