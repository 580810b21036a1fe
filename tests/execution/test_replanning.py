"""Planning the rest anew: clusters that are slower or dearer than planned, or recover; drivers killed meanwhile."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.contracts import Plan
from optplan.contracts.standing import Standing, Took
from optplan.errors import UnsupportedError
from optplan.execution.driver import Driver
from optplan.execution.journal import Journal
from optplan.execution.options import SearchOptions
from optplan.execution.protocol import Event, Operation
from optplan.execution.records import Began, OperationFailed, Record
from optplan.execution.running import RunOutcome, SearchRun, run
from optplan.execution.runs import read_run, resume
from optplan.execution.scheduler import list_trials
from optplan.execution.standing import Replanner, measure_drift, spent_gpu_hours, take_stock
from optplan.execution.state import State
from optplan.execution.trainables import Lines
from optplan.execution.virtual import VirtualExecutor
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.formulations.rubberband.study.calibration import calibrate
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.planning import SeerPlan
from optplan.formulations.seer.study.continuation import continue_plan as continue_rounds
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

SEARCH: dict[str, Any] = {
    "formulation": "rubberband",
    "experiment": {
        "form": "stages",
        "stages": [{"trials": 8, "iterations": 10}, {"trials": 4, "iterations": 20}, {"trials": 2, "iterations": 40}],
    },
    "training": {"seconds_per_iteration": {"1": 8.0, "2": 5.0, "4": 3.0, "8": 2.0}, "start_s": 4.0},
    "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "initialise_s": 20.0, "most_instances": 16},
    "deadline_s": 540.0,
}


def make_plan(**changes: Any) -> tuple[RubberBandInstance, RubberBandPlan]:  # noqa: ANN401 - fields of an instance
    """Return a search of three stages and its best plan."""
    instance = RubberBandInstance.parse(SEARCH | changes)
    return instance, build_plan(instance, solve(instance))


def planned(state: State) -> tuple[float, float]:
    """Return when the run was to end by the plan that was followed last, and what it was to cost in all."""
    totals = state.plan.totals()
    return totals["time_s"], totals["cost_usd"]


def prepare(plan: Plan, kind: type[SearchRun], above: float = 0.2) -> SearchRun:
    """Return a run that has begun, and is described as it went."""
    begun = kind(plan, SearchOptions(slower=1.5, replan_above=above))
    begun.state.apply(Began(0.0, {name: {} for name in list_trials(plan)}))
    return begun


def follow(plan: Plan, executor: VirtualExecutor, *, above: float = 0.2) -> tuple[State, RunOutcome]:
    """Follow a plan on an executor."""
    begun = prepare(plan, SearchRun, above)
    Driver(begun, executor).follow()
    return begun.state, begun.describe()


def test_where_all_goes_as_planned_nothing_is_planned_anew() -> None:
    """Nor where the drift is within the stated part: 10 % are less than 20 %, and more than 5 %."""
    _, plan = make_plan()
    assert run(plan, replan_above=0.0).replans == ()
    assert run(plan, slower=1.1).replans == ()
    assert run(plan, slower=1.1, replan_above=0.05).replans != ()


def test_gpus_that_are_billed_while_they_run_are_compared_with_those_that_run() -> None:
    """They are paid until their own trial ends, not until the last one does."""
    training = SEARCH["training"] | {"iteration_noise": {"form": "log-normal", "sd_fraction": 0.25}}
    _, plan = make_plan(training=training, cloud=SEARCH["cloud"] | {"billing": "per-function"})
    assert any(each.expected.busy_gpu_hours < 0.9 * each.expected.gpu_hours for each in plan.segments)
    assert run(plan, replan_above=0.0).replans == ()
    assert run(plan, slower=1.1, replan_above=0.05).replans != ()


def test_drift_is_what_ended_segments_took_beyond_their_plan() -> None:
    """Stages take 1.5 times as long, launches of 20 s as long as planned; costs are those of held nodes."""
    _, plan = make_plan()

    class _StoppingError(Exception):
        pass

    class _First(Replanner):
        def __call__(self, now_s: float) -> list[Record]:  # noqa: ARG002 - stops where it is asked
            raise _StoppingError

    class _Run(SearchRun):
        def make_replanner(self) -> Replanner:
            return _First(self.state, above=0.2)

    begun = prepare(plan, _Run)
    state, executor = begun.state, VirtualExecutor(plan, SearchOptions(slower=1.5))
    with contextlib.suppress(_StoppingError):
        Driver(begun, executor).follow()
    first = plan.segments[0].expected
    assert first.launch_s == 20.0
    drift = measure_drift(state, state.t)
    assert drift.time == pytest.approx((20.0 + 1.5 * (first.seconds - 20.0)) / first.seconds - 1.0)
    assert drift.cost == pytest.approx(drift.time)  # all nodes are held from the first second on


def test_a_slower_cluster_is_met_with_a_larger_one(tmp_path: Path) -> None:
    """As planned it would be late; planned anew from what was measured it is in time, exactly as then forecast."""
    instance, plan = make_plan()
    assert instance.deadline_s is not None
    assert run(plan, slower=1.3, replan_above=None).time_s > instance.deadline_s
    outcome = run(plan, slower=1.3, out=tmp_path / "run")
    assert outcome.time_s <= instance.deadline_s
    assert outcome.code == 0
    state = read_run(tmp_path / "run").state
    assert (outcome.time_s, outcome.cost_usd) == pytest.approx(planned(state))
    assert outcome.plans == (plan.plan_id, state.plan.plan_id)
    assert state.plan.supersedes == plan.plan_id
    assert [each.nodes for each in state.plan.segments] != [each.nodes for each in plan.segments]
    assert outcome.planned_s == pytest.approx(plan.totals()["time_s"])
    assert outcome.segments[0].planned_s == plan.segments[0].expected.seconds  # as it was planned, not as it went
    assert "the rest is planned anew" in outcome.replans[0].why


def test_the_rest_keeps_both_limits_with_the_confidence() -> None:
    """Planned anew it costs $1.74 on average: $1.85 are kept in nine of ten runs beside the deadline, $1.80 are not."""
    noise = {"iteration_noise": {"form": "normal", "sd_fraction": 0.1}}
    cloud = SEARCH["cloud"] | {"minimum_charge_s": 0.0}
    changes: dict[str, Any] = {"training": SEARCH["training"] | noise, "cloud": cloud, "confidence": 0.9}
    outcomes = [run(make_plan(**changes, budget=budget)[1], slower=1.3) for budget in ("1.85usd", "1.80usd")]
    assert [outcome.code for outcome in outcomes] == [0, 3]
    assert outcomes[0].cost_usd == pytest.approx(1.74, abs=0.005)
    assert "the rest has become infeasible" in outcomes[1].why
    assert "a budget of $1.81 may do" in outcomes[1].why
    # Between the two no plan is found, and none is excluded: the run goes on, and says so.
    unknown = run(make_plan(**changes, budget="1.83usd")[1], slower=1.3)
    assert unknown.code == 0
    (note,) = unknown.notes
    assert note.startswith("the rest is not planned anew: the likeliest plan found keeps the deadline of ")
    assert note.endswith("whether another one does better is not known; it goes on as planned")


def test_the_rest_asks_for_no_more_than_there_is() -> None:
    """The slower cluster is met with 4 nodes of 2 GPUs; where there are 6 GPUs, the rest cannot be in time."""
    _, plan = make_plan()
    assert [segment.nodes for segment in plan.segments] == [4, 2, 2]
    found: list[Any] = []
    assert run(plan, slower=1.3, slots=8, listener=found.append).code == 0
    successor = next(record.plan for record in found if type(record).__name__ == "Replanned")
    assert [segment["nodes"] for segment in successor["segments"]] == [4, 4, 2]
    outcome = run(plan, slower=1.3, slots=6)
    assert (outcome.code, "the rest has become infeasible" in outcome.why) == (3, True)


def test_a_faster_cluster_is_met_with_a_smaller_one() -> None:
    """Drift counts both ways: what is left of the deadline makes the rest cheaper."""
    _, plan = make_plan()
    anew, never = run(plan, slower=0.6), run(plan, slower=0.6, replan_above=None)
    assert anew.cost_usd is not None
    assert never.cost_usd is not None
    assert anew.cost_usd < never.cost_usd
    assert never.time_s < anew.time_s <= 540.0


def test_a_dearer_cluster_is_planned_at_what_it_costs(tmp_path: Path) -> None:
    """At 1.3 times the price the budget is kept with a slower rest, and the forecast is right to the cent."""
    _, plan = make_plan(objective="time", deadline_s=None, budget="2.40usd")
    never, outcome = run(plan, dearer=1.3, replan_above=None), run(plan, dearer=1.3, out=tmp_path / "run")
    assert never.cost_usd is not None
    assert outcome.cost_usd is not None
    assert outcome.cost_usd <= 2.4 < never.cost_usd
    assert outcome.time_s > never.time_s
    state = read_run(tmp_path / "run").state
    assert (outcome.time_s, outcome.cost_usd) == pytest.approx(planned(state))
    assert state.plan.resources["gpu"].price_usd_per_hour == pytest.approx(1.3 * 3.6)


class _Recovering(VirtualExecutor):
    """Trials that are started in the first stage take twice as long."""

    def _time_operation(self, operation: Operation, *, waiting: bool = True) -> float:
        usual_s = super()._time_operation(operation, waiting=waiting)
        return 2.0 * usual_s if operation.segment == "b1-s1" else usual_s


def test_a_cluster_that_recovers_is_planned_anew_twice() -> None:
    """What was measured last counts: after the slow first stage the rest is too large, after the second it shrinks."""
    _, plan = make_plan(deadline_s=900.0)
    state, outcome = follow(plan, _Recovering(plan))
    assert len(outcome.replans) == 2
    assert "+" in outcome.replans[0].why
    assert outcome.replans[1].why.startswith("-")
    last = [next(s["nodes"] for s in each.plan["segments"] if s["id"] == "b1-s3") for each in state.replans]
    assert last[0] >= last[1]
    assert outcome.time_s <= 900.0


def test_a_rest_that_is_infeasible_ends_the_run(tmp_path: Path) -> None:
    """Exit code 3, with the least limit that helps; with that limit it goes on, and keeps it."""
    _, plan = make_plan()
    outcome = run(plan, slower=3.0, out=tmp_path / "run")
    assert (outcome.status, outcome.code) == ("paused", 3)
    assert "the rest has become infeasible: the rest takes at least" in outcome.why
    assert "of the deadline of 9 min 00 s are left; a deadline of " in outcome.why
    state = read_run(tmp_path / "run").state
    assert not any(state.pools.values()), "every node is given back"
    assert resume(tmp_path / "run").code == 3
    told = re.search(r"a deadline of (\d+) min (\d+) s would do", outcome.why)
    assert told is not None
    least_s = 60.0 * int(told[1]) + int(told[2])
    assert resume(tmp_path / "run", deadline_s=least_s - 2.0).code == 3
    ended = resume(tmp_path / "run", deadline_s=least_s)
    assert ended.code == 0
    assert ended.time_s <= least_s
    assert run(plan, slower=3.0, out=tmp_path / "other").code == 3
    assert resume(tmp_path / "other", replan_above=None).code == 0


class _Commands(VirtualExecutor):
    """Trials are commands: 6.04 s until the first line, then one an iteration, as quick as planned; none of that is so.

    What they took is told from when their lines are seen.
    """

    folder: Path
    start_s = 6.04

    def _time_operation(self, operation: Operation, *, waiting: bool = True) -> float:
        return self.start_s + super()._time_operation(operation, waiting=waiting)

    def _measure(self, operation: Operation, iterations: int, busy_s: float) -> dict[str, float]:
        steps = iterations - operation.from_iterations
        known = {"metric": "loss", "from_iterations": operation.from_iterations, "metrics": {}, "checkpoint": None}
        lines = Lines(self.folder / operation.id, known)
        lines.folder.mkdir()
        for step in range(1, steps + 1):
            with lines.file.open("a", encoding="utf-8") as metrics:
                metrics.write('{"loss": 1.0}\n')
            lines.read(self.start_s + step * (busy_s - self.start_s) / steps)
        return lines.time_steps(0.0)


@pytest.mark.parametrize("iterations", [(10, 20, 40), (1, 20, 40)])
def test_the_start_of_a_command_is_no_iteration(tmp_path: Path, iterations: tuple[int, int, int]) -> None:
    """149 ms an iteration are planned and 6.19 s pass until the first one is over: the rest is predicted within 1.2.

    Where a trial has one iteration only, it is taken for what was planned, and all else for its start.
    """
    stages = [{"trials": n, "iterations": many} for n, many in zip((8, 4, 2), iterations, strict=True)]
    training = {"seconds_per_iteration": {"1": 0.149, "2": 0.1, "4": 0.08, "8": 0.06}, "start_s": 0.0}
    cloud = SEARCH["cloud"] | {"initialise_s": 0.0}
    experiment = SEARCH["experiment"] | {"stages": stages}
    instance, plan = make_plan(training=training, cloud=cloud, experiment=experiment, deadline_s=100.0)
    executor = _Commands(plan)
    executor.folder = tmp_path
    state, outcome = follow(plan, executor)
    assert outcome.code == 0
    first = state.replans[0]
    predicted_s = max(
        segment["expected"]["start_s"] + segment["expected"]["seconds"] for segment in first.plan["segments"]
    )
    assert 1.0 / 1.2 < (outcome.time_s - first.t) / (predicted_s - first.t) < 1.2
    calibrated, _ = calibrate(instance, plan, take_stock(state, state.t))
    told = calibrated.training
    assert told.start_s.expected_s == pytest.approx(6.04, rel=0.05)
    widths = sorted({each.workers * each.gpus_per_worker for each in state.plan.segments})
    was = instance.training.seconds_per_iteration
    for width in np.array(widths):
        assert told.seconds_per_iteration.at(width) == pytest.approx(was.at(width), rel=0.05)


class _Failing(VirtualExecutor):
    """Five of eight trials crash in the first stage, for good."""

    def poll(self, until_s: float) -> list[Event]:
        for name, (operation, ticket) in list(self._running.items()):
            if operation.segment == "b1-s1" and int(operation.trial[-4:]) > 3:
                self._clock.cancel(ticket)
                del self._running[name]
                return [OperationFailed(self.now_s(), name, "no", hopeless=True)]
        return super().poll(until_s)


def test_the_rest_is_planned_for_the_trials_that_are_left() -> None:
    """Three of eight trials survive: the second stage, of four, is planned for three."""
    _, plan = make_plan(deadline_s=1500.0)
    executor = _Failing(plan, SearchOptions(slower=1.5))
    state, outcome = follow(plan, executor)
    assert [each.members for each in state.plan.segments] == [8, 3, 2]
    assert (outcome.code, len(outcome.failed)) == (0, 5)


def test_a_plan_without_its_instance_goes_on_and_that_is_said_once() -> None:
    """Made by hand, or by an earlier release."""
    _, plan = make_plan()
    bare = plan.replace(plan_id="", instance={})
    outcome = run(bare, slower=1.5)
    assert outcome.code == 0
    assert len([note for note in outcome.notes if "not planned anew" in note]) == 1


def test_brackets_side_by_side_go_on_as_planned() -> None:
    """Each is as far as it is, and there is no moment at which nothing runs."""
    search = {"form": "hyperband", "most_iterations": 9, "eta": 3.0, "order": "side-by-side"}
    _, plan = make_plan(experiment=search, deadline_s=400.0)
    outcome = run(plan, slower=2.0)
    assert outcome.code == 0
    assert outcome.replans == ()


def _crash(numbers: set[int]) -> type[VirtualExecutor]:
    """Return an executor on which some trials fail as soon as they start, for good."""

    class _Crashing(VirtualExecutor):
        def poll(self, until_s: float) -> list[Event]:
            for name, (operation, ticket) in list(self._running.items()):
                if int(operation.trial[-4:]) in numbers:
                    self._clock.cancel(ticket)
                    del self._running[name]
                    return [OperationFailed(self.now_s(), name, "no", hopeless=True)]
            return super().poll(until_s)

    return _Crashing


def make_rounds(**changes: Any) -> tuple[SeerInstance, SeerPlan]:  # noqa: ANN401 - fields of an instance
    """Return SEER's example and its plan: 10 min and 80 GPU-min, 15 trials of 1, 2 and 4 GPUs in three rounds."""
    example = read_instance("seer-paper-example")
    assert isinstance(example, SeerInstance)
    instance = example.replace(**changes)
    return instance, build_plan(instance, solve(instance))


