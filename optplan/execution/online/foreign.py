"""BOA's scheduler behind the signatures of others' policies: AdaptDL's, and that of Sia's simulator.

Both call ``optimize(jobs, nodes, base_allocations, ...)`` in every round. What they hand over knows neither class nor
epoch of a job, so that a function says it; by default the class is the name up to its first ``-``, as in Sia's traces,
and the epoch is the job's attribute ``epoch``, 0 where it has none.

Sources: ``sched/adaptdl_sched/policy/pollux.py`` of petuum/adaptdl and ``sia-simulator/cluster.py`` of
siasosp23/artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from optplan.errors import UsageError
from optplan.execution.online.decisions import Decision, decide
from optplan.execution.online.jobs import ActiveJob, Node, Order, Rules
from optplan.execution.online.rows import Rows
from optplan.execution.online.width_table import WidthTable

#: What both call a GPU.
GPU = "nvidia.com/gpu"

#: Returns the class of a job, and how many epochs it has completed, from its key and what is known of it.
Describe: TypeAlias = Callable[[Hashable, Any], tuple[str, int]]


def describe_by_name(key: Hashable, info: Any) -> tuple[str, int]:  # noqa: ANN401 - another package's type
    """Return the name up to its first ``-``, and the attribute ``epoch``; a pair is a namespace and a name."""
    name = key[-1] if isinstance(key, tuple) else key
    return str(name).split("-", 1)[0], int(getattr(info, "epoch", 0) or 0)


@dataclass(frozen=True)
class _PerJob:
    """What each job is to hold, under its own name as its class."""

    wishes: Mapping[str, tuple[int, str | None]]

    def held_at(self, job_class: str, epochs_done: int, row: int = 0) -> tuple[int, str | None]:
        """Return it."""
        del epochs_done, row
        return self.wishes[job_class]


class _Policy:
    """What both have in common: the widths, which may be replaced at any time; jobs' class and epoch; who is first."""

    def __init__(
        self, table: WidthTable, *, describe: Describe = describe_by_name, order: Order = Order.FIRST_COME
    ) -> None:
        self.table = table
        self._describe, self._order = describe, order
        self._rows = Rows()

    def _decide(
        self,
        jobs: Mapping[Any, Any],
        held: Mapping[Any, Mapping[str, int]],
        nodes: Mapping[str, Node],
        sizes: Mapping[str, int],
        *,
        is_fixed: bool,
    ) -> dict[Any, Mapping[str, int]]:
        """Decide, and keep in ``decision`` what was decided; return places by job."""
        names = {key: f"{number:08d}" for number, key in enumerate(jobs)}  # of ties the first is first
        wishes: dict[str, tuple[int, str | None]] = {}
        active = []
        for key, info in jobs.items():
            if info.resources.get(GPU, 1) != 1:
                message = f"{key}: a replica has {info.resources[GPU]} of {GPU}; widths are for replicas of one GPU"
                raise UsageError(message)
            job_class, epochs_done = self._describe(key, info)
            row = self._rows.row_of(repr(key), job_class, self.table)
            gpus, kind = self.table.held_at(job_class, epochs_done, row)
            wishes[names[key]] = (min(gpus, _most_replicas(info, kind)), kind)
            begun = info.creation_timestamp
            active.append(
                ActiveJob(
                    names[key],
                    names[key],
                    epochs_done,
                    held.get(key, {}),
                    submitted_s=float(begun.timestamp() if hasattr(begun, "timestamp") else begun),
                    attained_gpu_s=float(getattr(info, "attained_service", 0.0)),
                )
            )
        most = sum(node.gpus for node in nodes.values()) if is_fixed else None
        self.decision: Decision = decide(
            _PerJob(wishes), active, nodes, Rules(sizes, most_gpus=most or None, order=self._order)
        )
        return {key: self.decision.places[name] for key, name in names.items()}


class AdaptDLPolicy(_Policy):
    """BOA's scheduler in the place of AdaptDL's ``PolluxPolicy``; jobs and nodes of one type."""

    def optimize(
        self,
        jobs: Mapping[Any, Any],
        nodes: Mapping[str, Any],
        base_allocations: Mapping[Any, Sequence[str]],
        node_template: Any,  # noqa: ANN401 - another package's type
    ) -> tuple[dict[Any, list[str]], int]:
        """Run one round of AdaptDL's arguments; return allocations as they are given, and how many nodes are wanted."""
        size = int(node_template.resources.get(GPU, 0))
        if size < 1:
            raise UsageError(f"node_template: has no {GPU}; nodes with at least one can be asked for")
        (kind,) = self._one_type()
        there = {key: Node(gpus, kind) for key, node in nodes.items() if (gpus := int(node.resources.get(GPU, 0)))}
        held = {key: _count(replicas) for key, replicas in base_allocations.items()}
        places = self._decide(jobs, held, there, {kind: size}, is_fixed=False)
        return {key: _spell(place) for key, place in places.items()}, self.decision.nodes[kind]

    def allocate_job(self, job_info: Any, nodes: Mapping[str, Any]) -> list[str]:  # noqa: ANN401 - as above
        """Return where a job that has just arrived starts until the next round: on one GPU, where one is free."""
        del job_info
        return next(([key] for key, node in nodes.items() if node.resources.get(GPU, 0) >= 1), [])

    def _one_type(self) -> tuple[str, ...]:
        if len(self.table.gpu_types) != 1:
            types = ", ".join(self.table.gpu_types)
            raise UsageError(f"table: has the types {types}; AdaptDL's nodes are of one type: plan on one")
        return self.table.gpu_types


class SiaPolicy(_Policy):
    """BOA's scheduler in the place of ``SiaPolicy`` in Sia's simulator: several types, a fixed number of nodes.

    Types of the table are names of the simulator's clusters.
    """

    def optimize(
        self,
        jobs: Mapping[Any, Any],
        nodes: Mapping[str, Mapping[int, Any]],
        base_allocations: Mapping[Any, tuple[str | None, Sequence[int]]],
    ) -> dict[Any, tuple[str, tuple[int, ...]]]:
        """Run one round of Sia's arguments; return allocations as they are given, without the jobs that wait."""
        there = {
            f"{cluster} {number}": Node(int(node.resources[GPU]), cluster)
            for cluster, numbered in nodes.items()
            for number, node in numbered.items()
        }
        sizes = {cluster: max(node.gpus for node in there.values() if node.gpu_type == cluster) for cluster in nodes}
        held = {
            key: _count(f"{cluster} {number}" for number in numbers)
            for key, (cluster, numbers) in base_allocations.items()
        }
        places = self._decide(jobs, held, there, sizes, is_fixed=True)
        allocations = {}
        for key, place in places.items():
            if place:
                replicas = [name.rsplit(" ", 1) for name in _spell(place)]
                allocations[key] = (replicas[0][0], tuple(sorted(int(number) for _, number in replicas)))
        return allocations


def _most_replicas(info: Any, kind: str | None) -> int:  # noqa: ANN401 - another package's type
    """Return the most replicas that a job may have; Sia's jobs say it by cluster."""
    most = info.max_replicas
    if isinstance(most, Mapping):
        most = most[kind] if kind in most else min(most.values())
    return int(most)


def _count(nodes: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    return counts


def _spell(place: Mapping[str, int]) -> list[str]:
    return [node for node, gpus in place.items() for _ in range(gpus)]
