"""Groups of processes: nothing that an operation has started survives it, however it ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import MissingExtraError, UsageError
from optplan.execution.executors import LocalExecutor
from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeWanted, OperationEnded, OperationFailed
from optplan.execution.running import RunOutcome, run
from optplan.execution.runs import read_run, resume
from optplan.execution.supervision import LockWatch, clear, end, is_running, launch, read_code
from optplan.execution.trial_files import DRIVER_LOCK, OPERATION, PROCESS, STOP, hold_lock, is_locked, take_lock

PlanOf = Callable[..., Plan]
Processes = Any  # the fixture's
psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
pytestmark = pytest.mark.usefixtures("processes")

FOLDER = Path(__file__).parent / "trainables"
FORKING = f"{sys.executable} {FOLDER / 'forking.py'}"
QUADRATIC = f"{FOLDER / 'quadratic.py'}:Quadratic"
RATES = (0.01, 0.3, 0.1, 0.02)
FAST = "b1-s1-trials-0002"


def run_forking(plan: Plan, folder: Path, processes: Processes, **config: Any) -> RunOutcome:  # noqa: ANN401 - whatever goes wrong
    """Run a search whose trials leave helpers behind."""
    space = [{"rate": rate, "seen": str(processes.seen)} | config for rate in RATES]
    return run(plan, space=space, executor="local", command=FORKING, out=folder / "run", replan_above=None)


def test_helpers_end_with_their_trial(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """Five operations start a helper and a daemon each: the search ends as ever, and none of ten is left."""
    outcome = run_forking(plan_of("rubberband-two-stages"), tmp_path, processes)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    assert processes.count_seen() == 5
    assert processes.find() == []


def test_commands_whose_metrics_cannot_be_read_end(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """Four commands write a line that is none and would go on for ever: given up, and none of twelve is left."""
    outcome = run_forking(plan_of("rubberband-two-stages"), tmp_path, processes, garble_at=2, hang_at=3)
    assert (outcome.code, outcome.why) == (1, "every trial failed")
    assert processes.count_seen() == 4
    assert processes.find() == []


def test_a_line_that_comes_twice_counts_once(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """Each iteration is reported twice under its number: 10 of each trial and 40 of the winner, as if it were once."""
    outcome = run_forking(plan_of("rubberband-two-stages"), tmp_path, processes, times=2)
    assert outcome.winner is not None
    assert (outcome.winner.trial, outcome.winner.iterations) == (FAST, 40)
    state = read_run(tmp_path / "run").state
    assert state.trials["b1-s1-trials-0001"].iterations == 10


@pytest.mark.parametrize("victim", ["worker", "command"])
def test_an_attempt_begins_when_the_one_before_it_has_ended(
    plan_of: PlanOf, tmp_path: Path, processes: Processes, victim: str
) -> None:
    """A worker or a command is killed, as if for its memory: nothing of it is left beside the next attempt."""
    out, beside = tmp_path / "run", list[list[int]]()
    hit = list[int]()

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed" and not hit and record.operation.endswith(f"b1-s1.{FAST}.1"):
            group = json.loads((out / "operations" / record.operation / PROCESS).read_text(encoding="utf-8"))
            below = psutil.Process(group["pid"]).children(recursive=True)
            own = [
                each for each in below if "forking" in " ".join(each.cmdline()) and "supervision" not in each.cmdline()
            ]
            victims = own if victim == "command" else own[0].parents()[:1]
            hit.extend(each.pid for each in below)
            victims[0].kill()
        if type(record).__name__ == "OperationFailed":
            beside.append([pid for pid in hit if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"])

    space = [{"rate": rate, "seen": str(processes.seen), "wait_s": 0.05, "waits": 10} for rate in RATES]
    given: dict[str, Any] = {"space": space, "executor": "local", "command": FORKING, "out": out}
    outcome = run(plan_of("rubberband-two-stages"), listener=listen, **given, replan_above=None)
    assert hit
    assert beside == [[]], "when the failure is known, nothing of the attempt is left"
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    assert processes.find() == []


SPAWN = """
import subprocess, sys, time
from pathlib import Path
subprocess.Popen(["sleep", "100000"], start_new_session=True)
Path(sys.argv[1]).touch()
time.sleep(100000)
"""


def start_group(processes: Processes, folder: Path, **options: Any) -> Any:  # noqa: ANN401 - of launch
    """Start a group whose work starts a daemon and waits; return its supervisor once it has."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", SPAWN, str(folder / "begun")]
    supervisor = launch(folder, folder, command, log=folder / "log", **options)
    processes.wait_until((folder / "begun").exists, "the work to begin")
    return supervisor


