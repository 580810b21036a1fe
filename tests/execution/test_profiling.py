"""The profiler: what it runs, what it leaves out, and that stated times come out as they were stated."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from optplan.errors import MeasurementError, UsageError
from optplan.execution.protocol import Event, Executor, Observation, Operation
from optplan.execution.records import Checkpoint, NodeChanged, NodeWanted, OperationEnded, OperationFailed, Progressed
from optplan.execution.state import Phase
from optplan.profiling.search_profile import ProfileSettings, profile_here, profile_trials
from optplan.profiling.trial_timings import summarise

QUADRATIC = f"{Path(__file__).parent / 'trainables' / 'quadratic.py'}:Quadratic"
#: Seconds of an iteration by GPUs, and what the first one of a start takes longer.
ITERATION_S = {1: 10.0, 2: 6.0, 4: 4.0}
WARM_S, LAUNCH_S, SETUP_S, READ_S, SAVE_S = 5.0, 1.0, 2.0, 0.5, 0.25


class StatedExecutor(Executor):
    """Takes stated times by a clock of its own; trials store their state after each start."""

    is_virtual = True

    def __init__(self, *, ends_after: int | None = None, fails: str = "", node_s: float = 20.0) -> None:
        self.clock = 0.0
        self.started: list[Operation] = []
        self.stopped: list[str] = []
        self.released: list[str] = []
        self._ends_after = ends_after
        self._fails = fails
        self._node_s = node_s
        self._events: list[Event] = []

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self.clock

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:  # noqa: ARG002
        """Have nothing."""
        return Observation(frozenset(), frozenset())

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Launch each node after 3 s."""
        for request in requests:
            self._events += [
                NodeChanged(self.clock + 3.0, request.node, Phase.LAUNCHING),
                NodeChanged(self.clock + 3.0 + self._node_s, request.node, Phase.READY),
            ]

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Take note."""
        self.released += nodes

    def start(self, operation: Operation) -> None:
        """Let everything happen at its stated time, or fail."""
        self.started.append(operation)
        t = self.clock + LAUNCH_S + SETUP_S + (READ_S if operation.checkpoint else 0.0)
        if self._fails:
            self._events.append(
                OperationFailed(t, operation.id, "ended with exit code 1", tail=f"Traceback\n{self._fails}\n")
            )
            return
        target = operation.to_iterations or 0
        target = target if self._ends_after is None else min(target, self._ends_after)
        first = operation.from_iterations + 1
        for iteration in range(first, target + 1):
            seconds = ITERATION_S[operation.workers] + (WARM_S if iteration == first else 0.0)
            t += seconds
            shown = {"loss": 1.0 / iteration, "samples": 64 * operation.workers}
            self._events.append(Progressed(t, operation.id, iteration, shown, seconds))
        t += SAVE_S
        done = max(target, operation.from_iterations)
        stored = Checkpoint(f"{operation.trial}/{done}", "")
        start_s = LAUNCH_S + SETUP_S + (READ_S if operation.checkpoint else 0.0)
        timings = {"start_s": start_s, "load_s": start_s - LAUNCH_S, "save_s": SAVE_S}
        self._events.append(OperationEnded(t, operation.id, done, {}, stored, t - self.clock, True, timings))

    def stop(self, operation: str, grace_s: float) -> None:  # noqa: ARG002
        """Take note."""
        self.stopped.append(operation)

    def poll(self, until_s: float) -> list[Event]:
        """Let the time come, with all that happens until then."""
        self.clock = max(self.clock, until_s)
        due = [event for event in self._events if event.t <= self.clock]
        self._events = [event for event in self._events if event.t > self.clock]
        return due


def test_stated_times_come_out_as_stated() -> None:
    """10, 6 and 4 s; a start from a checkpoint is 1 + 2 + 0.5 s, 5 s of warm-up and 0.25 s of storing."""
    executor = StatedExecutor()
    settings = ProfileSettings((1, 2, 4), iterations=4, warm_up=1, repetitions=2)
    profiled = profile_trials(executor, [{"rate": 0.1}, {"rate": 0.2}], settings)
    measured = summarise(profiled.timings)
    training = measured.make_training()
    assert training.to_json_data()["seconds_per_iteration"]["seconds"] == [10.0, 6.0, 4.0]
    assert training.start(4).expected_s == pytest.approx(1.0 + 2.0 + 0.5 + 5.0 + 0.25)
    assert (measured.iteration_noise, measured.trial_noise) == pytest.approx((0.0, 0.0))
    assert [each.mean for each in (measured.launch_s, measured.initialise_s, measured.load_s) if each] == [1, 2, 0.5]
    assert (profiled.request_s, profiled.launch_s) == pytest.approx((3.0, 20.0))
    assert executor.released == ["profile-node"]


def test_each_trial_goes_on_where_it_was() -> None:
    """One iteration to warm up on 1 GPU, then 1 + 4 more on 1, 2 and 4 GPUs, each from the checkpoint before."""
    executor = StatedExecutor()
    settings = ProfileSettings((1, 2, 4), iterations=4, warm_up=1, repetitions=2)
    profile_trials(executor, [{"rate": 0.1}, {"rate": 0.2}], settings)
    first, second = executor.started[:4], executor.started[4:]
    assert [(o.workers, o.from_iterations, o.to_iterations) for o in first] == [
        (1, 0, 1),
        (1, 1, 6),
        (2, 6, 11),
        (4, 11, 16),
    ]
    assert [o.checkpoint.path for o in first if o.checkpoint] == ["trial-1/1", "trial-1/6", "trial-1/11"]
    assert {o.configuration["rate"] for o in second} == {0.2}
    assert len({o.id for o in executor.started}) == 8


def test_work_is_what_a_metric_says() -> None:
    """64 samples for each GPU in 10, 6 and 4 s; a metric that is not there is named with those that are."""
    configurations: list[dict[str, Any]] = [{}, {}]
    settings = ProfileSettings((1, 2), iterations=3, warm_up=1, repetitions=2, work="samples")
    timings = profile_trials(StatedExecutor(), configurations, settings).timings
    assert [each.work for each in timings if each.resumed] == [(64.0,) * 3, (128.0,) * 3] * 2
    with pytest.raises(MeasurementError, match=r"the work of an iteration, 'tokens', is None.*reported: loss, samples"):
        profile_trials(StatedExecutor(), configurations, ProfileSettings((1,), repetitions=2, work="tokens"))


def test_time_is_shared_by_the_starts() -> None:
    """60 s for four starts: 37 are left once the first node is there, of which the first start gets a quarter."""
    executor = StatedExecutor()
    settings = ProfileSettings((1,), iterations=2, warm_up=1, repetitions=2, time_limit_s=60.0)
    profile_trials(executor, [{}, {}], settings)
    first, _, _, last = executor.started
    assert first.until_s == pytest.approx(23.0 + 37.0 / 4)
    assert last.until_s == last.wanted_s  # nothing is left


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (StatedExecutor(fails="RuntimeError: out of memory"), "exit code 1; the last that it wrote: RuntimeError: out"),
        (StatedExecutor(ends_after=3), "trial-1 did 2 iterations on 1 GPUs, of which 1 warm it up; two more are the"),
        (StatedExecutor(node_s=1e4), "2 GPUs did not come within 10 min 00 s; ask for fewer"),
    ],
)
def test_what_cannot_be_timed_is_said(executor: StatedExecutor, message: str) -> None:
    """A trial that fails, that ends too soon, or for which there is no room."""
    with pytest.raises(MeasurementError, match=message):
        profile_trials(executor, [{}, {}], ProfileSettings((1, 2), iterations=4, warm_up=1, repetitions=2))


def test_an_interruption_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial that runs is stopped at once."""
    executor = StatedExecutor(node_s=0.0)
    told = executor.poll

    def poll(until_s: float) -> list[Event]:
        if executor.started and not executor.stopped:
            raise KeyboardInterrupt
        return told(until_s)

    monkeypatch.setattr(executor, "poll", poll)
    with pytest.raises(KeyboardInterrupt):
        profile_trials(executor, [{}, {}], ProfileSettings((1,), repetitions=2))
    assert executor.stopped == [executor.started[0].id]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gpus": (2, 1)}, r"gpus: got \[2, 1\]; whole numbers from 1 on, each once and increasing"),
        ({"gpus": (0, 1)}, r"gpus: got \[0, 1\]"),
        ({"iterations": 1}, "iterations: got 1; whole numbers from 2 on"),
        ({"warm_up": 0}, "warm_up: got 0; whole numbers from 1 on"),
        ({"repetitions": 1}, "repetitions: got 1; whole numbers from 2 on"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match=message):
        ProfileSettings(**({"gpus": (1, 2)} | wrong))


