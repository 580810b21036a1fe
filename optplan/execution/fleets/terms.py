"""How a fleet is watched, and what was heard of it."""

from __future__ import annotations

from typing import ClassVar

from optplan.execution.options import Amount, Limit, RunOptions
from optplan.execution.protocol import Reported
from optplan.formulations.srift.planning import SriftPlan

#: Heartbeats that a silent VM has to come back, unless options say otherwise.
RETURN_HEARTBEATS = 6


class FleetOptions(RunOptions):
    """What fleets take besides."""

    grace_s: Limit = 60.0
    checkpoint_every_s: Amount = 600.0
    heartbeat_s: Limit = 5.0  #: How often every rank reports.
    launch_s: Amount | None = None  #: Until new VMs can train, for the plans of the rest; None: as the instance says.
    launch_wait_s: Limit = 900.0  #: How long to wait for a VM's first report before it is taken for lost.
    #: How long a VM that has fallen silent has to come back, from when it is missed: then it is taken back, and the
    #: fleet starts again as it was. None: :data:`RETURN_HEARTBEATS` heartbeats.
    return_s: Amount | None = None
    detach_s: Amount = 0.0  #: Until what a lost VM has stored can be used.
    time_limit_s: Limit = 20.0  #: For each plan of the rest: VMs are paid meanwhile. The paper gives 1 s (5.4).
    #: deadline_s, budget_usd: Limits in place of the instance's, for a run that is gone on with.
    deadline_s: Limit | None = None
    budget_usd: Limit | None = None

    FIXED: ClassVar[frozenset[str]] = RunOptions.FIXED | {"heartbeat_s"}


class Heard:
    """What was heard of the ranks of a fleet; a monitor that begins anew hears it again."""

    def __init__(self) -> None:
        self.iterations = 0
        self.last_s: dict[int, float] = {}
        #: By VM that had been missed, when it was heard of first after that.
        self.back_s: dict[str, float] = {}
        self.troubled_s: dict[int, float] = {}
        self.trouble = ""
        #: What was stored last, and after how many iterations.
        self.stored, self.stored_iterations = "", 0
        self.ended: set[int] = set()
        self.left: set[int] = set()

    def take(self, report: Reported) -> None:
        """Take note of what a rank says, in whatever order."""
        self.last_s[report.rank] = max(report.t, self.last_s.get(report.rank, report.t))
        self.iterations = max(self.iterations, report.iterations or 0)
        if report.trouble:
            self.troubled_s.setdefault(report.rank, report.t)
            self.trouble = report.trouble
        if report.stored and (report.iterations or 0) >= self.stored_iterations:
            self.stored, self.stored_iterations = report.stored, report.iterations or 0
        if report.ended:
            self.ended.add(report.rank)
        if report.left:
            self.left.add(report.rank)


def write_fleet(plan: SriftPlan, between: str = " + ") -> str:
    """Write a plan's fleet for a reader: ``1 p3.8xlarge@512 + 8 g3.8xlarge@64``."""
    return between.join(f"{group.count} {group.type}@{group.batch_per_vm}" for group in plan.fleet)
