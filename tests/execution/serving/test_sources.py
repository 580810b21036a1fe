"""What tells a publisher of events besides HTTP: a watched folder, and sacct."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optplan.errors import OutputError, UsageError
from optplan.execution.online.events import Arrival, Completion
from optplan.execution.serving.publisher import Publisher
from optplan.execution.serving.sources import FolderWatch, SlurmJobs, SlurmQuestions, repeat
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.times import Clock

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
    return SlurmJobs(Clock())


@pytest.fixture
def publisher(tmp_path: Path, stream: BoaInstance) -> Iterator[Publisher]:
    """Run a publisher whose clock shows the hour after the jobs of these tests."""
    now_s = Clock().read("2026-03-01T12:00:00")
    assert now_s is not None
    kept = Publisher(tmp_path / "state", stream, clock=lambda: now_s)
    kept.start()
    yield kept
    kept.stop()


def test_a_list_of_sacct_becomes_arrivals_and_completions(tmp_path: Path, jobs: SlurmJobs, stream: BoaInstance) -> None:
    """Who ended well gives its size, who failed what it held, who waits its arrival, and the others nothing."""
    path = tmp_path / "jobs.sacct"
    path.write_text(_SACCT, "utf-8")
    events, left_out = jobs.read_list(path, stream)
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


def test_files_of_a_watched_folder_are_taken_once(tmp_path: Path, publisher: Publisher, jobs: SlurmJobs) -> None:
    """Events, lines of events, and lists of Slurm; the same files again count nothing again."""
    inbox = tmp_path / "inbox"
    watch = FolderWatch(inbox, publisher, jobs)
    arrival = {"kind": "arrival", "id": "1", "job_class": "a"}
    files = {
        "1.json": json.dumps({"events": [arrival]}),
        "2.jsonl": json.dumps({**arrival, "id": "2"}) + "\n\n" + json.dumps(arrival) + "\n",
        "3.sacct": _SACCT,
        ".half": "{",
    }
    for _ in range(2):
        for name, text in files.items():
            (inbox / name).write_text(text, "utf-8")
        assert watch.look() == 3
        assert publisher.view.events == 2 + 5
    assert sorted(os.listdir(inbox / "taken")) == sorted(set(files) - {".half"})
    assert os.listdir(inbox / "refused") == []
    assert (inbox / ".half").exists()


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("x.json", "{", "cannot be read"),
        ("x.json", "[" * 100_000, "cannot be read"),
        ("x.json", '[{"kind": "arrival", "id": "1"}]', "events.0.job_class"),
        ("x.json", "3", "an event or a list of events is needed"),
        ("x.jsonl", '{"kind": "completion", "id": "1", "job_class": "zebra"}', "no class 'zebra'"),
        ("x.txt", "", "of no kind that is known"),
        ("x.sacct", "nothing", "does not begin with the header"),
        ("\xff.json", "\x00", "cannot be read"),
    ],
)
def test_files_in_which_something_is_wrong_are_put_aside(
    tmp_path: Path, publisher: Publisher, jobs: SlurmJobs, name: str, text: str, complaint: str
) -> None:
    """They lie in ``refused`` with a file beside that says why, and the next ones are taken."""
    watch = FolderWatch(tmp_path / "inbox", publisher, jobs)
    (tmp_path / "inbox" / name).write_text(text, "utf-8")
    assert watch.look() == 1
    assert complaint in (tmp_path / "inbox" / "refused" / f"{name}.errors").read_text("utf-8")
    assert (tmp_path / "inbox" / "refused" / name).exists()
    assert watch.look() == 0
    publisher.tell(()).result()
    assert publisher.view.refused >= 1


def test_links_are_not_followed(tmp_path: Path, publisher: Publisher, jobs: SlurmJobs) -> None:
    """A link in the folder is put aside, whatever it leads to."""
    watch = FolderWatch(tmp_path / "inbox", publisher, jobs)
    (tmp_path / "secret.json").write_text('{"kind": "arrival", "id": "1", "job_class": "a"}', "utf-8")
    (tmp_path / "inbox" / "x.json").symlink_to(tmp_path / "secret.json")
    watch.look()
    assert publisher.view.events == 0
    assert "no regular file" in (tmp_path / "inbox" / "refused" / "x.json.errors").read_text("utf-8")


def test_what_stays_wrong_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Two looks that fail alike are one line; after a look that went well it is said again."""
    answers = iter(["gone", "gone", "", "gone", "end"])

    def look() -> int:
        answer = next(answers)
        if answer == "end":
            raise EOFError
        if answer:
            raise OSError(answer)
        return 0

    async def look_on() -> None:
        await repeat(look, 0.0)

    with ThreadPoolExecutor(1) as thread, pytest.raises(EOFError):  # this one may have a loop of its own
        thread.submit(lambda: asyncio.run(look_on())).result()
    assert caplog.messages == ["gone", "gone"]


def test_sacct_is_asked(tmp_path: Path, publisher: Publisher, jobs: SlurmJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sacct prints counts once however often it is asked; where there is none, or it fails, that is said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    questions = SlurmQuestions(publisher, jobs)
    with pytest.raises(UsageError, match=r"sacct cannot be started .*put its lists into the folder of --inbox"):
        questions.look()
    script = tmp_path / "sacct"
    (tmp_path / "list").write_text(_SACCT, "utf-8")
    script.write_text(f'#!/bin/sh\n[ "$TZ" = UTC ] && exec /bin/cat {tmp_path / "list"}\n', "utf-8")
    script.chmod(0o700)
    for _ in range(2):
        assert questions.look() == 5
        assert publisher.view.events == 5
    script.write_text("#!/bin/sh\necho no connection >&2; exit 1\n", "utf-8")
    with pytest.raises(OutputError, match="sacct failed: no connection"):
        questions.look()