@pytest.mark.parametrize("victims", [["supervisor"], ["deputy"], ["work"], ["supervisor", "work"], ["deputy", "work"]])
def test_whoever_is_killed_everything_ends(tmp_path: Path, processes: Processes, victims: list[str]) -> None:
    """Of supervisor, deputy and work each, or two at once, is killed with -9: the rest ends, and says that it has."""
    supervisor = start_group(processes, tmp_path / "group")
    first = psutil.Process(supervisor.pid)
    deputy = first.children()[0]
    who = {"supervisor": first, "deputy": deputy, "work": deputy.children()[0]}
    # A process that is just becoming another program has no environment to be found by.
    processes.wait_until(lambda: len(processes.find()) == 4, "all four to be found")
    for victim in victims:  # both are there when the first of them is killed
        who[victim].suspend()
    for victim in victims:
        with suppress(psutil.NoSuchProcess):  # the group has ended the second one already
            who[victim].kill()
    processes.wait_until(lambda: not is_running(tmp_path / "group"), "the group to end")
    assert read_code(tmp_path / "group") == -signal.SIGKILL
    assert supervisor.wait() in (-signal.SIGKILL, 128 + signal.SIGKILL)
    processes.wait_until(lambda: not processes.find(), "the supervisors to be gone")


@pytest.mark.parametrize("victim", ["supervisor", "deputy", "work"])
def test_whose_group_is_killed_everything_ends(tmp_path: Path, processes: Processes, victim: str) -> None:
    """The group of processes of one of the three is killed: no other is in it, and the daemon ends as well."""
    supervisor = start_group(processes, tmp_path / "group")
    deputy = psutil.Process(supervisor.pid).children()[0]
    who = {"supervisor": supervisor.pid, "deputy": deputy.pid, "work": deputy.children()[0].pid}
    assert len({os.getpgid(pid) for pid in who.values()}) == 3
    os.killpg(os.getpgid(who[victim]), signal.SIGKILL)
    processes.wait_until(lambda: not is_running(tmp_path / "group"), "the group to end")
    supervisor.wait()
    processes.wait_until(lambda: not processes.find(), "the supervisors to be gone")


def test_what_nobody_supervises_is_found_again(tmp_path: Path, processes: Processes) -> None:
    """Both supervisors are killed at once: the daemon is left, and ended by its folder, not by a copy."""
    group, copy = tmp_path / "group", tmp_path / "copy"
    supervisor = start_group(processes, group)
    both = [psutil.Process(supervisor.pid), *psutil.Process(supervisor.pid).children()]
    for process in both:
        process.suspend()
    for process in both:
        process.kill()
    supervisor.wait()
    processes.wait_until(lambda: not is_running(group), "the lock to be free")
    assert processes.find()
    shutil.copytree(group, copy)
    clear(copy)
    assert processes.find(), "a copy ends nothing"
    clear(group)
    assert not processes.find()


