"""Calls in a process of their own: results, reports, failures, ends that do not wait, and processes that are kept."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import numpy as np
import pytest
from scipy.sparse import csr_array

from optplan.contracts import SolveRequest, Status, Termination
from optplan.errors import EngineError, UsageError
from optplan.progress import Event, Stopwatch, interruptible
from optplan.solvers import engine_process
from optplan.solvers.engine_process import call_elsewhere
from optplan.solvers.programs import cpsat
from optplan.solvers.programs.program import Program, ProgramOutcome

#: A module that both processes can import, with all that an engine may do.
TARGETS = """
import os, threading
from optplan.errors import UsageError

def add(one, other, stopwatch, report):
    os.write(1, b"engines write where they like")
    print("and so does Python")
    report("on the way")
    return one + other, stopwatch.limit_s

def report_and_hang(path, stopwatch, report):
    report("first")
    report("second")
    open(path, "w").close()
    threading.Event().wait()

def wait(things, stopwatch, report):
    threading.Event().wait()

def hang(path, stopwatch, report):
    open(path, "w").close()
    threading.Event().wait()

def refuse(stopwatch, report):
    raise UsageError("not like this")

def fail(stopwatch, report):
    raise ZeroDivisionError("by zero")

def vanish(stopwatch, report):
    os._exit(7)

def name_process(stopwatch, report):
    return os.getpid()

def heed(path, stopwatch, report):
    stopwatch.emit("halfway", objective=3.0, bound=1.0)
    open(path, "w").close()
    while not stopwatch.expired:
        threading.Event().wait(0.01)
    return "heard"

def meet(own, other, stopwatch, report):
    with open(__file__ + own, "w"):
        while not os.path.exists(__file__ + other):
            threading.Event().wait(0.01)
    return os.getpid()
"""


@dataclass
class UntilFile(Stopwatch):
    """A stopwatch that expires when a file is there."""

    path: Path = Path()

    @property
    def expired(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()


@dataclass
class InterruptedByFile(UntilFile):
    """A stopwatch that is interrupted when a file is there."""

    @property
    def expired(self) -> bool:
        """Whether the file is there."""
        if self.path.exists():
            self.interrupt()
        return self.interrupted


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return the module of targets; what was kept ends."""
    (tmp_path / "engine_targets.py").write_text(TARGETS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "engine_targets", raising=False)
    yield importlib.import_module("engine_targets")
    engine_process._end_kept()


