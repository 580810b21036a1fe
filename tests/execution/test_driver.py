"""The control loop: who is promoted, what stops it, and that a driver killed at any moment changes nothing."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.contracts.modes import Mode
from optplan.errors import DataError, OutputError, UsageError
from optplan.execution.driver import Driver
from optplan.execution.journal import Journal
from optplan.execution.options import SearchOptions
from optplan.execution.protocol import Event, Metrics, Observation, Operation
from optplan.execution.records import (
    Began,
    Checkpoint,
    NodeChanged,
    NodeWanted,
    OperationFailed,
    Record,
    decode,
    encode,
)
from optplan.execution.running import RunOutcome, SearchRun, run
from optplan.execution.runs import read_run, resume
from optplan.execution.scheduler import list_trials
from optplan.execution.state import Phase, State
from optplan.execution.virtual import VirtualExecutor

PlanOf = Callable[..., Plan]


def prepare(plan: Plan, **options: Any) -> SearchRun:  # noqa: ANN401 - fields of SearchOptions
    """Return a run that has begun, whose rest is never planned anew."""
    begun = SearchRun(plan, SearchOptions(executor="local", replan_above=None, **options))
    begun.state.apply(Began(0.0, {name: {} for name in list_trials(plan)}))
    return begun


def follow(
    plan: Plan,
    shown: Mapping[str, float] | Callable[[Operation, int], Mapping[str, Any]],
    *,
    mode: Mode = Mode.MIN,
    executor: type[VirtualExecutor] = VirtualExecutor,
    **limits: float,
) -> tuple[State, RunOutcome, list[Record]]:
    """Follow a plan whose trials show given losses; the rest show 1."""

    def train(operation: Operation, iterations: int) -> tuple[Metrics, Checkpoint | None]:
        if callable(shown):
            return shown(operation, iterations), None
        return {"loss": shown.get(operation.trial, 1.0)}, None

    followed, records = prepare(plan, mode=mode, **limits), list[Record]()

    def listen(record: object) -> None:
        records.append(record)  # type: ignore[arg-type]

    Driver(followed, executor(plan, training=train), listen).follow()
    return followed.state, followed.describe(), records


def test_the_best_are_promoted_and_the_best_of_the_last_wins(plan_of: PlanOf) -> None:
    """SEER's example: 4 trials of 2 GPUs and 8 of 1; 2 and 4 are kept, ranked anew, the best on 2 GPUs."""
    losses = {f"trials-{number:04d}": loss for number, loss in enumerate((9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 9, 9), start=1)}
    state, outcome, _ = follow(plan_of("seer-paper-example", "published-seer"), losses)
    assert state.segments["r1-g2"].ranking == ["trials-0004", "trials-0003", "trials-0002", "trials-0001"]
    # kept: 4 and 3 of 2 GPUs, 9, 8, 7 and 6 of 1 GPU; ranked anew: 9, 8 | 7, 6, 4, 3
    assert state.segments["r2-g2"].members == ["trials-0009", "trials-0008"]
    assert state.segments["r2-g1"].members == ["trials-0007", "trials-0006", "trials-0004", "trials-0003"]
    assert outcome.winner is not None
    assert (outcome.winner.trial, outcome.winner.metric) == ("trials-0009", 1.0)


def test_more_may_be_better(plan_of: PlanOf) -> None:
    """With mode max the largest wins."""
    _, outcome, _ = follow(plan_of("rubberband-two-stages"), {"b1-s1-trials-0003": 2.0}, mode=Mode.MAX)
    assert outcome.winner is not None
    assert outcome.winner.trial == "b1-s1-trials-0003"


@pytest.mark.parametrize("blank", [math.nan, None, "0.1", True, math.inf])
def test_a_trial_without_a_number_ranks_last_and_that_is_said(plan_of: PlanOf, blank: object) -> None:
    """NaN, nothing and text are no losses; the others stay in their order."""

    def show(operation: Operation, _: int) -> Mapping[str, Any]:
        return {"loss": blank if operation.trial.endswith("1") else 0.5}

    state, outcome, _ = follow(plan_of("rubberband-two-stages"), show)
    assert state.segments["b1-s1"].ranking[-1] == "b1-s1-trials-0001"
    assert outcome.winner is not None
    assert outcome.winner.trial == "b1-s1-trials-0002"
    assert "no number for 'loss' from b1-s1-trials-0001: ranked last" in outcome.notes[0]


