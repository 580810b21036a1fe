"""Streams on the virtual clock: widths as planned, nodes as wanted, tables that change as speeds are learned."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from optplan.contracts import Status
from optplan.errors import DataError, OutputError, UsageError
from optplan.execution.journal import Journal, read_kind
from optplan.execution.online.decisions import Allocator
from optplan.execution.online.fields import Hold
from optplan.execution.online.jobs import ActiveJob, Rules
from optplan.execution.online.messages import Terms
from optplan.execution.protocol import Executor, Observation
from optplan.execution.records import (
    JobArrived,
    NodeChanged,
    NodeReleasing,
    NodeWanted,
    OperationEnded,
    OperationWanted,
    Progressed,
    Record,
    TablePublished,
)
from optplan.execution.runs import read_run, resume
from optplan.execution.streams.driver import StreamDriver
from optplan.execution.streams.learning import Learner
from optplan.execution.streams.running import StreamOptions, StreamRun, run_stream
from optplan.execution.streams.state import StreamJob, StreamState, read_jobs
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.solving import solve

MakeInstance = Callable[..., BoaInstance]
MakePlan = Callable[[BoaInstance], BoaPlan]
MakeJobs = Callable[..., list[StreamJob]]

#: Speeds on 1, 2 and 4 slots: hardly any gain, and nearly linear.
POOR, GOOD = (1.0, 1.1, 1.2), (1.0, 1.9, 3.6)
#: The calculator looks at everything at once, and forgets nothing.
QUICK = {"every_s": 20.0, "settle_s": 1.0, "window_h": 100.0, "stated_jobs": 0.0}


def test_a_stream_follows_its_plan_to_the_second(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """Jobs of three epochs that come one at a time take what the plan says: nodes are there at once, nobody queues."""
    instance = make_instance(GOOD)
    plan = plan_of(instance)
    told: list[Any] = []
    outcome = run_stream(plan, make_jobs(5, 4.0), truth=instance, gpus_per_node={"cpu": 4}, listener=told.append)
    assert (outcome.status, outcome.code) == ("ended", 0)
    (one,) = outcome.classes
    assert one.completed == 5
    assert one.actual_jct_s == pytest.approx(one.planned_jct_s)
    assert one.actual_gpu_hours == pytest.approx(one.planned_gpu_hours)
    wanted = [record for record in told if isinstance(record, NodeWanted)]
    released = [record for record in told if isinstance(record, NodeReleasing)]
    assert len(wanted) == len(released)
    assert outcome.node_gpu_hours >= outcome.gpu_hours


@pytest.mark.parametrize("every_s", [3.0, 40.0, 900.0])
def test_starts_of_nodes_add_no_more_than_the_plan_says(
    make_instance: MakeInstance, make_jobs: MakeJobs, every_s: float
) -> None:
    """Jobs grow from 1 to 4 slots, of nodes that take 30 s: each waits twice at most, and pays for 4 new and 1 old.

    In time 60 s a job at most, in slots (1 + 4) * 30 s; where jobs come seldom it is all of that but what the old one
    does meanwhile, and where they come often they use what others have left.
    """
    instance = make_instance(GOOD, budget="40gpu", epoch_s=20.0).replace(gpu_types={"cpu": {"start_s": 30.0}})
    rows = BoaSolution(branches={"a": (Branch(widths=np.array([1.0, 4.0, 4.0])),)})
    objective = evaluate(instance, rows).objective
    result = solve(instance).replace(solution=rows, objective=objective, status=Status.FEASIBLE)
    plan = build_plan(instance, result)
    starts = plan.expected["gpus_starting"] / instance.total_rate_per_hour
    assert starts * 3600.0 == pytest.approx((1 + 3 + 1) * 30.0)
    assert plan.expected["starting_s_per_job"] == pytest.approx(60.0)
    outcome = run_stream(plan, make_jobs(20, every_s), truth=instance)
    (one,) = outcome.classes
    assert one.completed == 20
    assert one.actual_jct_s is not None
    assert one.planned_jct_s is not None
    assert one.planned_gpu_hours is not None
    assert one.actual_jct_s <= one.planned_jct_s + 60.0 + 1e-9
    assert outcome.node_gpu_hours <= 20 * (one.planned_gpu_hours + starts) * (1 + 1e-9)
    if every_s == 900.0:
        assert outcome.starting_gpu_hours * 3600.0 == pytest.approx(20 * 4 * 30.0)


def test_widths_change_as_speeds_are_learned(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """Planned for jobs that hardly scale, on one slot each; they scale well, so that the learned table is wider.

    Arrivals of 30 jobs in two minutes, as stated; 1.5 GPUs buy more than one slot a job once a slot is worth it.
    """
    believed, truth = make_instance(POOR), make_instance(GOOD)
    plan = plan_of(believed)
    first = plan.width_table["a"][0].gpus.tolist()
    told: list[Any] = []
    outcome = run_stream(
        plan,
        make_jobs(30, 4.0),
        instance=believed,
        truth=truth,
        gpus_per_node={"cpu": 4},
        terms=QUICK,
        listener=told.append,
    )
    assert outcome.classes[0].completed == 30
    published = [record for record in told if isinstance(record, TablePublished)]
    assert outcome.tables == len(published) > 0
    last = published[-1].table["classes"]["a"][0]["gpus"]
    assert sum(last) > sum(first)
    assert len(outcome.classes[0].widths) > 1
    assert (outcome.actual_jct_s or 0.0) < (outcome.planned_jct_s or 0.0)


def test_what_is_owed_follows_from_the_records_alone(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """Jobs are committed as the journal says, starts of nodes as they were; whoever reads it later owes the same."""
    instance = make_instance(GOOD).replace(gpu_types={"cpu": {"start_s": 30.0}})
    told: list[Record] = []
    outcome = run_stream(
        plan_of(instance), make_jobs(12, 40.0), instance=instance, terms=QUICK, listener=cast(Any, told.append)
    )
    arrived = [record for record in told if isinstance(record, JobArrived)]
    assert len(arrived) == 12
    assert all(record.committed for record in arrived[1:])
    ledgers, written = [], [record for record in told if not isinstance(record, Progressed)]  # which is only shown
    for heard in (len(written), len(written) // 2):
        learner = Learner(instance, Terms(every_s=20.0, hold_budget=Hold.REPAID))
        state = StreamState(plan_of(instance))
        learner.recall(written[:heard], state)
        learner.consider(written[heard - 1].t)
        for record in written[heard:]:
            learner.recall([record], state)
            learner.consider(record.t)
        ledgers.append(learner.calculator.ledger)
    assert outcome.starting_gpu_hours > 0.0
    assert ledgers[0].committed == pytest.approx(outcome.gpu_hours + outcome.starting_gpu_hours)
    assert ledgers[0].debt_h == pytest.approx(ledgers[1].debt_h, rel=1e-9)
    assert ledgers[0].integral_h2 == pytest.approx(ledgers[1].integral_h2, rel=1e-9)


@pytest.mark.parametrize(("every_s", "told"), [(4.0, False), (1.0, True), (40.0, True)])
def test_a_plan_says_when_jobs_come_as_it_does_not_expect(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, every_s: float, told: bool
) -> None:
    """One in 4 s is what is planned; four times as many, or a tenth, are beyond what comes about by chance."""
    instance = make_instance(GOOD)
    outcome = run_stream(plan_of(instance), make_jobs(60, every_s), truth=instance)
    assert ("the plan will not hold" in outcome.drift) is told


def test_no_more_is_planned_for_than_there_are_gpus(make_instance: MakeInstance) -> None:
    """Of a budget beyond 2 GPUs only these can be held."""
    assert Learner(make_instance(GOOD).replace(budget="7gpu"), Terms(), most_gpus=2).calculator.ledger.budget == 2.0
    assert Rules({"cpu": 1}, most_gpus=7, quotas={"cpu": 5}).most == 5.0


@pytest.mark.parametrize(
    ("widths", "ended_s", "operations"),
    [
        # The first trains for 3 epochs of 20 s from 5 s on, the second from 15 s on: neither ever has two slots.
        ([1.0, 2.0, 1.0], {"job-00": 65.0, "job-01": 75.0}, {"job-00": 1, "job-01": 1}),
        # The second has both from 65 s on, 10 s after its third epoch began: it pauses, and does all of that on two.
        ([1.0, 2.0, 2.0], {"job-00": 65.0, "job-01": 70.0 + 20.0 / 1.9}, {"job-00": 1, "job-01": 2}),
    ],
)
def test_a_job_goes_on_with_what_it_has_until_its_next_width_is_there(
    make_instance: MakeInstance,
    make_jobs: MakeJobs,
    widths: list[float],
    ended_s: dict[str, float],
    operations: dict[str, int],
) -> None:
    """Two jobs on two slots, with pauses of 5 s, that want both after an epoch: none is begun anew on what it has."""
    stated = make_instance(GOOD, budget="40gpu", epoch_s=20.0)
    instance = stated.replace(classes={"a": stated.classes["a"].replace(rescale_s=5.0)}, problem="rescaling")
    rows = BoaSolution(branches={"a": (Branch(widths=np.array(widths)),)})
    result = solve(instance).replace(
        solution=rows, objective=evaluate(instance, rows).objective, status=Status.FEASIBLE
    )
    told: list[Any] = []
    options: dict[str, Any] = {"gpus_per_node": {"cpu": 2}, "most_gpus": 2, "listener": told.append}
    run_stream(build_plan(instance, result), make_jobs(2, 10.0), truth=instance, **options)
    trials = {record.operation: record.trial for record in told if isinstance(record, OperationWanted)}
    ends = {trials[record.operation]: record.t for record in told if isinstance(record, OperationEnded)}
    assert ends == pytest.approx(ended_s)
    assert Counter(trials.values()) == operations


@pytest.mark.parametrize(
    ("start_s", "most_gpus", "ends"),
    [(0.0, None, ["1", "3"]), (60.0, None, ["3", "3"]), (0.0, 2, ["3", "3"])],
)
def test_a_job_ends_by_itself_where_its_next_width_is_surely_there(
    make_instance: MakeInstance, make_jobs: MakeJobs, start_s: float, most_gpus: int | None, ends: list[str]
) -> None:
    """A job that holds one slot in its first epoch and then two, alone on nodes of two, is in two pieces in any case.

    The first is stated to be of one epoch where nobody limits the slots and nodes are there at once; else it could go
    on, and is stopped after its first epoch, as the other slot of its node is free.
    """
    stated = make_instance(GOOD, budget="40gpu", epoch_s=20.0)
    instance = stated.replace(gpu_types={"cpu": stated.gpu_types["cpu"].replace(start_s=start_s)})
    rows = BoaSolution(branches={"a": (Branch(widths=np.array([1.0, 2.0, 2.0])),)})
    result = solve(instance).replace(
        solution=rows, objective=evaluate(instance, rows).objective, status=Status.FEASIBLE
    )
    told: list[Any] = []
    options: dict[str, Any] = {"gpus_per_node": {"cpu": 2}, "most_gpus": most_gpus, "listener": told.append}
    run_stream(build_plan(instance, result), make_jobs(1, 10.0), truth=instance, **options)
    wanted = [record for record in told if isinstance(record, OperationWanted)]
    assert [record.segment for record in wanted] == ends
    assert [sum(record.place.values()) for record in wanted] == [1, 2]
    done = [record.iterations for record in told if isinstance(record, OperationEnded)]
    assert done == [1, 3]


def test_on_few_slots_jobs_queue_and_none_is_given_twice(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """Ten jobs at once on 4 slots: one after the other, and never more than 4 in use."""
    instance = make_instance(GOOD, per_hour=1000.0)
    told: list[Any] = []
    outcome = run_stream(
        plan_of(instance),
        make_jobs(10, 0.0),
        truth=instance,
        gpus_per_node={"cpu": 2},
        most_gpus=4,
        listener=told.append,
    )
    assert outcome.classes[0].completed == 10
    assert outcome.node_gpu_hours <= 4 * outcome.time_s / 3600.0 + 1e-9
    assert len({record.node for record in told if isinstance(record, NodeWanted)}) <= 2


def test_a_round_looks_at_the_jobs_that_changed_and_at_no_others(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of jobs that are all there at once, each is looked at as it comes, starts, ends an epoch or its operation.

    That is six times for three epochs, however many others wait: no more than 6 for each of 20 and of 80 jobs.
    """
    instance = make_instance(GOOD, per_hour=1000.0)
    plan, put, counts = plan_of(instance), Allocator.put, [0]

    def count(self: Allocator, job: ActiveJob) -> None:
        counts[-1] += 1
        put(self, job)

    monkeypatch.setattr(Allocator, "put", count)
    for number in (20, 80):
        counts.append(0)
        outcome = run_stream(plan, make_jobs(number, 0.0), truth=instance, gpus_per_node={"cpu": 2}, most_gpus=4)
        assert outcome.classes[0].completed == number
        assert 3 * number <= counts[-1] <= 6 * number


