"""The journal: folders that hold no run are left as they are, and damage is named as damage before anything follows."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import DataError, OptplanError, OutputError, UsageError
from optplan.execution.journal import Beginning, Journal, Kind
from optplan.execution.records import Noted, OperationWanted
from optplan.execution.running import run
from optplan.execution.runs import read_run, resume
from optplan.execution.serving.publisher import Publisher

PlanOf = Callable[..., Plan]

JOURNAL, WAL, COUNT = "journal.sqlite", "journal.sqlite-wal", "journal.count"
#: What a run is made from where that does not matter.
MADE_FROM = Beginning("search", {}, {}, {})
#: Changed bytes that are tried.
TRIES = 60


@pytest.mark.parametrize("go_on", [resume, read_run, Publisher])
def test_a_folder_that_holds_no_run_is_left_as_it_is(tmp_path: Path, go_on: Callable[[Path], Any]) -> None:
    """Of a name that is not there nothing is made; a folder keeps its mode, and what is in it."""
    with pytest.raises(UsageError, match=r"no run is there; give the folder|no calculator has begun there"):
        go_on(tmp_path / "typo")
    assert not (tmp_path / "typo").exists()
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    mine.chmod(0o755)
    for name, content in (("notes", "mine"), (JOURNAL, "")):  # a driver that was killed at once leaves an empty file
        (mine / name).write_text(content, encoding="utf-8")
        with pytest.raises(UsageError, match=r"no run is there; give the folder|no calculator has begun there"):
            go_on(mine)
        assert mine.stat().st_mode & 0o777 == 0o755
        assert {path.name for path in mine.iterdir()} <= {"notes", JOURNAL}


def test_nothing_is_begun_among_files_of_others(plan_of: PlanOf, tmp_path: Path) -> None:
    """A folder with a file that is no run's keeps its mode and what is in it; the top of a volume is empty."""
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    mine.chmod(0o755)
    (mine / "notes").touch()
    with pytest.raises(UsageError, match=r"mine: holds other files \(notes\), and no run; give a new or "):
        run(plan_of("rubberband-two-stages"), out=mine)
    assert mine.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in mine.iterdir()] == ["notes"]
    (mine / "notes").rename(mine / "lost+found")
    assert run(plan_of("rubberband-two-stages"), out=mine).code == 0


def test_a_run_of_another_kind_is_not_taken_for_a_search(plan_of: PlanOf, tmp_path: Path) -> None:
    """What is asked of the run of a plan is not answered by a stream's folder, or a fleet's."""
    run(plan_of("rubberband-two-stages"), out=tmp_path / "run", budget_usd=0.2)
    assert read_run(tmp_path / "run", "search").describe().code == 4
    for kind in ("stream", "fleet"):
        with pytest.raises(UsageError, match=r"holds the run of a plan; `optplan run --resume .*` goes on with it"):
            read_run(tmp_path / "run", kind)


def pause(plan: Plan, out: Path) -> None:
    """Leave a run whose journal is one file."""
    assert run(plan, out=out, budget_usd=0.2).code == 4


def kill(plan: Plan, out: Path) -> None:
    """Leave a run whose driver was killed, so that its records are in the log beside the journal."""

    def die(record: object) -> None:
        if type(record).__name__ == "SegmentEnded":
            os.kill(os.getpid(), signal.SIGKILL)

    driver = os.fork()
    if driver == 0:
        run(plan, out=out, listener=die)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("leave", "name"), [(pause, JOURNAL), (pause, COUNT), (kill, WAL)], ids=["journal", "count", "log beside it"]
)
def test_a_changed_byte_is_noticed_or_changes_nothing(
    plan_of: PlanOf, tmp_path: Path, leave: Callable[[Plan, Path], None], name: str
) -> None:
    """Wherever it is: the run stands where it stood and ends as it would have, or the journal is named as damaged."""
    plan, whole, out, dice = plan_of("rubberband-two-stages"), tmp_path / "whole", tmp_path / "out", random.Random(7)
    leave(plan, whole)
    (whole / "journal.sqlite-shm").unlink(missing_ok=True)

    def copy() -> None:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole, out)

    def look() -> object:
        try:
            return read_run(out).describe(), resume(out, budget_usd=1.0)
        except DataError as error:
            return str(error)

    copy()
    stood, ended = read_run(out).describe(), resume(out, budget_usd=1.0)
    content, named = (whole / name).read_bytes(), 0
    for _ in range(TRIES):
        copy()
        changed = bytearray(content)
        changed[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        (out / name).write_bytes(changed)
        found = look()
        named += isinstance(found, str)
        assert found == (stood, ended) or (JOURNAL in str(found) and re.search("is damaged|has version", str(found)))
        copy()
        (out / name).write_bytes(changed)
        with pytest.raises(OptplanError):  # nothing begins over it
            run(plan, out=out)
    assert named > TRIES // 10


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.6, 0.9])
def test_a_journal_that_is_cut_off_is_damaged(plan_of: PlanOf, tmp_path: Path, keep: float) -> None:
    """By any part, also to nothing; the same of the log beside it."""
    for leave, name in ((pause, JOURNAL), (kill, WAL)):
        out = tmp_path / name
        leave(plan_of("rubberband-two-stages"), out)
        content = (out / name).read_bytes()
        (out / name).write_bytes(content[: int(keep * len(content))])
        for look in (read_run, resume):
            with pytest.raises(DataError, match=r"journal\.sqlite: is damaged \(.*; .*can be read"):
                look(out)