def refuse(_: int) -> int:
    """Open no process."""
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize("pidfds", [True, False])
def test_a_group_is_ended_by_its_own_folder_only(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, pidfds: bool
) -> None:
    """A copy of the folder is not running, and cannot end it; started twice, it runs once; the folder ends it."""
    group, copy = tmp_path / "group", tmp_path / "copy"
    supervisor = start_group(processes, group)
    assert launch(group, group, ["true"], log=group / "log") is None
    shutil.copytree(group, copy)
    assert is_running(group)
    assert not is_running(copy)
    end(copy)
    known = json.loads((group / PROCESS).read_text(encoding="utf-8"))
    for changed in ({"identity": known["identity"] - 1}, {"boot": "another"}):  # its number, but not the process
        (group / PROCESS).write_text(json.dumps(known | changed), encoding="utf-8")
        end(group)
    (group / PROCESS).write_text(json.dumps(known), encoding="utf-8")
    assert supervisor.poll() is None
    if not pidfds:  # as in sandboxes that have none: the time of its start is what it is known by
        monkeypatch.setattr(os, "pidfd_open", refuse)
    end(group)
    processes.wait_until(lambda: not is_running(group), "the group to end")
    supervisor.wait()
    assert not processes.find()


def test_a_tied_group_ends_with_whoever_started_it(tmp_path: Path, processes: Processes) -> None:
    """A process starts a group and is killed with -9, as Ray kills an actor: nothing is left."""
    group = tmp_path / "group"
    pid = os.fork()
    if pid == 0:
        start_group(processes, group, tied=True)
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert (group / "begun").exists()
    processes.wait_until(lambda: not is_running(group), "the group to end")
    assert not processes.find()


def start_orphan(processes: Processes, root: Path, *, orphan_after_s: float, grace_s: float) -> Any:  # noqa: ANN401 - a supervisor
    """Start a group that has to be driven."""
    folder = root / "operation"
    folder.mkdir(parents=True)
    said = {"root": str(root), "orphan_after_s": orphan_after_s, "grace_s": grace_s}
    (folder / OPERATION).write_text(json.dumps(said), encoding="utf-8")
    return start_group(processes, folder)


def test_what_nobody_drives_is_asked_to_end_and_is_ended(tmp_path: Path, processes: Processes) -> None:
    """Driven, it goes on; once nobody holds the lock it is asked to stop, and after the grace it is killed."""
    root = tmp_path / "run"
    root.mkdir()
    driver = hold_lock(root / DRIVER_LOCK, "")
    supervisor = start_orphan(processes, root, orphan_after_s=0.4, grace_s=0.4)
    looked = threading.Event()
    threading.Timer(1.2, looked.set).start()  # three times as long as it would take
    looked.wait()
    assert not (root / "operation" / STOP).exists()
    os.close(driver)
    supervisor.wait()
    assert (root / "operation" / STOP).exists()
    assert not is_running(root / "operation")