def test_rounds_spend_what_failed_trials_have_left() -> None:
    """Eight of fifteen trials fail at once: those that are left get more GPUs, and the budget is kept."""
    instance, plan = make_rounds(resize_s=6.0)
    lost = set(range(8, 16))
    crashing = _crash(lost)
    state, outcome = follow(plan, crashing(plan))
    never, _ = follow(plan, crashing(plan), above=10.0)
    assert (outcome.code, len(outcome.failed)) == (0, len(lost))
    assert outcome.replans[0].why.startswith("-")
    spent, least = (spent_gpu_hours(each, each.t) * 60.0 for each in (state, never))
    assert least < spent <= instance.budget_gpu_min * (1 + 1e-9)
    assert state.t == pytest.approx(600.0)
    assert max(segment.workers for segment in state.plan.segments if segment.id.startswith("r2")) > 1
    assert state.plan.totals()["spent_gpu_min"] == pytest.approx(spent, rel=0.35)  # failed trials are in its past
    assert state.plan.supersedes == plan.plan_id


def test_rounds_without_time_or_budget_are_infeasible() -> None:
    """By hand, after the first of three rounds: 1 s, or 0.1 GPU-min, is left."""
    instance, plan = make_rounds()
    first = {segment.id: Took(0.0, 85.7, None) for segment in plan.rounds[0]}
    alive = {segment.id: segment.members for segment in plan.rounds[0]}
    late = Standing(599.0, took=first, alive=alive, spent_gpu_hours=0.1)
    found = continue_rounds(instance, plan, late, solve)
    assert found.plan is None
    assert found.infeasibility is not None
    assert found.infeasibility.reason == (
        "the rest takes at least 1 min 00 s, and 1 s of the deadline of 10 min 00 s are left; "
        "a deadline of 10 min 59 s would do"
    )
    dear = Standing(90.0, took=first, alive=alive, spent_gpu_hours=79.9 / 60.0)
    found = continue_rounds(instance, plan, dear, solve)
    assert found.infeasibility is not None
    assert found.infeasibility.relaxations[0].limit == "budget"
    with pytest.raises(UnsupportedError, match="no trial is left"):
        continue_rounds(instance, plan, Standing(90.0, took=first, alive=dict.fromkeys(first, 0)), solve)
    with pytest.raises(UnsupportedError, match="no round is over"):
        continue_rounds(instance, plan, Standing(90.0), solve)


