"""Kills at any moment, of drivers, supervisors, trials, nodes and all of them: the same end, and nothing that is left.

A driver counts what its trials report, and at some number of reports it kills: processes of a trial that runs, or
itself where they have just ended. So every kill hits, and what it hits is written down before. No clock decides
anything: on a busy machine trials report less often, but as many end, and there are never more kills to come than ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.execution.journal import JOURNAL, Journal
from optplan.execution.records import OperationEnded, Progressed
from optplan.execution.running import run
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.supervision import is_running
from optplan.execution.trial_files import OPERATION, PROCESS
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.solving import solve

PlanOf = Callable[..., Plan]
Processes = Any  # the fixture's
psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

FOLDER = Path(__file__).parent
QUADRATIC = f"{FOLDER / 'trainables' / 'quadratic.py'}:Quadratic"
FORKING = f"{sys.executable} {FOLDER / 'trainables' / 'forking.py'}"
SLEEPER = f"{FOLDER / 'streams' / 'sleeper.py'}:train"
RATES = (0.01, 0.3, 0.1, 0.02)
FAST = "b1-s1-trials-0002"
#: Six epochs of a job, each 0.3 s on one slot.
STREAM = BoaInstance.parse(
    {
        "name": "small",
        "formulation": "boa",
        "gpu_types": {"cpu": {}},
        "budget": "1.5gpu",
        "classes": {
            "a": {
                "arrival_rate_per_hour": 900.0,
                "epoch_size_gpu_hours": [0.3 / 3600.0] * 6,
                "speedup": {"cpu": {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.1, 1.2]}},
            }
        },
        "problem": "whole",
    }
)
KINDS = ("search", "command", "stream")
#: The kind that runs on Slurm, on daemons of this machine.
SLURM = "slurm"
#: Who is killed at a time; what is above a process in a group is killed with it.
VICTIMS = (
    ("driver",),
    ("supervisor",),
    ("deputy",),
    ("work",),
    ("driver", "supervisor"),
    ("driver", "work"),
    ("driver", "deputy", "work"),
)
#: Of trials that have no daemons, which nobody could find without both supervisors.
ALL_VICTIMS = (*VICTIMS, ("supervisor", "deputy"), ("driver", "supervisor", "deputy", "work"))
#: Of trials on Slurm, which ends what a job has left, cancels jobs and loses nodes.
SLURM_VICTIMS = (*ALL_VICTIMS, ("job",), ("node",), ("driver", "node"))
#: Exit code of a driver that was ended at once.
_AT_ONCE = 99
#: Seconds without a driver after which trials end, and kills of one run; in every run at least as many trials end.
ORPHAN_S, KILLS = 0.5, 5
#: Kills in all, of which three fifths are here, one on Slurm and one on Ray (``real/ray_runs.py``).
MANY = int(os.environ.get("OPTPLAN_KILLS", "100"))


@dataclass
class Case:
    """A run that is killed.

    Parameters
    ----------
    kind
        What is run: a class, a program that leaves helpers behind, a stream of jobs, or a class on Slurm.
    out
        Its folder; beside it every hit is written down, and a file from the last one on.
    dice
        Say whom to kill, and when.
    """

    kind: str
    out: Path
    dice: random.Random

    @property
    def hits(self) -> list[str]:
        """Whom a signal has hit so far."""
        path = self._log
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    @property
    def _log(self) -> Path:
        return self.out.with_suffix(".hits")

    def drive(self, begin: Callable[..., Any], go_on: Callable[..., Any]) -> int:
        """Follow the run in this process to its end, killing on the way, and return its exit code."""
        reports, ends = self.dice.randint(1, 8), KILLS - count_ends(self.out)

        def listen(record: Any) -> None:  # noqa: ANN401 - a record, or progress
            nonlocal reports, ends
            reports -= isinstance(record, Progressed)
            ends -= isinstance(record, OperationEnded) and record.complete
            # Read anew each time: a driver that its second SIGTERM ends within a strike still tells what it stops.
            while (left := KILLS - len(self.hits)) > 0 and (reports <= 0 or ends < left):
                reports = self.dice.randint(1, 8)
                self.strike()

        code: int = (go_on if is_begun(self.out) else begin)(listener=listen).code
        return code

    def strike(self) -> None:
        """Kill somebody: the driver where those that it was meant for have just ended."""
        victims = self.dice.choice({"command": VICTIMS, SLURM: SLURM_VICTIMS}.get(self.kind, ALL_VICTIMS))
        number = self.dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        groups = [path for path in sorted(self.out.glob(f"operations/*/{PROCESS}")) if is_running(path.parent)]
        found = [] if victims == ("driver",) else self.find_group(victims, groups)
        taken = [who for who in victims if who in ("job", "node")]
        jobs = list_jobs() if taken else []
        if not jobs and (not found or not hold(found)):
            victims, found = ("driver",), []
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{' and '.join(victims)}, the driver by {signal.Signals(number).name}\n")
        if len(self.hits) == KILLS:
            mark_peace(self.out).touch()
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):  # it goes with the one above it
                process.kill()
        if jobs:
            take(taken[0], *self.dice.choice(jobs))
        while any(is_there(process) for process in found):  # else the next strike could hit the other supervisor, too
            time.sleep(0.001)
        if "driver" in victims:
            os.kill(os.getpid(), number)

    def find_group(self, victims: tuple[str, ...], groups: list[Path]) -> list[Any]:
        """Return the processes of an operation that runs by what they are."""
        self.dice.shuffle(groups)
        for path in groups:
            try:
                supervisor = psutil.Process(json.loads(path.read_text(encoding="utf-8"))["pid"])
                deputy = supervisor.children()[0]
                work = deputy.children()[0]
                if not supervisor.cmdline() == deputy.cmdline() == work.cmdline():  # its deputy has just been killed
                    continue
                deepest = self.dice.choice([work, *work.children()])  # the program that it runs, or itself
            except (psutil.Error, IndexError):  # it ends just now
                continue
            who = {"supervisor": supervisor, "deputy": deputy, "work": deepest}
            return [who[victim] for victim in victims if victim in who]
        return []


def list_jobs() -> list[tuple[str, str]]:
    """Return the numbers of Slurm's jobs that run, and their nodes."""
    lines = ask_slurm("squeue", "--noheader", "--me", "--states=RUNNING", "--format=%i %N").splitlines()
    return [(number, node) for number, node in map(str.split, lines)]


