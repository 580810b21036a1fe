"""What tells a publisher of events besides HTTP: Slurm's accounting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optplan.errors import OutputError, UsageError
from optplan.execution.online.messages import Arrival, Completion
from optplan.execution.serving.accounting import SlurmJobs
from optplan.execution.serving.publisher import Publisher
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.records import Clock

_HEADER = "JobID|JobName|User|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES|Cluster"
_SACCT = f"""{_HEADER}
7|a-one|u|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|01:00:00|gres/gpu=4|gres/gpu=4|c
7.batch|batch||COMPLETED|2026-03-01T10:05:00|2026-03-01T10:05:00|2026-03-01T11:05:00|01:00:00|gres/gpu=4||c
8|b-two|u|FAILED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T10:35:00|00:30:00|gres/gpu=2|gres/gpu=2|c
9|a-three|u|PENDING|2026-03-01T10:10:00|Unknown|Unknown|00:00:00||gres/gpu=2|c
10|zebra|u|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|01:00:00|gres/gpu=4|gres/gpu=4|c
11|a-cpu|u|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|01:00:00|cpu=4|cpu=4|c
"""


@pytest.fixture
def jobs() -> SlurmJobs:
    """Return a reader of Slurm's jobs, whose classes are what their names begin with."""
    return SlurmJobs()


@pytest.fixture
def publisher(tmp_path: Path, stream: BoaInstance) -> Iterator[Publisher]:
    """Run a publisher whose clock shows the hour after the jobs of these tests."""
    now_s = Clock().read("2026-03-01T12:00:00")
    assert now_s is not None
    kept = Publisher(tmp_path / "state", stream, clock=lambda: now_s)
    kept.start()
    yield kept
    kept.stop()


def test_what_sacct_prints_becomes_arrivals_and_completions(jobs: SlurmJobs, stream: BoaInstance) -> None:
    """Who ended well gives its size, who failed what it held, who waits its arrival, and the others nothing."""
    events, left_out = jobs.read(_SACCT, stream)
    arrivals = [event.job_class for event in events if isinstance(event, Arrival)]
    assert arrivals == ["a", "b", "a"]
    ends = [event for event in events if isinstance(event, Completion)]
    assert [(end.job_class, end.whole, end.ran[0].gpus, end.ran[0].seconds) for end in ends] == [
        ("a", True, 4, 3600.0),
        ("b", False, 2, 1800.0),
    ]
    assert "1 jobs of no class" in str(left_out)
    assert "1 jobs without GPUs" in str(left_out)
    assert len({event.id for event in events}) == len(events)


def test_sacct_is_asked(tmp_path: Path, publisher: Publisher, jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sacct prints counts once however often it is asked; where there is none, or it fails, that is said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"sacct cannot be started .*or leave --slurm out"):
        jobs.tell(publisher)
    script = tmp_path / "sacct"
    (tmp_path / "list").write_text(_SACCT, "utf-8")
    script.write_text(f'#!/bin/sh\n[ "$TZ" = UTC ] && exec /bin/cat {tmp_path / "list"}\n', "utf-8")
    script.chmod(0o700)
    for _ in range(2):
        assert jobs.tell(publisher) == 5
        assert publisher.view.events == 5
    script.write_text("#!/bin/sh\necho no connection >&2; exit 1\n", "utf-8")
    with pytest.raises(OutputError, match="sacct failed: no connection"):
        jobs.tell(publisher)
