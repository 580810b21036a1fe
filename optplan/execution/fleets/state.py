"""Where a watched run stands: what follows from its records alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optplan.contracts import Infeasibility
from optplan.execution import records as told
from optplan.execution.protocol import Operation
from optplan.execution.state import OperationState, Phase, RunState
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.units import Amount, BudgetUnit

#: What a run's fleets are called, by their number.
NAME = "fleet-{:03d}"


@dataclass(slots=True)
class Attempt(OperationState):
    """A fleet that was asked to train: its operation, whose place has the ranks of each VM in their order."""

    #: When all of its ranks were there, and when it was asked to end.
    ready_s: float | None = None
    stopping_s: float | None = None
    #: The last checkpoint that was asked for, of which rank and when (0: none), and the last that was carried out.
    order: int = 0
    rank: int = -1
    asked_s: float = math.inf
    answered: int = 0
    #: When each of its VMs was found silent that had been heard of, whether or not it has come back.
    silent_s: dict[str, float] = field(default_factory=dict)


class FleetState(RunState):
    """Where a run stands; its nodes are VMs, and its instance has the limits that hold now."""

    def __init__(self, plan: SriftPlan, instance: SriftInstance) -> None:
        super().__init__()
        self.plan, self.instance = plan, instance
        #: When the provider takes VMs back, where it has said so.
        self.taken_s: dict[str, float] = {}
        self.operations: dict[str, Attempt]  # type: ignore[assignment]
        self.attempts = self.crashes = 0
        self.last_failure = ""
        self.is_done = False
        #: VMs that were lost since the plan was made: then the rest is planned anew; and how often others came back.
        self.missing: set[str] = set()
        self.returns: Counter[str] = Counter()
        #: When a VM was last found silent; what it stores can be used some time after that.
        self.silent_s = -math.inf
        self.checkpoint: told.Reported | None = None
        self.iterations = 0
        self.spent_usd = 0.0
        #: The plans whose fleets were asked for, one after the other.
        self.followed: list[SriftPlan] = []
        self.question: Infeasibility | None = None

    @property
    def attempt(self) -> Attempt | None:
        """The fleet that trains, or is to; None between two."""
        return next(iter(self.operations.values()), None)

    @property
    def stored(self) -> int:
        """Iterations that are done in the last checkpoint."""
        return 0 if self.checkpoint is None else self.checkpoint.iterations or 0

    def count(self, *phases: Phase) -> dict[str, int]:
        """Return how many VMs of each type are in one of these phases."""
        return dict(Counter(vm.resource for vm in self.nodes.values() if vm.phase in phases))

    def spent_by(self, now_s: float) -> float:
        """Return what was spent: the price of a fleet's VMs while it trains, and before, where launches are paid."""
        attempt = self.attempt
        if attempt is None:
            return self.spent_usd
        since_s = attempt.wanted_s if self.instance.launch_billed else attempt.ready_s
        until_s = now_s if attempt.stopping_s is None else attempt.stopping_s
        rate = math.fsum(
            self.instance.types[self.nodes[name].resource].price_usd_per_s for name in attempt.operation.place
        )
        return self.spent_usd + (0.0 if since_s is None else rate * max(0.0, until_s - since_s))

    def _apply(self, record: told.Record) -> None:
        attempt = self.attempt
        match record:
            case told.NodeNoticed():
                self.taken_s[record.node] = record.at_s
            case told.Replanned():
                self.plan, self.missing = SriftPlan.parse(record.plan, path="plan"), set()
            case told.OperationWanted():
                self.operations[record.operation] = Attempt(self._describe(record), Phase.WANTED, record.t)
                self.attempts, self.iterations = record.attempt, self.stored
                if not self.followed or self.followed[-1].plan_id != self.plan.plan_id:
                    self.followed.append(self.plan)
            case told.OperationEnded() | told.OperationFailed():
                self._end_attempt(record)
            case told.Reported():
                if (record.iterations or 0) >= self.stored:
                    self.checkpoint = record
                self.iterations = max(self.iterations, record.iterations or 0)
                if attempt is not None:
                    attempt.answered = max(attempt.answered, record.order)
            case told.CheckpointWanted() if attempt is not None:
                attempt.order, attempt.rank, attempt.asked_s = record.order, record.rank, record.t
            case _:
                self._apply_common(record, attempt)

    def _apply_common(self, record: told.Record, attempt: Attempt | None) -> None:
        """Take in what all runs have, and what it says of a fleet beyond that."""
        match record:
            case told.NodeChanged():
                self._see_change(record)
            case told.Resumed():
                self.question = None
                self._change_limits(record.options)
            case told.Paused(infeasibility=found) if found is not None:
                self.question = Infeasibility.parse(found, path="infeasibility")
            case told.OperationStarted() if attempt is not None:
                attempt.ready_s = record.t
            case told.StopWanted() if attempt is not None:
                attempt.stopping_s = record.t
        super()._apply(record)

    def _describe(self, record: told.OperationWanted) -> Operation:
        """Return what is asked for: all ranks of the plan's fleet, from what was stored last on."""
        batches = tuple(
            group.batch_per_rank for group in self.plan.fleet for _ in range(group.count * group.gpus_per_vm)
        )
        before = self.checkpoint if self.stored else None
        return Operation(
            record.operation,
            record.segment,
            record.trial,
            record.attempt,
            record.place,
            workers=len(batches),
            gpus_per_worker=1,
            batches=batches,
            from_iterations=self.stored,
            to_iterations=self.instance.iterations,
            checkpoint=None if before is None else told.Checkpoint(before.stored, ""),
            wanted_s=record.t,
            started=tuple(vm for vm in record.place if self.nodes[vm].wanted_s == record.t),
        )

    def _end_attempt(self, record: told.OperationEnded | told.OperationFailed) -> None:
        progressed = self.attempt is not None and self.stored > self.attempt.operation.from_iterations
        self.spent_usd = self.spent_by(record.t)
        self.operations.clear()
        self.iterations = max(self.iterations, record.iterations or 0)
        self.is_done = isinstance(record, told.OperationEnded) and record.complete
        if isinstance(record, told.OperationFailed) and not record.blameless:
            self.crashes = 1 if progressed else self.crashes + 1
            self.last_failure = record.why

    def _see_change(self, record: told.NodeChanged) -> None:
        vm = self.nodes[record.node]
        if record.phase == Phase.LOST:
            self.missing.add(vm.name)
            if vm.phase is Phase.READY and vm.name not in self.taken_s:
                self.silent_s = record.t
                if self.attempt is not None:
                    self.attempt.silent_s[vm.name] = record.t
        elif vm.phase is Phase.LOST:
            self.missing.discard(vm.name)
            self.returns[vm.name] += 1
            self.pools[vm.pool].add(vm.name)
            vm.end_s = None

    def _change_limits(self, options: Mapping[str, Any]) -> None:
        fields: dict[str, object] = {}
        if options.get("deadline_s") is not None:
            fields["deadline_s"] = options["deadline_s"]
        if options.get("budget_usd") is not None:
            fields["budget"] = Amount(options["budget_usd"], BudgetUnit.USD)
        self.instance = self.instance.replace(**fields)


@dataclass
class Heard:
    """What was heard of the ranks of a fleet; a monitor that begins anew hears it again."""

    iterations: int = 0
    last_s: dict[int, float] = field(default_factory=dict)
    troubled_s: dict[int, float] = field(default_factory=dict)
    trouble: str = ""
    #: What was stored last, and after how many iterations.
    stored: str = ""
    stored_iterations: int = 0
    ended: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    def take(self, report: told.Reported) -> None:
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
