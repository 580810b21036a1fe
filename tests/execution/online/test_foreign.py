"""Others' signatures: a round of AdaptDL's allocator, and a run in the shape of Sia's simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.execution.online.foreign import GPU, AdaptDLPolicy, SiaPolicy
from optplan.execution.online.width_table import WidthTable


def make_table(gpu_types: tuple[str, ...] = ("aws",), **classes: tuple[Any, ...]) -> WidthTable:
    """Make a table of one row a class: widths, and types where there are several."""
    rows = {
        name: ({"share": 1.0, "gpus": widths[0], **({"gpu_types": widths[1]} if len(widths) > 1 else {})},)
        for name, widths in classes.items()
    }
    return WidthTable.parse(
        {"number": 1, "made_s": 0.0, "gpu_types": gpu_types, "classes": rows, "gpus": 1.0, "mean_jct_s": 1.0}
    )


@dataclass
class NodeInfo:
    """As in both: what a node has."""

    resources: dict[str, int]
    preemptible: bool = False


@dataclass
class JobInfo:
    """As in both: what policies are told of a job."""

    creation_timestamp: Any
    max_replicas: Any = 64
    resources: dict[str, int] = field(default_factory=lambda: {GPU: 1})
    epoch: int = 0
    attained_service: float = 0.0


def test_a_round_of_adaptdl() -> None:
    """One job keeps its two replicas, the next starts on what is left; 2 + 4 GPUs are two nodes of 4."""
    policy = AdaptDLPolicy(make_table(bert=((2,),), vision=((4,),)))
    jobs = {
        ("ns", "vision-1"): JobInfo(datetime(2026, 1, 2, tzinfo=UTC)),
        ("ns", "bert-1"): JobInfo(datetime(2026, 1, 1, tzinfo=UTC)),
    }
    node = NodeInfo({GPU: 4, "cpu": 32})
    allocations, desired = policy.optimize(jobs, {"n1": node}, {("ns", "bert-1"): ["n1", "n1"]}, node)
    assert allocations == {("ns", "vision-1"): ["n1", "n1"], ("ns", "bert-1"): ["n1", "n1"]}
    assert desired == 2
    assert policy.allocate_job(jobs["ns", "bert-1"], {"n0": NodeInfo({}), "n1": node}) == ["n1"]


def test_no_job_gets_more_replicas_than_it_says() -> None:
    """AdaptDL lets a job at most double the replicas that it was profiled on."""
    policy = AdaptDLPolicy(make_table(bert=((8,),)))
    node = NodeInfo({GPU: 4})
    allocations, _ = policy.optimize({"bert-1": JobInfo(0.0, max_replicas=2)}, {"n1": node}, {}, node)
    assert allocations == {"bert-1": ["n1", "n1"]}


def test_what_cannot_be_is_refused() -> None:
    """Replicas of two GPUs, templates without any, tables of several types."""
    node = NodeInfo({GPU: 4})
    policy = AdaptDLPolicy(make_table(bert=((8,),)))
    with pytest.raises(UsageError, match="replicas of one GPU"):
        policy.optimize({"bert-1": JobInfo(0.0, resources={GPU: 2})}, {"n1": node}, {}, node)
    with pytest.raises(UsageError, match=f"node_template: has no {GPU}"):
        policy.optimize({}, {}, {}, NodeInfo({}))
    typed = make_table(("aws", "rtx"), bert=((8,), ("aws",)))
    with pytest.raises(UsageError, match="plan on one"):
        AdaptDLPolicy(typed).optimize({}, {}, {}, node)


@dataclass
class SimulatedJob:
    """A job of the simulator: epochs of so many GPU-seconds, progress in rounds."""

    name: str
    submission_time: float
    epochs: int
    epoch_gpu_s: float
    current_cluster: str | None = None
    placement: tuple[int, ...] = ()
    epoch: int = 0
    progress: float = 0.0
    completion_time: float | None = None
    widths: list[int] = field(default_factory=list)

    def step(self, seconds: float, now_s: float) -> None:
        """Train for a round."""
        self.progress += seconds * sum(self.placement)
        while self.progress >= self.epoch_gpu_s and self.completion_time is None:
            self.progress -= self.epoch_gpu_s
            self.epoch += 1
            self.completion_time = now_s if self.epoch == self.epochs else None


class Cluster:
    """The loop of Sia's simulator: step all jobs, ask the policy, note how many replicas lie on each node."""

    def __init__(self, policy: SiaPolicy, jobs: list[SimulatedJob], num_nodes: dict[str, int], ngpus: int) -> None:
        self.policy, self.jobs, self.num_nodes, self.ngpus = policy, jobs, num_nodes, ngpus
        self.current_time = 0.0
        self.allocations: dict[Any, Any] = {}

    def step(self, seconds: float = 60.0) -> None:
        """Simulate a round."""
        self.current_time += seconds
        for job in self.jobs:
            job.step(seconds, self.current_time)
        waiting = [j for j in self.jobs if j.submission_time <= self.current_time and j.completion_time is None]
        infos = {j.name: JobInfo(j.submission_time, dict.fromkeys(self.num_nodes, 64), epoch=j.epoch) for j in waiting}
        nodes = {
            cluster: {number: NodeInfo({GPU: self.ngpus}) for number in range(count)}
            for cluster, count in self.num_nodes.items()
        }
        self.allocations = {name: held for name, held in self.allocations.items() if name in infos}
        allocations = self.policy.optimize(infos, nodes, self.allocations)
        for job in self.jobs:
            job.current_cluster, replicas = allocations.get(job.name, (None, ()))
            job.placement = tuple(len(list(same)) for _, same in groupby(replicas))
            if replicas:
                job.widths.append(len(replicas))
        self.allocations = dict(allocations)
        self.check()

    def check(self) -> None:
        """No node has more replicas than GPUs."""
        for cluster, count in self.num_nodes.items():
            for number in range(count):
                used = sum(numbers.count(number) for name, numbers in self.allocations.values() if name == cluster)
                assert used <= self.ngpus


def test_in_the_shape_of_sias_simulator() -> None:
    """Two classes on two types are served to the end at the widths of the table, on a cluster where one has to wait.

    Jobs of ``big`` hold 2 and then 4 GPUs of ``aws``, on one node of 4. The first keeps 2 beside the second; this one
    grows once the first has ended.
    """
    table = make_table(("aws", "rtx"), big=((2, 4), ("aws", "aws")), small=((3,), ("rtx",)))
    jobs = [
        SimulatedJob("big-1", 0.0, 2, 480.0),
        SimulatedJob("big-2", 1.0, 2, 960.0),
        SimulatedJob("small-1", 0.0, 1, 360.0),
    ]
    cluster = Cluster(SiaPolicy(table), jobs, {"aws": 1, "rtx": 1}, 4)
    for _ in range(40):
        cluster.step()
    assert all(job.completion_time is not None for job in jobs)
    assert set(jobs[2].widths) == {3}
    assert set(jobs[0].widths) == {2}
    assert set(jobs[1].widths) == {2, 4}
    assert not cluster.allocations
