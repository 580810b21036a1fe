"""Calls in a process of their own: results, reports, failures, and ends that do not wait for anybody."""

from __future__ import annotations

import importlib
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from optplan.contracts import PathCosts, SolveRequest, Status, Termination
from optplan.errors import EngineError, UsageError
from optplan.progress import Stopwatch, interruptible
from optplan.solvers import cpsat, engine_process
from optplan.solvers.budgeted_paths import BudgetedPaths, PathsOutcome
from optplan.solvers.engine_process import call_elsewhere

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
"""


@dataclass
class UntilFile(Stopwatch):
    """A stopwatch that expires when a file is there."""

    path: Path = Path()

    @property
    def expired(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of targets."""
    (tmp_path / "engine_targets.py").write_text(TARGETS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "engine_targets", raising=False)
    return importlib.import_module("engine_targets")


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


def test_it_ends_with_the_process_that_waits(targets: ModuleType, tmp_path: Path) -> None:
    """When nobody is left to send anything, it goes, whatever the engine does."""
    work = (targets.__name__, "hang", (str(tmp_path / "hangs"),), None)
    with engine_process._start() as process:
        assert process.stdin is not None
        pickle.dump(sys.path, process.stdin)
        pickle.dump(work, process.stdin)
        process.stdin.close()
        assert process.wait(timeout=60) == 1


def test_without_an_interpreter_it_is_called_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Python is embedded in another program."""
    monkeypatch.setattr(sys, "executable", "")
    assert call_elsewhere(lambda stopwatch: stopwatch.limit_s, (), Stopwatch(9.0)) == 9.0


def ladder(layers: int, nodes: int) -> BudgetedPaths:
    """Return a graph in which node k takes k + 1 and costs 1 / (k + 1), and the budget is for two at each layer."""
    width = np.arange(1.0, nodes + 1.0)
    run = np.ones((layers, 1))
    enter = np.full((layers, nodes), 0.01)
    graph = PathCosts.of_one_limit("one", np.arange(nodes), run / width, run * width, enter, enter)
    return BudgetedPaths((graph,), np.array([2.03 * layers]))


def test_large_models_are_solved_elsewhere_and_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same value and bound as here; out of time there is nothing but the engine's name."""
    problem, solve = ladder(6, 4), cpsat.solve_cp_sat
    here = solve(problem, SolveRequest())
    monkeypatch.setattr(cpsat, "_MANY_LITERALS", 1)
    elsewhere = solve(problem, SolveRequest())
    assert here.status is elsewhere.status is Status.OPTIMAL
    assert elsewhere.bound == here.bound
    assert here.choice is not None
    assert elsewhere.choice is not None
    assert problem.totals(elsewhere.choice)[0] == problem.totals(here.choice)[0]
    assert (elsewhere.engine, elsewhere.engine_version) == (here.engine, here.engine_version)
    late = solve(problem, SolveRequest(stopwatch=Stopwatch(0.0)))
    assert (late.status, late.termination, late.choice) == (Status.UNKNOWN, Termination.TIME_LIMIT, None)
    assert late.engine == here.engine


def test_incumbents_and_bounds_are_reported() -> None:
    """Each keeps the budget, and the last bound is no better than the end."""
    problem = ladder(12, 6)
    reports: list[PathsOutcome] = []
    found = cpsat.run_cp_sat(problem, 0.0, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch(), reports.append)
    assert found.status is Status.OPTIMAL
    plans = [each for each in reports if each.choice is not None]
    assert plans
    assert found.choice is not None
    for each in plans:
        assert each.choice is not None
        value, used = problem.totals(each.choice)
        assert each.status is Status.FEASIBLE
        assert each.termination is Termination.TIME_LIMIT
        assert problem.keeps_budgets(used)
        assert value >= problem.totals(found.choice)[0] * (1 - 1e-9)
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
