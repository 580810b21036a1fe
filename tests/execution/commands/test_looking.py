"""``optplan status``, ``logs``, ``stop`` and ``report``: the truth of each kind of folder."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.execution.journal import Journal
from optplan.execution.records import Ended, NodeReleasing, NodeWanted, Resumed
from optplan.execution.serving.publisher import Publisher
from optplan.execution.trial_files import hold_lock
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance

if TYPE_CHECKING:
    from tests.conftest import Runner


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return what would be sent to which process; nothing is."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    return sent


@pytest.fixture
def search(run: Runner, tmp_path: Path) -> Path:
    """Return the folder of a search that was followed to its end."""
    plan, out = tmp_path / "plan.json", tmp_path / "search"
    assert run("solve", "rubberband-two-stages", "--plan", plan).code == 0
    assert run("run", plan, "--out", out).code == 0
    return out


@pytest.fixture
def stream(run: Runner, write_instance: Callable[..., Path], tmp_path: Path) -> Path:
    """Return the folder of a stream whose only job is over."""
    instance, plan, jobs, out = write_instance(), *(tmp_path / name for name in ("plan.json", "jobs.json", "stream"))
    jobs.write_text(json.dumps([{"name": "one", "job_class": "job", "at_s": 0.0}]), encoding="utf-8")
    assert run("solve", instance, "--plan", plan).code == 0
    assert run("run", plan, jobs, "--truth", instance, "--out", out).code == 0
    return out


@pytest.fixture
def fleet(run: Runner, tmp_path: Path) -> Path:
    """Return the folder of a fleet that never came, and waits for an answer."""
    plan, out = tmp_path / "plan.json", tmp_path / "fleet"
    assert run("solve", "srift-interruption", "--plan", plan).code == 0
    terms = ("--launch-wait", "100ms", "--heartbeat", "50ms", "--grace", "1s", "--launch", "1h")
    assert run("run", plan, "--executor", "command", "--command", "echo asked", "--out", out, *terms).code == 3
    return out


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """Return the folder of a service that does not run."""
    Publisher(tmp_path / "state", read_instance("boa-two-classes", BoaInstance)).stop()
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("kind", "shown", "titled"),
    [
        ("search", "virtual run: nothing was trained", "Virtual run: nothing was trained"),
        ("stream", "it has ended", "1 of 1 jobs done, in "),
        ("fleet", "nobody follows it", "0 of 400 iterations on 2 p3.8xlarge@512"),
        ("service", "nobody runs it: `optplan serve", "does not run"),
    ],
)
def test_each_kind_of_folder_is_shown_and_reported(
    run: Runner, request: pytest.FixtureRequest, tmp_path: Path, kind: str, shown: str, titled: str
) -> None:
    """How it stands, as text, as JSON and as a page."""
    folder, page = request.getfixturevalue(kind), tmp_path / "page.html"
    told = run("status", folder)
    assert told.code == 0
    assert shown in told.out
    assert run("status", folder, "--json").data
    assert run("report", folder, "-o", page).code == 0
    assert titled in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["search", "stream", "fleet"])
def test_whoever_follows_a_run_is_named_and_asked(
    run: Runner, request: pytest.FixtureRequest, killed: list[tuple[int, int]], kind: str
) -> None:
    """The process that holds the folder's lock gets Ctrl-C's signal."""
    folder = request.getfixturevalue(kind)
    handle = hold_lock(folder / "driver.lock", "busy")
    try:
        assert f"followed by process {os.getpid()}" in run("status", folder).out
        assert run("status", folder, "--json").data["process"] == os.getpid()
        told = run("stop", folder)
    finally:
        os.close(handle)
    assert (told.code, killed) == (0, [(os.getpid(), signal.SIGINT)])
    assert f"asked process {os.getpid()} to pause" in told.err


def test_a_held_lock_that_says_no_process_is_named(run: Runner, search: Path) -> None:
    """Nobody can be asked to pause; the message names the file and the way out."""
    handle = hold_lock(search / "driver.lock", "busy")
    try:
        os.pwrite(handle, b"garbage", 0)
        told = [run(command, search) for command in ("status", "stop")]
    finally:
        os.close(handle)
    message = "driver.lock: a process holds it, but it says no process id; end that process, then remove it"
    assert [(each.code, message in each.err) for each in told] == [(2, True)] * 2


def test_a_process_of_another_machine_is_not_taken_for_one_of_this(
    run: Runner, search: Path, killed: list[tuple[int, int]]
) -> None:
    """Who holds the lock has a number that is another process's here, which gets no signal."""
    handle = hold_lock(search / "driver.lock", "busy")
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getppid()).encode(), 0)
        told = run("stop", search)
    finally:
        os.close(handle)
    assert (told.code, killed) == (2, [])
    assert f"process {os.getppid()}, which holds it, is not of this machine" in told.err