def test_who_has_held_much_lets_others_go_first(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """Two jobs of three epochs of 9 hours on one slot, with two queues: 16 GPU-hours put a job into the second one.

    The first one has held 18 hours after two epochs and stops for the other; that one has held 18 at 36 h, and now the
    first one goes first again, as it came first: it ends at 45 h, the other at 54 h. First come, it is 27 and 54 h.
    """
    hour_s = 3600.0
    instance = make_instance(POOR, per_hour=0.01, epoch_s=9 * hour_s)
    plan, jobs = plan_of(instance), make_jobs(2, 0.0)
    ended_h = {
        order: (run_stream(plan, jobs, truth=instance, most_gpus=1, order=order).actual_jct_s or 0.0) / hour_s
        for order in ("first-come", "least-attained")
    }
    assert ended_h == {"first-come": pytest.approx((27 + 54) / 2), "least-attained": pytest.approx((45 + 54) / 2)}


def test_what_has_no_end_is_refused_by_its_field(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs
) -> None:
    """1e8 epochs of a job, 120,000 of six jobs, and a year in which widths are looked at each second."""
    instance = make_instance(GOOD)
    plan = plan_of(instance)
    with pytest.raises(DataError, match=r"^epochs: got 100000000; input should be less than or equal to 1000000$"):
        StreamJob(name="long", job_class="a", epochs=100_000_000)
    many = [job.replace(epochs=20_000) for job in make_jobs(6, 0.0)]
    with pytest.raises(DataError, match=r"^jobs.job-05.epochs: got 20,000; with the jobs before it these are 120,000"):
        run_stream(plan, many, truth=instance)
    late = [make_jobs(1, 0.0)[0].replace(at_s=3.2e7)]
    with pytest.raises(DataError, match=r"^terms.every_s: got 1, and the jobs may take .*; 321 will do$"):
        run_stream(plan, late, instance=instance, terms={"every_s": 1.0})
    assert run_stream(plan, late, truth=instance).classes[0].completed == 1


def test_a_stream_goes_on_from_its_journal(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that dies between two transactions is followed by one that repeats nothing that has ended."""
    instance = make_instance(GOOD)
    out, given = tmp_path / "stream", (plan_of(instance), make_jobs(6, 2.0))
    commit, left = StreamDriver._commit, [12]

    def die(self: StreamDriver) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        commit(self)

    monkeypatch.setattr(StreamDriver, "_commit", die)
    with pytest.raises(KeyboardInterrupt):
        run_stream(*given, truth=instance, out=out)
    monkeypatch.undo()
    assert read_kind(out) == "stream"
    assert read_run(out).describe().status == "running"
    told: list[Any] = []
    outcome = resume(out, listener=told.append)
    assert (outcome.status, outcome.classes[0].completed) == ("ended", 6)
    assert read_run(out).describe() == outcome
    again = [record.operation for record in told if isinstance(record, OperationWanted)]
    assert len(again) == len(set(again))
    with pytest.raises(UsageError, match="a run of this plan is there"):
        run_stream(*given, truth=instance, out=out)


class _KilledError(Exception):
    """The driver is killed."""


def kill_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the driver die before its so-manieth transaction."""
    commit, left = Journal.commit, [number]

    def dying(self: Journal, records: Sequence[Record]) -> None:
        left[0] -= 1
        if not left[0]:
            raise _KilledError
        commit(self, records)

    patch.setattr(Journal, "commit", dying)


def test_drivers_that_are_killed_cost_nothing_on_the_virtual_clock(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """Whenever they die, operations go on meanwhile: the same times and GPU-hours as without, and the same widths."""
    instance = make_instance(GOOD)
    options: dict[str, Any] = {"gpus_per_node": {"cpu": 2}, "most_gpus": 4, "truth": instance}
    given = plan_of(instance), make_jobs(6, 0.9)
    undisturbed = run_stream(*given, **options)
    for number in range(1, 14):
        out = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_KilledError):
            kill_at(patch, number)
            run_stream(*given, out=out, **options)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_KilledError):
            kill_at(patch, 3)
            resume(out)
        outcome = resume(out)
        assert read_run(out).describe() == outcome
        assert outcome.replace(notes=()) == undisturbed.replace(notes=()), number


def test_a_stream_goes_on_with_other_options_or_is_given_up(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """What is given holds from then on; what nodes were made by stays; given up, nothing runs and nothing is held."""
    instance, out = make_instance(GOOD), tmp_path / "stream"
    options: dict[str, Any] = {"gpus_per_node": {"cpu": 2}, "most_gpus": 2, "truth": instance}
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_KilledError):
        kill_at(patch, 4)
        run_stream(plan_of(instance), make_jobs(6, 0.0), out=out, **options)
    for change in ({"gpus_per_node": {"cpu": 4}}, {"executor": "local"}):
        with pytest.raises(UsageError, match=f"{min(change)}: a run keeps what it began with; leave it out, or begin"):
            resume(out, **change)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_KilledError):
        kill_at(patch, 2)
        resume(out, most_gpus=4)
    assert read_run(out).options.most_gpus == 4
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    outcome, as_begun = resume(out), run_stream(plan_of(instance), make_jobs(6, 0.0), **options)
    assert (outcome.classes[0].completed, outcome.time_s < as_begun.time_s) == (6, True)
    given_up = resume(copy, abort=True)
    assert (given_up.status, given_up.code) == ("ended", 1)
    state = read_run(copy).state
    assert (state.ended.why, state.operations, state.held_nodes()) == ("given up by the user", {}, [])
    assert resume(copy) == given_up


