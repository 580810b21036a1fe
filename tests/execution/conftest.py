"""Plans of the library, plans made by hand, and runs of them on the virtual clock."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import BoundProof, Plan, Result, Status, Termination
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve


@functools.cache
def _plan_of(name: str, solver: str = "auto") -> Plan:
    instance = read_instance(name)
    return build_plan(instance, solve(instance, solver=solver, gap=1e-2))


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Return the plan of an instance of the library."""
    return _plan_of


def _plan_stages(*stages: tuple[int, int, int], iterations: int = 4) -> Plan:
    """Plan stages of so many trials, on so many nodes of two GPUs, of which so many are used."""
    data: dict[str, Any] = {
        "formulation": "rubberband",
        "experiment": {
            "form": "stages",
            "stages": [{"trials": trials, "iterations": iterations} for trials, _, _ in stages],
        },
        "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
        "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
        "deadline_s": 1e6,
    }
    chain = [{"instances": nodes, "gpus": gpus} for _, nodes, gpus in stages]
    return _plan_chain(RubberBandInstance.parse(data), chain)


def _plan_chain(instance: RubberBandInstance, chain: list[dict[str, int]]) -> Plan:
    """Plan a search by hand: the instances and GPUs of each stage."""
    solution = RubberBandSolution.parse({"brackets": [chain]})
    result = Result[RubberBandSolution](
        formulation="rubberband",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="by-hand",
        engine="none",
        engine_version="0",
        optplan_version="0",
        status=Status.FEASIBLE,
        termination=Termination.COMPLETED,
        objective=evaluate(instance, solution).objective,
        objective_unit="usd",
        gap_target=0.0,
        bound_proof=BoundProof.NONE,
        solution=solution,
    )
    return build_plan(instance, result)


@pytest.fixture(scope="session")
def plan_chain() -> Callable[..., Plan]:
    """Return the plan of a search by hand: an instance, and the instances and GPUs of each stage."""
    return _plan_chain


@pytest.fixture
def plan_stages() -> Callable[..., Plan]:
    """Return a plan of stages, each by its trials, its nodes of two GPUs, and the GPUs that are used."""
    return _plan_stages


class Processes:
    """What a test has started, found by a mark in the environment; and what its programs have written down."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder)
        #: Where ``forking.py`` writes the numbers of its own process, of a helper, and of a daemon without environment.
        self.seen = folder / "seen"

    def find(self) -> list[Any]:
        """Return the processes that run, but this one."""
        psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                own = process.environ().get("OPTPLAN_TEST") == self._mark or process.pid in self._list_daemons()
                if own and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return [process for process in found if process.pid != os.getpid()]

    def count_seen(self) -> int:
        """Return how many programs have begun."""
        return len(self._read()) // 3

    def wait_until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds."""
        until = time.monotonic() + 120.0
        while not holds():
            assert time.monotonic() < until, what
            time.sleep(0.01)

    def _read(self) -> list[int]:
        return [int(line) for line in self.seen.read_text(encoding="utf-8").splitlines()] if self.seen.exists() else []

    def _list_daemons(self) -> list[int]:
        import psutil

        daemons = []
        for pid in self._read()[2::3]:
            with contextlib.suppress(psutil.Error):
                if psutil.Process(pid).name() == "sleep":
                    daemons.append(pid)
        return daemons


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """Mark everything that a test starts; nothing of it is there when the test ends."""
    monkeypatch.setenv("OPTPLAN_TEST", str(tmp_path))
    own = Processes(tmp_path)
    yield own
    left = own.find()
    for process in left:
        process.kill()
    assert not left
