"""Nodes of a simulated cluster: who is on which, and which are rented.

Who is put where by BOA's scheduler (paper, section 5.2), as streams have it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from optplan.errors import InternalError, UsageError
from optplan.execution.online.decisions import Allocator, Decision
from optplan.execution.online.division import FreeGpus
from optplan.execution.online.jobs import ActiveJob, Rules
from optplan.execution.progress import VirtualClock
from optplan.lab.cluster.jobs import Job, Places, Wish
from optplan.schema import LARGEST_COUNT


class Nodes:
    """Nodes with the same number of GPUs: a fixed number of them, or as many as are needed; on a clock of their own."""

    # A node that is rented again within ``reclaim_s`` of its return is there after ``warm_start_s``, others after
    # ``start_s``; ``reclaimed_s`` is the time in between. Nobody holds ``starting`` ones, which are known with the time
    # since which they start, and the ticket of its end; ``started_s`` is what those took that have started since it was
    # last emptied.

    def __init__(
        self,
        gpus_per_node: int,
        fixed: int | None = None,
        *,
        start_s: float = 0.0,
        warm_start_s: float | None = None,
        reclaim_s: float = 0.0,
    ) -> None:
        for what, number in (("gpus_per_node", gpus_per_node), ("nodes", 1 if fixed is None else fixed)):
            if not 1 <= number <= LARGEST_COUNT:
                raise UsageError(f"{what}: got {number}; from 1 to {LARGEST_COUNT:,} are allowed")
        if not (math.isfinite(start_s) and start_s >= 0.0):
            raise UsageError(f"start_s: got {start_s!r}; seconds of at least zero are allowed")
        self.gpus_per_node = gpus_per_node
        self.is_fixed = fixed is not None
        self.used = 0
        self.clock = VirtualClock[Any]()
        self.starting: dict[int, tuple[float, int]] = {}
        self.started_s: list[float] = []
        self._start_s = start_s
        self._warm_start_s = start_s if warm_start_s is None else warm_start_s
        self.at_once = max(start_s, self._warm_start_s) == 0.0  # no node ever has to start
        self._reclaim_s = reclaim_s
        self._leaving: deque[float] = deque()  # when nodes that were returned are reclaimed, ascending
        self.reclaimed_s = 0.0
        self._free = FreeGpus[int](gpus_per_node)
        self._made = fixed or 0
        self._ready: tuple[int, ...] | None = None  # until nodes come or go
        for node in range(self._made):
            self._free.add(node)

    @property
    def rented(self) -> int:
        """How many there are, with those that start."""
        return len(self._free.by_node) + len(self.starting)

    @property
    def gpus(self) -> float:
        """GPUs of the cluster; infinite where nodes are rented as they are needed."""
        return self.rented * self.gpus_per_node if self.is_fixed else math.inf

    @property
    def free(self) -> float:
        """How many more GPUs can be held; infinite where nodes are rented as they are needed."""
        return len(self._free.by_node) * self.gpus_per_node - self.used if self.is_fixed else math.inf

    def take(self, gpus: int) -> Places:
        """Take GPUs of nodes that are there; return where they are."""
        self.used += gpus
        return tuple(self._free.take(gpus).items())

    def take_places(self, places: Places) -> Places:
        """Take GPUs of nodes that somebody chose."""
        for node, count in places:
            free = self._free.by_node.get(node, 0)
            if not 0 < count <= free:
                raise InternalError(f"{count} GPUs of node {node} were asked for where {free} are free")
            self._free.shift(node, -count)
            self.used += count
        return places

    def release(self, places: Places) -> None:
        """Give GPUs back."""
        for node, count in places:
            self._free.shift(node, count)
            self.used -= count

    @property
    def ready(self) -> tuple[int, ...]:
        """Names of the nodes that can be used, ascending; the same tuple until one comes or goes."""
        if self._ready is None:
            self._ready = tuple(sorted(self._free.by_node))
        return self._ready

    @property
    def names(self) -> Sequence[int]:
        """Names of all nodes, those that start among them, ascending."""
        return sorted((*self._free.by_node, *self.starting))

    def rent(self, count: int) -> Sequence[int]:
        """Rent more nodes, which stay until they are retired; return their names."""
        now_s, made = self.clock.now, range(self._made, self._made + count)
        for node in made:
            start_s = self._start_s
            while self._leaving and self._leaving[0] <= now_s:
                self._leaving.popleft()
            if self._leaving:
                self.reclaimed_s -= self._leaving.pop() - now_s
                start_s = self._warm_start_s
            if start_s:
                self.starting[node] = now_s, self.clock.schedule(now_s + start_s, node)
            else:
                self._add(node)
        self._made += len(made)
        return made

    def see_start(self, node: int) -> None:
        """Let a node be used that has started, unless it was lost at that very moment."""
        if node in self.starting:
            self._remove(node)
            self._add(node)

    def emptiest(self, count: int) -> tuple[int, ...]:
        """Return nodes that are best given up: those with the most free GPUs, the newest of them first."""
        free = self._free.by_node | dict.fromkeys(self.starting, self.gpus_per_node)
        return tuple(sorted(free, key=lambda node: (free[node], node), reverse=True)[:count])

    def retire(self, nodes: Iterable[int]) -> None:
        """Return nodes on which nobody is."""
        for node in nodes:
            if self._free.by_node.get(node, self.gpus_per_node) != self.gpus_per_node:
                raise InternalError(f"node {node} was given up while a job is on it")
            self._remove(node)
            if self._reclaim_s:
                self.reclaimed_s += self._reclaim_s
                self._leaving.append(self.clock.now + self._reclaim_s)

    def lose(self, node: int) -> None:
        """Let a node on which nobody is any more be taken away; where their number is fixed, another is rented."""
        self._remove(node)
        if self.is_fixed:
            self.rent(1)

    def _add(self, node: int) -> None:
        self._free.add(node)
        self._ready = None

    def _remove(self, node: int) -> None:
        if node in self.starting:
            since_s, ticket = self.starting.pop(node)
            self.clock.cancel(ticket)
            self.started_s.append(self.clock.now - since_s)
        else:
            self._free.remove(node)
            self._ready = None


#: What the only type of GPU is called.
_KIND = "gpu"


class Placer:
    """Tells an allocator what has changed, and asks it; jobs are described as of a time."""

    def __init__(self, allocator: Allocator, gpu_type: str, describe: Callable[[Job, float], ActiveJob]) -> None:
        self.allocator, self._gpu_type, self._describe = allocator, gpu_type, describe
        self._rent: Callable[[int], Iterable[int]] = lambda _: ()  # nodes that are there at once
        self._ready: Sequence[int] = ()
        # Jobs by name, and those that were to move when it was last decided.
        self._jobs: dict[str, Job] = {}
        self._moved: list[Job] = []

    def decide(self, ready: Sequence[int], changed: Iterable[Job], now_s: float) -> tuple[Decision, dict[Job, Places]]:
        """Decide on nodes that can be used, for jobs of which some have changed or are over; places are by job, too."""
        allocator = self.allocator
        if ready is not self._ready:
            there, before = set(ready), set(self._ready)
            for node in sorted(before - there):
                allocator.drop_node(str(node))
            for node in sorted(there - before):
                allocator.add_node(str(node), self._gpu_type, node)
            self._ready = ready
        for job in (*self._moved, *changed):
            if not job.is_over:
                self._jobs[job.name] = job
                allocator.put(self._describe(job, now_s))
            elif self._jobs.pop(job.name, None) is not None:
                allocator.drop(job.name)
        decision = allocator.decide()
        come = dict(zip(decision.coming, self._rent(len(decision.coming)), strict=True))
        places = {
            self._jobs[name]: tuple((come[node] if node in come else int(node), gpus) for node, gpus in place.items())
            for name, place in decision.places.items()
        }
        self._moved = list(places)
        return decision, places


class Renter(Placer):
    """Serves wishes on nodes that are rented as they are needed, or on so many.

    A job goes on with what it has until all that it wants is there and ready; nobody holds nodes that start.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._wanted: dict[int, int] = {}
        self._runnable: dict[str, tuple[int, ...]] = {}
        most = int(nodes.gpus) if nodes.is_fixed else None
        rules = Rules({_KIND: nodes.gpus_per_node}, most, runnable=self._runnable)
        allocator = Allocator(self, rules, at_once=nodes.at_once)
        super().__init__(allocator, _KIND, self._describe_job)
        self._rent = nodes.rent

    def held_at(self, job_class: str, epochs_done: int, row: int = 0) -> tuple[int, None]:  # noqa: ARG002 - as of tables
        """Return what the job of a number wants."""
        return self._wanted[row], None

    def serve(self, wishes: Mapping[Job, Wish], changed: Iterable[Job]) -> tuple[dict[Job, Places], tuple[int, ...]]:
        """Rent what is missing, if any can be; return what jobs are to hold from now on, and nodes to give back."""
        nodes, now_s = self._nodes, self._nodes.clock.now
        for job, wish in wishes.items():
            gpus = wish if isinstance(wish, int) else sum(count for _, count in wish)
            self._wanted[job.number] = gpus
            if gpus > max(self._runnable.get(job.application, ()), default=0):
                self._runnable[job.application] = tuple(filter(job.truth.runs_on, range(1, gpus + 1)))
        known = (job for job in changed if job.is_over or job.number in self._wanted)
        decision, places = self.decide(nodes.ready, {**wishes, **dict.fromkeys(known)}, now_s)
        if nodes.is_fixed:
            return places, ()
        nodes.rent(decision.nodes[_KIND] - nodes.rented)
        return places, tuple(map(int, decision.idle))

    def _describe_job(self, job: Job, _: float) -> ActiveJob:
        place = {str(node): gpus for node, gpus in job.places}
        return ActiveJob(job.name, job.application, job.epochs_done, place, job.number, job.submitted_s)
