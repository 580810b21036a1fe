"""Traces of any instance: what is true of a job is what the instance says of its class, times its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optplan
from optplan.errors import DataError, DataWarning, UsageError
from optplan.execution.online.jobs import Order
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.boa.planning import BoaPlan
from optplan.instances.job_logs.columns import to_texts
from optplan.instances.job_traces import JobTrace, draw_trace
from optplan.lab.cluster.jobs import Job, PatientPolicy, SchedulingPolicy, Sight, Wish
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.policies.naming import SCHEDULERS, make_policy
from optplan.lab.cluster.traced_jobs import simulate_trace
from optplan.lab.cluster.world import World

#: Widths of class a: 1, 2 and 4, twice and three times as fast in its second epoch; of class b: 2 and 4.
FAST = {"form": "table", "gpus": [1, 2, 4], "speedup": [[1.0, 2.0, 4.0], [1.0, 2.0, 3.0]]}
SLOW = {"form": "table", "gpus": [2, 4], "speedup": [1.0, 1.6]}


def _instance(**fields: object) -> BoaInstance:
    a = JobClass(arrival_rate_per_hour=2.0, epoch_size_gpu_hours=[1.0, 0.5], speedup={"t4": FAST}, rescale_s=60.0)
    b = JobClass(
        arrival_rate_per_hour=1.0, epoch_size_gpu_hours=[2.0], speedup={"t4": SLOW}, reference_width=2, weight=3.0
    )
    given = {"name": "two", "classes": {"a": a, "b": b}, "gpu_types": {"t4": {"gpus_per_node": 4}}}
    return BoaInstance.parse(given | fields)


def _trace(*jobs: tuple[str, float, float], gpus: list[float] | None = None) -> JobTrace:
    """Make a trace of jobs: their class, when they arrive, and how large they are."""
    unknown = np.full(len(jobs), np.nan)
    return JobTrace(
        name="made",
        classes=("a", "b"),
        class_index=np.array(["ab".index(job[0]) for job in jobs]),
        arrive_s=np.array([job[1] for job in jobs]),
        size=np.array([job[2] for job in jobs]),
        ids=to_texts([f"job-{number:03}" for number in range(len(jobs))]),
        gpus=unknown if gpus is None else np.array(gpus),
        run_s=unknown,
        wait_s=unknown,
        span_s=max(job[1] for job in jobs),
    )


def _plan(instance: BoaInstance) -> BoaPlan:
    given = instance.replace(budget="8gpu")
    plan = optplan.build_plan(given, optplan.solve(given))
    assert isinstance(plan, BoaPlan)
    return plan


def test_two_jobs_by_hand() -> None:
    """On 2 GPUs, a job of class a takes 60 s and 1.5 / 2 h; one of half the size 60 s and half the hours."""
    outcome = simulate_trace(_instance(), _trace(("a", 0.0, 1.0), ("a", 100.0, 0.5)), "one-width:2")
    assert outcome.jct_s.tolist() == pytest.approx([60 + 2700, 60 + 1350])
    assert outcome.gpu_hours == pytest.approx(2 * (2760 + 1410) / 3600)
    assert outcome.most_nodes == 1  # both fit on a node of four
    assert [job.paused_s for job in outcome.jobs] == [60.0, 60.0]
    # Work: GPU-seconds on one GPU, 1.5 h of a job of size 1.
    assert [job.work_gpu_s for job in outcome.jobs] == pytest.approx([5400, 2700])


def test_own_gpus_make_the_second_wait() -> None:
    """On one node of 4, two jobs of 4 GPUs run one after another: 60 s and (1/4 + 0.5/3) h each."""
    each_s = 60 + 3600 * (1 / 4 + 0.5 / 3)
    outcome = simulate_trace(_instance(), _trace(("a", 0.0, 1.0), ("a", 0.0, 1.0)), "one-width:4", nodes=1)
    assert outcome.jct_s.tolist() == pytest.approx([each_s, 2 * each_s])
    assert outcome.node_gpu_hours == pytest.approx(4 * 2 * each_s / 3600)


def test_weights_of_the_classes() -> None:
    """A job of b weighs three: (t_a + 3 t_b) / 4, with t_a = 60 + 2700 s and t_b = 2 h on 2 GPUs."""
    told = simulate_trace(_instance(), _trace(("a", 0.0, 1.0), ("b", 0.0, 1.0)), "one-width:2").summarise()
    assert told["mean_jct_s"] == pytest.approx((2760 + 7200) / 2)
    assert told["weighted_mean_jct_s"] == pytest.approx((2760 + 3 * 7200) / 4)


def test_what_a_log_said_they_held() -> None:
    """Reservations are the GPUs that the log's own cluster gave each job."""
    trace = _trace(("a", 0.0, 1.0), ("a", 0.0, 1.0), gpus=[1.0, 4.0])
    outcome = simulate_trace(_instance(), trace, "reservation")
    assert outcome.jct_s.tolist() == pytest.approx([60 + 5400, 60 + 3600 * (1 / 4 + 0.5 / 3)])
    with pytest.raises(DataError, match=r"job-000\.num_replicas"):
        simulate_trace(_instance(), _trace(("a", 0.0, 1.0)), "reservation")


