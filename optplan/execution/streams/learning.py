"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions.

The calculator is a part of the driver (:class:`Learner`), or the service ``optplan serve`` (:class:`ServiceReporter`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from optplan.errors import DataError
from optplan.execution.online.calculator import Verdict, WidthCalculator
from optplan.execution.online.events import Arrival, Completion, Measurement, NodeStart, OnlineEvent, Run
from optplan.execution.online.ledger import Ledger
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.records import (
    EpochDone,
    JobArrived,
    NodeChanged,
    NodeWanted,
    OperationEnded,
    OperationFailed,
    OperationWanted,
    Record,
    TrialDropped,
)
from optplan.execution.state import Phase
from optplan.execution.trial_files import write
from optplan.formulations.boa.data.instance import BoaInstance

#: Seconds between two looks at a table on a clock that jumps.
_LOOK_S = 60.0


class Reporter:
    """Collects events; its heirs say who is told, and where tables come from. ``sizes`` are a node's GPUs, by type."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self._events: list[OnlineEvent] = []
        self._jobs: dict[str, JobArrived] = {}
        self._types: dict[str, str] = {}
        self._launched_s: dict[str, float] = {}
        self._wanted: dict[str, OperationWanted] = {}
        #: By job, its epochs; the first of them is 1.
        self._runs: dict[str, dict[int, Run]] = {}
        #: By job, what its operations held until they ended.
        self._held: dict[str, list[Run]] = {}

    def see(self, record: Record) -> None:
        """Take note of a record of the stream, whether it is new or read from the journal."""
        match record:
            case NodeWanted():
                self._types[record.node] = record.resource
            case NodeChanged():
                self._see_node(record)
            case JobArrived():
                self._jobs[record.job], self._runs[record.job], self._held[record.job] = record, {}, []
                event_id, committed = f"{record.job} arrived", record.committed
                self._events.append(
                    Arrival(id=event_id, at_s=record.t, job_class=record.job_class, committed=committed)
                )
            case OperationWanted():
                self._wanted[record.operation] = record
            case EpochDone():
                self._see_epoch(record)
            case OperationEnded():
                wanted = self._leave(record)
                if record.iterations >= self._jobs[wanted.trial].epochs:
                    self._see_end(wanted.trial, record.t, whole=True)
            case OperationFailed():
                self._leave(record)
            case TrialDropped():
                self._see_end(record.trial, record.t, whole=False)

    def recall(self, records: Iterable[Record]) -> None:
        """Take note of what the journal knows."""
        for record in records:
            self.see(record)

    def take_events(self) -> list[OnlineEvent]:
        """Return what was seen since the last call."""
        events, self._events = self._events, []
        return events

    def expect(self, job_class: str) -> float | None:
        """Return what a job will take of the budget, in its unit times hours; None where that is not calculated."""
        del job_class
        return None

    def _see_node(self, record: NodeChanged) -> None:
        """Note how long a node took to start: nobody holds it meanwhile, and it is paid."""
        if record.phase == Phase.LAUNCHING:
            self._launched_s[record.node] = record.t
        elif (launched_s := self._launched_s.pop(record.node, record.t)) < record.t:
            gpu_type = self._types[record.node]
            event_id, gpus, seconds = (
                f"{record.node} {record.phase}",
                self._sizes.get(gpu_type, 1),
                record.t - launched_s,
            )
            self._events.append(NodeStart(id=event_id, at_s=record.t, gpus=gpus, gpu_type=gpu_type, seconds=seconds))

    def _leave(self, record: OperationEnded | OperationFailed) -> OperationWanted:
        """Note what an operation held that is over."""
        wanted = self._wanted.pop(record.operation)
        gpus, gpu_type = sum(wanted.place.values()), self._types[next(iter(wanted.place))]
        self._held[wanted.trial].append(Run(gpus=gpus, gpu_type=gpu_type, seconds=record.t - wanted.t))
        return wanted

    def _see_epoch(self, record: EpochDone) -> None:
        """Note where an epoch ran for how long; one that comes again counts once."""
        wanted = self._wanted[record.operation]
        job, runs = self._jobs[wanted.trial], self._runs[wanted.trial]
        if not record.seconds or record.epochs in runs:
            return
        gpus, gpu_type = sum(wanted.place.values()), self._types[next(iter(wanted.place))]
        self._events.append(
            Measurement(
                id=f"{job.job} epoch {record.epochs}",
                at_s=record.t,
                job_class=job.job_class,
                gpus=gpus,
                gpu_type=gpu_type,
                speed=1.0 / record.seconds,
                epoch=record.epochs,
            )
        )
        runs[record.epochs] = Run(gpus=gpus, gpu_type=gpu_type, seconds=record.seconds)

    def _see_end(self, job: str, at_s: float, *, whole: bool) -> None:
        ran, job_class = tuple(self._runs.pop(job).values()), self._jobs.pop(job).job_class
        event_id, whole, held = f"{job} ended", whole and bool(ran), tuple(self._held.pop(job))
        self._events.append(Completion(id=event_id, at_s=at_s, job_class=job_class, ran=ran, whole=whole, held=held))

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Return a new table, and why there is one; None where the present one stays."""
        raise NotImplementedError

    def next_s(self, now_s: float) -> float:
        """Return when it is to be asked again if nothing happens."""
        raise NotImplementedError


class Learner(Reporter):
    """Keeps a calculator on the run's clock."""

    def __init__(self, instance: BoaInstance, terms: Terms, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(sizes)
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._terms = terms

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell the calculator what was seen, and let it decide whether it is time."""
        self._calculator.take(self.take_events(), now_s)
        made = self._calculator.consider(now_s)
        if made is None or made.verdict is not Verdict.PUBLISHED or self._calculator.table is None:
            return None
        holds = made.followed in (None, made.budget)
        return self._calculator.table, made.reason if holds else f"{made.reason}; {made.notes[0]}"

    @property
    def ledger(self) -> Ledger:
        """What was committed of the budget."""
        return self._calculator.ledger

    def expect(self, job_class: str) -> float | None:
        """Return what the calculator expects by its present table."""
        return self._calculator.expect(job_class)

    def next_s(self, now_s: float) -> float:
        """Return when the calculator wants to be asked again."""
        return now_s + self._terms.every_s


class ServiceReporter(Reporter):
    """Follows the table that ``optplan serve`` publishes, and puts events into the folder that it watches, if any.

    While ``widths.json`` is not there, or no table, the present one stays. Jobs of other streams may have the same
    names, so that events have the stream's.
    """

    def __init__(self, table: Path, inbox: Path | None, name: str, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(sizes)
        self._table, self._inbox, self._name = table, inbox, name
        self._seen: tuple[int, int] | None = None
        self._told = 0

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell what was seen, and read the table if it is another one."""
        events = self.take_events()
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

    def recall(self, records: Iterable[Record]) -> None:
        """Take note of what the journal knows; its publisher was told, and remembers."""
        super().recall(records)
        self._events = []

    def next_s(self, now_s: float) -> float:
        """Return when to look at the file again."""
        return now_s + _LOOK_S

    def _tell(self, event: OnlineEvent, now_s: float) -> None:
        assert self._inbox is not None  # asked before
        at_s = time.time() - (now_s - (now_s if event.at_s is None else event.at_s))
        self._told += 1
        name = f"{time.time_ns():020d}-{self._told:06d}.json"
        write(self._inbox / name, event.replace(id=f"{self._name} {event.id}", at_s=at_s).to_json_data())