class Gone:
    """An executor whose nodes are gone; says what it was asked for."""

    is_virtual, at_once = False, False

    def __init__(self) -> None:
        self.ensured: list[str] = []
        self.released: list[str] = []

    def now_s(self) -> float:
        """Return the time."""
        return 9.0

    def observe(self, *_: object) -> Observation:
        """Find nothing."""
        return Observation(frozenset(), frozenset())

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Note the names."""
        self.ensured += [request.node for request in requests]

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Note the names."""
        self.released += nodes


def test_nodes_that_went_meanwhile_are_not_asked_for_again(make_instance: MakeInstance, plan_of: MakePlan) -> None:
    """Of three nodes one was there and is lost, one is still wanted, and one was being given back."""
    options = StreamOptions(gpus_per_node={"cpu": 4})
    run = StreamRun(plan_of(make_instance(GOOD)), options, {"jobs": [], "instance": None, "truth": None})
    state, gone = run.state, Gone()
    for name in ("there", "wanted", "going"):
        state.apply(NodeWanted(1.0, name, "cpu", "cpu", "cpu"))
    state.apply(NodeChanged(2.0, "there", "ready"))
    state.apply(NodeReleasing(3.0, "going"))
    StreamDriver(run, cast(Executor, gone)).resume()
    assert (gone.ensured, gone.released) == (["wanted"], ["going"])
    assert {name: node.phase.value for name, node in state.nodes.items()} == {
        "there": "lost",
        "wanted": "wanted",
        "going": "released",
    }


