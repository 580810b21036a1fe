"""BOA's scheduler as it runs (paper, section 5.2): a table of widths, and decisions about jobs and nodes.

On a cluster of fixed size jobs queue in the order that is given. BOA's optimum holds for nodes that are rented as they
are needed: on a fixed cluster its widths are a heuristic. Autoscaled, nodes are asked for in rounds and come after
their start, as the paper's cluster expander does it.
"""

from __future__ import annotations

from collections.abc import Mapping

from optplan.execution.online.decisions import Allocator, Decision
from optplan.execution.online.jobs import SECOND_QUEUE_GPU_S, ActiveJob, Node, Order, Rules
from optplan.execution.online.rows import RemainingTimes, Rows
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.planning import BoaPlan
from optplan.lab.cluster.jobs import Job, Places
from optplan.lab.cluster.policies.width_table import require_one_type
from optplan.lab.cluster.policy import ROUND_S, Sight


class Scheduled:
    """Follow the widths of a plan on one type of GPU, on a cluster of fixed size."""

    interval_s: float | None = None

    def __init__(self, plan: BoaPlan, order: Order = Order.FIRST_COME) -> None:
        self._gpu_type = require_one_type(plan)
        self.name = f"{order}:{plan.solver} plan"
        self._table, self._remaining, self._order = WidthTable.from_plan(plan), RemainingTimes(plan), order
        self._weights = {unit.id: unit.weight for unit in plan.units}
        self._rows = Rows()
        self._runnable: dict[str, tuple[int, ...]] = {}
        self._allocator: Allocator | None = None
        self._nodes: set[int] = set()
        # Jobs by name, those that were to move when it was last decided, and those that held something when they were
        # last described, with whether that may yet put others before them.
        self._jobs: dict[str, Job] = {}
        self._moved: list[Job] = []
        self._holding: dict[Job, bool] = {}

    def need(self, job: Job) -> int:
        """Return 1: a job may run on what is left."""
        return max(1, job.truth.largest_width(1))

    def allocate(self, sight: Sight) -> Mapping[Job, Places]:
        """Decide who is to hold something else."""
        sight.require_fixed(self.name, "shares")
        places = self._decide(sight).places
        return {self._jobs[name]: tuple((int(node), n) for node, n in place.items()) for name, place in places.items()}

    def _decide(self, sight: Sight) -> Decision:
        """Tell the allocator what has changed, and ask it."""
        if self._allocator is None:
            sizes = {self._gpu_type: sight.gpus_per_node}
            rules = Rules(sizes, self._count_most(sight), order=self._order, runnable=self._runnable)
            self._allocator = Allocator(self._table, rules)
        allocator, there = self._allocator, set(sight.nodes) - sight.starting
        for node in sorted(self._nodes - there):
            allocator.drop_node(str(node))
        for node in sorted(there - self._nodes):
            allocator.add_node(str(node), Node(sight.gpus_per_node, self._gpu_type), node)
        self._nodes = there
        for job in self._list_changed(sight):
            if job in sight.jobs:
                self._jobs[job.name] = job
                allocator.put(self._describe(job, sight.now_s))
            elif self._jobs.pop(job.name, None) is not None:
                self._holding.pop(job, None)
                allocator.drop(job.name)
        changes = allocator.decide()
        self._moved = [self._jobs[name] for name in changes.places]
        return changes

    def _list_changed(self, sight: Sight) -> list[Job]:
        """List jobs of which something may have changed since they were described."""
        now_s = sight.now_s
        over = [job for job in self._holding if job not in sight.jobs]
        rich = [job for job, lags in self._holding.items() if lags and job.attained_gpu_s(now_s) >= SECOND_QUEUE_GPU_S]
        return [*over, *rich, *self._moved, *sight.changed]

    def _list_runnable(self, job: Job) -> None:
        """List the widths, up to the largest of its class, on which a job can run."""
        name = job.application
        if name not in self._runnable:
            rows = self._table.classes.get(name, ())
            most = max((int(row.gpus.max()) for row in rows), default=1)
            widths = range(1, most + 1)
            self._runnable[name] = tuple(width for width in widths if job.truth.largest_width(width) == width)

    def _count_most(self, sight: Sight) -> int | None:
        """Return the most GPUs that there will ever be; None where as many come as are asked for."""
        return int(sight.gpus)

    def _describe(self, job: Job, now_s: float) -> ActiveJob:
        row, attained_gpu_s = self._rows.row_of(job.name, job.application, self._table), job.attained_gpu_s(now_s)
        self._list_runnable(job)
        if job.places:
            self._holding[job] = self._order is Order.LEAST_ATTAINED and attained_gpu_s < SECOND_QUEUE_GPU_S
        else:
            self._holding.pop(job, None)
        return ActiveJob(
            job.name,
            job.application,
            job.epochs_done,
            {str(node): gpus for node, gpus in job.places},
            row,
            job.submitted_s,
            attained_gpu_s,
            self._remaining.left_s(job.application, job.epochs_done, row),
            self._weights.get(job.application, 1.0),
        )


class Autoscaled(Scheduled):
    """Follow the widths of a plan on one type of GPU, on a cluster that grows and shrinks in rounds."""

    interval_s = ROUND_S

    def __init__(self, plan: BoaPlan) -> None:
        super().__init__(plan)
        self.name = f"autoscaled:{plan.solver} plan"

    def choose_nodes(self, sight: Sight) -> int:
        """Return the nodes that all widths need, or more of them while jobs are on more: nobody is moved."""
        changes = self._decide(sight)
        stay = {str(node) for job in self._holding if job.name not in changes.places for node, _ in job.places}
        held = stay.union(*changes.places.values())
        return max(changes.nodes[self._gpu_type], len(held), 1)

    def _count_most(self, sight: Sight) -> None:
        """Say that as many come as are asked for."""
        del sight