def test_equal_metrics_go_by_rank(plan_of: PlanOf) -> None:
    """All show 1: the first drawn wins."""
    _, outcome, _ = follow(plan_of("rubberband-resnet101-20min"), {})
    assert outcome.winner is not None
    assert outcome.winner.trial == "b1-s1-trials-0001"


def test_where_nobody_shows_a_number_there_is_no_winner(plan_of: PlanOf) -> None:
    """A search ends with exit code 1 and says which metric was missed; of one job there is nothing to choose."""
    _, outcome, _ = follow(plan_of("rubberband-two-stages"), lambda *_: {"loss": math.nan})
    assert (outcome.status, outcome.code, outcome.winner) == ("ended", 1, None)
    assert outcome.why == "no trial has reported a number for 'loss'; name what they report with --metric"
    _, outcome, _ = follow(plan_of("srift-case3"), lambda *_: {"loss": math.nan})
    assert (outcome.code, outcome.why) == (0, "")


class _Failing(VirtualExecutor):
    """A virtual executor on which one trial crashes a second after it is started."""

    crashing = "b1-s1-trials-0002"
    times = 99

    def poll(self, until_s: float) -> list[Event]:
        for name, (operation, ticket) in list(self._running.items()):
            if operation.trial == self.crashing and operation.attempt <= self.times:
                self._clock.cancel(ticket)
                del self._running[name]
                return [OperationFailed(self.now_s(), name, "exit code 1", tail="Traceback")]
        return super().poll(until_s)


def test_a_crash_loop_fails_the_trial_and_not_the_search(plan_of: PlanOf) -> None:
    """Three failures in a row are one more than is forgiven; the others go on."""
    state, outcome, _ = follow(plan_of("rubberband-two-stages"), {_Failing.crashing: 0.0}, executor=_Failing)
    assert outcome.failed == {_Failing.crashing: "failed 3 times in a row: exit code 1"}
    assert state.trials[_Failing.crashing].attempts == {"b1-s1": 3}
    assert outcome.winner is not None
    assert outcome.winner.trial != _Failing.crashing
    assert outcome.code == 0