def test_an_older_copy_of_a_journal_is_damaged(plan_of: PlanOf, tmp_path: Path) -> None:
    """What it tells of is not all: the count beside it says so."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    pause(plan, out)
    older = (out / JOURNAL).read_bytes()
    assert resume(out, budget_usd=1.0).code == 0
    (out / JOURNAL).write_bytes(older)
    says = r"it has (\d+) of (\d+) records; of \2 records the first \1 can be read, up to 1 min 40 s of the run"
    with pytest.raises(DataError, match=rf"is damaged \({says}\); put it and what lies beside it back"):
        resume(out)
    (out / COUNT).unlink()
    says = r"journal\.count beside it does not say how many records it has; of (\d+) records the first \1 can be read"
    with pytest.raises(DataError, match=rf"is damaged \({says}"):
        resume(out)


#: By damage: what it does to a table of ten records, a second apart from 1 s on, and what is said about it.
DAMAGES = {
    "the end is missing": ("DELETE FROM records WHERE number > 6", "it has 7 of 10 records", 7),
    "the beginning is missing": ("DELETE FROM records WHERE number < 2", "records 0 to 1 are missing", 0),
    "one is missing": ("DELETE FROM records WHERE number = 4", "record 4 is missing", 4),
    "some are missing": ("DELETE FROM records WHERE number IN (4, 5)", "records 4 to 5 are missing", 4),
    "a byte is changed": (
        "UPDATE records SET body = replace(body, 'note 4', 'note 5') WHERE number = 4",
        "record 4 is not as it was written",
        4,
    ),
    "what the run is made from is changed": (
        "UPDATE records SET body = replace(body, '{}', '[]') WHERE number = 0",
        "record 0 is not as it was written",
        0,
    ),
    "another time is told": ("UPDATE records SET wall = wall + 1 WHERE number = 7", "record 7 is not as it was", 7),
    "two have changed places": (
        "UPDATE records SET number = 99 WHERE number = 4; UPDATE records SET number = 4 WHERE number = 6;"
        "UPDATE records SET number = 6 WHERE number = 99",
        "records are out of order: record 4 stands as record 6",
        4,
    ),
    "one is there twice": (
        "UPDATE records SET number = -number WHERE number > 4; UPDATE records SET number = 1 - number WHERE number < 0;"
        "INSERT INTO records SELECT 5, wall, body, digest FROM records WHERE number = 4",
        "record 5 is record 4 again",
        5,
    ),
    "one is of another run": (
        "UPDATE records SET (wall, body, digest) = (SELECT wall, body, digest FROM other.records WHERE number = 4)"
        " WHERE number = 4",
        "record 4 is not as it was written",
        4,
    ),
}


@pytest.mark.parametrize("kind", ["search", "stream", "fleet"])
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_what_can_still_be_read(tmp_path: Path, name: str, kind: Kind) -> None:
    """What is wrong, with which record, how many before it can be read and up to when; nothing goes on from it."""
    change, says, readable = DAMAGES[name]
    for folder in ("run", "other"):
        with Journal(tmp_path / folder) as journal:
            journal.begin(
                Beginning(kind, {}, {}, {}), [Noted(float(number), f"note {number}") for number in range(1, 10)]
            )
    with contextlib.closing(sqlite3.connect(tmp_path / "run" / JOURNAL)) as connection:
        connection.execute("ATTACH ? AS other", (str(tmp_path / "other" / JOURNAL),))
        connection.executescript(f"BEGIN; {change}; COMMIT;")
    rows = 11 if "twice" in name else 10
    can = f"of {rows} records the first {readable} can be read, up to {readable - 1} s of the run"
    known = can if readable else "none of its records can be read"
    for look in (resume, read_run):
        with pytest.raises(DataError) as caught:
            look(tmp_path / "run")
        assert f"is damaged ({says}" in str(caught.value)
        assert f"; {known}); put it and what lies beside it back from a copy" in str(caught.value)


def test_the_journal_of_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    """The file beside it knows how the run began."""
    for folder, notes in (("run", 2), ("other", 5)):
        with Journal(tmp_path / folder) as journal:
            journal.begin(MADE_FROM, [Noted(float(number), "") for number in range(notes)])
    (tmp_path / "run" / JOURNAL).write_bytes((tmp_path / "other" / JOURNAL).read_bytes())
    says = r"it is another run's: journal\.count beside it is of one with another beginning; none of its records can be"
    for look in (resume, read_run):
        with pytest.raises(DataError, match=rf"is damaged \({says}"):
            look(tmp_path / "run")


@pytest.mark.parametrize("trace", ["operations/a/operation.json", "trials/a/output.log", "trials/a/checkpoint-1/x"])
def test_a_folder_with_trials_holds_a_run(plan_of: PlanOf, tmp_path: Path, trace: str) -> None:
    """Its journal gone or empty, that is said, and nothing begins there."""
    out = tmp_path / "run"
    (out / trace).parent.mkdir(parents=True)
    (out / trace).write_text("{}", encoding="utf-8")
    plan = plan_of("rubberband-two-stages")
    for content in (None, ""):
        if content is not None:
            (out / JOURNAL).write_text(content, encoding="utf-8")
        looks: tuple[Callable[[Path], Any], ...] = (read_run, resume, partial(_begin, plan))
        for look in looks:
            with pytest.raises(DataError, match=r"journal\.sqlite: is damaged \(nothing is in it, and .* is of a run;"):
                look(out)


def _begin(plan: Plan, out: Path) -> None:
    run(plan, out=out)


def test_what_no_record_tells_of_is_not_passed_over(plan_of: PlanOf, tmp_path: Path) -> None:
    """An operation's folder is there, and its record is not: records are missing."""
    out = tmp_path / "run"
    pause(plan_of("rubberband-two-stages"), out)
    with Journal(out) as journal:
        journal.commit([OperationWanted(200.0, "known.1", "b1-s1", "b1-s1-trials-0001", 2, {})])
    for name in ("known.1", "strange.1"):
        (out / "operations" / name).mkdir(parents=True)
        (out / "operations" / name / "operation.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"holds strange\.1, which no record tells of: records are missing"):
        read_run(out)


def test_what_cannot_be_read_is_not_said_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that is only read, SQLite needs the file beside the journal by which those who have it open agree."""
    with Journal(tmp_path) as journal:
        journal.begin(MADE_FROM, [])
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorname = "SQLITE_CANTOPEN"

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("optplan.execution.journal.connect", fail)
    with pytest.raises(OutputError, match=r"cannot be read \(unable to open .*\); copy it to where it can be written"):
        read_run(tmp_path)


def test_records_of_another_release_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is not known says which record, and what to use."""
    with Journal(tmp_path) as journal:
        journal.begin(MADE_FROM, [])
        monkeypatch.setattr("optplan.execution.journal.encode", lambda _: '{"kind": "Noted", "t": 0, "words": "new"}')
        journal.commit([Noted(0.0, "")])
        with pytest.raises(
            DataError, match=r"record 1 is not understood \(.*\); use the release of optplan that began"
        ):
            list(journal.replay())


def test_any_text_that_a_trial_shows_can_be_written(tmp_path: Path) -> None:
    """Half of a pair of surrogates is JSON, and no UTF-8."""
    with Journal(tmp_path) as journal:
        journal.begin(MADE_FROM, [])
        journal.commit([Noted(0.0, "half \ud800")])
        assert list(journal.replay()) == [Noted(0.0, "half \ud800")]


def test_who_looks_while_a_run_begins_sees_none_or_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver writes its first records after somebody has found none: no run is there yet, and nothing is damaged."""
    read_whole = Journal._read_whole

    def begin_behind(self: Journal) -> list[str]:
        found = read_whole(self)
        monkeypatch.setattr(Journal, "_read_whole", read_whole)
        driver.begin(MADE_FROM, [])
        return found

    with Journal(tmp_path) as driver:
        monkeypatch.setattr(Journal, "_read_whole", begin_behind)
        with pytest.raises(UsageError, match="no run is there"):
            Journal(tmp_path, writable=False)
        with Journal(tmp_path, writable=False) as journal:
            assert list(journal.replay()) == []
