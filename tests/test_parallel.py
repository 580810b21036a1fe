"""Tasks spread over processes: answers by name, processes of their own, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from optplan.errors import DataError, MissingExtraError, UsageError
from optplan.parallel import spread

TASKS = {"a": 8.0, "b": 2.0, "c": 4.0}
#: Two processes, each of which starts HiGHS.
SPREADS = """
import optplan
from optplan.parallel import spread

def solve(name):
    return str(optplan.solve(optplan.read_instance(name), solver="highs").status)

if __name__ == "__main__":
    print(sorted(spread(solve, {"a": "boa-two-classes", "b": "boa-two-classes"}, 2)))
"""


@pytest.fixture(autouse=True)
def _find_this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that are spawned find it, under -P too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def divide(number: float, by: float) -> tuple[float, int]:
    """Divide, and say in which process; by nothing is an error of the data."""
    if not by:
        raise DataError("by", "is 0", "give another number")
    return number / by, os.getpid()


def test_processes_change_no_answer() -> None:
    """Halves by name from this process, and from one for each task."""
    halves = {"a": 4.0, "b": 1.0, "c": 2.0}
    places = []
    for fresh in (False, True):
        told = dict(spread(partial(divide, by=2.0), TASKS, 1, fresh=fresh))
        assert {name: half for name, (half, _) in told.items()} == halves
        places.append({place for _, place in told.values()})
    assert places[0] == {os.getpid()}
    assert len(places[1]) == 3
    assert os.getpid() not in places[1]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_a_task_is_raised(processes: int) -> None:
    """As it is, from a process too."""
    with pytest.raises(DataError, match="by: is 0; give another number"):
        list(spread(partial(divide, by=0.0), TASKS, processes))


def test_what_is_refused_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first answer is asked for, but for what a cluster needs; nothing to do is no error."""
    work = partial(divide, by=2.0)
    with pytest.raises(UsageError, match="engine: got 'dask'; processes or ray is allowed"):
        spread(work, TASKS, engine="dask")
    with pytest.raises(UsageError, match="processes: got 0; at least 1 is needed"):
        spread(work, TASKS, 0)
    with pytest.raises(UsageError, match="processes: got 2; a Ray cluster begins as many as it has CPUs for"):
        spread(work, TASKS, 2, engine="ray")
    assert dict(spread(work, {}, engine="ray")) == {}
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"optplan\[ray\]"):
        next(spread(work, TASKS, engine="ray"))


@pytest.mark.slow
def test_processes_that_share_work_write_nothing(tmp_path: Path) -> None:
    """HiGHS begins by saying its version: neither on standard output nor, where a thread waits, on standard error."""
    (tmp_path / "script.py").write_text(SPREADS, encoding="utf-8")
    done = subprocess.run([sys.executable, "-P", tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[('a', 'optimal'), ('b', 'optimal')]\n", "")