def test_who_ends_while_it_is_asked_is_not_called_asked(
    run: Runner, search: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is gone between the look at its lock and the signal."""
    handle = hold_lock(search / "driver.lock", "busy")

    def end(*_: int) -> None:
        os.close(handle)
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", end)
    told = run("stop", search, "--json")
    assert (told.code, told.data["asked"], told.data["driver"]) == (0, False, None)
    assert "it has ended" in told.data["said"]


def test_a_service_is_named_and_asked_to_end(run: Runner, service: Path, killed: list[tuple[int, int]]) -> None:
    """While it keeps its folder; its process ends by SIGTERM. No run can go on there, and there are no logs."""
    publisher = Publisher(service)
    try:
        assert f"runs as process {os.getpid()}" in run("status", service).out
        assert run("status", service, "--json").data["process"] == os.getpid()
        told = run("stop", service, "--json")
    finally:
        publisher.stop()
    assert (told.code, told.data["asked"], killed) == (0, True, [(os.getpid(), signal.SIGTERM)])
    again = run("stop", service)
    assert (again.code, len(killed)) == (0, 1)
    assert "the service does not run" in again.err
    assert "a service writes its messages to stderr" in run("logs", service).err
    assert "`optplan serve" in run("run", "--resume", service).err


def test_a_service_shows_its_table_and_why_it_was_made(run: Runner, tmp_path: Path) -> None:
    """By hand: on 2.5 GPUs both classes hold two; on one, which does not carry the load of two, that table stays."""
    table = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    one = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [0.5, 0.5], "speedup": {"t4": table}}
    stream = BoaInstance(classes={"a": one, "b": one}, gpu_types={"t4": {}}, budget="2.5gpu", problem="whole")
    for budget, at_s in (("2.5gpu", 1_800_000_000.0), ("1gpu", 1_800_000_010.0)):
        publisher = Publisher(tmp_path / "state", stream.replace(budget=budget), clock=partial(float, at_s))
        publisher.calculate()
        publisher.stop()
        told = run("status", tmp_path / "state")
        assert "2 (epochs 1 to 2)" in told.out
        assert "2027-01-15 08:00:00" in told.out
        assert "the first calculation" in told.out
        assert ("Over-budget: no widths keep this budget" in told.out) is (budget == "1gpu")
    data = run("status", tmp_path / "state", "--json").data
    assert [each["verdict"] for each in data["calculations"]] == ["over-budget", "published"]
    assert data["table"]["number"] == 1
    page = tmp_path / "page.html"
    assert run("report", tmp_path / "state", "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "Over-budget: no widths keep this budget" in text
    assert "2 (epochs 1 to 2)" in text.replace("\u00a0", " ")


def test_a_service_that_was_killed_at_once_has_published_nothing(run: Runner, tmp_path: Path) -> None:
    """Its file is there, and nothing is in it."""
    (tmp_path / "calculator.sqlite").touch()
    assert "none published yet" in run("status", tmp_path).out


def test_what_has_ended_needs_no_stop(run: Runner, search: Path, killed: list[tuple[int, int]]) -> None:
    """It is said so."""
    told = run("stop", search)
    assert (told.code, killed) == (0, [])
    assert "nobody follows it; it has ended" in told.err


def test_what_goes_on_unasked_is_not_called_stopped(run: Runner, fleet: Path, tmp_path: Path) -> None:
    """VMs of a fleet that nobody follows go on, as do processes of a driver that is gone: exit code 1, what to do."""
    told = run("stop", fleet)
    assert told.code == 1
    assert run("status", fleet, "--json").data["process"] is None
    assert f"its VMs go on, and `optplan run --resume {fleet} --abort` gives them back" in told.err
    plan, out = tmp_path / "search.json", tmp_path / "killed"
    assert run("solve", "rubberband-two-stages", "--plan", plan).code == 0
    assert run("run", plan, "--out", out, "--budget", "0.20usd").code == 4
    told = run("stop", out)
    assert (told.code, f"{out}: nobody follows it; it is paused" in told.err) == (0, True)
    with Journal(out) as journal:
        began, records = journal.beginning, [*journal.replay(), Resumed(journal.idle_s())]
    assert began is not None
    for executor, said in (("local", "what still runs of it stores its state"), ("virtual", "and nothing runs")):
        with Journal(tmp_path / executor) as journal:  # of a driver that goes on, and is killed at once
            journal.begin(replace(began, options=began.options | {"executor": executor}), records)
        told = run("stop", tmp_path / executor)
        assert (told.code, said in told.err) == (int(executor == "local"), True)
        assert f"`optplan run --resume {tmp_path / executor}` goes on" in told.err


def test_nodes_that_nobody_gave_back_as_far_as_is_written_are_named(run: Runner, search: Path, tmp_path: Path) -> None:
    """Whoever followed it was killed, or could write nothing any more: only the one has left them held."""
    out = tmp_path / "killed"
    with Journal(search) as journal:
        began, whole = journal.beginning, [*journal.replay()]
    assert began is not None
    records = [*takewhile(lambda record: not isinstance(record, NodeReleasing | Ended), whole)]
    with Journal(out) as journal:
        journal.begin(replace(began, options=began.options | {"executor": "local"}), records)
    names = ", ".join(record.node for record in records if isinstance(record, NodeWanted))
    held = f"nodes that may still be held: {names} (--resume {out} --abort gives them back)"
    assert held in " ".join(run("status", out).out.split())
    assert held in run("stop", out).err


def test_logs_of_fleets_are_those_of_commands_and_ranks(run: Runner, fleet: Path) -> None:
    """The ranks of a run's fleets write into the log of its job, the user's command beside that."""
    (fleet / "trials" / "job" / "output.log").write_text("rank 0 trains\n", encoding="utf-8")
    assert run("logs", fleet, "--json").data == {"trials": ["job", "commands"]}
    assert run("logs", fleet, "job").out == "rank 0 trains\n"
    assert run("logs", fleet, "commands").out.startswith("asked\n")
    assert "optplan logs runs/fleet job" in run("logs", "--help").out


def test_folders_without_what_is_needed_are_told(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run, no result, and nothing that knows runs."""
    missing: Any = run("report", tmp_path)
    assert (missing.code, "no run is there" in missing.err) == (2, True)
    changed = run("report", tmp_path, "--budget", "3usd")
    assert (
        changed.code,
        f"--budget: changes an instance, and {tmp_path} is a folder; leave it out" in changed.err,
    ) == (2, True)
    assert "RESULT is missing; `optplan solve boa-two-classes -o result.json`" in run("report", "boa-two-classes").err
    monkeypatch.setattr("optplan.wings.function", lambda _: None)
    assert "what runs plans is not installed here" in run("report", tmp_path, "-o", tmp_path / "p.html").err
