"""What ends a run from outside, and what nobody looks after: signals, iterations that hang, drivers that are gone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from optplan.contracts import Plan
from optplan.execution.executors import LocalExecutor
from optplan.execution.folders import FolderSettings, tell_step_limit
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeWanted, OperationFailed, Progressed
from optplan.execution.running import RunOutcome, run
from optplan.execution.runs import interruptible, read_run, resume
from optplan.execution.trial_files import DRIVER_LOCK, OUTCOME, PROGRESS, hold_lock
from optplan.profiling import search_profile
from optplan.profiling.search_profile import ProfileSettings, profile_here

PlanOf = Callable[..., Plan]
Processes = Any  # the fixture's
pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
pytestmark = pytest.mark.usefixtures("processes")

FOLDER = Path(__file__).parent / "trainables"
QUADRATIC = f"{FOLDER / 'quadratic.py'}:Quadratic"
FORKING = f"{sys.executable} {FOLDER / 'forking.py'}"
#: What happens to a run happens in the ten iterations of its first stage; the thirty of the second wait for nothing.
RATES = [{"rate": rate, "wait_s": 0.1, "waits": 10} for rate in (0.01, 0.3, 0.1, 0.02)]
FAST = "b1-s1-trials-0002"


def fork(act: Callable[[], int]) -> int:
    """Run something in another process and return its exit code, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
        try:
            os._exit(act())
        except KeyboardInterrupt as error:
            os._exit(error.args[0])
        except Exception:  # noqa: BLE001 - whatever it is, it must not reach the test's own process
            traceback.print_exc()
            os._exit(98)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def search(plan: Plan, out: Path, listener: Callable[[Any], None] | None = None, **options: Any) -> RunOutcome:  # noqa: ANN401
    """Run a search of trials that take a second."""
    return run(plan, QUADRATIC, space=RATES, executor="local", out=out, listener=listener, replan_above=None, **options)


def signal_on(*steps: tuple[str, int]) -> Callable[[Any], None]:
    """Return a listener that sends this process a signal at a record of a kind, one after the other."""
    left = list(steps)

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if left and type(record).__name__ == left[0][0]:
            os.kill(os.getpid(), left.pop(0)[1])

    return listen


def require_same_end(out: Path) -> None:
    """Go on with a run, and require it to end as if it had been left in peace."""
    outcome = resume(out)
    assert outcome.winner is not None
    assert (outcome.code, outcome.failed, outcome.winner.trial, outcome.winner.iterations) == (0, {}, FAST, 40)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_pause_a_run(plan_of: PlanOf, tmp_path: Path, processes: Processes, number: int, code: int) -> None:
    """Everything that runs stores a checkpoint and ends, nodes are given back, and the run goes on with --resume."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    assert fork(lambda: search(plan, out, signal_on(("Progressed", number))).code) == code
    assert processes.find() == []
    state = read_run(out).state
    assert state.paused is not None
    assert state.paused.code == code
    assert not state.operations
    assert not any(state.pools.values())
    assert any(trial.checkpoint for trial in state.trials.values())
    require_same_end(out)


def test_a_second_signal_names_what_is_left(plan_of: PlanOf, tmp_path: Path) -> None:
    """While trials are being stopped it comes again: the driver ends, and says which nodes and trials it leaves."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    act, said = signal_on(("Progressed", signal.SIGTERM), ("StopWanted", signal.SIGTERM)), tmp_path / "said"

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if getattr(record, "text", "").startswith("ended at once"):
            said.write_text(record.text, encoding="utf-8")
        act(record)

    assert fork(lambda: search(plan, out, listen).code) == 143
    state = read_run(out).state
    nodes, trials = (", ".join(names) for names in (state.nodes, sorted(state.trials)))
    left = f"ended at once; nodes that are still held: {nodes}; trials that go on: {trials}; --resume takes both over"
    assert said.read_text(encoding="utf-8") == left
    assert state.paused is None
    require_same_end(out)


def test_a_machine_that_shuts_down_pauses_a_run(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """Everybody gets SIGTERM, as systemd sends it: trials store their state, the run is paused, nobody failed.

    All four have reported something by then: who has done nothing has nothing to store, and is ended at once.
    """
    plan, out, asked = plan_of("rubberband-two-stages"), tmp_path / "run", list[int]()
    reported = set[str]()
    space = [each | {"seen": str(processes.seen)} for each in RATES]

    def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
        if type(record).__name__ == "Progressed":
            reported.add(record.operation)
        if len(reported) == 4 and not asked:
            for process in processes.find():
                asked.append(process.pid)
                with contextlib.suppress(psutil.NoSuchProcess):  # it went with the one above it
                    process.terminate()
            os.kill(os.getpid(), signal.SIGTERM)

    given: dict[str, Any] = {"space": space, "executor": "local", "command": FORKING, "out": out, "listener": listen}
    assert fork(lambda: run(plan, replan_above=None, **given).code) == 143
    assert processes.find() == []
    state = read_run(out).state
    assert [each.phase.value for each in state.past_operations] == ["ended"] * 4
    assert all(trial.checkpoint for trial in state.trials.values())
    require_same_end(out)


def test_who_started_a_run_may_have_it_survive_a_hang_up() -> None:
    """Under nohup SIGHUP is ignored, and stays so; SIGTERM is heard."""
    heard = list[int]()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(heard.append):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [143]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_terminal_that_is_closed_pauses_a_run(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """The command line loses the terminal on which it draws: exit code 129, and nothing of it is left."""
    plan, out = tmp_path / "plan.json", tmp_path / "run"
    plan.write_text(json.dumps(plan_of("rubberband-two-stages").to_json_data()), encoding="utf-8")
    (tmp_path / "space.json").write_text(json.dumps(RATES), encoding="utf-8")
    given = [str(plan), "--train", QUADRATIC, "--space", str(tmp_path / "space.json"), "--out", str(out)]
    options = ["--executor", "local", "--replan-above", "never"]
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, "-m", "optplan.cli", "run", *given, *options])
    processes.wait_until(lambda: any(each.stat().st_size for each in out.glob(f"operations/*/{PROGRESS}")), "progress")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    state = read_run(out).state
    assert state.paused is not None
    assert not any(state.pools.values())
    assert processes.find() == []
    require_same_end(out)


