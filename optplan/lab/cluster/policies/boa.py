"""BOA's policies (paper, section 5.2): a plan's widths as they are, its scheduler, widths that are calculated again.

A plan may be of any solver: the exact ones, the paper's Algorithm 1, or the best single width per class. Classes of the
plan are applications of the workload; jobs of others hold one GPU, as plans of streams have it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from optplan.errors import DataError, UsageError
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.decisions import Allocator, Decision
from optplan.execution.online.fields import Hold
from optplan.execution.online.jobs import SECOND_QUEUE_GPU_S, ActiveJob, Order, Rules
from optplan.execution.online.knowledge import Witness
from optplan.execution.online.ledger import Ledger, PriceLine
from optplan.execution.online.looks import Graph
from optplan.execution.online.messages import Terms
from optplan.execution.online.width_table import RemainingTimes, Rows, WidthTable, rows_of
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.planning import BoaPlan, as_run
from optplan.lab.cluster.jobs import ROUND_S, Job, Places, Sight
from optplan.lab.cluster.nodes import Placer
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.solving import frontier
from optplan.units import SECONDS_PER_HOUR


def follow_plan(plan: BoaPlan) -> InTurn:
    """Return the policy that a plan on one type of GPU is; where a class has several ways, jobs are dealt out."""
    require_one_type(plan)
    table, rows = WidthTable.from_plan(plan), Rows()
    return InTurn(
        f"{plan.solver} plan",
        lambda job: _look_up(job, table, rows),
        lambda job: _find_change(job, table, rows),
    )


def _find_change(job: Job, table: WidthTable, rows: Rows) -> int:
    """Return after how many epochs the table has something else for a job."""
    return table.keeps_until(job.application, job.epochs_done, rows.row_of(job.name, job.application, table))


def _look_up(job: Job, table: WidthTable, rows: Rows) -> int:
    """Return what a job holds by a table, along the way that it was dealt."""
    return table.held_at(job.application, job.epochs_done, rows.row_of(job.name, job.application, table)).gpus


def require_one_type(plan: BoaPlan) -> str:
    """Return the type of GPU that a plan rents; raises as :func:`follow_plan`."""
    if len(plan.resources) > 1:
        raise UsageError(f"the plan rents {', '.join(plan.resources)}; a replay has nodes of one type: plan on one")
    return next(iter(plan.resources))


class BudgetHeld(InTurn):
    """Follow an instance's frontier at the multiplier that holds its budget; jobs keep the row of their admission."""

    def __init__(self, instance: BoaInstance, hold: Hold = Hold.DEBT) -> None:
        super().__init__("boa-held" if hold is Hold.DEBT else f"boa-{hold}", self._find_width)
        self._instance, self._only, budget = instance, instance.only_gpu_type, instance.budget_amount()
        self.ledger = Ledger(0.0, 0.0, budget, hold)
        self._frontier = frontier(instance)
        self._line = PriceLine.of(self._frontier, budget)
        if self._line is None:
            least = f"{self._frontier.budgets[0]:.4g} {self._frontier.budget_unit}"
            raise DataError("budget", f"no widths keep {budget:.4g}: these arrivals need {least}", "give more")
        self._graphs = {name: Graph.of(instance, name, each) for name, each in instance.classes.items()}
        self._tables: dict[float, WidthTable] = {}
        self._rows = Rows()
        # By job: the table by which it was admitted, and its row there.
        self._admitted: dict[Job, tuple[WidthTable, int]] = {}

    def need(self, job: Job) -> int:
        """Admit a job that arrives, and return what it wants first."""
        self.ledger.advance(job.submitted_s)
        table = self._find_table()
        row = self._rows.row_of(job.name, job.application, table)
        self._admitted[job] = table, row
        self.ledger.admit(job.application, self._expect(job.application, table, row))
        return super().need(job)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Enter what the jobs that are over held and what nodes took to start, and serve the others."""
        self.ledger.advance(sight.now_s)
        price = self._instance.prices_on_demand[self._only] / SECONDS_PER_HOUR
        for job in [job for job in self._admitted if job.is_over]:
            del self._admitted[job]
            self.ledger.settle(job.application, price * job.gpu_s)
        for seconds in sight.started_s:
            self.ledger.pay(price * sight.gpus_per_node * seconds)
        return super().allocate(sight)

    def _find_width(self, job: Job) -> int:
        table, row = self._admitted[job]
        return table.held_at(job.application, job.epochs_done, row).gpus

    def _find_table(self) -> WidthTable:
        """Look up the plan at the present multiplier."""
        assert self._line is not None  # refused before
        budget = self._line.budget_at(self.ledger.shift)
        if budget not in self._tables:
            _, plan = as_run(self._instance, cast(BoaSolution, self._frontier.solution_at(budget)))
            self._tables[budget] = WidthTable(
                number=len(self._tables) + 1,
                made_s=self.ledger.now_s,
                gpu_types=(self._only,),
                classes={name: rows_of(branches) for name, branches in plan.branches.items()},
                gpus=budget,
                mean_jct_s=self._frontier.at(budget).objective,
            )
        return self._tables[budget]

    def _expect(self, job_class: str, table: WidthTable, row: int) -> float:
        """Return what a job that follows a row will take of the budget; nothing of classes that are not known."""
        if job_class not in table.classes:
            return 0.0
        taken = self._graphs[job_class].follow(table.classes[job_class][row], self._only)
        return 0.0 if taken is None else float(taken[1])


class Scheduled:
    """Follow a plan's widths, on one type, on a cluster of fixed size in an order of the queue: a heuristic there."""

    interval_s: float | None = None

    def __init__(self, plan: BoaPlan, order: Order = Order.FIRST_COME) -> None:
        self._gpu_type = require_one_type(plan)
        self.name = f"{order}:{plan.solver} plan"
        self._table, self._remaining, self._order = WidthTable.from_plan(plan), RemainingTimes(plan), order
        self._weights = {unit.id: unit.weight for unit in plan.units}
        self._rows = Rows()
        self._runnable: dict[str, tuple[int, ...]] = {}
        self._placer: Placer | None = None
        # Those that held something when they were last described, with whether that may yet put others before them.
        self._holding: dict[Job, bool] = {}
        # Where epochs make jobs more urgent: when each that holds something ends its present one.
        self._ends_s: dict[Job, float] = {}

    def need(self, job: Job) -> int:
        """Return the least on which it runs: it may do so on what is left."""
        return job.truth.least_width or 1

    def keeps_until(self, job: Job) -> int:
        """Return when its width changes; by least attained service, it may be less urgent after every epoch."""
        if self._order is Order.LEAST_ATTAINED:
            return job.epochs_done + 1
        return _find_change(job, self._table, self._rows)

    def allocate(self, sight: Sight) -> Mapping[Job, Places]:
        """Decide who is to hold something else."""
        sight.require_fixed(self.name, "shares")
        return self._decide(sight)[1]

    def _decide(self, sight: Sight) -> tuple[Decision, dict[Job, Places]]:
        """Tell the allocator what has changed, and ask it; return what it says, and the places in it."""
        now_s = sight.now_s
        if self._placer is None:
            sizes = {self._gpu_type: sight.gpus_per_node}
            most = int(sight.gpus) if self.interval_s is None else None  # who decides in rounds chooses the nodes
            rules = Rules(sizes, most, order=self._order, runnable=self._runnable)
            self._placer = Placer(Allocator(self._table, rules), self._gpu_type, self._describe)
        over = [job for job in self._holding if job not in sight.jobs]
        for job in over:
            del self._holding[job]
            self._ends_s.pop(job, None)
        rich = [job for job, lags in self._holding.items() if lags and job.attained_gpu_s(now_s) >= SECOND_QUEUE_GPU_S]
        changed = [*over, *rich, *self._hear_of_epochs(self._placer.allocator, now_s), *sight.changed]
        return self._placer.decide(sight.nodes, changed, now_s)

    def _hear_of_epochs(self, allocator: Allocator, now_s: float) -> list[Job]:
        """Tell the allocator of jobs that have become more urgent, by epochs of which nobody told; list the others."""
        others = []
        for job, ends_s in self._ends_s.items():
            if ends_s <= now_s:
                epochs_done, self._ends_s[job] = job.look(now_s)
                row = self._rows.row_of(job.name, job.application, self._table)
                left_s = self._remaining.left_s(job.application, epochs_done, row)
                if not allocator.advance(job.name, epochs_done, left_s):
                    others.append(job)
        return others

    def _list_runnable(self, job: Job) -> None:
        """List the widths, up to the largest of its class, on which a job can run."""
        name = job.application
        if name not in self._runnable:
            rows = self._table.classes.get(name, ())
            most = max((int(row.gpus.max()) for row in rows), default=1)
            widths = range(1, most + 1)
            self._runnable[name] = tuple(filter(job.truth.runs_on, widths))

    def _describe(self, job: Job, now_s: float) -> ActiveJob:
        row, attained_gpu_s = self._rows.row_of(job.name, job.application, self._table), job.attained_gpu_s(now_s)
        self._list_runnable(job)
        epochs_done, ends_s = job.look(now_s) if job.gpus else (job.epochs_done, math.inf)
        if job.gpus:
            self._holding[job] = self._order is Order.LEAST_ATTAINED and attained_gpu_s < SECOND_QUEUE_GPU_S
            if self._order is Order.WEIGHTED_SHORTEST:
                self._ends_s[job] = ends_s
        else:
            self._holding.pop(job, None)
            self._ends_s.pop(job, None)
        return ActiveJob(
            job.name,
            job.application,
            epochs_done,
            {str(node): gpus for node, gpus in job.places},
            row,
            job.submitted_s,
            attained_gpu_s,
            self._remaining.left_s(job.application, epochs_done, row),
            self._weights.get(job.application, 1.0),
        )