def test_results_come_back(targets: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is written meanwhile goes nowhere; a stopwatch with what is left of the time is there."""
    found = call_elsewhere(targets.add, (np.arange(3), 1), Stopwatch(1000.0))
    assert found is not None
    total, limit_s = found
    assert total.tolist() == [1, 2, 3]
    assert 900.0 < limit_s <= 1000.0
    assert capfd.readouterr() == ("", "")
    assert call_elsewhere(targets.add, (1, 1), Stopwatch()) == (2, None)


def test_the_last_report_counts_when_time_is_over(targets: ModuleType, tmp_path: Path) -> None:
    """Also of a call that never ends; without a report there is nothing."""
    path = tmp_path / "hangs"
    assert call_elsewhere(targets.report_and_hang, (str(path),), UntilFile(path=path)) == "second"
    path.unlink()
    assert call_elsewhere(targets.hang, (str(path),), UntilFile(path=path)) is None


def test_nobody_reads_what_is_closed(targets: ModuleType, tmp_path: Path) -> None:
    """Threads of a call that was stopped have ended: the next process's pipes may have the same numbers."""
    before = set(threading.enumerate())
    path = tmp_path / "hangs"
    assert call_elsewhere(targets.hang, (str(path),), UntilFile(path=path)) is None
    assert set(threading.enumerate()) <= before


def test_it_is_over_before_it_has_begun(targets: ModuleType, tmp_path: Path) -> None:
    """With no time left, or an interruption that came before."""
    assert call_elsewhere(targets.hang, (str(tmp_path / "hangs"),), Stopwatch(0.0)) is None
    stopwatch = Stopwatch()
    stopwatch.interrupt()
    assert call_elsewhere(targets.hang, (str(tmp_path / "hangs"),), stopwatch) is None


def test_what_was_not_sent_yet_goes_nowhere(targets: ModuleType) -> None:
    """A call that is over before all it is about was sent ends like any other: a pipe holds far less than 14 MB."""
    stopwatch = Stopwatch()
    stopwatch.interrupt()
    assert call_elsewhere(targets.wait, ([bytes(70_000 + more) for more in range(200)],), stopwatch) is None


def test_failures_are_raised_here(targets: ModuleType) -> None:
    """Errors of ours as they are, others and a sudden end as the engine's."""
    with pytest.raises(UsageError, match="not like this"):
        call_elsewhere(targets.refuse, (), Stopwatch())
    with pytest.raises(EngineError, match="ZeroDivisionError: by zero"):
        call_elsewhere(targets.fail, (), Stopwatch())
    with pytest.raises(EngineError, match="ended with code 7 and without a result"):
        call_elsewhere(targets.vanish, (), Stopwatch())


def test_interruptions_and_events_go_through(targets: ModuleType, tmp_path: Path) -> None:
    """Whoever listens here hears the engine's events, and an engine that heeds an interruption returns what it has."""
    events: list[Event] = []
    stopwatch = InterruptedByFile(listener=events.append, path=tmp_path / "runs")
    assert call_elsewhere(targets.heed, (str(stopwatch.path),), stopwatch) == "heard"
    assert [(event.stage, event.objective, event.bound) for event in events] == [("halfway", 3.0, 1.0)]


def test_a_kept_process_makes_call_after_call(targets: ModuleType, tmp_path: Path) -> None:
    """Also after an error; one that was stopped in a call is not used again, nor is one that has ended."""
    first = call_elsewhere(targets.name_process, (), Stopwatch(), keep=True)
    assert call_elsewhere(targets.name_process, (), Stopwatch(), keep=True) == first
    with pytest.raises(UsageError, match="not like this"):
        call_elsewhere(targets.refuse, (), Stopwatch(), keep=True)
    assert call_elsewhere(targets.name_process, (), Stopwatch(), keep=True) == first
    assert call_elsewhere(targets.name_process, (), Stopwatch()) != first
    path = tmp_path / "hangs"
    assert call_elsewhere(targets.hang, (str(path),), UntilFile(path=path), keep=True) is None
    second = call_elsewhere(targets.name_process, (), Stopwatch(), keep=True)
    assert second is not None
    assert second != first
    os.kill(second, signal.SIGKILL)
    engine_process._KEPT[-1].process.wait()
    assert call_elsewhere(targets.name_process, (), Stopwatch(), keep=True) not in (first, second)


def test_nothing_is_kept_for_long(targets: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waited for half its time gets no call any more, and one that waited for all of it ends."""
    first = call_elsewhere(targets.name_process, (), Stopwatch(), keep=True)
    monkeypatch.setattr(engine_process, "_KEPT_S", 0.0)
    assert call_elsewhere(targets.name_process, (), Stopwatch(), keep=True) != first
    unasked = "from optplan.solvers import engine_process as each; each._KEPT_S = 0.0; each.serve()"
    with subprocess.Popen([sys.executable, "-P", "-c", unasked], stdin=subprocess.PIPE) as waiting:
        assert waiting.wait(timeout=60) == 0


def test_threads_have_a_process_each(targets: ModuleType) -> None:
    """Two calls at a time never share one: each waits until the other has begun."""
    names = [str(uuid4()), str(uuid4())]
    with ThreadPoolExecutor(2) as threads:
        calls = [
            threads.submit(call_elsewhere, targets.meet, (own, other), Stopwatch(), keep=True)
            for own, other in (names, names[::-1])
        ]
        assert len({call.result() for call in calls}) == 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_have_their_own(targets: ModuleType, method: str) -> None:
    """A process that this one starts uses no process that is kept here, and leaves it usable."""
    own = call_elsewhere(targets.name_process, (), Stopwatch(), keep=True)
    with multiprocessing.get_context(method).Pool(1) as pool:
        others = [pool.apply(call_elsewhere, (targets.name_process, (), Stopwatch()), {"keep": True}) for _ in "ab"]
    assert others[0] == others[1] != own
    assert call_elsewhere(targets.name_process, (), Stopwatch(), keep=True) == own


#: Keeps a process for calls; then a fork of this one goes on without a trace, and this one waits to be killed.
KEEPS = """
import os, sys, threading
sys.path.append(sys.argv[3])
from optplan.progress import Stopwatch
from optplan.solvers.engine_process import call_elsewhere
import engine_targets
call_elsewhere(engine_targets.name_process, (), Stopwatch(), keep=True)
fork = os.fork()
if not fork:
    os.close(1)
    os.close(2)
    threading.Event().wait()
if sys.argv[1] == "waits":
    threading.Thread(target=call_elsewhere, args=(engine_targets.hang, (sys.argv[2],), Stopwatch())).start()
    while not os.path.exists(sys.argv[2]):
        threading.Event().wait(0.01)
print(fork, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("state", ["kept", "waits"])
def test_it_ends_with_the_process_that_started_it(targets: ModuleType, state: str, tmp_path: Path) -> None:
    """Also when that is killed while its fork lives on, whatever the engine does: nobody is left on standard error."""
    assert targets.__file__ is not None
    command = [sys.executable, "-P", "-c", KEEPS, state, str(tmp_path / "hangs"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        fork = int(started.stdout.readline())
        try:
            started.kill()
            assert started.communicate(timeout=60) == ("", "")
        finally:
            os.kill(fork, signal.SIGKILL)


def test_without_an_interpreter_it_is_called_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Python is embedded in another program."""
    monkeypatch.setattr(sys, "executable", "")
    assert call_elsewhere(lambda stopwatch: stopwatch.limit_s, (), Stopwatch(9.0)) == 9.0


def ladder(layers: int, nodes: int) -> Program:
    """Choose one node in each layer: node k takes k + 1 and costs 1 / (k + 1), and there are two for each layer."""
    width = np.tile(np.arange(1.0, nodes + 1.0), layers) * np.linspace(1.0, 1.1, layers * nodes)
    size = layers * nodes
    return Program(
        cost=1.0 / width,
        lower=np.zeros(size),
        upper=np.ones(size),
        integral=np.ones(size, dtype=np.bool_),
        matrix=csr_array(np.concatenate([np.repeat(np.eye(layers), nodes, axis=1), width[None]])),
        row_lower=np.append(np.ones(layers), -np.inf),
        row_upper=np.append(np.ones(layers), 2.03 * layers),
    )


def test_cp_sat_runs_elsewhere_and_agrees() -> None:
    """The same values and bound as in this process; out of time there is nothing but the engine's name."""
    program = ladder(6, 4)
    here = cpsat.run_cp_sat(program, SolveRequest().gap, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch())
    elsewhere = cpsat.solve_program(program, SolveRequest())
    assert here.status is elsewhere.status is Status.OPTIMAL
    assert elsewhere.bound == here.bound
    assert here.values is not None
    assert elsewhere.values is not None
    assert (elsewhere.values == here.values).all()
    assert (elsewhere.engine, elsewhere.engine_version) == (here.engine, here.engine_version)
    late = cpsat.solve_program(program, SolveRequest(stopwatch=Stopwatch(0.0)))
    assert (late.status, late.termination, late.values) == (Status.UNKNOWN, Termination.TIME_LIMIT, None)
    assert late.engine == here.engine


def test_cp_sat_and_highs_never_meet() -> None:
    """Neither OR-Tools nor pandas, which it brings along, is loaded where optplan is, whatever solver runs."""
    script = (
        "import sys, optplan\n"
        "for solver in ('highs', 'cp-sat', 'highs'):\n"
        "    assert optplan.solve(optplan.read_instance('boa-two-classes'), solver=solver).status == 'optimal'\n"
        "for name, solver in (('srift-case3', 'highs'), ('seer-paper-example', 'cp-sat')):\n"
        "    optplan.solve(optplan.read_instance(name), solver=solver)\n"
        "sys.stdout.write(' '.join(sorted({'highspy', 'ortools', 'pandas'} & set(sys.modules))))\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "highspy", "")


def test_incumbents_and_bounds_are_reported() -> None:
    """Each keeps the rows, and the last bound is no better than the end."""
    program = ladder(12, 6)
    reports: list[ProgramOutcome] = []
    found = cpsat.run_cp_sat(program, 0.0, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch(), reports.append)
    assert found.status is Status.OPTIMAL
    plans = [each for each in reports if each.values is not None]
    assert plans
    assert found.values is not None
    for each in plans:
        assert each.values is not None
        assert each.status is Status.FEASIBLE
        assert each.termination is Termination.TIME_LIMIT
        assert (program.matrix @ each.values <= program.row_upper * (1 + 1e-9)).all()
        assert program.cost @ each.values >= program.cost @ found.values * (1 - 1e-9)
    assert found.bound is not None
    assert all(each.bound is None or each.bound <= found.bound * (1 + 1e-9) for each in reports)


def test_engines_stop_when_they_are_asked_to() -> None:
    """Before they have found anything, the outcome is that of a time limit."""
    with interruptible() as interruption:
        stopwatch = Stopwatch()
        interruption.interrupt()
        found = cpsat.run_cp_sat(ladder(40, 40), 0.0, 0, cpsat.DEFAULT_RESOLUTION, stopwatch)
    assert found.termination is Termination.TIME_LIMIT
    assert found.status in (Status.UNKNOWN, Status.FEASIBLE)