def test_the_rest_is_left_what_whole_nodes_have_not_taken() -> None:
    """9 trials on 3 nodes of 4 take 3 * 4 * 1.5 = 18 of 36 GPU-minutes; 4 go on for 3 min on one, 12 more.

    Where the first round lasted for 160 s these are 32, and 12 more are 44; of GPUs held it would be 25.5.
    """
    instance, plan = make_rounds(deadline_min=4.5, budget="36gpu-min", nu=1, gpus_per_node=4)
    (first,) = plan.rounds[0]
    assert (first.members, first.nodes) == (9, 3)
    standing = Standing(90.0, took={first.id: Took(0.0, 90.0, None)}, alive={first.id: 9}, spent_gpu_hours=13.5 / 60.0)
    found = continue_rounds(instance, plan, standing, solve)
    assert found.plan is not None
    assert found.plan.expected["node_gpu_min"] == pytest.approx(30.0)
    assert found.plan.expected["spent_gpu_min"] == pytest.approx(25.5)
    long = replace(standing, took={first.id: Took(0.0, 160.0, None)})
    infeasible = continue_rounds(instance, plan, long, solve).infeasibility
    assert infeasible is not None
    assert infeasible.relaxations[0].least_feasible == pytest.approx(44.0)


class _KilledError(Exception):
    """The driver is killed."""


