"""What a stream's jobs show goes to a width calculator: arrivals, the speed of every epoch, completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optplan.execution import records as told
from optplan.execution.online.calculator import Verdict, WidthCalculator
from optplan.execution.online.events import NodeStart, Run
from optplan.execution.online.ledger import Ledger
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.online.witness import Witness
from optplan.execution.state import Phase
from optplan.formulations.boa.data.instance import BoaInstance


class Reporter(Witness):
    """Collects events; ``sizes`` are a node's GPUs, by type."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._sizes = sizes or {}
        # By job that is not over: its epochs in all, those that were seen, and what its operations held until they
        # ended.
        self._jobs: dict[str, tuple[int, set[int], list[Run]]] = {}
        self._types: dict[str, str] = {}
        self._launched_s: dict[str, float] = {}
        self._wanted: dict[str, told.OperationWanted] = {}

    def see(self, record: told.Record) -> None:
        """Take note of a record of the stream, whether it is new or read from the journal."""
        match record:
            case told.EpochDone():  # what comes most
                self._see_epoch(record)
            case told.NodeWanted():
                self._types[record.node] = record.resource
            case told.NodeChanged():
                self._see_node(record)
            case told.JobArrived():
                self._jobs[record.job] = record.epochs, set(), []
                self.note_arrival(record.job, record.job_class, record.t, committed=record.committed)
            case told.OperationWanted():
                self._wanted[record.operation] = record
            case told.OperationEnded():
                wanted = self._leave(record)
                if record.iterations >= self._jobs[wanted.trial][0]:
                    self._see_end(wanted.trial, record.t, whole=True)
            case told.OperationFailed():
                self._leave(record)
            case told.TrialDropped():
                self._see_end(record.trial, record.t, whole=False)

    def recall(self, records: Iterable[told.Record]) -> None:
        """Take note of what the journal knows."""
        for record in records:
            self.see(record)

    def _see_node(self, record: told.NodeChanged) -> None:
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

    def _leave(self, record: told.OperationEnded | told.OperationFailed) -> told.OperationWanted:
        """Note what an operation held that is over."""
        wanted = self._wanted.pop(record.operation)
        gpus, gpu_type = sum(wanted.place.values()), self._types[next(iter(wanted.place))]
        self._jobs[wanted.trial][2].append(Run(gpus=gpus, gpu_type=gpu_type, seconds=record.t - wanted.t))
        return wanted

    def _see_epoch(self, record: told.EpochDone) -> None:
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
        self.note_end(job, at_s, whole=whole, held=held)


class Learner(Reporter):
    """Keeps a calculator on the run's clock."""

    def __init__(self, instance: BoaInstance, terms: Terms, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(sizes)
        self._calculator = WidthCalculator(instance, terms, now_s=0.0)
        self._terms = terms

    def consider(self, now_s: float) -> tuple[WidthTable, str] | None:
        """Tell the calculator what was seen; return a new table and why, None where the present one stays."""
        if events := self.take_events():
            self._calculator.take(events, now_s)
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
        """Return what a job will take of the budget, in its unit times hours; None before there is a table."""
        return self._calculator.expect(job_class)

    def next_s(self, now_s: float) -> float:
        """Return when the calculator wants to be asked again."""
        return now_s + self._terms.every_s