def test_pollux_knows_the_instance() -> None:
    """Policies that look at speeds take those of the instance; what a model would learn of Sia's jobs is refused."""
    outcome = simulate_trace(_instance(), _trace(("a", 0.0, 1.0), ("b", 30.0, 1.0)), "pollux", nodes=2)
    assert not outcome.problems
    assert simulate_trace(_instance(), _trace(("a", 0.0, 1.0)), "equal-share", nodes=2).most_gpus == 4
    with pytest.raises(UsageError, match="knowledge: nothing can be learned about a; choose truth"):
        simulate_trace(_instance(), _trace(("a", 0.0, 1.0)), make_policy("pollux", knowledge="learned"), nodes=2)


def test_a_class_without_a_width() -> None:
    """A job that can run nowhere is reported with its reason, and the others are completed."""
    instance = _instance(gpu_types={"t4": {"gpus_per_node": 4}, "v100": {"gpus_per_node": 8}})
    faster = instance.classes["a"].replace(speedup={"t4": FAST, "v100": FAST})
    instance = instance.replace(classes={"a": faster, "b": instance.classes["b"]})
    trace = _trace(("a", 0.0, 1.0), ("b", 0.0, 1.0))
    outcome = simulate_trace(instance, trace, "one-width:2", gpu_type="v100")
    assert outcome.gpus_per_node == 8
    assert list(outcome.problems) == ["job-001"]
    with pytest.raises(UsageError, match="the instance has t4, v100, and nodes are of one type"):
        simulate_trace(instance, trace, "one-gpu")
    with pytest.raises(UsageError, match="no GPU type 'a100'"):
        simulate_trace(instance, trace, "one-gpu", gpu_type="a100")


def test_what_the_instance_does_not_say() -> None:
    """GPUs of a node are needed, classes have to be there; spot nodes stay, and jobs share nodes, with a warning."""
    trace = _trace(("a", 0.0, 1.0))
    bare = _instance(gpu_types={"t4": {}})
    with pytest.raises(DataError, match=r"gpu_types\.t4\.gpus_per_node: is missing"):
        simulate_trace(bare, trace, "one-gpu")
    assert simulate_trace(bare, trace, "one-gpu", gpus_per_node=2).gpus_per_node == 2
    with pytest.raises(DataError, match="class 'c' of the trace is not in the instance 'two'"):
        simulate_trace(bare, replace(trace, classes=("a", "c")), "one-gpu", gpus_per_node=2)
    spot = {"t4": {"gpus_per_node": 4, "spot": {"interruptions_per_gpu_hour": 0.01, "restart_s": 60.0}}}
    with pytest.warns(DataWarning, match="only as often as is said"):
        simulate_trace(_instance(gpu_types=spot), trace, "one-gpu")
    with pytest.warns(DataWarning, match="whole_nodes: in a simulation jobs share nodes"):
        simulate_trace(_instance(whole_nodes=True), trace, "one-gpu")


def test_nodes_that_start() -> None:
    """The instance says how long a node takes to start, unless somebody else does."""
    instance = _instance(gpu_types={"t4": {"gpus_per_node": 4, "start_s": 120.0}})
    trace = _trace(("a", 0.0, 1.0))
    assert simulate_trace(instance, trace, "one-width:2").jct_s[0] == pytest.approx(120 + 2760)
    assert simulate_trace(instance, trace, "one-width:2", start_s=0.0).jct_s[0] == pytest.approx(2760)


def _long_instance() -> BoaInstance:
    """Return an instance with ten epochs a job, which scale worse and worse."""
    speeds = [[1.0, 2.0 - 0.1 * epoch, 3.8 - 0.3 * epoch] for epoch in range(10)]
    curve = {"form": "table", "gpus": [1, 2, 4], "speedup": speeds}
    instance = _instance()
    a = instance.classes["a"].replace(epoch_size_gpu_hours=[0.15] * 10, speedup={"t4": curve}, rescale_s=5.0)
    return instance.replace(classes={"a": a, "b": instance.classes["b"]})


