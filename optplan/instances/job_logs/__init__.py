"""Logs of jobs that ran, of a scheduler or an experiment tracker, and what they say about the jobs to come."""

from __future__ import annotations

from pathlib import Path

from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.joining import join_rows
from optplan.instances.job_logs.kubernetes import read_kubernetes
from optplan.instances.job_logs.records import LeftOut, LogFormat, LogReading
from optplan.instances.job_logs.sacct import read_sacct
from optplan.instances.job_logs.tables import read_table

__all__ = ["LogFormat", "LogReading", "read_log"]

_READERS = {LogFormat.CSV: read_table, LogFormat.SACCT: read_sacct, LogFormat.KUBERNETES: read_kubernetes}


def read_log(path: Path, reading: LogReading) -> tuple[Jobs, LeftOut]:
    """Read the jobs of a log, by the time of their submission, and what was left out of it.

    Raises
    ------
    DataError
        When the log cannot be read, is not what it is taken for, or has no job that can be used.
    """
    left_out = LeftOut("item" if reading.form is LogFormat.KUBERNETES else "line")
    rows = _READERS[reading.form](path, reading, left_out)
    return join_rows(path.name, rows, reading, left_out), left_out
