"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions.

The calculator is a part of the driver (:class:`Learner`), or the service ``optplan serve`` (:class:`Correspondent`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from optplan.errors import DataError
from optplan.execution.online.calculator import Verdict, WidthCalculator
from optplan.execution.online.events import Arrival, Completion, Measurement, OnlineEvent, Run
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.records import JobArrived, OperationEnded, OperationWanted, Record, TrialDropped
from optplan.execution.trial_files import write
from optplan.formulations.boa.data.instance import BoaInstance

#: Seconds between two looks at a table on a clock that jumps.
_LOOK_S = 60.0


class Reporter:
    """Collects events; its heirs say who is told, and where tables come from."""

    def __init__(self) -> None:
        self._events: list[OnlineEvent] = []
        self._runs: dict[str, dict[int, Run]] = {}

    def see_arrival(self, job: str, job_class: str, at_s: float) -> None:
        """Note that a job is there."""
        self._events.append(Arrival(id=f"{job} arrived", at_s=at_s, job_class=job_class))
        self._runs[job] = {}

    def see_epoch(self, job: str, job_class: str, epoch: int, run: Run, at_s: float) -> None:
        """Note where an epoch of a job, the first of them 1, ran for how long; one that comes again counts once."""
        if run.seconds > 0 and epoch not in self._runs.get(job, {epoch: run}):
            self._events.append(
                Measurement(
                    id=f"{job} epoch {epoch}",
                    at_s=at_s,
                    job_class=job_class,
                    gpus=run.gpus,
                    gpu_type=run.gpu_type,
                    speed=1.0 / run.seconds,
                    epoch=epoch,
                )
            )
            self._runs[job][epoch] = run

    def see_end(self, job: str, job_class: str, at_s: float, *, whole: bool) -> None:
        """Note that a job is over."""
        ran = tuple(self._runs.pop(job, {}).values())
        self._events.append(
            Completion(id=f"{job} ended", at_s=at_s, job_class=job_class, ran=ran, whole=whole and bool(ran))
        )

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Return a new table, and why there is one; None where the present one stays."""
        raise NotImplementedError

    def next_s(self, now_s: float) -> float:
        """Return when it is to be asked again if nothing happens."""
        raise NotImplementedError


class Learner(Reporter):
    """Keeps a calculator on the run's clock.

    Parameters
    ----------
    instance
        What is known at the start, with the budget.
    terms
        The calculator's settings.
    """

    def __init__(self, instance: BoaInstance, terms: Terms) -> None:
        super().__init__()
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._terms = terms

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell the calculator what was seen, and let it decide whether it is time."""
        self._calculator.take(self._events, now_s)
        self._events = []
        made = self._calculator.consider(now_s)
        if made is None or made.verdict is not Verdict.PUBLISHED or self._calculator.table is None:
            return None
        return self._calculator.table, made.reason

    def next_s(self, now_s: float) -> float:
        """Return when the calculator wants to be asked again."""
        return now_s + self._terms.every_s


class Correspondent(Reporter):
    """Follows the table that ``optplan serve`` publishes, and puts events into the folder that it watches.

    Parameters
    ----------
    table
        The file ``widths.json`` of the service's state. While it is not there, or no table, the present one stays.
    inbox
        The folder; None tells nobody.
    name
        Of the stream: jobs of other streams may have the same names.
    """

    def __init__(self, table: Path, inbox: Path | None, name: str) -> None:
        super().__init__()
        self._table, self._inbox, self._name = table, inbox, name
        self._seen: tuple[int, int] | None = None
        self._told = 0

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell what was seen, and read the table if it is another one."""
        events, self._events = self._events, []
        if self._inbox is not None:
            for event in events:
                self._tell(event, now_s)
        try:
            known = self._table.stat()
            stamp = known.st_mtime_ns, known.st_ino
            if stamp == self._seen:
                return None
            found = WidthTable.parse(json.loads(self._table.read_text(encoding="utf-8")), path=str(self._table))
        except (OSError, ValueError, DataError):  # the service is down, or its file is replaced right now
            return None
        self._seen = stamp
        return found, f"table {found.number} of {self._table}"

    def next_s(self, now_s: float) -> float:
        """Return when to look at the file again."""
        return now_s + _LOOK_S

    def _tell(self, event: OnlineEvent, now_s: float) -> None:
        assert self._inbox is not None  # asked before
        at_s = time.time() - (now_s - (now_s if event.at_s is None else event.at_s))
        self._told += 1
        name = f"{time.time_ns():020d}-{self._told:06d}.json"
        write(self._inbox / name, event.replace(id=f"{self._name} {event.id}", at_s=at_s).to_json_data())


def recall(reporter: Reporter, records: Iterable[Record]) -> None:
    """Tell a reporter what the journal knows of a stream: of each segment its mean epoch, as it was measured."""
    jobs: dict[str, JobArrived] = {}
    begun: dict[str, OperationWanted] = {}
    for record in records:
        match record:
            case JobArrived():
                jobs[record.job] = record
                reporter.see_arrival(record.job, record.job_class, record.t)
            case OperationWanted():
                begun[record.operation] = record
            case OperationEnded():
                job = jobs[begun[record.operation].trial]
                gpus, seconds = sum(begun[record.operation].place.values()), record.timings.get("step_s", 0.0)
                done = int(record.timings.get("steps", 0.0)) if "step_s" in record.timings else 0  # else not timed
                for epoch in range(record.iterations - done, record.iterations):
                    ran = Run(gpus=gpus, gpu_type=_type_of(begun[record.operation]), seconds=seconds)
                    reporter.see_epoch(job.job, job.job_class, epoch + 1, ran, record.t)
                if record.iterations >= job.epochs:
                    reporter.see_end(job.job, job.job_class, record.t, whole=True)
            case TrialDropped():
                reporter.see_end(record.trial, jobs[record.trial].job_class, record.t, whole=False)


def _type_of(wanted: OperationWanted) -> str:
    """Return the type of GPU that nodes are named after."""
    return next(iter(wanted.place)).rpartition(".node-")[0]