class Autoscaled(Scheduled):
    """Follow a plan's widths, on one type, on a cluster that grows and shrinks in rounds, as the paper's does."""

    interval_s = ROUND_S

    def __init__(self, plan: BoaPlan) -> None:
        super().__init__(plan)
        self.name = f"autoscaled:{plan.solver} plan"

    def choose_nodes(self, sight: Sight) -> int:
        """Return the nodes that all widths need, or more of them while jobs are on more: nobody is moved."""
        changes, places = self._decide(sight)
        held = {node for job in self._holding for node, _ in places.get(job, job.places)}
        held.update(node for place in places.values() for node, _ in place)
        return max(changes.nodes[self._gpu_type], len(held), 1)


#: Seconds between two calculations, as in the paper.
INTERVAL_S = 900.0


class BoaOnline:
    """Follow a table that follows the jobs; by default it is calculated every 15 minutes and never in between."""

    # Known at the start is an instance, perhaps of another week. Jobs take new widths as soon as they are published.

    name, interval_s = "boa-online", None

    def __init__(self, instance: BoaInstance, terms: Terms | None = None) -> None:
        self._instance, self._terms = instance, terms or Terms(every_s=INTERVAL_S, settle_s=INTERVAL_S)
        self._rows = Rows()
        self._table: WidthTable | None = None
        self._follow(WidthCalculator(instance, self._terms, now_s=0.0))

    def _follow(self, calculator: WidthCalculator) -> None:
        self._calculator, self._witness = calculator, Witness(calculator.knowledge, calculator.take)

    def begin(self, most_gpus: float) -> None:
        """Calculate the first widths; on a cluster of fixed size the budget is at most all of its GPUs."""
        whole = self._calculator
        if math.isfinite(most_gpus):
            self._follow(WidthCalculator(self._instance, self._terms, now_s=0.0, most_gpus=most_gpus))
        self._calculator.consider(0.0)
        if self._calculator.table is None:  # until some widths keep that, those hold that keep the whole budget
            whole.consider(0.0)
        self._table = self._calculator.table or whole.table

    def need(self, job: Job) -> int:
        """Return the least on which it runs: on a cluster of fixed size it may do so on what is left."""
        return min(self._find_width(job), max(job.truth.least_width, 1))

    @property
    def next_s(self) -> float:
        """When it has to be asked again, should nothing happen before."""
        return self._calculator.due_s

    def hear_epoch(self, job: Job, seconds: float) -> None:
        """Note how long an epoch took, if all of it was on what the job holds."""
        if job.begun < 1.0 or not seconds:
            self._witness.note_run(job.name, job.gpus, seconds)
        else:
            self._witness.note_epoch(job.name, job.target, job.gpus, seconds, job.settled_s)

    def hear_leave(self, job: Job, *, keeps: bool) -> None:
        """Note what a job held that leaves it, and what it has done there of an epoch where it ``keeps`` that."""
        now_s = job.settled_s
        self._witness.note_held(job.name, job.gpus, now_s - job.holds_since_s)
        if keeps and job.left < job.begun:
            self._witness.note_run(job.name, job.gpus, now_s - job.begun_s)

    def hear_end(self, job: Job) -> None:
        """Note that a job is over, if it ever came."""
        if job.name in self._witness.classes:
            self._witness.note_end(job.name, job.settled_s, whole=not job.problem)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Tell the calculator what has happened, and serve jobs by the table that holds now."""
        now_s, witness, calculator = sight.now_s, self._witness, self._calculator
        for job in sight.changed:
            if job.name not in witness.classes:
                witness.note_arrival(job.name, job.application, now_s, calculator.expect(job.application))
        for number, seconds in enumerate(sight.started_s):
            witness.note_start(f"start {number} by {now_s} s", sight.gpus_per_node, seconds, now_s)
        waiting = calculator.is_limited and any(not job.gpus and job.waits_since_s < now_s for job in sight.jobs)
        calculator.consider(now_s, waiting=waiting)
        changed = sight.changed
        if calculator.table is not None and calculator.table is not self._table:
            self._table, changed = calculator.table, tuple(sight.jobs)
        return {job: self._find_width(job) for job in changed}

    def _find_width(self, job: Job) -> int:
        if self._table is None:  # no plan could be made: as for a class that is not known
            return 1
        return job.truth.largest_width(_look_up(job, self._table, self._rows))
