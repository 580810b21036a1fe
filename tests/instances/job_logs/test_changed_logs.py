"""Logs with anything in them: an answer, or an error that names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.errors import OptplanError
from optplan.instances.job_logs import LogFormat, LogReading, read_log
from optplan.instances.job_logs.naming import suggest_classes

SACCT = (
    "JobID|JobName|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES\n"
    "1|a|COMPLETED|2026-03-02T00:00:00|2026-03-02T01:00:00|Unknown|01:00:00|gres/gpu=1|\n"
)
CSV = "id,name,submit,start,end,gpus,state\n1,a,2026-03-02,2026-03-02T01:00,2026-03-02T02:00,4,done\n"
VALUES = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                "-1",
                "0",
                "1e400",
                "1e300",
                "nan",
                "inf",
                "0001-01-01",
                "9999-12-31T23:59:59",
                "2026-03-29T02:30:00",
            ),
            *(
                "99-99:99:99",
                "9" * 400,
                "12_[1-999999999]",
                "12_[]",
                "7+",
                "gres/gpu=" + "9" * 30,
                "\x1b[2J",
                '"',
                "a|b",
            ),
        ]
    ),
    st.text(max_size=8),
)


def _read(tmp_path: Path, text: str, form: str) -> None:
    """Read a log; every job that comes out of it has sound figures."""
    path = tmp_path / ("log.json" if form == "kubernetes" else "log.txt")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found, _ = read_log(path, LogReading(LogFormat(form), timezone="Europe/Berlin"))
        suggest_classes(found)
    except OptplanError:
        return
    assert all(job.gpus >= 1 and (job.run_s is None or 0 <= job.run_s < 1e11) for job in found)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "text", "mark"), [("sacct", SACCT, "|"), ("csv", CSV, ",")])
@settings(max_examples=50)
@given(data=st.data())
def test_changed_fields(
    form: str, text: str, mark: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One field of the only job, or of the header, is something else."""
    lines = [line.split(mark) for line in text.splitlines()]
    line = data.draw(st.integers(0, 1))
    lines[line][data.draw(st.integers(0, len(lines[line]) - 1))] = data.draw(VALUES)
    _read(tmp_path_factory.mktemp("log"), "\n".join(mark.join(fields) for fields in lines), form)


@settings(max_examples=50)
@given(cut=st.integers(0, 10**6))
def test_logs_that_are_cut_off(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Anywhere."""
    for form, text in (("sacct", SACCT), ("csv", CSV)):
        _read(tmp_path_factory.mktemp("log"), text[: cut % len(text)], form)


@settings(max_examples=50)
@given(
    value=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
        max_leaves=4,
    ),
    where=st.sampled_from(
        ["metadata", "spec", "status", "kind", "startTime", "conditions", "parallelism", "containers"]
    ),
)
def test_changed_objects(value: object, where: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One field of the only Job is something else."""
    pod: dict[str, Any] = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}
    status: dict[str, Any] = {"startTime": "2026-03-02T00:30:00Z", "completionTime": "2026-03-02T01:30:00Z"}
    job: dict[str, Any] = {
        "kind": "Job",
        "metadata": {"name": "a", "creationTimestamp": "2026-03-02T00:00:00Z"},
        "spec": {"template": {"spec": pod}},
        "status": status,
    }
    for fields in (job, job["spec"], status, pod):
        if (
            where in fields
            or (where == "conditions" and fields is status)
            or (where == "parallelism" and fields is pod)
        ):
            fields[where] = value
    _read(tmp_path_factory.mktemp("log"), json.dumps({"items": [job]}), "kubernetes")
