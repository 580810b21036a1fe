"""The virtual clock and the cluster simulator agree event for event on what both can run.

Both serve streams of jobs by a plan, on rented nodes or on so many GPUs in an order of the queue. Both can run a search
whose trials hold other numbers of GPUs in each stage, too: for the simulator, stages are epochs, and a trial is a job
with as many epochs as stages in which it took part.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Status
from optplan.contracts.plan import Plan
from optplan.contracts.result import Result
from optplan.execution.online.fields import Hold
from optplan.execution.online.jobs import Order
from optplan.execution.online.messages import Terms as Learning
from optplan.execution.records import OperationEnded, OperationStarted, OperationWanted, Record
from optplan.execution.running import run
from optplan.execution.streams.running import run_stream
from optplan.execution.streams.state import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.lab.cluster.jobs import Job, SchedulingPolicy, Sight, TabledApplication
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import BoaOnline, Scheduled, follow_plan
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.traced_jobs import tabulate_class
from optplan.lab.cluster.world import World
from optplan.solving import solve

#: Trials of each stage, GPUs of each of them, and seconds of an iteration on so many.
TRIALS, WIDTHS = (4, 2, 1), (1, 2, 4)
ITERATION_S = {1: 10.0, 2: 6.0, 4: 4.0}

#: When a trial began and ended a stage, and on how many GPUs.
Event = tuple[str, int, int, float, float]


def _list_events(records: list[Record]) -> list[Event]:
    """List what the executor did."""
    wanted = {one.operation: one for one in records if isinstance(one, OperationWanted)}
    begun = {one.operation: one.t for one in records if isinstance(one, OperationStarted)}
    return sorted(
        (wanted[name].trial, int(wanted[name].segment[-1]), sum(wanted[name].place.values()), begun[name], one.t)
        for one in records
        if isinstance(one, OperationEnded) and (name := one.operation)
    )


class _Staged(InTurn):
    """GPUs by stage; notes who began what when."""

    def __init__(self) -> None:
        super().__init__("staged", lambda job: WIDTHS[job.epochs_done])
        self.begun: dict[tuple[str, int], tuple[int, float]] = {}

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """As ever."""
        wishes = super().allocate(sight)
        for job, gpus in wishes.items():
            self.begun[job.name, job.epochs_done + 1] = gpus, sight.now_s
        return wishes


@settings(max_examples=25)
@given(
    iterations=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    start_s=st.sampled_from([0.0, 3.0, 17.5]),
    price=st.sampled_from([1.0, 3.6]),
)
def test_stages_of_a_search(
    plan_chain: Callable[..., Plan], iterations: list[int], start_s: float, price: float
) -> None:
    """Every trial begins and ends every stage at the same time on as many GPUs; nodes are held, and paid, as long."""
    instance = RubberBandInstance.parse(
        {
            "formulation": "rubberband",
            "experiment": {
                "form": "stages",
                "stages": [{"trials": n, "iterations": k} for n, k in zip(TRIALS, iterations, strict=True)],
            },
            "training": {"seconds_per_iteration": {str(k): s for k, s in ITERATION_S.items()}, "start_s": start_s},
            "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": price, "minimum_charge_s": 0.0},
            "deadline_s": 1e6,
        }
    )
    records: list[Record] = []
    ran = run(plan_chain(instance, [{"instances": 2, "gpus": 4}] * 3), listener=records.append, replan_above=None)
    events = _list_events(records)
    assert len(events) == sum(TRIALS)

    stages = Counter(trial for trial, *_ in events)
    stage_s = np.array([k * ITERATION_S[gpus] for k, gpus in zip(iterations, WIDTHS, strict=True)])
    jobs = [
        Job(trial, "trial", 0.0, TabledApplication(dict.fromkeys(WIDTHS, stage_s[:count]), count, start_s))
        for trial, count in stages.items()
    ]
    policy = _Staged()
    outcome = replay(jobs, policy, gpus_per_node=2)
    simulated: list[Event] = []
    for (trial, stage), (gpus, begun_s) in policy.begun.items():
        following = policy.begun.get((trial, stage + 1))
        ended_s = following[1] if following else next(job.completed_s for job in jobs if job.name == trial)
        assert ended_s is not None
        simulated.append((trial, stage, gpus, begun_s, ended_s))
    for one, other in zip(sorted(simulated), events, strict=True):
        assert one[:3] == other[:3]
        assert one[3:] == pytest.approx(other[3:])
    assert outcome.span_s == pytest.approx(ran.time_s)
    assert outcome.node_gpu_hours / 2 * price == pytest.approx(ran.cost_usd)


#: Seconds of two epochs of class a and three of b on one GPU, what they gain on 2 to 4, and weights. Epochs that begin
#: at one time are to end at others: who comes first of two that are there at once but for rounding is chance.
EPOCHS_S = {"a": (100.0, 60.0), "b": (31.0, 7.0, 250.0)}
WEIGHTS = {"a": 1.0, "b": 5.0}
SPEEDUP = {"form": "table", "gpus": [1, 2, 3, 4], "speedup": [1.0, 1.8317, 2.4142, 2.9173]}


def _state(rescale_s: float) -> BoaInstance:
    """Return the two classes."""
    classes = {
        name: {
            "arrival_rate_per_hour": 10.0,
            "epoch_size_gpu_hours": [seconds / 3600.0 for seconds in epochs_s],
            "speedup": {"gpu": SPEEDUP},
            "rescale_s": rescale_s,
            "weight": WEIGHTS[name],
        }
        for name, epochs_s in EPOCHS_S.items()
    }
    return BoaInstance.parse(
        {
            "name": "agreeing",
            "formulation": "boa",
            "problem": "rescaling",
            "gpu_types": {"gpu": {"gpus_per_node": 4}},
            "budget": "100gpu",
            "classes": classes,
        }
    )


def _plan(
    widths: Mapping[str, list[int]], rescale_s: float, others: Mapping[str, list[int]] | None = None
) -> tuple[BoaInstance, BoaPlan]:
    """Return the two classes, and the plan in which they, or the one of them that is given, hold some widths.

    With ``others`` 7 jobs of 10 hold these in place of them.
    """
    instance, known = _state(rescale_s), _know(tuple(widths), rescale_s)
    ways = [(1.0, widths)] if others is None else [(0.3, widths), (0.7, others)]
    if others is not None:
        known = known.replace(policy="mixed")
    rows = BoaSolution(
        branches={
            name: tuple(Branch(fraction=share, widths=np.array(held[name], float)) for share, held in ways)
            for name in widths
        }
    )
    found = {"solution": rows, "objective": evaluate(known, rows).objective, "status": Status.FEASIBLE}
    return instance, build_plan(known, _solve(tuple(widths), rescale_s).replace(**found))


def _know(names: tuple[str, ...], rescale_s: float) -> BoaInstance:
    """Return the instance with some of the classes."""
    stated = _state(rescale_s)
    return stated.replace(classes={name: stated.classes[name] for name in names})


@cache
def _solve(names: tuple[str, ...], rescale_s: float) -> Result[BoaSolution]:
    """Return a result whose solution others take the place of."""
    return solve(_know(names, rescale_s))


def _stream(
    plan: BoaPlan,
    truth: BoaInstance,
    arrivals: list[tuple[str, float]],
    hours: list[Any] | None = None,
    told: list[Any] | None = None,
    **options: Any,  # noqa: ANN401 - as run_stream takes them
) -> dict[str, tuple[float, float]]:
    """Return of each job when it was completed, and the GPU-seconds that it held; note GPU-hours of jobs and nodes."""
    told = [] if told is None else told
    jobs = [
        StreamJob(name=f"j{number:02d}", job_class=name, at_s=at, epochs=len(EPOCHS_S[name]))
        for number, (name, at) in enumerate(arrivals)
    ]
    outcome = run_stream(plan, jobs, truth=truth, gpus_per_node={"gpu": 4}, listener=told.append, **options)
    assert outcome.code == 0
    if hours is not None:
        hours.append((outcome.gpu_hours, outcome.node_gpu_hours))
    wanted = {one.operation: one for one in told if isinstance(one, OperationWanted)}
    ended_s, gpu_s = dict[str, float](), defaultdict[str, float](float)
    for one in told:
        if isinstance(one, OperationEnded):
            began = wanted[one.operation]
            ended_s[began.trial] = one.t
            gpu_s[began.trial] += (one.t - began.t) * sum(began.place.values())
    return {name: (at, gpu_s[name]) for name, at in ended_s.items()}


def _simulate(
    instance: BoaInstance, arrivals: list[tuple[str, float]], policy: SchedulingPolicy, nodes: int | None
) -> dict[str, tuple[float, float]]:
    """Return the same of the same jobs, simulated."""
    return _tell(_replay(instance, arrivals, policy, nodes))


def _replay(
    instance: BoaInstance, arrivals: list[tuple[str, float]], policy: SchedulingPolicy, nodes: int | None = None
) -> Outcome:
    truths = {name: tabulate_class(instance, name, "gpu") for name in instance.classes}
    jobs = [Job(f"j{number:02d}", name, at, truths[name]) for number, (name, at) in enumerate(arrivals)]
    start_s, world = instance.gpu_types["gpu"].start_s or 0.0, World(loses_epoch=True)
    return replay(jobs, policy, gpus_per_node=4, nodes=nodes, start_s=start_s, world=world)


def _tell(outcome: Outcome) -> dict[str, tuple[float, float]]:
    return {job.name: (job.completed_s or math.nan, job.gpu_s) for job in outcome.jobs}


widths = st.integers(1, 4)
arrivals = st.lists(
    st.tuples(st.sampled_from("ab"), st.floats(0.0, 900.0) | st.integers(0, 9).map(lambda n: 100.0 * n)),
    min_size=1,
    max_size=12,
)


#: Widths of both classes, epoch by epoch.
changing = st.fixed_dictionaries(
    {name: st.lists(widths, min_size=len(epochs_s), max_size=len(epochs_s)) for name, epochs_s in EPOCHS_S.items()}
)


def _check(simulated: Mapping[str, tuple[float, float]], streamed: Mapping[str, tuple[float, float]]) -> None:
    assert streamed.keys() == simulated.keys()
    for name, one in streamed.items():
        assert one == pytest.approx(simulated[name], rel=1e-9)


pauses = st.sampled_from([0.0, 13.0])
#: A plan's widths, its pauses, and widths that most jobs hold where it is mixed.
terms = st.tuples(changing, pauses, st.none() | changing)
Terms = tuple[dict[str, list[int]], float, dict[str, list[int]] | None]


@settings(max_examples=40)
@given(terms=terms, jobs=arrivals)
def test_a_stream_on_rented_nodes(terms: Terms, jobs: list[tuple[str, float]]) -> None:
    """Whatever widths a plan has by epoch, jobs hold them at once: they end at the same times, and hold as much."""
    instance, plan = _plan(*terms)
    jobs = sorted(jobs, key=lambda job: job[1])
    _check(_simulate(instance, jobs, follow_plan(plan), None), _stream(plan, instance, jobs))


@settings(max_examples=60)
@given(terms=terms, jobs=arrivals, nodes=st.integers(1, 3), order=st.sampled_from(list(Order)))
def test_a_stream_on_so_many_gpus(terms: Terms, jobs: list[tuple[str, float]], nodes: int, order: Order) -> None:
    """Jobs queue in each order, and are stopped for others: what they did of an epoch is lost in both.

    Who waits for its next width goes on with what it has, and pauses once: when it is there.
    """
    instance, plan = _plan(*terms)
    jobs = sorted(jobs, key=lambda job: job[1])
    simulated = _simulate(instance, jobs, Scheduled(plan, order), nodes)
    _check(simulated, _stream(plan, instance, jobs, most_gpus=4 * nodes, order=order))


@settings(max_examples=40)
@given(held=changing, jobs=arrivals, nodes=st.integers(1, 3), order=st.sampled_from(list(Order)))
def test_a_class_that_the_plan_does_not_have_within_a_quota(
    held: dict[str, list[int]], jobs: list[tuple[str, float]], nodes: int, order: Order
) -> None:
    """Jobs of class b hold one GPU in both, and a quota of the only type is a cluster of so many GPUs."""
    instance, plan = _plan({"a": held["a"]}, 0.0)
    jobs = sorted(jobs, key=lambda job: job[1])
    streamed = _stream(plan, instance, jobs, quotas={"gpu": 4 * nodes}, order=order)
    _check(_simulate(instance, jobs, Scheduled(plan, order), nodes), streamed)
    assert streamed == _stream(plan, instance, jobs, most_gpus=4 * nodes, order=order)


@settings(max_examples=60)
@given(held=changing, jobs=arrivals, rescale_s=pauses)
def test_rented_nodes_are_paid_as_long(
    held: dict[str, list[int]], jobs: list[tuple[str, float]], rescale_s: float
) -> None:
    """Whole nodes are rented and given back at the same times, so that as many GPU-hours of nodes are paid.

    Nobody is spread over nodes where another one is there at once: of up to 4 GPUs all are on one.
    """
    instance, plan = _plan(held, rescale_s)
    jobs = sorted(jobs, key=lambda job: job[1])
    hours, told = list[Any](), list[Any]()
    streamed = _stream(plan, instance, jobs, hours=hours, told=told)
    simulated = _replay(instance, jobs, follow_plan(plan))
    _check(_tell(simulated), streamed)
    assert hours == [pytest.approx((simulated.gpu_hours, simulated.node_gpu_hours), rel=1e-9)]
    assert {len(one.place) for one in told if isinstance(one, OperationWanted)} == {1}


@settings(max_examples=60)
@given(
    terms=terms,
    jobs=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 900.0)), min_size=1, max_size=12),
    start_s=st.sampled_from([3.0, 30.0, 120.0, 400.0]),
)
def test_nodes_that_take_time_to_start(terms: Terms, jobs: list[tuple[str, float]], start_s: float) -> None:
    """Jobs go on with what they have until the nodes are there; as many are rented, for as long, and wait for nobody.

    No two jobs come at times that are round to each other: whose epochs end at once but for rounding is a matter of it.
    """
    instance, plan = _plan(*terms)
    instance = instance.replace(gpu_types={"gpu": instance.gpu_types["gpu"].replace(start_s=start_s)})
    jobs = sorted(((name, at + math.sqrt(2 + place)) for place, (name, at) in enumerate(jobs)), key=lambda job: job[1])
    told: list[Any] = []
    _check(_tell(simulated := _replay(instance, jobs, follow_plan(plan))), _stream(plan, instance, jobs, hours=told))
    assert told == [pytest.approx((simulated.gpu_hours, simulated.node_gpu_hours), rel=1e-9)]


@pytest.mark.parametrize(
    ("held", "start_s", "clumps"),
    [
        ({"a": [3, 1], "b": [2, 1, 2]}, 30.0, [("b", 11.472, 2), ("a", 23.571, 2)]),
        ({"a": [3, 3], "b": [2, 1, 1]}, 30.0, [("a", 10.606, 1), ("b", 22.802, 3), ("b", 75.447, 2)]),
        ({"a": [1, 3], "b": [3, 2, 3]}, 120.0, [("b", 11.899, 2), ("b", 24.19, 3), ("b", 28.353, 2)]),
        ({"a": [3, 1], "b": [3, 4, 2]}, 120.0, [("a", 4.606, 2), ("a", 14.922, 4), ("a", 69.613, 2)]),
    ],
)
def test_jobs_that_come_at_once(
    held: dict[str, list[int]], start_s: float, clumps: list[tuple[str, float, int]]
) -> None:
    """In a stream, too, the same of them are served first, though some are still being stopped for others then."""
    instance, plan = _plan(held, 13.0)
    instance = instance.replace(gpu_types={"gpu": instance.gpu_types["gpu"].replace(start_s=start_s)})
    jobs = [(name, at) for name, at, count in clumps for _ in range(count)]
    told: list[Any] = []
    _check(_tell(simulated := _replay(instance, jobs, follow_plan(plan))), _stream(plan, instance, jobs, hours=told))
    assert told == [pytest.approx((simulated.gpu_hours, simulated.node_gpu_hours), rel=1e-9)]


#: What may be believed of speeds before jobs are seen.
CURVES = (
    {"form": "table", "gpus": [1, 2, 3, 4], "speedup": [1.0, 1.1, 1.2, 1.3]},
    {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 2.0, 4.0]},
    {"form": "amdahl", "serial_fraction": 0.3},
)
rates = st.sampled_from([4.0, 40.0])
#: What is believed of the known classes, and of the budget that is enough for them.
beliefs = st.fixed_dictionaries(
    {
        "rates": st.fixed_dictionaries({"a": rates, "b": rates}) | st.sampled_from("ab").map(lambda name: {name: 40.0}),
        "larger": st.sampled_from([0.5, 1.0, 3.0]),
        "curve": st.sampled_from(CURVES),
        "budget": st.sampled_from(["16gpu", "18gpu", "40gpu"]),
    }
)
learnings = st.builds(
    Learning,
    every_s=st.sampled_from([30.0, 200.0]),
    settle_s=st.sampled_from([5.0, 200.0]),
    window_h=st.sampled_from([0.2, 24.0]),
    stated_jobs=st.sampled_from([0.0, 3.0]),
    hold_budget=st.sampled_from(list(Hold)),
    probe_widths=st.just((1, 2, 4)),
)


def _believe(truth: BoaInstance, belief: Mapping[str, Any]) -> BoaInstance:
    """Return what is known before jobs come: other rates, sizes and speeds, and perhaps not all of the classes."""
    classes = {
        name: {
            "arrival_rate_per_hour": rate,
            "epoch_size_gpu_hours": [belief["larger"] * seconds / 3600.0 for seconds in EPOCHS_S[name]],
            "speedup": {"gpu": belief["curve"]},
            "rescale_s": truth.classes[name].rescale_s,
        }
        for name, rate in belief["rates"].items()
    }
    own = {"budget": belief["budget"], "widths": {"max": 4}, "classes": classes}
    return BoaInstance.parse({**truth.to_json_data(), **own})


@settings(max_examples=40)
@given(
    rescale_s=pauses,
    start_s=st.sampled_from([0.0, 30.0, 120.0]),
    belief=beliefs,
    learning=learnings,
    jobs=st.lists(st.tuples(st.sampled_from("ab"), st.just(0.0) | st.floats(1.0, 900.0)), min_size=1, max_size=12),
    nodes=st.none() | st.integers(1, 3),
)
def test_a_stream_that_learns(
    rescale_s: float,
    start_s: float,
    belief: dict[str, Any],
    learning: Learning,
    jobs: list[tuple[str, float]],
    nodes: int | None,
) -> None:
    """A calculator hears the same at the same times in both, and all jobs follow its table from when it is published.

    It learns rates, sizes and speeds, does not know a class perhaps, and may hold its budget. The first job may come as
    all begins; for the others it is as with nodes that take time to start. On a cluster of fixed size, whose nodes are
    there, jobs wait for one another.
    """
    truth, start_s = _state(rescale_s), start_s if nodes is None else 0.0
    truth = truth.replace(gpu_types={"gpu": truth.gpu_types["gpu"].replace(start_s=start_s or None)})
    believed = _believe(truth, belief)
    later = [0.0, *(math.sqrt(2 + place) for place in range(len(jobs)))]
    jobs = sorted(((name, at + after) for (name, at), after in zip(jobs, later, strict=False)), key=lambda job: job[1])
    plan = build_plan(believed, solve(believed))
    most = None if nodes is None else 4 * nodes
    streamed = _stream(plan, truth, jobs, instance=believed, terms=learning, most_gpus=most)
    _check(_simulate(truth, jobs, BoaOnline(believed, learning), nodes), streamed)