def _kill_at(patch: pytest.MonkeyPatch, number: int, *, before: bool) -> None:
    commit, count = Journal.commit, [0]

    def dying(self: Journal, records: Sequence[Record]) -> None:
        count[0] += 1
        if before and count[0] == number:
            raise _KilledError
        commit(self, records)
        if count[0] == number:
            raise _KilledError

    patch.setattr(Journal, "commit", dying)


def test_a_driver_killed_while_it_plans_anew_changes_nothing(tmp_path: Path) -> None:
    """At 20 random transactions, before and after they are written: the same plans, winner, time and cost."""
    _, plan = make_plan()
    dice, undisturbed = random.Random(7), run(plan, slower=1.3)
    assert undisturbed.replans
    for trial in range(20):
        out = tmp_path / str(trial)
        with pytest.MonkeyPatch.context() as patch:
            _kill_at(patch, dice.randint(1, 9), before=dice.random() < 0.5)
            with contextlib.suppress(_KilledError):
                run(plan, slower=1.3, out=out)
        with pytest.MonkeyPatch.context() as patch:
            _kill_at(patch, dice.randint(1, 5), before=dice.random() < 0.5)
            with contextlib.suppress(_KilledError):
                resume(out)
        outcome = resume(out)
        assert outcome.winner == undisturbed.winner
        assert [each.why for each in outcome.replans] == [each.why for each in undisturbed.replans]
        assert outcome.plans == undisturbed.plans
        assert (outcome.time_s, outcome.cost_usd) == pytest.approx((undisturbed.time_s, undisturbed.cost_usd))
        found = read_run(out)
        state = found.state
        assert found.describe() == outcome, "the journal replays to the same state"
        started = [(o.operation.segment, o.operation.trial) for o in state.past_operations]
        assert len(started) == len(set(started)), "nothing that was started is started twice"


def test_a_run_that_is_never_planned_anew_is_not_after_a_resume() -> None:
    """What users chose is read back as it was stored with the run, ``--replan-above never`` too."""
    for chosen in (SearchOptions(replan_above=None), SearchOptions(replan_above=0.5), SearchOptions()):
        assert SearchOptions.parse(json.loads(json.dumps(chosen.to_json_data())), path="options") == chosen
