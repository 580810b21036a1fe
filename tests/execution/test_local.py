"""Processes on this machine: what is trained and stored, what goes wrong, and kill -9 of drivers and trials."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import OutputError, UsageError
from optplan.execution.records import Checkpoint
from optplan.execution.running import RunOutcome, run
from optplan.execution.runs import read_run, resume
from optplan.execution.supervision import end, is_running
from optplan.execution.trial_files import Checkpoints, bound_log, hash_folder, store
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

PlanOf = Callable[..., Plan]
psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

FILE = Path(__file__).parent / "trainables" / "quadratic.py"
QUADRATIC = f"{FILE}:Quadratic"
#: The second descends fastest: 0.3 brings x nearer to 3 by a factor of 0.4 a step.
RATES = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
FAST = "b1-s1-trials-0002"


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Every process that a test has started is gone when it ends."""
    yield
    left = [path.parent for path in tmp_path.rglob("process.json") if is_running(path.parent)]
    for home in left:
        end(home)
    assert not left


def run_here(plan: Plan, out: Path, target: str = QUADRATIC, space: object = None, **options: Any) -> RunOutcome:  # noqa: ANN401 - options
    """Run a plan's trials as processes."""
    given = RATES if space is None else space
    options["command" if target.startswith(sys.executable) else "train"] = target
    return run(plan, space=given, executor="local", out=out, **options)


def loss_after(rate: float, steps: int) -> float:
    """Return (x - 3)^2 after so many steps from 0: 9 (1 - 2 rate)^(2 steps)."""
    return float(9.0 * (1.0 - 2.0 * rate) ** (2 * steps))


@pytest.mark.parametrize(
    "target", [QUADRATIC, f"{FILE}:generate", f"{FILE}:repeat", f"{sys.executable} {FILE}"], ids=str
)
def test_a_search_on_real_processes(plan_of: PlanOf, tmp_path: Path, target: str) -> None:
    """A class, two generators and a program: 10 steps of four, 30 more of the best, from its checkpoint."""
    outcome = run_here(plan_of("rubberband-two-stages"), tmp_path / "run", target)
    assert (outcome.status, outcome.code) == ("ended", 0)
    winner = outcome.winner
    assert winner is not None
    assert winner.metric is not None
    assert (winner.trial, winner.configuration, winner.iterations) == (FAST, {"rate": 0.3}, 40)
    assert winner.metric == pytest.approx(loss_after(0.3, 40), abs=1e-12)
    state = read_run(tmp_path / "run").state
    slow = state.trials["b1-s1-trials-0001"]
    assert (slow.iterations, slow.metrics["loss"]) == (10, pytest.approx(loss_after(0.01, 10)))
    assert winner.checkpoint is not None
    stored = state.trials[FAST].checkpoint
    assert stored is not None
    assert Checkpoints(tmp_path / "run").is_whole(stored)
    if not target.startswith(sys.executable):  # all lines of a program may be seen at once
        assert outcome.segments[1].iteration_s is not None
    assert (outcome.cost_usd or 0.0) > 0


def test_training_on_the_virtual_clock(plan_of: PlanOf, tmp_path: Path) -> None:
    """The same losses as by processes, at once, in the time that the plan expects; rounds by the clock are refused."""
    plan = plan_of("rubberband-two-stages")
    outcome = run(plan, QUADRATIC, space=RATES, out=tmp_path / "run")
    assert outcome.winner is not None
    assert (outcome.winner.trial, outcome.time_s) == (FAST, 280.0)
    assert outcome.winner.metric == pytest.approx(loss_after(0.3, 40), abs=1e-12)
    assert run(plan, QUADRATIC, space=RATES).winner == outcome.winner
    with pytest.raises(UsageError, match="train: segments end by the clock, and the plan does not know how long"):
        run(plan_of("seer-paper-example"), QUADRATIC)


