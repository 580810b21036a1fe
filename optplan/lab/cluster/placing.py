"""Who is put where by BOA's scheduler (paper, section 5.2), as streams have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from optplan.execution.online.decisions import Allocator, Decision
from optplan.execution.online.jobs import ActiveJob, Rules
from optplan.lab.cluster.jobs import Job, Places, Wish
from optplan.lab.cluster.nodes import Nodes

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