def take(what: str, job: str, node: str) -> None:
    """Cancel a job, or take its node away and give it back once the job has ended there."""
    if what == "job":
        ask_slurm("scancel", job)
        return
    ask_slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    while node in ask_slurm("squeue", "--noheader", "--me", "--format=%N").split():
        time.sleep(0.01)
    with contextlib.suppress(subprocess.CalledProcessError):  # it may have come back by itself
        ask_slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def ask_slurm(*words: str) -> str:
    """Run one of Slurm's commands and return what it printed."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def hold(found: list[Any]) -> bool:
    """Have processes stand still, so that all are there when the first is killed; let them go where one has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in found:
            process.suspend()
        if all(is_there(process) for process in found):
            return True
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    return False


def is_there(process: Any) -> bool:  # noqa: ANN401 - psutil's
    """Whether a process has not ended yet."""
    with contextlib.suppress(psutil.NoSuchProcess):
        there: bool = process.status() != psutil.STATUS_ZOMBIE
        return there
    return False


def mark_peace(out: Path) -> Path:
    """Return the file that is there from the last kill of a run on."""
    return out.with_suffix(".peace")


def count_ends(out: Path) -> int:
    """Count the trials, or a stream's jobs, that have ended."""
    if not is_begun(out):
        return 0
    with Journal(out, writable=False) as journal:
        return sum(isinstance(record, OperationEnded) and record.complete for record in journal.replay())


def is_begun(out: Path) -> bool:
    """Whether a run was written down before its driver was killed."""
    return (out / JOURNAL).exists()


def fork(act: Callable[[], int]) -> int:
    """Run something in another process and return its exit code, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(act())
        except KeyboardInterrupt:  # a second SIGTERM while it pauses ends it at once
            os._exit(_AT_ONCE)
        except BaseException:  # noqa: BLE001 - whatever it is, it must not reach the test's own process
            traceback.print_exc()
            os._exit(98)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def make_calls(kind: str, plan: Plan, out: Path, seen: Path) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what begins a run, and what goes on with it."""
    executor = "slurm" if kind == SLURM else "local"
    usual: dict[str, Any] = {"executor": executor, "out": out, "retries": 100, "orphan_after_s": ORPHAN_S}
    if kind == "stream":
        # The last one waits for the last kill: others may end together, and the run with them.
        configurations: list[dict[str, Any]] = [{}] * KILLS + [{"wait_for": str(mark_peace(out))}]
        jobs = [
            StreamJob(name=f"job-{number}", job_class="a", at_s=0.3 * number, configuration={"epoch_s": 0.3, **more})
            for number, more in enumerate(configurations)
        ]
        planned = build_plan(STREAM, solve(STREAM))
        return partial(run_stream, planned, jobs, SLEEPER, slots=4, **usual), partial(resume, out)
    wait_s = 0.2 if kind == SLURM else 0.03  # its driver looks once a second
    space = [{"rate": rate, "wait_s": wait_s, "seen": str(seen)} for rate in RATES]
    what = {"command": FORKING} if kind == "command" else {"train": QUADRATIC, "checkpoint_every_s": 0.2}
    begin = partial(run, plan, space=space, replan_above=None, **what, **usual)
    return begin, partial(resume, out)


