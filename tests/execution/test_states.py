"""The state of every kind of run follows from its records, and from nothing else."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.execution.fleets.running import Course, Loss, watch
from optplan.execution.fleets.state import FleetState
from optplan.execution.journal import Journal
from optplan.execution.protocol import Event
from optplan.execution.records import EpochDone, NodeChanged, OperationFailed, PlaceLeft, Record, decode, encode
from optplan.execution.running import run
from optplan.execution.state import Phase, RunState
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.execution.virtual import ClockExecutor
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.formulations.srift.planning import SriftPlan
from optplan.solving import solve

MakeInstance = Callable[..., BoaInstance]
MakeJobs = Callable[..., list[StreamJob]]

#: Speeds on 1, 2 and 4 slots.
GOOD = (1.0, 1.9, 3.6)
#: Runs of each kind.
RUNS = 8


class Shadow:
    """A second state, made from what is written of each record that the state of a run is told."""

    def __init__(self) -> None:
        self.told: list[Record] = []
        self._state: Any = None
        self._inside = False

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Require both to be the same before and after each record, so that nothing else changes the run's own."""
        for kind in (RunState, FleetState):
            patch.setattr(kind, "apply", self._follow(kind.apply))

    def _follow(self, apply: Callable[[Any, Record], None]) -> Callable[[Any, Record], None]:
        def follow(state: RunState, record: Record) -> None:
            if self._inside:
                apply(state, record)
                return
            self._inside = True
            if self._state is None:
                self._state = copy.deepcopy(state)
            self.require_same(state, f"before {record}")
            apply(state, record)
            type(state).apply(self._state, decode(encode(record)))
            self.told.append(record)
            self._inside = False
            self.require_same(state, f"after {record}")

        return follow

    def require_same(self, state: RunState, when: str) -> None:
        """Compare everything but what the plan says of jobs, and what whoever decides has yet to look at."""
        names = vars(state).keys() - {"remaining", "changed_jobs", "changed_nodes"}
        different = [name for name in sorted(names) if getattr(state, name) != getattr(self._state, name)]
        assert not different, when


@pytest.fixture
def shadow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shadow]:
    """Follow the state of the run that a test makes."""
    made = Shadow()
    made.watch(monkeypatch)
    yield made
    assert made.told


def disturb(patch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """Let operations fail and nodes go on virtual clocks, now and then."""
    poll = ClockExecutor.poll

    def disturbed(self: ClockExecutor, until_s: float) -> list[Event]:
        chosen = sorted(self._running)[:1] if dice.random() < 0.15 else []
        for name in chosen:
            operation, *rest = self._running.pop(name)
            self._clock.cancel(rest[-1] if len(rest) == 1 else rest[1])
            events: list[Event] = [OperationFailed(self.now_s(), name, "bad luck", blameless=True)]
            node = next(iter(operation.place))
            alone = not any(node in each[0].place for each in self._running.values())
            if alone and node in self._nodes and dice.random() < 0.5:
                self.release_nodes([node])
                events.append(NodeChanged(self.now_s(), node, Phase.LOST, "taken away"))
            return events
        return poll(self, until_s)

    patch.setattr(ClockExecutor, "poll", disturbed)


def require_written(out: Path, shadow: Shadow) -> None:
    """Require the journal to hold all that the state was told."""
    with Journal(out, writable=False) as journal:
        assert list(journal.replay()) == [decode(encode(record)) for record in shadow.told]


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_state_of_a_search_follows_from_its_records(
    plan_stages: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shadow: Shadow, seed: int
) -> None:
    """Two trials at a time of four, then two; operations fail and nodes go: nothing else changes it."""
    disturb(monkeypatch, random.Random(seed))
    outcome = run(plan_stages((4, 1, 1), (2, 1, 1)), out=tmp_path / "run", replan_above=None)
    assert outcome.status == "ended"
    require_written(tmp_path / "run", shadow)


def test_the_state_of_a_search_that_is_planned_anew_follows_from_its_records(
    tmp_path: Path, shadow: Shadow, plan_of: Callable[..., Plan]
) -> None:
    """Whatever is worked out for the new plan, the state is told of it as a record."""
    outcome = run(plan_of("rubberband-resnet101-20min"), out=tmp_path / "run", slower=1.3, deadline_s=1800.0)
    assert outcome.replans
    require_written(tmp_path / "run", shadow)


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_state_of_a_stream_follows_from_its_records(
    make_instance: MakeInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shadow: Shadow, seed: int
) -> None:
    """Jobs queue for four GPUs, change their widths, fail and lose nodes: epochs done and places left are records."""
    instance, dice = make_instance(GOOD), random.Random(seed)
    jobs = [StreamJob(name=f"job-{n}", job_class="a", at_s=dice.uniform(0.0, 6.0)) for n in range(8)]
    disturb(monkeypatch, dice)
    options: dict[str, Any] = {"gpus_per_node": {"cpu": 2}, "most_gpus": 4, "order": "least-attained"}
    out = tmp_path / "stream"
    outcome = run_stream(build_plan(instance, solve(instance)), jobs, truth=instance, out=out, **options)
    assert (outcome.status, outcome.classes[0].completed) == ("ended", 8)
    assert {EpochDone, PlaceLeft} <= {type(record) for record in shadow.told}
    require_written(out, shadow)


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_state_of_a_fleet_follows_from_its_records(
    small_plan: SriftPlan, tmp_path: Path, shadow: Shadow, seed: int
) -> None:
    """VMs go with and without notice, or stall and come back: how far the training is comes from records alone."""
    dice = random.Random(seed)
    losses = []
    for _ in range(dice.randint(1, 3)):
        notice_s, back_s = dice.choice([0.0, 2.0]), dice.choice([3.0, float("inf")])
        losses.append(Loss("spot", dice.uniform(2.0, 6.0), notice_s, back_s))
    out = tmp_path / "fleet"
    outcome = watch(small_plan, out=out, course=Course(tuple(losses)), heartbeat_s=0.5, launch_wait_s=5.0)
    assert (outcome.code, outcome.iterations) == (0, 60)
    require_written(out, shadow)
