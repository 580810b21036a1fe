"""What the publisher of a calculator writes down, answers, publishes and survives."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import DataError, OutputError, UsageError
from optplan.execution.online.messages import Arrival, Measurement, OnlineEvent, Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving import store
from optplan.execution.serving.publisher import WIDTHS_FILE, Publisher, Reply
from optplan.execution.serving.service import render_metrics
from optplan.formulations.boa.data.instance import BoaInstance


def _arrival(name: str, job_class: str = "a") -> Arrival:
    return Arrival(id=name, job_class=job_class)


def _answers(publisher: Publisher, *events: OnlineEvent) -> list[Reply]:
    return [outcome.answer for outcome in publisher.tell(events).result(timeout=60)]


def test_events_count_once(tmp_path: Path, stream: BoaInstance) -> None:
    """A repetition in the same batch, in a later one and after a new start is told as such and changes nothing."""
    publisher = Publisher(tmp_path / "s", stream)
    publisher.start()
    assert _answers(publisher, _arrival("1"), _arrival("1"), _arrival("2")) == [
        Reply.TAKEN,
        Reply.REPEATED,
        Reply.TAKEN,
    ]
    assert _answers(publisher, _arrival("2"), _arrival("3")) == [Reply.REPEATED, Reply.TAKEN]
    publisher.stop()
    again = Publisher(tmp_path / "s")
    again.start()
    assert _answers(again, _arrival("1")) == [Reply.REPEATED]
    again.stop()
    assert again.view.events == 3


def test_what_is_refused_says_why_and_may_come_again(tmp_path: Path, stream: BoaInstance) -> None:
    """A refused event does not use up its id: corrected, it is taken."""
    publisher = Publisher(tmp_path / "s", stream)
    publisher.start()
    (outcome,) = publisher.tell([Measurement(id="m", job_class="a", gpus=64, speed=1.0)]).result(timeout=60)
    assert outcome.answer is Reply.REFUSED
    assert "may hold up to 4" in outcome.complaint
    assert _answers(publisher, Measurement(id="m", job_class="a", gpus=4, speed=1.0)) == [Reply.TAKEN]
    publisher.stop()
    assert publisher.view.refused == 1


def test_the_table_is_published_whole_and_for_the_user_alone(
    tmp_path: Path, stream: BoaInstance, clock: Callable[[], float]
) -> None:
    """The file holds the view's table; folder, database and table are open to nobody else."""
    folder = tmp_path / "s"
    publisher = Publisher(folder, stream, clock=clock)
    publisher.calculate()
    publisher.stop()
    table = WidthTable.parse(json.loads((folder / WIDTHS_FILE).read_text("utf-8")))
    assert table == publisher.view.table
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in (WIDTHS_FILE, "calculator.sqlite"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_a_new_start_publishes_what_was_written_down(
    tmp_path: Path, stream: BoaInstance, clock: Callable[[], float]
) -> None:
    """A kill between writing a table down and publishing it is mended by the next start, without calculating."""
    folder = tmp_path / "s"
    publisher = Publisher(folder, stream, clock=clock)
    publisher.calculate()
    publisher.stop()
    (folder / WIDTHS_FILE).unlink()
    again = Publisher(folder, clock=clock)
    again.start()
    again.stop()
    assert again.view.table == publisher.view.table
    assert WidthTable.parse(json.loads((folder / WIDTHS_FILE).read_text("utf-8"))) == publisher.view.table
    assert len(again.view.calculations) == 1


def test_a_batch_that_cannot_be_written_does_not_count(
    tmp_path: Path, stream: BoaInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk whoever told gets an error, and the same events count once when they come again."""
    publisher = Publisher(tmp_path / "s", stream, Terms(window_h=1e9))
    commit = store.Store.commit

    def fail(*_: object, **__: object) -> None:
        raise OutputError("the disk is full")

    publisher.start()
    monkeypatch.setattr(store.Store, "commit", fail)
    with pytest.raises(OutputError, match="disk is full"):
        publisher.tell([_arrival("1")]).result(timeout=60)
    monkeypatch.setattr(store.Store, "commit", commit)
    assert _answers(publisher, _arrival("1")) == [Reply.TAKEN]
    publisher.stop()
    assert publisher.view.events == 1


def test_one_process_keeps_a_folder(tmp_path: Path, stream: BoaInstance) -> None:
    """A second publisher is refused while the first one lives, and a folder where none began needs an instance."""
    publisher = Publisher(tmp_path / "s", stream)
    with pytest.raises(UsageError, match="another calculator runs there"):
        Publisher(tmp_path / "s", stream)
    publisher.stop()
    with pytest.raises(UsageError, match="give the instance"):
        Publisher(tmp_path / "empty")


def test_no_calculator_begins_among_files_of_others(tmp_path: Path, stream: BoaInstance) -> None:
    """A folder with a file that is no calculator's keeps its mode and what is in it; a token may be there before."""
    tmp_path.chmod(0o755)
    (tmp_path / "notes").touch()
    with pytest.raises(UsageError, match=r"holds other files \(notes\), and no calculator; give a new or"):
        Publisher(tmp_path, stream)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    (tmp_path / "notes").rename(tmp_path / "token")
    Publisher(tmp_path, stream).stop()


def test_another_budget_goes_on_with_what_was_learned(
    tmp_path: Path, stream: BoaInstance, clock: Callable[[], float], now: list[float]
) -> None:
    """Begun again with another budget, the publisher has the same estimates and a new table."""
    publisher = Publisher(tmp_path / "s", stream, clock=clock)
    publisher.calculate()
    publisher.stop()
    now[0] += 10.0
    again = Publisher(tmp_path / "s", stream.replace(budget="4gpu"), clock=clock)
    again.calculate()
    again.stop()
    latest = again.view.calculations[0]
    assert (latest.reason, latest.number, latest.budget) == ("the instance was changed", 2, 4.0)
    assert again.view.table is not None
    assert again.view.table.held_at("a", 0).gpus == 4


def test_metrics_show_what_is_owed(
    tmp_path: Path, stream: BoaInstance, clock: Callable[[], float], now: list[float]
) -> None:
    """Of 10 GPU-hours committed within an hour, 2.5 are given: 3 hours of budget are owed."""
    publisher = Publisher(tmp_path / "s", stream, clock=clock)
    publisher.start()
    assert _answers(publisher, Arrival(id="1", job_class="a", committed=10.0)) == [Reply.TAKEN]
    now[0] += 3600.0
    assert _answers(publisher, Arrival(id="2", job_class="b", committed=0.0)) == [Reply.TAKEN]
    publisher.stop()
    assert publisher.view.debt_h == pytest.approx(3.0, abs=0.01)
    assert publisher.view.committed == pytest.approx(10.0, rel=0.01)
    metrics = render_metrics(publisher.view).decode()
    assert re.search(r"optplan_budget_debt_hours (3\.0|2\.99)", metrics)
    assert re.search(r'optplan_budget\{what="committed"\} (10\.0|9\.99)', metrics)


def test_over_the_budget_the_last_table_stays_and_log_and_metrics_say_so(
    tmp_path: Path,
    stream: BoaInstance,
    clock: Callable[[], float],
    now: list[float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A load of 2 GPUs on a budget of 1: what readers find is the table from before, and 2 are needed."""
    publisher = Publisher(tmp_path / "s", stream, clock=clock)
    publisher.calculate()
    publisher.stop()
    published = (tmp_path / "s" / WIDTHS_FILE).read_bytes()
    now[0] += 10.0
    again = Publisher(tmp_path / "s", stream.replace(budget="1gpu"), clock=clock)
    with caplog.at_level(logging.WARNING):
        again.calculate()
    again.stop()
    assert (tmp_path / "s" / WIDTHS_FILE).read_bytes() == published
    assert "over-budget: the instance was changed; no widths keep this budget" in caplog.text
    assert "table 1 stays" in caplog.text
    assert again.view.table is not None
    assert again.view.table.number == 1
    latest = again.view.calculations[0]
    assert latest.budget == 1.0
    assert latest.needed == pytest.approx(2.0, rel=1e-3)
    assert (latest.verdict, latest.number) == ("over-budget", 1)
    metrics = render_metrics(again.view).decode()
    assert 'optplan_calculation{verdict="over-budget"} 1.0' in metrics
    assert re.search(r'optplan_budget\{what="needed"\} (2\.0|1\.99|2\.00)', metrics)


@pytest.mark.parametrize("version", [3, 99])
def test_tables_of_another_release_are_refused(tmp_path: Path, stream: BoaInstance, version: int) -> None:
    """A state that an earlier or a later release wrote is left alone, with a message that says so."""
    Publisher(tmp_path / "s", stream).stop()
    with sqlite3.connect(tmp_path / "s" / "calculator.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(DataError, match=f"has version {version}; understood: 4"):
        Publisher(tmp_path / "s", stream)


@pytest.mark.parametrize("content", [b"garbage" * 1000, None])
def test_a_file_that_is_no_calculator_is_named(tmp_path: Path, stream: BoaInstance, content: bytes | None) -> None:
    """Bytes that are no database, and a database without its tables: which file it is, and what to do."""
    if content is not None:
        (tmp_path / "calculator.sqlite").write_bytes(content)
    else:
        with closing(sqlite3.connect(tmp_path / "calculator.sqlite")) as connection:
            connection.execute("PRAGMA user_version = 4")
    with pytest.raises(DataError, match=r"calculator.sqlite: cannot be read \(.*\); put it back from a copy; or move"):
        Publisher(tmp_path, stream)


def test_one_who_does_not_wait_stops_nobody(
    tmp_path: Path, stream: BoaInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event whose teller is gone before it is looked at does not count, and those of others do."""
    publisher, find_known = Publisher(tmp_path / "s", stream), store.Store.find_known
    looked, went_on = threading.Event(), threading.Event()

    def wait(*given: Any) -> set[str]:  # noqa: ANN401 - as find_known's
        looked.set()
        assert went_on.wait(60)
        return find_known(*given)

    monkeypatch.setattr(store.Store, "find_known", wait)
    first = publisher.tell([_arrival("1")])
    assert looked.wait(60)
    gone, third = publisher.tell([_arrival("2")]), publisher.tell([_arrival("3")])
    assert gone.cancel()
    went_on.set()
    assert [told.result(timeout=60)[0].answer for told in (first, third)] == [Reply.TAKEN] * 2
    publisher.stop()
    assert publisher.view.events == 2


def test_a_bug_stops_nobody(tmp_path: Path, stream: BoaInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong while events are taken, those who told of them are answered, and the next ones count."""
    publisher = Publisher(tmp_path / "s", stream)
    publisher.start()
    known = store.Store.find_known

    def fail(*_: object) -> set[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(store.Store, "find_known", fail)
    with pytest.raises(OutputError):
        publisher.tell([_arrival("1")]).result(timeout=60)
    monkeypatch.setattr(store.Store, "find_known", known)
    assert _answers(publisher, _arrival("1")) == [Reply.TAKEN]
    publisher.stop()