def endure(kind: str, plan: Plan, folder: Path, seed: int, processes: Processes) -> int:
    """Run something to its end through kills, require it to end as in peace, and return how many have hit."""
    out, dice = folder / f"{kind}-{seed}", random.Random(f"{kind} {seed}")
    begin, go_on = make_calls(kind, plan, out, processes.seen)
    while True:
        case = Case(kind, out, random.Random(dice.random()))
        code = fork(partial(case.drive, begin, go_on))
        if code == 0:
            break
        assert code in (-signal.SIGKILL, 128 + signal.SIGTERM, _AT_ONCE)
        if code == 128 + signal.SIGTERM:
            assert processes.find() == [], "a run that is paused has left something"
        elif dice.random() < 0.3:
            processes.wait_until(lambda: not processes.find(), "what nobody drives to end")
    assert processes.find() == [], "a run that has ended has left something"
    require_end(kind, out)
    return len(case.hits)


def require_end(kind: str, out: Path) -> None:
    """Require a run to have ended as one in peace: 30 steps of 0.4 the remaining way from 10 on, 40 in all."""
    if kind == "stream":
        stream = read_run(out).describe()
        assert (stream.status, stream.code, stream.dropped) == ("ended", 0, {})
        assert [each.completed for each in stream.classes] == [KILLS + 1]
        rule = "(20 times what is planned, at least 5 min 00 s; --step-timeout)"
        assert stream.notes == (f"a trial fails when an iteration takes longer than 5 min 00 s {rule}",)
        for path in out.glob(f"operations/*/{OPERATION}"):  # an epoch of 0.3 s, on one, two or four slots
            planned_s = json.loads(path.read_text(encoding="utf-8"))["step_s"]
            assert any(planned_s == pytest.approx(0.3 / speedup) for speedup in (1.0, 1.1, 1.2))
        return
    state = read_run(out).state
    assert state.ended is not None
    assert (state.ended.winner, state.ended.code) == (FAST, 0)
    best = state.trials[FAST]
    assert (best.iterations, best.metrics["loss"]) == (40, pytest.approx(9.0 * 0.4**80, abs=1e-12))
    assert not any(trial.why_dropped for trial in state.trials.values())
    with Journal(out, writable=False) as journal:
        whole = [
            record.operation for record in journal.replay() if isinstance(record, OperationEnded) and record.complete
        ]
    trials = [operation.rpartition(".")[0] for operation in whole]
    assert len(set(trials)) == len(trials) == 5, "nothing that has ended was repeated"


@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_any_moment(plan_of: PlanOf, tmp_path: Path, processes: Processes, kind: str) -> None:
    """A run is killed five times: it ends with what one in peace ends with, and nothing is left of it."""
    kills = endure(kind, plan_of("rubberband-two-stages"), tmp_path, 1, processes)
    assert kills == KILLS


@pytest.mark.real
def test_many_kills(plan_of: PlanOf, tmp_path: Path, processes: Processes) -> None:
    """The same many times, over runs of all kinds."""
    kills, seed = 0, 1
    while kills < MANY * 3 // 5:
        seed += 1
        kills += sum(endure(kind, plan_of("rubberband-two-stages"), tmp_path, seed, processes) for kind in KINDS)


@pytest.mark.real
def test_many_kills_on_slurm(
    plan_of: PlanOf,
    tmp_path: Path,
    slurm: Any,  # noqa: ANN401 - the fixture's
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jobs that are cancelled and nodes that are taken away, too: the same winner, and no job is left."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    kills, seed = 0, 1
    while kills < MANY // 5:
        seed += 1
        kills += endure(SLURM, plan_of("rubberband-two-stages"), tmp_path, seed, processes)
        slurm.wait()
