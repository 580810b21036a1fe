"""BOA's width table: what a plan says that a job of each class holds, epoch by epoch.

The plan may be of any solver: the exact ones, the paper's Algorithm 1, or the best single width per class. Classes of
the plan are applications of the workload; jobs of others hold one GPU, as plans of streams have it.
"""

from __future__ import annotations

from optplan.errors import UsageError
from optplan.formulations.boa.planning import BoaPlan, choose_way
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.in_turn import InTurn


def follow_plan(plan: BoaPlan) -> InTurn:
    """Return the policy that a plan on one type of GPU is; where a class has several ways, jobs are dealt out."""
    require_one_type(plan)
    return InTurn(f"{plan.solver} plan", _Widths(plan))


def require_one_type(plan: BoaPlan) -> str:
    """Return the type of GPU that a plan rents; raises as :func:`follow_plan`."""
    if len(plan.resources) > 1:
        raise UsageError(f"the plan rents {', '.join(plan.resources)}; a replay has nodes of one type: plan on one")
    return next(iter(plan.resources))


class _Widths:
    """What jobs hold, each along its way."""

    def __init__(self, plan: BoaPlan) -> None:
        table = plan.width_table
        self._shares = {name: [row.share for row in rows] for name, rows in table.items()}
        self._widths = {name: [[int(k) for k in row.gpus] for row in rows] for name, rows in table.items()}
        self._dealt = {name: [0] * len(rows) for name, rows in table.items()}
        self._way: dict[Job, list[int]] = {}

    def __call__(self, job: Job) -> int:
        widths = self._way.get(job)
        if widths is None:
            widths = self._way[job] = self._deal(job.application)
        return widths[min(job.epochs_done, len(widths) - 1)]

    def _deal(self, application: str) -> list[int]:
        """Return the widths of the next job of a class, by epoch."""
        if application not in self._shares:
            return [1]
        dealt = self._dealt[application]
        way = choose_way(self._shares[application], dealt)
        dealt[way] += 1
        return self._widths[application][way]