def test_a_driver_on_another_machine_is_seen_to_touch_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here holds the lock: touched every 5 s the driver is there, and 10 s after the last time it is gone."""
    path, clock = tmp_path / DRIVER_LOCK, [100.0]
    path.touch()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watch, gone = LockWatch(tmp_path / DRIVER_LOCK, 10.0), list[float]()
    for second in range(40):
        clock[0] = 100.0 + second
        if second <= 20 and second % 5 == 0:
            os.utime(path, ns=(second, second))
        if watch.is_gone():
            gone.append(second)
    assert gone == list(range(30, 40))  # it is looked for each second


def test_sigterm_asks_a_group_to_stop(tmp_path: Path, processes: Processes) -> None:
    """As a machine sends it that shuts down: there is word to stop, and after the grace everything is killed."""
    supervisor = start_orphan(processes, tmp_path, orphan_after_s=600.0, grace_s=0.2)
    supervisor.terminate()
    supervisor.wait()
    assert (tmp_path / "operation" / STOP).exists()


def test_looking_at_a_lock_is_in_nobodys_way(tmp_path: Path) -> None:
    """Somebody looks at a lock all the time: it is taken all the same, a hundred times, and seen to be held."""
    path, over, seen = tmp_path / "lock", threading.Event(), list[bool]()

    def look() -> None:
        while not over.is_set():
            seen.append(is_locked(path))

    looking = [threading.Thread(target=look) for _ in range(3)]
    for thread in looking:
        thread.start()
    for _ in range(100):
        handle = take_lock(path)
        assert handle is not None
        assert is_locked(path)
        assert take_lock(path) is None
        os.close(handle)
    over.set()
    for thread in looking:
        thread.join()
    assert len(seen) > 0


def test_a_copy_of_a_run_neither_adopts_nor_ends_its_processes(
    plan_of: PlanOf, tmp_path: Path, processes: Processes
) -> None:
    """A driver is killed, its folder copied and resumed: the copy ends by itself, and so does the original after it."""
    out, copy = tmp_path / "run", tmp_path / "copy"
    space = [{"rate": rate, "wait_s": 0.1, "waits": 10} for rate in RATES]

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed":
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        run(plan_of("rubberband-two-stages"), QUADRATIC, space=space, executor="local", out=out, listener=listen)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    there = {process.pid for process in processes.find()}
    assert there
    shutil.copytree(out, copy)
    copied = resume(copy)
    assert (copied.code, copied.winner and copied.winner.trial) == (0, FAST)
    started = [json.loads(path.read_text(encoding="utf-8"))["pid"] for path in copy.glob(f"operations/*/{PROCESS}")]
    assert len(started) == 5
    assert there.isdisjoint(started)
    outcome = resume(out)
    assert (outcome.code, outcome.winner and outcome.winner.trial) == (0, FAST)
    state = read_run(out).state
    assert {o.operation.attempt for o in state.past_operations} == {1}, "what it had started was there all the time"


def test_gpus_are_held_by_whoever_runs_on_them(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials on GPUs 3 and 7 see one each; so does one that another driver starts beside one it adopted."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,7")
    root = tmp_path / "run"
    root.mkdir()
    driver = hold_lock(root / DRIVER_LOCK, "")
    program = f"{sys.executable} {FOLDER / 'forking.py'}"
    node = NodeWanted(0.0, "node", "gpu", "gpu", "segment")
    known: dict[str, Any] = {"workers": 1, "gpus_per_worker": 1}
    configuration = {"seen": str(processes.seen), "hang_at": 1}
    operations = [
        Operation(f"op-{number}", "segment", f"trial-{number}", 1, {"node": 1}, configuration=configuration, **known)
        for number in range(3)
    ]

    def find_devices(operation: Operation) -> str:
        group = json.loads((root / "operations" / operation.id / PROCESS).read_text(encoding="utf-8"))
        devices: str = psutil.Process(group["pid"]).environ()["CUDA_VISIBLE_DEVICES"]
        return devices

    first = LocalExecutor({"gpu": 2}, FolderSettings(root=root, command=program))
    first.ensure_nodes([node])
    for operation in operations[:2]:
        first.start(operation)
    processes.wait_until(lambda: processes.count_seen() == 2, "both to begin")
    assert [find_devices(operation) for operation in operations[:2]] == ["3", "7"]
    end(root / "operations" / "op-0")
    processes.wait_until(lambda: not is_running(root / "operations" / "op-0"), "one of them to end")
    first.close()
    second = LocalExecutor({"gpu": 2}, FolderSettings(root=root, command=program))
    assert second.observe([node], operations[:2]).operations == {"op-1"}
    second.start(operations[2])
    processes.wait_until(lambda: processes.count_seen() == 3, "another one to begin")
    assert find_devices(operations[2]) == "3"
    for operation in operations[1:]:
        second.stop(operation.id, 0.0)
    ended: list[Any] = []
    while len(ended) < 2:
        ended += [
            event for event in second.poll(second.now_s() + 1.0) if isinstance(event, OperationFailed | OperationEnded)
        ]
    os.close(driver)


def test_other_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is a subreaper there; and psutil is asked for before anything is started."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        with pytest.raises(UsageError, match="supervised on Linux only, and this is darwin; use another machine"):
            LocalExecutor({"gpu": 1}, FolderSettings(root=tmp_path))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "psutil", None)
        with pytest.raises(MissingExtraError, match=r"pip install .optplan\[run\]."):
            LocalExecutor({"gpu": 1}, FolderSettings(root=tmp_path))
