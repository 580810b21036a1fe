"""Faults by design: whatever an executor does wrong and whenever drivers die, runs end as they would have.

Seeded schedules on the virtual clock. Each call of the executor may fail, be late, come twice or out of order, and so
may each event; nodes vanish, also while nobody drives; drivers die before and after each call and each transaction.
"""

from __future__ import annotations

import os
import random
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.errors import OutputError, UsageError
from optplan.execution import journal as journals
from optplan.execution.fleets.running import Course, Loss, VirtualFleet, watch
from optplan.execution.journal import Journal
from optplan.execution.protocol import (
    Event,
    Executor,
    Metrics,
    Observation,
    Operation,
)
from optplan.execution.records import (
    Checkpoint,
    NodeChanged,
    NodeNoticed,
    NodeWanted,
    OperationEnded,
    OperationFailed,
    Progressed,
    Record,
    Reported,
)
from optplan.execution.running import run
from optplan.execution.runs import read_run, resume
from optplan.execution.state import Phase
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.streams.virtual import VirtualStreamExecutor
from optplan.execution.virtual import VirtualExecutor
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.formulations.srift.planning import SriftPlan
from optplan.solving import solve

#: Schedules of each kind, and the first one; `make fuzz` tries more.
SCHEDULES = max(100, int(os.environ.get("OPTPLAN_FUZZ_CASES", "0")) // 20)
FIRST = int(os.environ.get("OPTPLAN_FUZZ_SEED", "1"))
#: Of one test.
EACH = 20
#: The first schedule of each test; one test of a kind is a quick one.
FIRSTS = [FIRST, *[pytest.param(each, marks=pytest.mark.slow) for each in range(FIRST + EACH, FIRST + SCHEDULES, EACH)]]
#: Faults of a schedule at most, and how likely each is wherever one may be.
MOST, LIKELY = 8, 0.12
#: Rounds of all drivers of a schedule.
MOST_ROUNDS = 3000
#: Drivers, one after the other.
DRIVERS = 4 * MOST


class DeathError(Exception):
    """The driver dies."""


class Fate:
    """What goes wrong, drawn from a seed.

    Parameters
    ----------
    seed
        Of the schedule.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.left = self.dice.randint(1, MOST)
        #: Faults that take time or money, such as a node that is lost; and all, in their order.
        self.costs = False
        self.story: list[str] = []

    def strikes(self, what: str, *, costs: bool = False) -> bool:
        """Say whether a fault happens here."""
        if not self.left or self.dice.random() > LIKELY:
            return False
        self.left -= 1
        self.costs |= costs
        self.story.append(what)
        return True

    def call(self, name: str, act: Callable[[], None]) -> Callable[[], None] | None:
        """Make a call as it goes; return it where it is late."""
        if self.strikes(f"death before {name}"):
            raise DeathError
        if self.strikes(f"{name} fails", costs=True):
            raise OutputError(f"{name} is not to be reached")
        if self.strikes(f"{name} is late"):
            return act
        act()
        if self.strikes(f"{name} is made twice"):
            act()
        if self.strikes(f"{name} fails though it was made", costs=True):
            raise OutputError(f"{name} did not answer")
        if self.strikes(f"death after {name}"):
            raise DeathError
        return None

    def shuffle(self, heard: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return what is heard now, and what later: some are late, come twice or out of order."""
        now, later = list[Any](), list[Any]()
        for each in heard:
            (later if self.strikes(f"{each} is late") else now).append(each)
            if self.strikes(f"{each} comes twice"):
                self.dice.choice((now, later)).append(each)
        if len(now) > 1 and self.strikes("out of order"):
            self.dice.shuffle(now)
        return now, later


class FaultyExecutor(Executor):
    """An executor that outlives its drivers, around one on a virtual clock; what is late takes none of its time.

    Parameters
    ----------
    inner
        On which everything runs.
    fate
        What goes wrong.
    gpus
        Of a node.
    loses
        Whether nodes and operations are lost that the inner one does not lose; else they are one thing, a fleet.
    """

    def __init__(
        self,
        inner: VirtualExecutor | VirtualStreamExecutor | VirtualFleet,
        fate: Fate,
        gpus: int,
        *,
        loses: bool = True,
    ) -> None:
        self.is_virtual, self.at_once, self.lateness = inner.is_virtual, inner.at_once, inner.lateness
        self.inner, self.fate, self._gpus, self._loses = inner, fate, gpus, loses
        self._late: list[tuple[str, Callable[[], None]]] = []
        self._held: list[Event] = []
        # What is told long after it happened, as nothing waits for it; and in how many rounds.
        self._slow: list[tuple[int, Event]] = []
        # What was heard of each node and operation: who takes over hears it again.
        self._heard: dict[str, list[Event]] = {}
        self._given_back: dict[str, float] = {}
        self._blamed = self._rounds = 0
        self._is_told_again = False

    def adopt(self, plan: Plan) -> None:
        """Follow another plan."""
        self.inner.adopt(plan)

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self.inner.now_s()

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:
        """Say what is there, and tell again what was told of it."""
        self._catch_up()
        there = {each.node for each in nodes if each.node in self.inner._nodes}
        ended = {
            name
            for name, heard in self._heard.items()
            if any(isinstance(e, OperationEnded | OperationFailed) for e in heard)
        }
        known = {each.id for each in operations if each.id in self.inner._running or each.id in ended}
        self._held = [event for name in sorted(there | known) for event in self._heard.get(name, ())]
        self._is_told_again = True
        if self.fate.strikes("death after observe"):
            raise DeathError
        return Observation(frozenset(there), frozenset(known))

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for nodes."""
        self._call("nodes", "ensure_nodes", lambda: self.inner.ensure_nodes(requests))

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give nodes back."""
        now_s = self.now_s()
        busy = [name for name, operation in self._list_running() if set(nodes) & set(operation.place)]
        assert not busy, f"{nodes} are given back under {busy}"
        # Given back by a driver that died before it wrote that down: nobody knows when, and it is paid until now.
        self.fate.costs |= any(self._given_back.get(node, now_s) < now_s for node in nodes)
        self._call("nodes", "release_nodes", lambda: self._give_back(nodes))

    def start(self, operation: Operation) -> None:
        """Start an operation, unless it runs or has run."""
        if self._loses and not set(operation.place) <= self.inner._nodes.keys():  # its driver does not know yet
            assert self.fate.costs, "only nodes that are lost are started on"
            self._held.append(OperationFailed(self.now_s(), operation.id, "its node is gone", blameless=True))
            return
        held = [held.place for name, held in self._list_running() if name != operation.id]
        for node, gpus in operation.place.items():
            assert gpus + sum(place.get(node, 0) for place in held) <= self._gpus, f"GPUs of {node} are given twice"
        self._call(operation.id, "start", lambda: operation.id in self._heard or self.inner.start(operation))

    def stop(self, operation: str, grace_s: float) -> None:
        """Stop an operation."""
        self._call(operation, "stop", lambda: self.inner.stop(operation, grace_s))

    def ask(self, operation: str, order: int, rank: int) -> None:
        """Ask for a checkpoint."""
        self._call(operation, "ask", lambda: self.inner.ask(operation, order, rank))

    def poll(self, until_s: float) -> list[Event]:
        """Return what is heard."""
        self._rounds += 1
        assert self._rounds < MOST_ROUNDS, f"goes round and round: {self.fate.story}"
        self._catch_up()
        if self.fate.strikes("death while nothing happens"):
            raise DeathError
        due = [event for rounds, event in self._slow if rounds <= self._rounds]
        self._slow = [(rounds, event) for rounds, event in self._slow if rounds > self._rounds]
        self._held += due
        if not self._held:
            self._held = self._lose() or self.inner.poll(until_s)
            for event in self._held:
                if not isinstance(event, NodeChanged | NodeNoticed):
                    self._heard.setdefault(event.operation, []).append(event)
                elif not isinstance(event, NodeChanged) or event.phase != Phase.LOST:
                    self._heard.setdefault(event.node, []).append(event)
        now, self._held = self.fate.shuffle(self._held)
        if self._is_told_again:  # files that ranks write are read from their beginning at once, in whatever order
            now += [event for event in self._held if isinstance(event, Reported)]
            self._held = [event for event in self._held if not isinstance(event, Reported)]
            self._is_told_again = False
        # Whatever is late, what ranks have said comes before the end of their operation, as the protocol has it.
        over = {event.operation for event in now if isinstance(event, OperationEnded | OperationFailed)}
        before = [each for each in (*now, *self._held) if isinstance(each, Reported) and each.operation in over]
        now = [*before, *(each for each in now if each not in before)]
        self._held = [each for each in self._held if each not in before]
        for event in [
            each for each in now if isinstance(each, Progressed) or getattr(each, "phase", "") == Phase.LAUNCHING
        ]:
            if event not in due and self.fate.strikes(f"{event} is told long after"):
                now.remove(event)
                self._slow.append((self._rounds + self.fate.dice.randint(1, 2), event))
        return now

    def vanish(self) -> None:
        """Lose nodes while nobody drives."""
        self._catch_up()
        for node in sorted(self.inner._nodes):
            if self.fate.strikes(f"{node} vanishes", costs=True):
                self._take(node)

    def _call(self, key: str, name: str, act: Callable[[], Any]) -> None:
        key = key if self._loses else ""
        if any(key == known for known, _ in self._late):  # what is asked of one comes in its order
            self._late.append((key, act))
            return
        late = self.fate.call(f"{name} {key}", act)
        if late is not None:
            self._late.append((key, late))

    def _catch_up(self) -> None:
        """Do what is late, of each in its order."""
        while self._late:
            keys = [key for key, _ in self._late]
            key = self.fate.dice.choice(keys)
            self._late.pop(keys.index(key))[1]()

    def _take(self, node: str) -> list[str]:
        """Take a node, and what runs on it."""
        gone = [name for name, operation in self._list_running() if node in operation.place]
        for name in gone:
            self._end(name)
        self._give_back([node])
        return gone

    def _give_back(self, nodes: Sequence[str]) -> None:
        self.inner.release_nodes(nodes)
        for node in nodes:
            self._given_back.setdefault(node, self.now_s())
            self._heard.pop(node, None)

    def _list_running(self) -> list[tuple[str, Operation]]:
        """Return what runs, by name."""
        running = self.inner._running.items()
        return [(name, own[0] if isinstance(own, tuple) else own.operation) for name, own in running]

    def _end(self, name: str) -> None:
        running: Any = self.inner._running.pop(name)
        _, *rest = running
        ticket: Any = rest[0] if len(rest) == 1 else rest[1]  # a stream's says before how many epochs are done
        self.inner._clock.cancel(ticket)

    def _lose(self) -> list[Event]:
        """Lose a node or an operation now and then."""
        now_s = self.now_s()
        if not self._loses:
            return []
        for name in sorted(self.inner._running):
            blameless = self._blamed == 2
            if self.fate.strikes(f"{name} fails", costs=True):
                self._blamed += not blameless
                self._end(name)
                return [OperationFailed(now_s, name, "exit code 1", blameless=blameless)]
        for node in sorted(self.inner._nodes):
            if node in self._heard and self.fate.strikes(f"{node} is lost", costs=True):
                gone = self._take(node)
                return [
                    NodeChanged(now_s, node, Phase.LOST, "taken away"),
                    *(OperationFailed(now_s, n, "gone", blameless=True) for n in gone),
                ]
        return []


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing wait for the disk: that power is lost is not tried here."""
    connect = journals.connect

    def connect_quick(path: Path, tables: str, version: int, *, writable: bool) -> sqlite3.Connection:
        connection = connect(path, tables, version, writable=writable)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(journals, "connect", connect_quick)


def let_writing_fail(patch: pytest.MonkeyPatch, fate: Fate) -> None:
    """Let drivers die before and after transactions, or the disk be full."""
    commit = Journal.commit

    def faulty(self: Journal, records: Sequence[Record]) -> None:
        kinds = ", ".join(type(record).__name__ for record in records)
        if fate.strikes(f"death before {kinds} are written"):
            raise DeathError
        if fate.strikes(f"no room for {kinds}", costs=True):
            raise OutputError("no room")
        commit(self, records)
        if fate.strikes(f"death after {kinds} are written"):
            raise DeathError

    patch.setattr(Journal, "commit", faulty)


def endure(begin: Callable[[], Any], go_on: Callable[[], Any], between: Callable[[], None]) -> Any:  # noqa: ANN401
    """Follow a run by one driver after the other to its end, and return what the last one says."""
    act = begin
    for _ in range(DRIVERS):
        try:
            outcome = act()
        except UsageError:  # it died before there was anything
            act = begin
        except (DeathError, OutputError):
            act = go_on
            between()
        else:
            if outcome.status == "ended":
                return outcome
            act = go_on
    pytest.fail("it does not end")


def show(operation: Operation, _: int) -> tuple[Metrics, Checkpoint | None]:
    """Show a loss that is the trial's own."""
    return {"loss": zlib.crc32(operation.trial.encode()) / 2**32}, None


def in_peace() -> Fate:
    """Return what lets nothing go wrong."""
    fate = Fate(0)
    fate.left = 0
    return fate


@pytest.mark.parametrize("first", FIRSTS)
def test_a_search_ends_as_without_faults(
    plan_stages: Callable[..., Plan], plan_of: Callable[..., Plan], tmp_path: Path, first: int
) -> None:
    """The same winner and metric, every trial through; where nothing takes time or money, the same time and cost."""
    stages, rounds = plan_stages((4, 2, 1), (2, 1, 1), (1, 1, 2)), plan_of("seer-paper-example")
    peace: dict[str, Any] = {}
    # What takes time must not end the run at its plan's deadline.
    options: dict[str, Any] = {"train": "nothing:train", "replan_above": None, "deadline_s": 1e9}
    for seed in range(first, first + EACH):
        plan = (rounds, stages, plan_of("rubberband-resnet101-20min"), stages)[seed % 4]
        gpus = max(each.gpus_per_node for each in plan.resources.values())
        fate, out = Fate(seed), tmp_path / str(seed)
        with pytest.MonkeyPatch.context() as patch:
            worlds = [FaultyExecutor(VirtualExecutor(plan, training=show), each, gpus) for each in (in_peace(), fate)]
            patch.setattr("optplan.execution.running.SearchRun._make_executor", lambda _: worlds[0])  # noqa: B023 - used here
            if plan.plan_id not in peace:
                peace[plan.plan_id] = run(plan, **options)
            world = worlds[0] = worlds[1]
            let_writing_fail(patch, fate)
            begin = partial(run, plan, out=out, **options)
            outcome = endure(begin, partial(resume, out), world.vanish)
        expected, told = peace[plan.plan_id], (seed, fate.story)
        assert (outcome.code, outcome.failed) == (0, {}), told
        assert outcome.winner.replace(iterations=0) == expected.winner.replace(iterations=0), told
        state = read_run(out).state
        assert not any((world.inner._nodes, world.inner._running, state.operations, state.held_nodes())), told
        operations = {each.operation.id: each.operation for each in state.past_operations}
        whole = [
            operations[each.operation]
            for each in read_records(out)
            if isinstance(each, OperationEnded) and each.complete
        ]
        assert len({(each.segment, each.trial) for each in whole}) == len(whole), told
        if not fate.costs:
            assert (outcome.time_s, outcome.cost_usd) == pytest.approx((expected.time_s, expected.cost_usd)), told


@pytest.mark.parametrize("first", FIRSTS)
def test_a_stream_ends_as_without_faults(
    make_instance: Callable[..., BoaInstance], make_jobs: Callable[..., list[StreamJob]], tmp_path: Path, first: int
) -> None:
    """Every job does all of its epochs; where nothing takes time, in the same time and GPU-hours as without."""
    instance = make_instance((1.0, 1.9, 3.6))
    plan, jobs, terms = build_plan(instance, solve(instance)), make_jobs(5, 0.8), {"gpus_per_node": {"cpu": 2}}
    options: dict[str, Any] = {"truth": instance, "most_gpus": 4, **terms}
    peace = None
    for seed in range(first, first + EACH):
        fate, out = Fate(seed), tmp_path / str(seed)
        with pytest.MonkeyPatch.context() as patch:
            worlds = [FaultyExecutor(VirtualStreamExecutor(instance), each, 2) for each in (in_peace(), fate)]
            patch.setattr("optplan.execution.streams.running.StreamRun._make_executor", lambda _: worlds[0])  # noqa: B023
            peace = peace or run_stream(plan, jobs, **options)
            world = worlds[0] = worlds[1]
            let_writing_fail(patch, fate)
            begin = partial(run_stream, plan, jobs, out=out, **options)
            outcome, told = endure(begin, partial(resume, out), world.vanish), (seed, fate.story)
        assert (outcome.code, outcome.dropped, outcome.classes[0].completed) == (0, {}, 5), told
        assert not any((world.inner._nodes, world.inner._running)), told
        assert read_run(out).describe() == outcome
        if not fate.costs:
            assert outcome.actual_jct_s == pytest.approx(peace.actual_jct_s), told
            hours = (outcome.gpu_hours, outcome.node_gpu_hours)
            assert hours == pytest.approx((peace.gpu_hours, peace.node_gpu_hours)), told


@pytest.mark.parametrize("first", FIRSTS)
def test_a_fleet_ends_as_without_faults(small_plan: SriftPlan, tmp_path: Path, first: int) -> None:
    """The job is done and all VMs are given back; the same fleets train, for the same time and cost."""
    courses = [
        Course((Loss("spot", 1.3),)),
        Course((Loss("spot", 1.3, back_s=3.0), Loss("spot", 5.1))),
        Course((Loss("spot", 3.0, notice_s=2.0), Loss("spot", 4.0))),
    ]
    options: dict[str, Any] = {"heartbeat_s": 0.5, "launch_wait_s": 9.0}
    peace = [watch(small_plan, course=course, **options) for course in courses]
    for seed in range(first, first + EACH):
        fate, out, expected = Fate(seed), tmp_path / str(seed), peace[seed % len(courses)]
        inner = VirtualFleet(small_plan, courses[seed % len(courses)], heartbeat_s=options["heartbeat_s"])
        world = FaultyExecutor(inner, fate, 1, loses=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("optplan.execution.fleets.running.FleetRun._make_executor", lambda _: world)  # noqa: B023
            let_writing_fail(patch, fate)
            begin = partial(watch, small_plan, out=out, **options)
            outcome, told = endure(begin, partial(resume, out), lambda: None), (seed, fate.story)
        assert (outcome.code, outcome.iterations, outcome.fleets) == (0, 60, expected.fleets), told
        assert not any((inner._nodes, inner._running)), told
        assert read_run(out).describe() == outcome
        assert (outcome.time_s, outcome.cost_usd) == pytest.approx((expected.time_s, expected.cost_usd)), told


def read_records(out: Path) -> list[Record]:
    """Return everything that was written down."""
    with Journal(out, writable=False) as journal:
        return list(journal.replay())
