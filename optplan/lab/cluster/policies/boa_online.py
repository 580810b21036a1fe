"""BOA online: the widths are calculated again as jobs arrive and end (paper, section 5.2).

What is known at the start is an instance: rates, sizes and speeds as somebody planned with them, perhaps on another
week. From then on the width calculator is told of arrivals and completions, and every 15 minutes its table may change;
jobs take their new widths when their next epoch begins. Speeds stay those of the instance.
"""

from __future__ import annotations

from collections.abc import Mapping

from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.events import Arrival, Completion, OnlineEvent, Run
from optplan.execution.online.rows import Rows
from optplan.execution.online.terms import Terms
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.policy import Sight

#: Seconds between two calculations, as in the paper.
INTERVAL_S = 900.0


class BoaOnline(InTurn):
    """Follow a table that follows the jobs; by default it is calculated every 15 minutes and never in between."""

    def __init__(self, instance: BoaInstance, terms: Terms | None = None) -> None:
        super().__init__("boa-online", self._look_up)
        terms = terms or Terms(every_s=INTERVAL_S, settle_s=INTERVAL_S)
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._calculator.consider(0.0)
        self._rows = Rows()
        self._there: dict[Job, None] = {}
        # By job: where it trained for how long, and what it held and had trained when it was last looked at.
        self._ran: dict[Job, list[Run]] = {}
        self._looked: dict[Job, tuple[int, float]] = {}

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Tell the calculator what has happened, and serve jobs by the table that holds now."""
        now_s = sight.now_s
        events: list[OnlineEvent] = []
        for job in sight.changed:
            if job not in self._there:
                self._there[job] = None
                self._ran[job], self._looked[job] = [], (0, 0.0)
                events.append(Arrival(id=job.name, at_s=now_s, job_class=job.application))
            self._look(job)
        for job in [job for job in self._there if job.is_over]:
            self._look(job)
            del self._there[job], self._looked[job]
            ran = tuple(self._ran.pop(job))
            events.append(Completion(id=f"{job.name} ended", at_s=now_s, job_class=job.application, ran=ran))
        self._calculator.take(events, now_s)
        self._calculator.consider(now_s)
        wishes = super().allocate(sight)
        for job, gpus in wishes.items():
            self._looked[job] = (gpus, self._looked[job][1])
        return wishes

    def _look(self, job: Job) -> None:
        """Note what a job has trained since it was last looked at, and where."""
        gpus, trained_s = self._looked[job]
        if job.trained_s > trained_s:
            self._ran[job].append(Run(gpus=gpus, seconds=job.trained_s - trained_s))
            self._looked[job] = (gpus, job.trained_s)

    def _look_up(self, job: Job) -> int:
        table = self._calculator.table
        if table is None:  # no plan could be made: as for a class that is not known
            return 1
        row = self._rows.row_of(job.name, job.application, table)
        return job.truth.largest_width(table.held_at(job.application, job.epochs_done, row).gpus)