def test_rounds_that_end_by_the_clock(tmp_path: Path) -> None:
    """SEER's rounds of 1, 2 and 4 parts: all trials stop in time with a checkpoint, and go on from there.

    A part is 1.2 s, or as long as six processes need to start one after another here. The first trial is not through
    its first iteration, of ten minutes, when its time is up: nobody waits for it.
    """
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import optplan.execution.worker"], check=True)
    times = max(1.0, 6 * (time.monotonic() - begun) / 1.2)
    example = read_instance("seer-paper-example")
    instance = example.replace(
        deadline_min=0.14 * times, budget=f"{1.12 * times}gpu-min", least_round_min=0.014 * times
    )
    plan = build_plan(instance, solve(instance, solver="published-seer"))
    plan = plan.replace(plan_id="", limits={})  # a loaded machine is late, and the budget leaves nothing to spare
    space = [{"rate": 0.001 * n, "wait_s": 600.0 if n == 1 else 0.02} for n in range(1, 13)]
    outcome = run_here(plan, tmp_path / "run", space=space, replan_above=None)  # starts take their time here
    assert (outcome.status, outcome.code, outcome.failed) == ("ended", 0, {})
    state = read_run(tmp_path / "run").state
    last = {trial for segment in ("r3-g2", "r3-g1") for trial in state.segments[segment].members}
    assert outcome.winner is not None
    assert outcome.winner.trial in last
    slow = state.trials["trials-0001"]
    # Asked to stop before its first iteration, as on a busy machine, it stores how it began; within it, nothing.
    assert (slow.iterations, slow.checkpoint and slow.checkpoint.path.split("-")[-2]) in [(0, None), (0, "000000")]
    assert all(segment.late_s is not None and segment.failures == 0 for segment in outcome.segments)
    others = [trial.iterations for trial in state.trials.values() if trial.name not in last]
    assert outcome.winner.iterations > max(others)


def test_what_goes_wrong_in_a_trial_is_said(plan_of: PlanOf, tmp_path: Path) -> None:
    """It crashes at step 5 each time: given up after three tries, with the reason; its log has the traceback."""
    space = [*RATES[:1], {"rate": 0.3, "crash_at": 5}, *RATES[2:]]
    lines: list[Any] = []
    outcome = run_here(plan_of("rubberband-two-stages"), tmp_path / "run", space=space, listener=lines.append)
    assert outcome.failed == {FAST: "failed 3 times in a row: ended with exit code 1"}
    assert outcome.winner is not None
    assert outcome.winner.trial == "b1-s1-trials-0003"
    failed = [line for line in lines if type(line).__name__ == "OperationFailed"]
    assert len(failed) == 3
    assert "RuntimeError: the loss exploded" in failed[0].tail
    log = (tmp_path / "run" / "trials" / FAST / "output.log").read_text(encoding="utf-8")
    assert log.count("about to crash") == 3


@pytest.mark.parametrize(
    ("target", "space", "reason"),
    [
        ("nothing.there:Trainable", None, "nothing.there cannot be imported"),
        (f"{FILE}:Cubic", None, "has no 'Cubic'"),
        (f"{FILE}:descend", None, "is neither a class nor a generator function"),
        (QUADRATIC, [{"shows": "accuracy"}] * 4, "reported no 'loss'; it reported accuracy, done; name one of these"),
        ("/none/at/all.py:Trainable", None, "there is no file"),
    ],
)
def test_what_can_never_work_is_not_tried_again(
    plan_of: PlanOf, tmp_path: Path, target: str, space: object, reason: str
) -> None:
    """Nothing to import, nothing that trains, nothing by that name shown: each trial fails once, and says why."""
    outcome = run_here(plan_of("rubberband-two-stages"), tmp_path / "run", target, space=space)
    assert (outcome.code, outcome.why) == (1, "every trial failed")
    assert set(outcome.failed.values()) == {"failed once: ended with exit code 3"}
    log = (tmp_path / "run" / "trials" / FAST / "output.log").read_text(encoding="utf-8")
    assert reason in log


def test_a_trial_that_shows_nan_ranks_last(plan_of: PlanOf, tmp_path: Path) -> None:
    """And that is noted, as it is that iterations wait."""
    space = [{"nan": True}, *RATES[1:]]
    outcome = run_here(plan_of("rubberband-two-stages"), tmp_path / "run", space=space, step_wait_s=0.01)
    assert outcome.winner is not None
    assert outcome.winner.trial == FAST
    waits, limit, blank = outcome.notes
    assert waits == "every iteration waits until 0.01 s are over, however quick this machine is"
    rule = "(20 times what is planned, at least 5 min 00 s; --step-timeout)"
    assert limit == f"a trial fails when an iteration takes longer than 5 min 00 s {rule}"
    assert "no number for 'loss' from b1-s1-trials-0001: ranked last" in blank
    assert all((segment.iteration_s or 0.0) >= 0.01 for segment in outcome.segments)


