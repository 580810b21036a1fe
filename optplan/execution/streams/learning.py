"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions.

The calculator is a part of the driver (:class:`Learner`), or the service ``optplan serve`` (:class:`ServiceReporter`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from optplan.errors import DataError
from optplan.execution.online.calculations import Verdict
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.events import Measurement, NodeStart, OnlineEvent, Run, Speed
from optplan.execution.online.ledger import Ledger
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.online.witness import Witness
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
from optplan.units import Amount

#: Seconds between two looks at a table on a clock that jumps.
_LOOK_S = 60.0


class Reporter(Witness):
    """Collects events; its heirs say who is told, and where tables come from. ``sizes`` are a node's GPUs, by type."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._sizes = sizes or {}
        # By job that is not over: its epochs in all, those that were seen, and what its operations held until they
        # ended.
        self._jobs: dict[str, tuple[int, set[int], list[Run]]] = {}
        self._types: dict[str, str] = {}
        self._launched_s: dict[str, float] = {}
        self._wanted: dict[str, OperationWanted] = {}
        # Jobs that hold nothing, and since when; who has waited longest is the first.
        self._idle: dict[str, float] = {}

    def see(self, record: Record) -> None:
        """Take note of a record of the stream, whether it is new or read from the journal."""
        match record:
            case EpochDone():  # what comes most
                self._see_epoch(record)
            case NodeWanted():
                self._types[record.node] = record.resource
            case NodeChanged():
                self._see_node(record)
            case JobArrived():
                self._jobs[record.job] = record.epochs, set(), []
                self._idle[record.job] = record.t
                self.note_arrival(record.job, record.job_class, record.t, committed=record.committed)
            case OperationWanted():
                self._wanted[record.operation] = record
                self._idle.pop(record.trial, None)
            case OperationEnded():
                wanted = self._leave(record)
                if record.iterations >= self._jobs[wanted.trial][0]:
                    self._see_end(wanted.trial, record.t, whole=True)
            case OperationFailed():
                self._leave(record)
            case TrialDropped():
                self._see_end(record.trial, record.t, whole=False)

    def recall(self, records: Iterable[Record]) -> None:
        """Take note of what the journal knows."""
        for record in records:
            self.see(record)

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
        self._idle[wanted.trial] = record.t
        gpus, gpu_type = sum(wanted.place.values()), self._types[next(iter(wanted.place))]
        self._jobs[wanted.trial][2].append(Run(gpus=gpus, gpu_type=gpu_type, seconds=record.t - wanted.t))
        return wanted

    def _see_epoch(self, record: EpochDone) -> None:
        """Note where an epoch ran for how long; one that comes again counts once."""
        wanted, epoch = self._wanted[record.operation], record.epochs
        job, seen = wanted.trial, self._jobs[wanted.trial][1]
        if not record.seconds or epoch in seen:
            return
        seen.add(epoch)
        gpus, gpu_type = sum(wanted.place.values()), self._types[next(iter(wanted.place))]
        self.note_run(job, gpus, record.seconds, gpu_type)
        speed, what = 1.0 / record.seconds, f"epoch {epoch}"
        self.note_speed(job, gpus, speed, record.t, what=what, epoch=epoch, gpu_type=gpu_type)

    def _see_end(self, job: str, at_s: float, *, whole: bool) -> None:
        held = tuple(self._jobs.pop(job)[2])
        self._idle.pop(job, None)
        self.note_end(job, at_s, whole=whole, held=held)

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Return a new table, and why there is one; None where the present one stays."""
        raise NotImplementedError

    def next_s(self, now_s: float) -> float:
        """Return when it is to be asked again if nothing happens."""
        raise NotImplementedError


class Learner(Reporter):
    """Keeps a calculator on the run's clock."""

    def __init__(
        self, instance: BoaInstance, terms: Terms, sizes: Mapping[str, int] | None = None, most_gpus: float = math.inf
    ) -> None:
        super().__init__(sizes)
        self._is_limited = math.isfinite(most_gpus)
        if self._is_limited:
            most = most_gpus * max(instance.prices_on_demand.values())
            instance = instance.replace(budget=Amount(min(instance.budget_amount(), most), instance.budget_unit))
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._terms = terms

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell the calculator what was seen, and let it decide whether it is time."""
        if self._calculator.rests(now_s) and all(isinstance(event, Speed) for event in self._events):
            return None
        if events := self.take_events():
            self._calculator.take(events, now_s)
        waiting = self._is_limited and next(iter(self._idle.values()), now_s) < now_s
        made = self._calculator.consider(now_s, waiting=waiting)
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
        if isinstance(event, Speed):
            event = Measurement(**event._asdict())
        write(self._inbox / name, event.replace(id=f"{self._name} {event.id}", at_s=at_s).to_json_data())