@cache
def _short_plan() -> BoaPlan:
    return _plan(_instance())


@cache
def _long_plan() -> BoaPlan:
    """Return a plan of which widths change."""
    plan = _plan(_long_instance())
    assert len({*plan.width_table["a"][0].gpus.tolist()}) > 1
    return plan


LOSSES = World(interruptions_per_node_hour=0.5, loses_epoch=True)
jobs = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9000).map(float), st.sampled_from([0.0, 0.3, 1.0, 2.5])),
    min_size=1,
    max_size=12,
).map(lambda found: sorted(found, key=lambda job: job[1]))


@given(jobs)
@settings(max_examples=30, deadline=None)
def test_on_many_gpus_each_job_is_alone(found: list[tuple[str, float, float]]) -> None:
    """Where GPUs are enough, a plan gives each job the time that it takes by itself."""
    instance, plan, trace = _instance(), _short_plan(), _trace(*found)
    together = simulate_trace(instance, trace, plan)
    fixed = simulate_trace(instance, trace, plan, nodes=64)
    alone = [simulate_trace(instance, _trace(job), plan).jct_s[0] for job in found]
    np.testing.assert_allclose(together.jct_s, alone, rtol=1e-9)
    np.testing.assert_allclose(fixed.jct_s, alone, rtol=1e-9)
    assert together.gpu_hours == pytest.approx(fixed.gpu_hours)


class _Impatient:
    """A policy that is asked about every epoch."""

    def __init__(self, policy: SchedulingPolicy) -> None:
        self._policy = policy
        self.name, self.interval_s = policy.name, policy.interval_s

    def need(self, job: Job) -> int:
        return self._policy.need(job)

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        return self._policy.allocate(sight)


@pytest.mark.slow
@given(
    jobs,
    st.integers(1, 3),
    st.sampled_from(["plan", *Order]),
    st.sampled_from([World(), World(straggling=0.3), World(interference=0.2), LOSSES]),
)
@settings(max_examples=60, deadline=None)
def test_patience_changes_nothing(found: list[tuple[str, float, float]], nodes: int, name: str, world: World) -> None:
    """Whoever is asked only when it makes a difference does what it would do if it were asked after every epoch."""
    instance, plan, trace = _long_instance(), _long_plan(), _trace(*found)
    patient, asked = (follow_plan(plan) if name == "plan" else SCHEDULERS[name](plan) for _ in range(2))
    assert isinstance(patient, PatientPolicy)
    once = simulate_trace(instance, trace, patient, nodes=nodes, world=world)
    again = simulate_trace(instance, trace, _Impatient(asked), nodes=nodes, world=world)
    np.testing.assert_allclose(once.jct_s, again.jct_s, rtol=1e-9)
    np.testing.assert_allclose(once.work_gpu_s, again.work_gpu_s, rtol=1e-6, atol=1e-3)
    assert once.gpu_hours == pytest.approx(again.gpu_hours, rel=1e-9)
    assert [job.rescales for job in once.jobs] == [job.rescales for job in again.jobs]


def test_a_drawn_trace_has_the_mean_of_the_plan() -> None:
    """On rented GPUs nobody waits: class by class the mean is the plan's, and by rates and weights its objective."""
    instance = _instance().replace(budget="8gpu")
    result = optplan.solve(instance)
    told = simulate_trace(instance, draw_trace(instance, jobs=50), _short_plan()).summarise_classes()
    parts = [
        (each.arrival_rate_per_hour * each.weight, told[name]["mean_jct_s"]) for name, each in instance.classes.items()
    ]
    mean_s = sum(share * jct_s for share, jct_s in parts) / instance.total_weighted_rate_per_hour
    assert mean_s == pytest.approx(result.objective, rel=1e-9)


def test_a_job_of_ten_years_is_refused() -> None:
    """Of class b an hour and a quarter is the least at its mean size: a size of 1e5 is fourteen years."""
    problem = r"^jobs.job-001: takes 5208 d 08 h even on the fastest width; correct its size; ten years"
    with pytest.raises(DataError, match=problem):
        simulate_trace(_instance(), _trace(("a", 0.0, 1.0), ("b", 0.0, 1e5)), "equal-share", nodes=1)