def test_failures_that_pass_are_forgiven(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures, then it runs: it is started again from its checkpoint and can win."""
    monkeypatch.setattr(_Failing, "times", 2)
    _, outcome, _ = follow(plan_of("rubberband-two-stages"), {_Failing.crashing: 0.0}, executor=_Failing)
    assert outcome.winner is not None
    assert (outcome.winner.trial, outcome.failed) == (_Failing.crashing, {})


def test_where_every_trial_fails_there_is_no_winner(plan_of: PlanOf) -> None:
    """The run ends with exit code 1 and says so; nodes are given back."""

    class _AllFailing(_Failing):
        def poll(self, until_s: float) -> list[Event]:
            failed: list[Event] = [OperationFailed(self.now_s(), name, "boom") for name in self._running]
            for _, ticket in self._running.values():
                self._clock.cancel(ticket)
            self._running.clear()
            return failed or super().poll(until_s)

    state, outcome, _ = follow(plan_of("rubberband-two-stages"), {}, executor=_AllFailing)
    assert (outcome.status, outcome.code, outcome.why, outcome.winner) == ("ended", 1, "every trial failed", None)
    assert not any(state.pools.values())


class _Losing(VirtualExecutor):
    """A virtual executor whose first node is lost while the first stage runs."""

    def poll(self, until_s: float) -> list[Event]:
        events = super().poll(min(until_s, 40.0))
        node = "bracket-1.node-00001"
        if not events and self.now_s() == 40.0 and node in self._nodes:
            self.release_nodes([node])
            lost = [n for n, (o, _) in self._running.items() if node in o.place]
            for name in lost:
                self._clock.cancel(self._running.pop(name)[1])
            gone: list[Event] = [OperationFailed(40.0, n, "its node is gone", blameless=True) for n in lost]
            return [NodeChanged(40.0, node, Phase.LOST, "taken away"), *gone]
        return events or super().poll(until_s)


def test_a_lost_node_is_replaced_and_its_trials_start_again(plan_of: PlanOf) -> None:
    """At 40 of 100 s one of two nodes goes: its two trials start anew on another one, which ends the stage at 140 s."""
    state, outcome, _ = follow(plan_of("rubberband-two-stages"), {}, executor=_Losing)
    assert [node.phase.value for node in state.nodes.values()].count("lost") == 1
    assert len(state.nodes) == 3
    assert outcome.segments[0].actual_s == pytest.approx(140.0)
    assert (outcome.failed, outcome.code) == ({}, 0)


def test_no_segment_begins_that_would_break_the_budget(plan_of: PlanOf) -> None:
    """20 cents, then 18: with 37 cents the second stage does not begin, with 38 it does; minimum charges count."""
    plan = plan_of("rubberband-two-stages")
    stopped, enough = run(plan, budget_usd=0.37), run(plan, budget_usd=0.38)
    assert (stopped.status, stopped.code) == ("paused", 4)
    assert stopped.cost_usd == pytest.approx(0.2)
    assert stopped.why == ("stage 2: a trial of 2 GPUs on 1 node would bring the cost to $0.38; the budget is $0.37")
    assert enough.status == "ended"
    assert enough.cost_usd == pytest.approx(0.38)
    none = run(plan, budget_usd=0.19)
    assert (none.code, none.cost_usd, none.time_s) == (4, 0.0, 0.0)


def test_no_segment_begins_that_would_end_late(plan_of: PlanOf) -> None:
    """280 s are planned: a deadline of 279 s stops it after the first stage, one of 280 s does not."""
    plan = plan_of("rubberband-two-stages")
    stopped = run(plan, deadline_s=279.0)
    assert (stopped.code, stopped.time_s) == (4, 100.0)
    assert stopped.why.endswith("would end after 4 min 40 s; the deadline is 4 min 39 s")
    assert run(plan, deadline_s=280.0).code == 0


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_a_segment_that_overruns_is_stopped_at_the_limit(plan_of: PlanOf) -> None:
    """Stragglers make the luckless run dearer than planned: it stops when the budget is spent, and not later."""
    plan = plan_of("rubberband-resnet50-stragglers")
    free = [run(plan, lucky=True, seed=seed) for seed in range(12)]
    dear = max(range(12), key=lambda seed: free[seed].cost_usd or 0.0)
    budget = plan.totals()["cost_usd"] * 1.0001
    assert (free[dear].cost_usd or 0.0) > budget
    outcome = run(plan, lucky=True, seed=dear, budget_usd=budget)
    assert outcome.code == 4
    assert (outcome.cost_usd or 0.0) <= budget * (1 + 1e-6)


def test_hard_limits_of_the_plan_hold_in_every_run(plan_of: PlanOf) -> None:
    """SEER's deadline is one; its plan keeps it exactly, and no shorter one; the run's own takes its place."""
    plan = plan_of("seer-paper-example")
    assert run(plan).code == 0
    assert run(plan, deadline_s=599.0).code == 4
    tight = plan.limits | {"deadline": plan.limits["deadline"].replace(amount=500.0)}
    tighter = plan.replace(plan_id="", limits=tight)
    assert run(tighter).code == 4
    assert run(tighter, deadline_s=600.0).code == 0


class _Slow(VirtualExecutor):
    """A virtual executor that needs a moment to give nodes back."""

    def release_nodes(self, nodes: Sequence[str]) -> None:
        super().release_nodes(nodes)
        self._clock.now += 0.01


def test_a_minimum_charge_belongs_to_the_segment_after_which_a_node_goes(plan_of: PlanOf) -> None:
    """Of two nodes one goes after 100 of the 150 s that are charged at least: 5 cents, in the first stage's bill."""
    plan = plan_of("rubberband-two-stages")
    resources = {name: each.replace(minimum_charge_s=150.0) for name, each in plan.resources.items()}
    _, outcome, _ = follow(plan.replace(plan_id="", resources=resources), {}, executor=_Slow)
    assert [each.actual_usd for each in outcome.segments] == pytest.approx([0.25, 0.18], abs=1e-4)
    assert outcome.cost_usd == pytest.approx(0.43, abs=1e-4)


def test_an_interrupted_run_says_whether_it_can_go_on(plan_of: PlanOf, tmp_path: Path) -> None:
    """With a folder it can."""
    plan, why = plan_of("rubberband-two-stages"), []
    journal = Journal(tmp_path / "run")
    for written in (journal, None):
        begun = prepare(plan)
        begun.journal = written
        driver = Driver(begun, VirtualExecutor(plan))
        driver.interrupt()
        assert driver.follow() == 130
        assert begun.state.paused is not None
        why.append(begun.state.paused.why)
    journal.close()
    on = ["go on with --resume", "without --out there is nothing to go on from"]
    assert why == [f"interrupted; {each}" for each in on]


class _KilledError(Exception):
    """The driver is killed."""


def _kill_at(monkeypatch: pytest.MonkeyPatch, number: int, *, before: bool) -> None:
    """Let the driver die at its so-manieth transaction, before or after it is written."""
    commit, count = Journal.commit, [0]

    def dying(self: Journal, records: Sequence[Record]) -> None:
        count[0] += 1
        if before and count[0] == number:
            raise _KilledError
        commit(self, records)
        if count[0] == number:
            raise _KilledError

    monkeypatch.setattr(Journal, "commit", dying)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("name", ["rubberband-resnet101-20min", "seer-paper-example", "srift-case3"])
def test_a_driver_killed_at_any_moment_changes_nothing(plan_of: PlanOf, tmp_path: Path, name: str) -> None:
    """At 30 random transactions, before and after they are written, several times in a row: the same end and cost."""
    plan, dice = plan_of(name), random.Random(5)
    undisturbed = run(plan, lucky=True, seed=3)
    for trial in range(30):
        out = tmp_path / str(trial)
        with pytest.MonkeyPatch.context() as patch:
            _kill_at(patch, dice.randint(1, 12), before=dice.random() < 0.5)
            with contextlib.suppress(_KilledError):  # a run may end before its so-manieth transaction
                run(plan, lucky=True, seed=3, out=out)
        with pytest.MonkeyPatch.context() as patch:
            _kill_at(patch, dice.randint(1, 6), before=dice.random() < 0.5)
            with contextlib.suppress(_KilledError):
                resume(out)
        outcome = resume(out)
        assert outcome.winner == undisturbed.winner
        assert outcome.time_s == pytest.approx(undisturbed.time_s)
        assert outcome.cost_usd == pytest.approx(undisturbed.cost_usd)
        state = read_run(out).state
        started = [(o.operation.segment, o.operation.trial) for o in state.past_operations]
        assert len(started) == len(set(started)), "nothing that was started is started twice"


def test_the_journal_replays_to_the_same_state(plan_of: PlanOf, tmp_path: Path) -> None:
    """Records read back are those that were written, and lead to the same outcome."""
    outcome = run(plan_of("rubberband-resnet101-20min"), out=tmp_path / "run", space={"lr": {"uniform": [0, 1]}})
    assert read_run(tmp_path / "run").describe() == outcome
    _, _, records = follow(plan_of("seer-paper-example"), {})
    assert [decode(encode(record)) for record in records] == records


def test_a_run_goes_on_with_a_larger_budget(plan_of: PlanOf, tmp_path: Path) -> None:
    """What stopped at a limit is paused; nothing that has ended is repeated."""
    plan = plan_of("rubberband-two-stages")
    assert run(plan, out=tmp_path / "run", budget_usd=0.2).code == 4
    assert resume(tmp_path / "run").code == 4
    outcome = resume(tmp_path / "run", budget_usd=1.0)
    assert (outcome.code, read_run(tmp_path / "run").state.segments["b1-s1"].ended_s) == (0, 100.0)
    assert resume(tmp_path / "run") == outcome  # it has ended; there is nothing left to do


def test_who_goes_on_beyond_a_limit_asks_for_no_nodes(plan_of: PlanOf, tmp_path: Path) -> None:
    """Trials take twice as long, so that the deadline comes amid a stage: going on costs nothing, and is told."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    paused = run(plan, out=out, deadline_s=110.0, slower=2.0, replan_above=None)
    assert (paused.code, paused.why) == (4, "the deadline of 1 min 50 s is over")
    again = resume(out)
    assert (again.code, again.why, again.cost_usd, again.time_s) == (4, paused.why, paused.cost_usd, paused.time_s)
    assert resume(out, deadline_s=1000.0).code == 0


def test_what_has_ended_is_not_changed_by_options(plan_of: PlanOf, tmp_path: Path) -> None:
    """Nothing is followed any more, so that other options have no say in how it is told; some never have."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    assert run(plan, out=out, budget_usd=0.2).code == 4
    for change in ({"executor": "local"}, {"seed": 1}):
        with pytest.raises(UsageError, match=f"{min(change)}: a run keeps what it began with"):
            resume(out, **change)
    outcome = resume(out, budget_usd=1.0)
    assert resume(out, metric="accuracy", slower=2.0, budget_usd=0.1) == outcome


def test_options_that_are_given_to_go_on_hold_from_then_on(plan_of: PlanOf, tmp_path: Path) -> None:
    """Whoever looks at the run, or goes on with it once more, finds them in the journal."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    assert run(plan, out=out, budget_usd=0.1).code == 4
    assert resume(out, budget_usd=0.25, replan_above=None, metric="accuracy").code == 4
    found: Any = read_run(out)
    rules, options = found.rules, found.options
    assert (options.budget_usd, options.replan_above, rules.metric) == (0.25, None, "accuracy")
    assert resume(out).why.endswith("the budget is $0.25")


def test_a_run_is_given_up(plan_of: PlanOf, tmp_path: Path) -> None:
    """A driver dies while trials run: they are stopped, nodes are given back, and the run has ended with no winner."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"

    def die(record: object) -> None:
        if type(record).__name__ == "OperationStarted":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan, out=out, listener=die)
    assert read_run(out).state.operations
    outcome = resume(out, abort=True)
    assert (outcome.status, outcome.code, outcome.why, outcome.winner) == ("ended", 1, "given up by the user", None)
    state = read_run(out).state
    assert (state.operations, state.held_nodes()) == ({}, [])
    assert resume(out) == outcome