def test_nodes_that_are_wanted_are_told_to_a_command(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """Its environment says type and number; one that fails ends the stream with what it said."""
    script = tmp_path / "scale.py"
    script.write_text(
        "import os, sys\n"
        f"open({str(tmp_path / 'told')!r}, 'a').write(os.environ['OPTPLAN_GPU_TYPE'] + os.environ['OPTPLAN_NODES'])\n"
        "sys.exit('too many' if int(os.environ['OPTPLAN_NODES']) > 1 else 0)\n",
        encoding="utf-8",
    )
    instance = make_instance(GOOD)
    command = f"{sys.executable} {script}"
    run_stream(plan_of(instance), make_jobs(1, 1.0), truth=instance, gpus_per_node={"cpu": 4}, scale_command=command)
    assert (tmp_path / "told").read_text(encoding="utf-8") == "cpu1cpu0"
    with pytest.raises(OutputError, match="failed: too many"):
        run_stream(plan_of(instance), make_jobs(9, 0.0), truth=instance, scale_command=command)
    with pytest.raises(
        UsageError, match=r"nothing-there cannot be started .*give one that is there as --scale-command"
    ):
        run_stream(plan_of(instance), make_jobs(1, 0.0), truth=instance, scale_command="nothing-there")
    with pytest.raises(UsageError, match=r"scale_command: .*close the quotes"):
        run_stream(plan_of(instance), make_jobs(1, 0.0), truth=instance, scale_command="'")


def test_a_list_of_jobs_is_read(tmp_path: Path) -> None:
    """In the order of arrival; what is wrong is named."""
    path = tmp_path / "jobs.json"
    path.write_text(
        json.dumps([{"name": "b", "job_class": "a", "at_s": 2.0}, {"name": "c", "job_class": "a", "at_s": 1.0}]),
        encoding="utf-8",
    )
    assert [job.name for job in read_jobs(path)] == ["c", "b"]
    path.write_text('[{"name": "b", "job_class": "a"}, {"name": "b", "job_class": "a"}]', encoding="utf-8")
    with pytest.raises(DataError, match="two jobs have this name"):
        read_jobs(path)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="list jobs"):
        read_jobs(path)