def test_real_processes_are_timed() -> None:
    """Each iteration waits 20 ms at least; the parts of a start are there."""
    pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    settings = ProfileSettings((1, 2), iterations=3, warm_up=1, repetitions=2)
    space = [{"rate": 0.1, "wait_s": 0.02}, {"rate": 0.2, "wait_s": 0.02}]
    profiled = profile_here(settings, space=space, train=QUADRATIC)
    measured = summarise(profiled.timings)
    assert all(each.mean >= 0.02 for each in measured.iteration_s.values())
    for each in profiled.timings:
        assert each.launch_s is not None
        assert each.load_s is not None
        assert each.save_s is not None
        assert min(each.launch_s, each.save_s, each.overhead_s) > 0.0
    assert [len(each.steps_s) for each in profiled.timings] == [0, 3, 3] * 2


def test_a_command_is_timed_by_the_lines_that_it_writes() -> None:
    """Four lines, and 100 ms after each: its iterations and the rest take no less; parts of a start nobody sees."""
    pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    settings = ProfileSettings((1,), iterations=3, warm_up=1, repetitions=2)
    command = f"{sys.executable} {QUADRATIC.rpartition(':')[0]}"
    profiled = profile_here(settings, space=[{"rate": 0.1, "wait_s": 0.1}] * 2, command=command)
    resumed = [each for each in profiled.timings if each.resumed]
    assert [len(each.steps_s) for each in resumed] == [3, 3]
    assert all(sum(each.steps_s) * 4 / 3 + each.overhead_s >= 0.4 for each in resumed)
    assert {each.launch_s for each in profiled.timings} == {None}


def test_a_command_that_is_over_at_once_is_refused() -> None:
    """All its lines are there when they are looked at first: nobody knows what of that was the start."""
    pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    line = json.dumps({"loss": 1.0})
    write = f"import os; print(*[{line!r}] * 4, sep=chr(10), file=open(os.environ['OPTPLAN_METRICS'], 'w'))"
    command = shlex.join([sys.executable, "-c", write])
    with pytest.raises(MeasurementError, match="did 4 iterations on 1 GPUs, of which 1 warm it up and 0 could be"):
        profile_here(ProfileSettings((1,), iterations=3, warm_up=1, repetitions=2), command=command)
