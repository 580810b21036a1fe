"""The thread that publishes widths: it takes events in batches, writes them down, calculates and publishes.

Whoever tells of events gets the answer when they are on the disk. Whoever reads gets the latest :class:`View`, which is
whole and never changes: readers wait for nobody, and nobody waits for them.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from optplan.errors import OptplanError, OutputError, UsageError
from optplan.execution.checkpoints import synchronise
from optplan.execution.online.calculations import Calculation, Verdict
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.events import OnlineEvent
from optplan.execution.online.terms import Terms
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.store import KEPT_CALCULATIONS, Store, is_begun
from optplan.execution.trial_files import write_whole
from optplan.formulations.boa.data.instance import BoaInstance

_LOG = logging.getLogger(__name__)

#: The published table, in the folder.
WIDTHS_FILE = "widths.json"
#: Seconds between two looks at the clock.
_BEAT_S = 1.0
#: Events of a batch at most: others are not to wait for a transaction that takes long.
_MOST_AT_ONCE = 20_000


class Reply(StrEnum):
    """What became of an event."""

    TAKEN = "taken"
    #: It was taken before.
    REPEATED = "repeated"
    REFUSED = "refused"


class Reception(NamedTuple):
    """What became of an event, and why it was refused."""

    answer: Reply
    complaint: str = ""


@dataclass(frozen=True)
class View:
    """How things stand, all as of one moment.

    ``instance`` is as estimated for the last calculation; the latest of ``calculations`` comes first; ``used_gpus``,
    the time average of the jobs that ended, is None in the first half hour. ``committed``, what jobs that were admitted
    take of the budget in the mean over all time, and ``debt_h`` are as
    :class:`~optplan.execution.online.ledger.Ledger` has them. ``events`` are counted ever, ``refused``
    (malformed ones included) and ``batches``, their transactions, since ``began_s``, the start of the process in
    seconds since 1970.
    """

    table: WidthTable | None
    instance: BoaInstance
    calculations: tuple[Calculation, ...]
    used_gpus: float | None
    committed: float | None
    debt_h: float
    new_classes: frozenset[str]
    events: int
    refused: int
    batches: int
    began_s: float


class _Told(NamedTuple):
    events: Sequence[OnlineEvent]
    outcomes: Future[list[Reception]]
    malformed: int


class Publisher:
    """Runs a calculator in a folder, and publishes its table there.

    Without an instance it goes on with that of the folder, which one process holds at a time; terms take the place of
    the folder's, single ones by name, too. The clock returns seconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        instance: BoaInstance | None = None,
        terms: Terms | Mapping[str, Any] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._clock = clock
        if instance is None and not is_begun(folder):
            raise self._miss_instance()
        self._store = Store(folder)
        try:
            self._instance = instance if instance is not None else self._read_instance()
            stored = Terms.parse(self._store.read_meta("terms") or {})
            self._terms = terms if isinstance(terms, Terms) else stored.replace(**(terms or {}))
            self._calculator = self._restore()
            given = {"instance": self._instance.to_json_data(), "terms": self._terms.to_json_data()}
            self._store.commit(meta={**given, "state": self._calculator.to_json_data()})
        except BaseException:
            self._store.close()
            raise
        self._astray = False
        self._refused = self._batches = 0
        self._began_s = clock()
        self._estimated = self._calculator.knowledge.estimate()
        self._calculations = tuple(Calculation.parse(each) for each in self._store.list_calculations())
        self._told: queue.SimpleQueue[_Told | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="width-calculator")
        self.view = self._look()

    def _read_instance(self) -> BoaInstance:
        stored = self._store.read_meta("instance")
        if stored is None:
            raise self._miss_instance()
        return BoaInstance.parse(stored)

    def _miss_instance(self) -> UsageError:
        return UsageError(f"{self.folder}: no calculator has begun there; give the instance, as in --instance NAME")

    def _restore(self) -> WidthCalculator:
        state = self._store.read_meta("state")
        return WidthCalculator(self._instance, self._terms, now_s=self._clock(), state=state)

    def start(self) -> None:
        """Publish what is known, calculate where there is reason to, and begin to take events."""
        self._publish()
        self.take()
        self._thread.start()

    def stop(self) -> None:
        """Take what was told, and end."""
        if self._thread.is_alive():
            self._told.put(None)
            self._thread.join()
        self._store.close()

    def tell(self, events: Sequence[OnlineEvent], *, malformed: int = 0) -> Future[list[Reception]]:
        """Tell of events, and of how many besides were too malformed to be any; outcomes are there with the disk.

        The future raises :class:`OutputError` where they could not be written down; then none of them counts.
        """
        told = _Told(events, Future(), malformed)
        self._told.put(told)
        return told.outcomes

    def _run(self) -> None:
        ended = False
        while not ended:
            told, ended = self._gather()
            self.take(told)

    def _gather(self) -> tuple[list[_Told], bool]:
        """Return what was told since, after a beat at the latest, and whether it is time to end."""
        told: list[_Told] = []
        count = 0
        try:
            while count < _MOST_AT_ONCE:
                one = self._told.get_nowait() if told else self._told.get(timeout=_BEAT_S)
                if one is None:
                    return told, True
                if one.outcomes.set_running_or_notify_cancel():  # else whoever told is gone
                    told.append(one)
                    count += len(one.events)
        except queue.Empty:
            pass
        return told, False

    def take(self, told: Sequence[_Told] = ()) -> None:
        """Take what was told, answer, and calculate where there is reason to: what the thread does over and over."""
        try:
            if self._astray:
                self._calculator, self._astray = self._restore(), False
            self._take(told)
        except Exception as error:  # noqa: BLE001 - whatever it was, a full disk or a bug: the next ones are taken
            _LOG.error("%s", error, exc_info=not isinstance(error, OptplanError))
            self._astray = True  # what was not written down has not happened
            for one in told:
                if not one.outcomes.done():
                    one.outcomes.set_exception(OutputError(str(error)))

    def _take(self, told: Sequence[_Told]) -> None:
        if told:
            self._refused += sum(one.malformed for one in told)
            events = [event for one in told for event in one.events]
            outcomes = self._commit(events) if events else []
            self.view = self._look()  # whoever is answered sees what was told
            for one in told:
                one.outcomes.set_result(outcomes[: len(one.events)])
                outcomes = outcomes[len(one.events) :]
        made = self._calculator.consider(self._clock())
        if made is not None:
            self._note(made)
            self.view = self._look()

    def _commit(self, events: list[OnlineEvent]) -> list[Reception]:
        """Take a batch and write it down, together with the state that follows from it."""
        known = self._store.find_known({event.id for event in events})
        fresh: dict[str, OnlineEvent] = {}
        for event in events:
            if event.id not in known:
                fresh.setdefault(event.id, event)
        complaints = dict(zip(fresh, self._calculator.take(fresh.values(), self._clock()), strict=True))
        taken = [each for each, complaint in complaints.items() if complaint is None]
        if taken:
            self._store.commit(ids=taken, meta={"state": self._calculator.to_json_data()})
        outcomes = []
        for event in events:
            if event.id in known or fresh[event.id] is not event:
                outcomes.append(Reception(Reply.REPEATED))
            elif complaint := complaints[event.id]:
                outcomes.append(Reception(Reply.REFUSED, str(complaint)))
            else:
                outcomes.append(Reception(Reply.TAKEN))
        self._batches += 1
        self._refused += sum(outcome.answer is Reply.REFUSED for outcome in outcomes)
        return outcomes

    def _note(self, made: Calculation) -> None:
        """Write a calculation down, then publish: a table that readers see is one that a new start knows."""
        self._store.commit(calculation=made.to_json_data(), meta={"state": self._calculator.to_json_data()})
        self._calculations = (made, *self._calculations)[:KEPT_CALCULATIONS]
        self._estimated = self._calculator.knowledge.estimate()
        level = logging.WARNING if made.verdict in (Verdict.OVER_BUDGET, Verdict.FAILED) else logging.INFO
        _LOG.log(level, "%s: %s", made.verdict, "; ".join((made.reason, *made.notes)))
        if made.verdict is Verdict.PUBLISHED:
            self._publish()

    def _publish(self) -> None:
        """Put the table where readers find it: by one renaming, so that there is always a whole one."""
        table = self._calculator.table
        if table is not None:
            publish_file(self.folder / WIDTHS_FILE, json.dumps(table.to_json_data()))

    def _look(self) -> View:
        calculator = self._calculator
        return View(
            table=calculator.table,
            instance=self._estimated,
            calculations=self._calculations,
            used_gpus=calculator.knowledge.used(),
            committed=calculator.ledger.mean_committed,
            debt_h=calculator.ledger.debt_h,
            new_classes=frozenset(name for name, each in calculator.knowledge.classes.items() if each.is_new),
            events=self._store.count_events(),
            refused=self._refused,
            batches=self._batches,
            began_s=self._began_s,
        )


def publish_file(path: Path, text: str) -> None:
    """Write a file for the user alone, whole or not at all; it survives a power loss."""
    try:
        write_whole(path, text, mode=0o600)
        synchronise(path.parent)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None