def test_what_is_never_planned_anew_stays_so(plan_of: PlanOf, tmp_path: Path) -> None:
    """Twice as slow, paused and resumed: the rest is followed as planned, as was asked at the beginning."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    assert run(plan, out=out, slower=2.0, replan_above=None, budget_usd=0.4).code == 4
    assert (resume(out, budget_usd=1.0).code, resume(out).replans) == (0, ())


def test_folders_are_not_mixed_up(plan_of: PlanOf, tmp_path: Path) -> None:
    """A run is not begun twice, nor another plan's in its folder; two drivers do not share one; the folder is mine."""
    plan, out = plan_of("rubberband-two-stages"), tmp_path / "run"
    run(plan, out=out)
    assert out.stat().st_mode & 0o777 == 0o700
    with pytest.raises(UsageError, match=r"a run of this plan is there; go on with --resume"):
        run(plan, out=out)
    with pytest.raises(UsageError, match=r"holds the run of another plan \(.*\); give another folder"):
        run(plan_of("seer-paper-example"), out=out)
    held = Journal(out)
    try:
        with pytest.raises(UsageError, match="another driver follows a plan there; wait for it, or `optplan stop"):
            resume(out)
    finally:
        held.close()
    with pytest.raises(UsageError, match="no run is there; give the folder that --out named"):
        resume(tmp_path / "nothing")


