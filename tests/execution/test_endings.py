"""A driver may die at the very end of a run: every node is given back, by it or by the next one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Plan
from optplan.execution.executors import LocalExecutor
from optplan.execution.fleets.folder import LocalFleet
from optplan.execution.fleets.running import VirtualFleet, watch
from optplan.execution.journal import Journal
from optplan.execution.records import Ended, NodeReleasing, NodeWanted, Record
from optplan.execution.running import run as run_search
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.streams.virtual import VirtualStreamExecutor
from optplan.execution.virtual import VirtualExecutor
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.formulations.srift.planning import SriftPlan
from optplan.solving import solve

if TYPE_CHECKING:
    from tests.conftest import Runner

FOLDER = Path(__file__).parent
QUADRATIC = f"{FOLDER / 'trainables' / 'quadratic.py'}:Quadratic"
SLEEPER = f"{FOLDER / 'streams' / 'sleeper.py'}:train"
COUNTING = shlex.join([sys.executable, str(FOLDER / "fleets" / "count.py")])
Begin = Callable[..., Any]


class DeathError(Exception):
    """The driver dies."""


@dataclass
class Told:
    """The nodes that executors were told to give back, and those that drivers who go on asked for, in that order."""

    released: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Return what executors are told of nodes."""
    found = Told()
    for kind in (VirtualExecutor, VirtualStreamExecutor, VirtualFleet, LocalExecutor, LocalFleet):
        give_back, observe = kind.release_nodes, kind.observe

        def note_release(self: Any, nodes: Sequence[str], give_back: Any = give_back) -> None:  # noqa: ANN401
            give_back(self, nodes)
            found.released.extend(nodes)

        def note_request(self: Any, nodes: Sequence[NodeWanted], running: Any, observe: Any = observe) -> Any:  # noqa: ANN401
            found.asked.extend(each.node for each in nodes)
            return observe(self, nodes, running)

        monkeypatch.setattr(kind, "release_nodes", note_release)
        monkeypatch.setattr(kind, "observe", note_request)
    return found


@pytest.fixture
def begin(
    plan_stages: Callable[..., Plan],
    make_instance: Callable[..., BoaInstance],
    make_jobs: Callable[..., list[StreamJob]],
    small_plan: SriftPlan,
    tmp_path: Path,
) -> Callable[[str, str], Begin]:
    """Return what begins a run of a kind on an executor, in the folder ``run``."""

    def make(kind: str, executor: str) -> Begin:
        own: dict[str, Any] = {"out": tmp_path / "run", "executor": executor}
        is_virtual = executor == "virtual"
        if kind == "search":
            rates = [{"rate": 0.1}, {"rate": 0.2}]
            trained: dict[str, Any] = {} if is_virtual else {"train": QUADRATIC, "space": rates, "replan_above": None}
            return lambda: run_search(plan_stages((2, 1, 1), iterations=2), **own, **trained)
        if kind == "stream":
            instance = make_instance((1.0, 1.9, 3.6), epochs=2)
            jobs = make_jobs(1, 0.0, epoch_s=0.01)
            known = {"truth": instance} if is_virtual else {"trainable": SLEEPER}
            return lambda: run_stream(build_plan(instance, solve(instance)), jobs, **own, **known)
        trained = {} if is_virtual else {"command": COUNTING}
        return lambda: watch(small_plan, heartbeat_s=0.5 if is_virtual else 0.05, **own, **trained)

    return make


@pytest.mark.parametrize("executor", ["virtual", "local"])
@pytest.mark.parametrize("kind", ["search", "stream", "fleet"])
@pytest.mark.parametrize("last", [NodeReleasing, Ended])
def test_who_dies_at_the_end_leaves_no_node(
    begin: Callable[[str, str], Begin],
    run: Runner,
    told: Told,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    executor: str,
    last: type[Record],
) -> None:
    """Killed as soon as it is written that nodes go, they are held, and named; once it is written, all are back."""
    out, commit = tmp_path / "run", Journal.commit

    def die(self: Journal, records: Sequence[Record]) -> None:
        commit(self, records)
        if any(isinstance(record, last) for record in records):
            raise DeathError

    start = begin(kind, executor)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit", die)
        with pytest.raises(DeathError):
            start()
    with Journal(out, writable=False) as journal:
        wanted = {record.node for record in journal.replay() if isinstance(record, NodeWanted)}
    outcome = read_run(out).describe()
    held_before = outcome.held
    assert set(held_before) == wanted - set(told.released)
    assert (outcome.status == "ended") is (last is Ended)
    held = list(outcome.held) if executor == "local" else []
    for command in ("status", "stop"):
        said = run(command, out)
        letters = "".join(f"{said.out}{said.err}".split())  # lines are broken where a terminal ends
        assert [name for name in outcome.held if name in letters] == held
        assert ("--abort" in letters and "givesthemback" in letters) is bool(held)
    assert resume(out).code == 0
    outcome = read_run(out).describe()
    assert (outcome.status, outcome.code, outcome.held) == ("ended", 0, ())
    assert set(told.asked) == set(held_before), "who goes on asks for them, so that the executor finds them"
    assert sorted(told.released) == sorted(wanted), "each is given back once"
