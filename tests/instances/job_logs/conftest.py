"""Logs as files, and the jobs that are read from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.instances.job_logs import LogFormat, LogReading, read_log
from optplan.instances.job_logs.records import LeftOut, Row

Read = Callable[..., tuple[list[Row], LeftOut]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a log and read it; options are those of :class:`LogReading`."""

    def write_and_read(text: str | bytes, form: str = "csv", **options: object) -> tuple[list[Row], LeftOut]:
        path = tmp_path / ("log.json" if form == "kubernetes" else "log.txt")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        jobs, left_out = read_log(path, LogReading(LogFormat(form), **options))  # type: ignore[arg-type]
        return list(jobs), left_out

    return write_and_read
