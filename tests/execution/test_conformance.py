"""The contract of executors: every one starts, shows, resizes, stops and loses operations in the same way.

Executors on a virtual clock, processes of this machine, jobs of a Slurm that scripts play, and a user's command; marked
``real``, a Slurm of daemons, and the Ray cluster that ``real/test_ray_conformance.py`` makes. Of each there is one for
fleets, whose operations have a rank for each GPU.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.execution.fleets.running import Course, VirtualFleet
from optplan.execution.folders import FolderSettings, make_executor
from optplan.execution.journal import Journal
from optplan.execution.protocol import Event, Executor, Operation
from optplan.execution.records import NodeChanged, NodeWanted, OperationEnded, OperationFailed, Progressed, Reported
from optplan.execution.state import Phase
from optplan.execution.streams.virtual import VirtualStreamExecutor
from optplan.execution.virtual import VirtualExecutor
from optplan.formulations.boa.data.instance import BoaInstance

psutil = pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')

QUADRATIC = f"{Path(__file__).parent / 'trainables' / 'quadratic.py'}:Quadratic"
STAND_INS = Path(__file__).parent / "stand_ins"
COUNTING = Path(__file__).parent / "fleets" / "count.py"
#: Iterations of an operation that ends by itself, and of one that has to be stopped.
FEW, MANY = 3, 1000
#: Polls within which whatever is waited for has to happen; each waits for a second at most, on the executor's clock.
_POLLS = 300

VIRTUAL = ("virtual", "virtual-stream", "virtual-fleet")
DAEMONS = pytest.param("slurm-daemons", marks=pytest.mark.real)
RAY = [pytest.param(name, marks=pytest.mark.real) for name in ("ray", "ray-by-url")]
PROCESSES = ["local", "slurm", "command", DAEMONS, *RAY]
#: Fleets whose executors see processes end, and all of them: what a user's command starts is judged by heartbeats.
SEEN_FLEETS = ["local-fleet", "slurm-fleet", pytest.param("ray-fleet", marks=pytest.mark.real)]
FLEETS = [*SEEN_FLEETS, "command-fleet"]
ALL = [*VIRTUAL, *PROCESSES, *FLEETS]


class World:
    """A place in which executors begin, one driver after the other.

    Parameters
    ----------
    make
        Makes an executor whose clock shows a time.
    segment, resource
        What operations are of, and which nodes they are on.
    wait_s
        Seconds of an iteration.
    root
        Folder of the run; None where nothing is written.
    node
        What nodes are called, but for their number.
    """

    def __init__(
        self,
        make: Callable[[float], Executor],
        segment: str,
        resource: str,
        wait_s: float,
        root: Path | None,
        node: str = "pool.node-",
    ) -> None:
        self._make, self._segment, self._resource = make, segment, resource
        self._wait_s, self.root = wait_s, root
        self.requests = [NodeWanted(0.0, f"{node}{number}", resource, resource, segment) for number in (1, 2)]
        self.driven: Executor | None = None

    def drive(self) -> Executor:
        """Begin another driver, where the one before has gone without a word."""
        now_s = 0.0 if self.driven is None else self.driven.now_s()
        if self.driven is not None:
            self.driven.close()
        self.driven = self._make(now_s)
        return self.driven

    def describe(self, attempt: int = 1, to: int = FEW, gpus: int = 1, **changes: Any) -> Operation:  # noqa: ANN401
        """Describe an operation on the first node."""
        assert self.driven is not None
        made = Operation(
            f"{self._segment}.trial.{attempt}",
            self._segment,
            "trial",
            attempt,
            {self.requests[0].node: gpus},
            workers=gpus,
            gpus_per_worker=1,
            configuration={"rate": 0.1, "wait_s": self._wait_s},
            to_iterations=to,
            wanted_s=self.driven.now_s(),
        )
        return replace(made, **changes)


def make_virtual(plan: Plan) -> Callable[[float], Executor]:
    """Return what makes executors of a search on the virtual clock."""
    return lambda now_s: VirtualExecutor(plan, now_s=now_s)


@pytest.fixture
def world(
    request: pytest.FixtureRequest,
    plan_of: Callable[..., Plan],
    make_instance: Callable[..., BoaInstance],
    starter: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """Make the world of an executor; nothing of it is left when the test ends."""
    name, root = request.param, tmp_path / "run"
    if name == "virtual":
        yield World(make_virtual(plan_of("rubberband-two-stages")), "b1-s1", "gpu", 0.0, None)
        return
    if name == "virtual-fleet":
        fleet = request.getfixturevalue("small_plan")
        train = partial(VirtualFleet, fleet, Course(), heartbeat_s=0.5)
        yield World(lambda now_s: train(now_s=now_s), "train", "spot", 0.0, None, "spot.vm-")
        return
    if name == "virtual-stream":
        truth = make_instance((1.0, 1.9, 3.6), epochs=MANY)
        yield World(lambda now_s: VirtualStreamExecutor(truth, now_s=now_s), "a", "cpu", 0.0, None)
        return
    settings = FolderSettings(root=root, train=QUADRATIC, slots=4, gres="", checkpoint_every_s=0.0, grace_s=60.0)
    kind, _, beside = name.partition("-")
    if name in ("slurm", "slurm-fleet"):
        request.getfixturevalue("played_slurm")
    if name == "slurm-daemons":  # which outlive the test, so that they are not of its processes
        monkeypatch.setenv("SLURM_CONF", request.getfixturevalue("slurm").environment["SLURM_CONF"])
    processes = request.getfixturevalue("processes")
    if kind == "ray":
        address = os.environ.get("OPTPLAN_TEST_RAY")
        if not address:
            pytest.skip("needs a cluster of Ray's; real/test_ray_conformance.py makes one")
        settings = settings.replace(address=address)
    if name == "ray-by-url":
        path, query = tmp_path.name, os.environ["OPTPLAN_TEST_S3"].partition("?")[2]
        settings = settings.replace(storage=f"{os.environ['OPTPLAN_TEST_S3'].partition('?')[0]}/{path}?{query}")
    if name == "command":
        settings = settings.replace(command=starter)
    if beside == "fleet":
        words = [str(STAND_INS / "fleet_starter.py"), sys.executable] if kind == "command" else []
        command = shlex.join([sys.executable, *words, str(COUNTING)])
        settings = settings.replace(command=command, checkpoint_every_s=0.01, heartbeat_s=0.1)
        make = partial(make_executor, kind, {"spot": 2}, settings, fleet=True)
        own = World(lambda now_s: make(now_s=now_s), "train", "spot", 0.0, root, "spot.vm-")
    else:
        make = partial(make_executor, kind, {"gpu": 2}, settings)
        own = World(lambda now_s: make(now_s=now_s), "b1-s1", "gpu", 0.05, root)
    with Journal(root):  # who drives holds its lock
        yield own
        if own.driven is not None:
            own.driven.release_nodes([each.node for each in own.requests])
            own.driven.close()
        assert name != "ray-by-url" or not list(root.glob("trials/*/checkpoint-*")), "checkpoints are at their URL"
        processes.wait_until(lambda: not processes.find(), "what has ended to be gone")


def hear(executor: Executor, holds: Callable[[Sequence[Event]], Any]) -> list[Event]:
    """Poll until what was heard is enough."""
    heard: list[Event] = []
    for _ in range(_POLLS):
        if holds(heard):
            return heard
        heard += executor.poll(executor.now_s() + 1.0)
    raise AssertionError(heard)


def is_over(heard: Sequence[Event]) -> bool:
    """Whether an operation has ended."""
    return any(isinstance(event, OperationEnded | OperationFailed) for event in heard)


def ends_of(heard: Sequence[Event]) -> list[OperationEnded | OperationFailed]:
    """Return how operations have ended."""
    return [event for event in heard if isinstance(event, OperationEnded | OperationFailed)]


def begin(world: World) -> Executor:
    """Drive, and have nodes."""
    executor = world.drive()
    executor.ensure_nodes(world.requests)

    def list_ready(heard: Sequence[Event]) -> list[str]:
        return [event.node for event in heard if isinstance(event, NodeChanged) and event.phase == Phase.READY]

    heard = hear(executor, lambda heard: len(list_ready(heard)) >= 2)
    assert sorted(list_ready(heard)) == [r.node for r in world.requests]
    return executor


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_what_is_asked_for_twice_is_there_once(world: World) -> None:
    """Nodes and an operation are asked for twice: one of each is there, and its end is told once."""
    executor = begin(world)
    executor.ensure_nodes(world.requests)
    operation = world.describe()
    executor.start(operation)
    executor.start(operation)
    seen = executor.observe(world.requests, [operation])
    assert (sorted(seen.nodes), list(seen.operations)) == ([r.node for r in world.requests], [operation.id])
    heard = hear(executor, is_over)
    for _ in range(2):
        heard += executor.poll(executor.now_s() + 0.1)
    (ended,) = ends_of(heard)
    assert isinstance(ended, OperationEnded)
    later = heard[heard.index(ended) + 1 :]
    assert not any(isinstance(event, Progressed | Reported) for event in later), "what was said comes before the end"
    assert (ended.operation, ended.iterations, ended.complete) == (operation.id, FEW, True)
    assert ended.busy_s > 0
    if world.root is not None:
        assert [each.iterations for each in heard if isinstance(each, Progressed)] == list(range(1, FEW + 1))
        assert ended.checkpoint is not None
        assert ended.metrics["done"] == FEW
    # Late words about what is over change nothing.
    executor.stop(operation.id, 1.0)
    executor.release_nodes([world.requests[1].node])
    executor.release_nodes([world.requests[1].node])
    assert executor.observe(world.requests[:1], []).nodes == {world.requests[0].node}
    assert ends_of(executor.poll(executor.now_s() + 0.1)) == []


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_resizing_is_to_stop_and_to_go_on(world: World) -> None:
    """Stopped on one GPU, twice, it has done a part; on two it goes on from there to its end."""
    executor = begin(world)
    first = world.describe(to=MANY)
    executor.start(first)
    hear(executor, lambda heard: world.root is None or any(isinstance(event, Progressed) for event in heard))
    if world.root is None:
        executor.poll(executor.now_s() + 5.0)
    executor.stop(first.id, 60.0)
    executor.stop(first.id, 60.0)
    (stopped,) = ends_of(hear(executor, is_over))
    assert isinstance(stopped, OperationEnded)
    assert not stopped.complete
    assert stopped.iterations < MANY
    assert (stopped.checkpoint is None) is (world.root is None)
    target = stopped.iterations + FEW
    wider = world.describe(2, target, 2, from_iterations=stopped.iterations, checkpoint=stopped.checkpoint)
    executor.start(wider)
    (ended,) = ends_of(hear(executor, is_over))
    assert isinstance(ended, OperationEnded)
    assert (ended.operation, ended.iterations, ended.complete) == (wider.id, target, True)
    if world.root is not None:
        assert ended.metrics["done"] == target, "it went on from its checkpoint"


@pytest.mark.parametrize("world", ALL, indirect=True)
def test_another_driver_goes_on(world: World) -> None:
    """Drivers go while it runs and once it has ended: each time another one finds it, and hears of its end."""
    begin(world)
    operation = world.describe()
    assert world.driven is not None
    world.driven.start(operation)
    executor = world.drive()
    seen = executor.observe(world.requests, [operation])
    assert (len(seen.nodes), list(seen.operations)) == (2, [operation.id])
    executor.start(operation)  # a word that is late
    (ended,) = ends_of(hear(executor, is_over))
    assert isinstance(ended, OperationEnded)
    assert (ended.iterations, ended.complete) == (FEW, True)
    if world.root is None:
        return
    executor = world.drive()  # the one before could not write that down
    assert executor.observe(world.requests, [operation]).operations == {operation.id}
    executor.start(operation)
    (again,) = ends_of(hear(executor, is_over))
    assert isinstance(again, OperationEnded)
    assert (again.iterations, again.metrics, again.checkpoint) == (FEW, ended.metrics, ended.checkpoint)
    nobody = world.describe(7)
    assert world.drive().observe(world.requests, [nobody]).operations == set()


def kill_group(folder: Path) -> None:
    """Kill all processes of an operation at once, as a machine that is lost does."""
    supervisor = psutil.Process(
        int((folder / "process.json").read_text(encoding="utf-8").split('"pid": ')[1].split(",")[0])
    )
    group = [supervisor, *supervisor.children(recursive=True)]
    for process in group:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    for process in group:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("world", [*PROCESSES, *SEEN_FLEETS], indirect=True)
def test_what_is_lost_with_its_machine_goes_on_from_what_it_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its processes are killed at once: it has failed, could be tried again, and the next one ends."""
    monkeypatch.setattr("optplan.execution.executors._SILENCE_S", 5.0)
    executor = begin(world)
    first = world.describe(to=MANY)
    executor.start(first)
    assert world.root is not None
    folder = world.root / "operations" / first.id

    def has_stored(heard: Sequence[Event]) -> bool:
        said = any(isinstance(event, Reported) and event.stored for event in heard)
        return any(isinstance(event, Progressed) for event in heard) and (said or (folder / "stored.json").exists())

    hear(executor, has_stored)
    kill_group(folder)
    (failed,) = ends_of(hear(executor, is_over))
    assert isinstance(failed, OperationFailed)
    assert not failed.hopeless
    assert failed.why
    assert failed.iterations is not None
    assert failed.checkpoint is not None
    target = failed.iterations + FEW
    second = world.describe(2, target, from_iterations=failed.iterations, checkpoint=failed.checkpoint)
    executor.start(second)
    (ended,) = ends_of(hear(executor, is_over))
    assert isinstance(ended, OperationEnded)
    assert (ended.iterations, ended.metrics["done"]) == (target, target)


@pytest.mark.parametrize("world", PROCESSES, indirect=True)
def test_what_cannot_be_trained_is_hopeless(world: World) -> None:
    """A trial that shows no loss would never show one: it has failed for good, with its last words."""
    executor = begin(world)
    operation = world.describe(configuration={"shows": "accuracy"})
    executor.start(operation)
    (failed,) = ends_of(hear(executor, is_over))
    assert isinstance(failed, OperationFailed)
    assert failed.hopeless
    assert "reported no 'loss'" in failed.tail