def test_a_plan_larger_than_the_machine_is_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    """Two nodes of two GPUs are wanted at a time, and there are three slots: nothing is begun."""
    message = "slots: 4 GPUs are wanted at a time; this machine has 3 that may be used"
    with pytest.raises(UsageError, match=message):
        run_here(plan_of("rubberband-two-stages"), tmp_path / "run", slots=3)


def test_a_node_that_does_not_come_pauses_the_run(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four GPUs one is gone when nodes are made: the second of two nodes never comes; with four it goes on."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    found = iter([["0", "1", "2", "3"], ["0", "1", "2"]])
    monkeypatch.setattr("optplan.execution.executors.list_devices", lambda: next(found, ["0", "1", "2", "3"]))
    outcome = run_here(plan, out, node_wait_s=0.0)
    assert (outcome.status, outcome.code) == ("paused", 4)
    assert outcome.why.startswith("1 of 2 nodes (gpu, pool bracket-1) did not come within")
    assert resume(out).code == 0


def _fork(act: Callable[[], int]) -> int:
    """Run something in another process and return its exit code, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(act())
        except Exception:  # noqa: BLE001 - whatever it is, it must not reach the test's own process
            traceback.print_exc()
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", ["SegmentEnded", "NodeReleasing", "OperationWanted", "OperationStarted"])
def test_kill_9_of_the_driver_during_a_resize(plan_of: PlanOf, tmp_path: Path, kind: str) -> None:
    """Between the end of a trial on one GPU and its start on two: intent written or not, process started or not."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"

    def drive() -> int:
        ended = [False]

        def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
            ended[0] = ended[0] or (type(record).__name__ == "SegmentEnded" and record.segment == "b1-s1")
            if ended[0] and type(record).__name__ == kind:
                _kill_self()

        return run_here(plan, out, listener=listen).code

    assert _fork(drive) == -signal.SIGKILL
    outcome = resume(out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, FAST, 40)
    state = read_run(out).state
    assert sorted(o.operation.segment for o in state.past_operations) == [*["b1-s1"] * 4, "b1-s2"]
    assert not any(o.phase == "failed" for o in state.past_operations)


def test_the_loss_of_a_node_is_survived(plan_of: PlanOf, tmp_path: Path) -> None:
    """All processes on one of two nodes are killed at once: its two trials start again, and the winner is the same."""
    plan, out, killed = plan_of("rubberband-two-stages"), tmp_path / "run", list[int]()

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed" and not killed:
            state = read_run(out).state
            node = next(iter(state.nodes))
            there = [each.operation.id for each in state.operations.values() if node in each.operation.place]
            started = [out / "operations" / name / "process.json" for name in there]
            if all(path.exists() for path in started):  # else it is tried again at the next report
                killed.extend(json.loads(path.read_text(encoding="utf-8"))["pid"] for path in started)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    outcome = run_here(plan, out, space=[each | {"wait_s": 0.1, "waits": 10} for each in RATES], listener=listen)
    assert len(killed) == 2
    assert outcome.winner is not None
    assert (outcome.code, outcome.failed, outcome.winner.trial) == (0, {}, FAST)
    assert outcome.winner.metric == pytest.approx(loss_after(0.3, 40), abs=1e-12)
    state = read_run(out).state
    ended = [(o.operation.segment, o.operation.trial) for o in state.past_operations if o.phase == "ended"]
    assert len(ended) == len(set(ended)) == 5
    assert outcome.segments[0].failures == 2


def _limit_files(size: int) -> None:
    """Let no file of this process, and of those that it starts, grow beyond a size, as a full disk would."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_full_disk_pauses_the_run(plan_of: PlanOf, tmp_path: Path) -> None:
    """Checkpoints of 2 MB where files may have 1 MB: paused with the reason, nobody is blamed; with room it goes on."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"

    def drive() -> int:
        _limit_files(1_000_000)
        return run_here(plan, out, space=[each | {"bytes": 2_000_000} for each in RATES]).code

    assert _fork(drive) == 4
    state = read_run(out).state
    assert state.paused is not None
    assert state.paused.why.endswith("could not write what it has to store; make room, then go on with --resume")
    assert not state.operations
    assert not any(state.pools.values())
    outcome = resume(out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.failed, outcome.winner.trial, outcome.winner.iterations) == (0, {}, FAST, 40)


def test_a_journal_that_cannot_be_written_stops_everything(plan_of: PlanOf, tmp_path: Path) -> None:
    """The driver may write files of 60 kB: it stops its trials and says so; where there is room the run goes on."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"

    def drive() -> int:
        _limit_files(60_000)
        with pytest.raises(OutputError, match=r"cannot be written .*; make room, then go on with --resume"):
            run_here(plan, out, space=[each | {"wait_s": 0.02} for each in RATES])
        return 7

    assert _fork(drive) == 7
    known = [path.parent for path in out.glob("operations/*/process.json")]
    assert known
    assert not any(map(is_running, known))
    outcome = resume(out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.failed, outcome.winner.trial, outcome.winner.iterations) == (0, {}, FAST, 40)


def test_checkpoints_are_whole_or_not_there(tmp_path: Path) -> None:
    """Written beside and renamed; a byte more is noticed; a failing writer leaves nothing by the name."""
    first = store(tmp_path, "trials/a/checkpoint-1", lambda folder: _write(folder, "x"))
    assert Checkpoints(tmp_path).is_whole(first)
    assert first.sha256 == hash_folder(tmp_path / "trials/a/checkpoint-1")
    _write(tmp_path / first.path, "y")
    assert not Checkpoints(tmp_path).is_whole(first)
    with pytest.raises(ZeroDivisionError):
        store(tmp_path, "trials/a/checkpoint-2", lambda _: 1 / 0)
    assert not (tmp_path / "trials/a/checkpoint-2").exists()
    assert not Checkpoints(tmp_path).is_whole(Checkpoint("trials/a/checkpoint-2", ""))


def test_old_checkpoints_go(tmp_path: Path) -> None:
    """Those that nobody needs at once; those of trials that are out while there is too little room."""
    paths = [tmp_path / "trials" / name / f"checkpoint-{n}" for name, n in (("a", 1), ("a", 2), ("b", 1), ("c", 1))]
    for path in paths:
        path.mkdir(parents=True)
        _write(path, "0123456789")
    stored = [Checkpoint(path.relative_to(tmp_path).as_posix(), "") for path in paths]
    Checkpoints(tmp_path).prune(stored[1:2], stored[2:], most_bytes=25)
    assert [path.exists() for path in paths] == [False, True, False, True]
    Checkpoints(tmp_path).prune([], [], most_bytes=25, busy=[paths[1].parent.name])
    assert paths[1].exists(), "what a trial that runs has just stored, nobody else knows yet"


def _write(folder: Path, text: str) -> None:
    (folder / "state").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("as_command", [False, True])
def test_logs_stay_bounded_while_a_step_prints(plan_of: PlanOf, tmp_path: Path, *, as_command: bool) -> None:
    """12 MB in a step, which sees its log being cut before it ends; a command likewise."""
    printing, plan = FILE.with_name("printing.py"), plan_of("rubberband-two-stages")
    target = f"{printing}:talk"
    if as_command:
        names = f"import sys; sys.path.insert(0, {str(printing.parent)!r}); import json, os, printing"
        told = "open(os.environ['OPTPLAN_METRICS'], 'a').write(json.dumps(shown) + chr(10))"
        body = f"{names}; [{told} for shown in printing.talk(dict(), None)]"
        target = shlex.join([sys.executable, "-c", body])
    outcome = run_here(plan, tmp_path / "run", target, retries=0, replan_above=None)
    assert (outcome.code, outcome.failed) == (0, {})
    for log in (tmp_path / "run" / "trials").glob("*/output.log"):
        assert log.stat().st_size < 8_000_000
        assert log.read_text(encoding="utf-8").startswith("... (the beginning was cut off)\n")
        assert log.read_text(encoding="utf-8").endswith("after the cut\n")


def test_logs_stay_bounded(tmp_path: Path) -> None:
    """A log of 9 MB is cut to its last lines."""
    log = tmp_path / "output.log"
    log.write_text("".join(f"line {number}\n" for number in range(800_000)), encoding="utf-8")
    bound_log(log)
    kept = log.read_text(encoding="utf-8").splitlines()
    assert log.stat().st_size < 3_000_000
    assert kept[0] == "... (the beginning was cut off)"
    assert kept[-1] == "line 799999"