def test_what_does_not_fit_is_refused(
    make_instance: MakeInstance, plan_of: MakePlan, make_jobs: MakeJobs, tmp_path: Path
) -> None:
    """No truth on the virtual clock or not about a class or type, nothing to train, no folder, an unknown type."""
    instance = make_instance(GOOD)
    plan = plan_of(instance)
    with pytest.raises(UsageError, match="how long epochs take"):
        run_stream(plan, [])
    with pytest.raises(UsageError, match="needs something to train"):
        run_stream(plan, [], executor="local", out=tmp_path / "stream")
    with pytest.raises(UsageError, match="a folder is needed"):
        run_stream(plan, [], executor="local", command="true")
    with pytest.raises(DataError, match="the plan has no such type"):
        run_stream(plan, [], truth=instance, gpus_per_node={"t4": 4})
    late = StreamJob(name="late", job_class="b", at_s=1.0)
    with pytest.raises(DataError, match=r"jobs\.late\.job_class: got 'b', and small does not say how long"):
        run_stream(plan, [late], truth=instance)
    other = make_instance(GOOD).to_json_data()
    other["gpu_types"], other["classes"]["a"]["speedup"] = {"t4": {}}, {"t4": other["classes"]["a"]["speedup"]["cpu"]}
    with pytest.raises(DataError, match="does not say how fast a runs on cpu, as it is planned"):
        run_stream(plan, make_jobs(1, 1.0), truth=BoaInstance.parse(other))
    with pytest.raises(DataError, match=r"at_s: got 1e\+300; .* less than or equal to 10000000000"):
        StreamJob.parse({"name": "late", "job_class": "a", "at_s": 1e300}, path="jobs.0")
    with pytest.raises(UsageError, match="no run is there; give the folder that --out named"):
        read_run(tmp_path / "nothing").describe() if (tmp_path / "nothing").is_dir() else resume(tmp_path / "nothing")