def test_journals_of_another_version_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    """By their number."""
    run(plan_of("rubberband-two-stages"), out=tmp_path / "run")
    import sqlite3

    with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(DataError, match=r"journal\.sqlite: has version 9; understood: 4; use the release"):
        resume(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "journal.sqlite") as connection:
        connection.execute("PRAGMA user_version = 0")
    for look in (resume, read_run):
        with pytest.raises(DataError, match=r"journal\.sqlite: has version 0; understood: 4; use the release"):
            look(tmp_path / "run")


def test_a_folder_that_cannot_be_written_is_an_error_before_the_first_trial(plan_of: PlanOf, tmp_path: Path) -> None:
    """A file is in the way, as a read-only folder would be."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        run(plan_of("rubberband-two-stages"), out=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "local"}, "train: executor 'local' needs something to train; give --train or --command"),
        ({"train": "a:b", "command": "c"}, "train: a command is given as well; give one of the two"),
        ({"command": "c"}, "command: nothing is started on a virtual clock"),
        ({"seed": -1}, "seed: got -1"),
        ({"metrics": "loss"}, "metrics: unknown field 'metrics'; did you mean 'metric'"),
    ],
)
def test_options_that_do_not_fit_are_refused(plan_of: PlanOf, options: dict[str, Any], message: str) -> None:
    """Before anything is made."""
    with pytest.raises((UsageError, DataError), match=message):
        run(plan_of("rubberband-two-stages"), **options)


def test_plans_of_streams_are_not_run(plan_of: PlanOf) -> None:
    """The message says who looks them up."""
    with pytest.raises(UsageError, match="it is one of streams of jobs; `optplan run PLAN JOBS` serves"):
        run(plan_of("boa-two-epochs"))


def test_plans_survive_their_journal(plan_of: PlanOf, tmp_path: Path) -> None:
    """What is stored is the plan, with its id, and the options; nothing of the environment."""
    run(plan_of("rubberband-two-stages"), out=tmp_path / "run", seed=4)
    journal = Journal(tmp_path / "run", writable=False)
    beginning = journal.require("search")
    assert beginning.plan["plan_id"] == plan_of("rubberband-two-stages").plan_id
    assert beginning.options["seed"] == 4
    assert "PATH" not in json.dumps(beginning.options)
    journal.close()


def test_a_member_that_its_nodes_have_no_room_for_is_refused(plan_stages: Callable[..., Plan]) -> None:
    """Four GPUs on one node of two: nothing would ever start, and the virtual clock would go round for ever."""
    plan = plan_stages((1, 1, 2))
    (segment,) = plan.segments
    wide = plan.replace(plan_id="", segments=[segment.replace(workers=4, gpus_per_worker=1)])
    with pytest.raises(DataError, match=r"segments.b1-s1.workers: a member has 4 GPUs, and the segment's nodes 2"):
        run(wide)


class _Refusing(VirtualExecutor):
    """A virtual executor whose second start fails."""

    def start(self, operation: Operation) -> None:
        if self._running:
            raise UsageError("command: ended with exit code 1 on start")
        super().start(operation)

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:  # noqa: ARG002
        return Observation(frozenset(), frozenset(each.id for each in operations if each.id in self._running))

    def stop(self, operation: str, grace_s: float) -> None:
        """Let what is stopped take its time."""
        if operation in self._running:
            held, ticket = self._running[operation]
            self._clock.cancel(ticket)
            self._running[operation] = held, self._clock.schedule(self._clock.now + 0.5 * grace_s, operation)


def test_after_a_start_that_fails_only_what_runs_is_waited_for(plan_of: PlanOf) -> None:
    """The first of four trials stores its state in 5 of 10 s; the other three never began, and cost no grace."""
    plan = plan_of("rubberband-two-stages")
    executor = _Refusing(plan)
    driver = Driver(prepare(plan, grace_s=10.0), executor)
    with pytest.raises(UsageError, match="exit code 1 on start"):
        driver.follow()
    assert executor.now_s() == 5.0
    assert not executor._nodes