def test_readers_that_go_away_end_nothing(plan_of: PlanOf, tmp_path: Path) -> None:
    """Who listens cannot write any more, as into a pipe that nobody reads: the run ends as ever."""

    def refuse(_: Any) -> None:  # noqa: ANN401 - a record, or progress
        raise PermissionError(errno.EACCES, "Permission denied")

    def listen(_: Any) -> None:  # noqa: ANN401 - a record, or progress
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(PermissionError):  # what is another reason is not hidden
        search(plan_of("rubberband-two-stages"), tmp_path / "other", refuse)
    assert search(plan_of("rubberband-two-stages"), tmp_path / "run", listen).code == 0


def test_trials_without_a_driver_store_their_state_and_end(
    plan_of: PlanOf, tmp_path: Path, processes: Processes
) -> None:
    """A driver is killed, trials need three seconds more and have one: all are stored and gone, and the run goes on."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    space = [each | {"wait_s": 0.4} for each in RATES]
    given: dict[str, Any] = {"space": space, "executor": "local", "out": out, "orphan_after_s": 1.0}
    listener = signal_on(("Progressed", signal.SIGKILL))
    assert fork(lambda: run(plan, QUADRATIC, listener=listener, **given).code) == -signal.SIGKILL
    assert processes.find(), "they outlive their driver"
    processes.wait_until(lambda: not processes.find(), "trials without a driver to end")
    left = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob(f"operations/*/{OUTCOME}")]
    assert len(left) == 4
    assert all(each["checkpoint"] and not each["complete"] and 0 < each["iterations"] < 10 for each in left)
    require_same_end(out)


def test_a_profiler_that_is_killed_leaves_nothing(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trial goes on without it, for half a second here, and then ends with its helpers."""
    monkeypatch.setattr(search_profile, "_ORPHAN_S", 0.5)
    settings = ProfileSettings((1,), iterations=100_000, warm_up=1, repetitions=2)
    space = [{"rate": 0.1, "wait_s": 0.05, "seen": str(processes.seen)}] * 2
    pid = os.fork()
    if pid == 0:
        profile_here(settings, space=space, command=FORKING, scratch=tmp_path)
        os._exit(98)
    processes.wait_until(lambda: processes.count_seen() >= 2, "the trial that is timed to begin")
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    processes.wait_until(lambda: not processes.find(), "the trial to end")


def test_an_iteration_that_hangs_is_a_failure(tmp_path: Path, processes: Processes) -> None:
    """Planned to take 20 s, it has 20 times that: at 399 s it goes on, at 401 s it is killed with all its helpers."""
    root = tmp_path / "run"
    root.mkdir()
    driver = hold_lock(root / DRIVER_LOCK, "")
    executor = LocalExecutor({"gpu": 1}, FolderSettings(root=root, command=FORKING))
    executor.ensure_nodes([NodeWanted(0.0, "node", "gpu", "gpu", "segment")])
    known: dict[str, Any] = {"workers": 1, "gpus_per_worker": 1, "step_s": 20.0}
    configuration = {"seen": str(processes.seen), "hang_at": 2}
    executor.start(Operation("op", "segment", "trial", 1, {"node": 1}, configuration=configuration, **known))
    done: list[Any] = []
    while not (done and done[-1].iterations == 2):
        done += [event for event in executor.poll(executor.now_s() + 1.0) if isinstance(event, Progressed)]
    executor._zero -= 399.0
    assert executor.poll(executor.now_s()) == []
    executor._zero -= 2.0
    (failed,) = executor.poll(executor.now_s() + 60.0)
    assert isinstance(failed, OperationFailed)
    assert failed.why == "was killed: an iteration took longer than 6 min 40 s (--step-timeout)"
    assert not failed.blameless
    assert processes.find() == []
    executor.close()
    os.close(driver)


@pytest.mark.parametrize(
    ("planned", "asked", "said"),
    [
        ([1.0, 15.0], None, "longer than 5 min 00 s (20 times what is planned, at least 5 min 00 s; --step-timeout)"),
        ([1.0, 60.0], None, "longer than 5 min 00 s to 20 min 00 s (20 times"),
        ([None, 15.0], None, "longer than 5 min 00 s, where that is planned (20 times"),
        ([None, 60.0], 7.0, "longer than 7 s (--step-timeout)"),
        (
            [None],
            None,
            "nobody knows how long iterations take: trials that hang are not noticed; --step-timeout limits",
        ),
    ],
)
def test_what_is_taken_to_hang_is_said_beforehand(planned: list[float | None], asked: float | None, said: str) -> None:
    """Twenty times the plan's 15 s are 5 min, and its 60 s 20 min; where it has none, that is said."""
    assert said in tell_step_limit(planned, asked)
