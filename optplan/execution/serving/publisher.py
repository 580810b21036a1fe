"""What publishes widths: it takes events, writes them down, calculates and publishes.

Whoever tells of events gets the answer when they are on the disk. Whoever reads gets the latest :class:`View`, which is
whole and never changes: readers wait for nobody, and nobody waits for them.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from optplan.errors import DataError, OptplanError, OutputError, UsageError
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.messages import Calculation, OnlineEvent, Terms, Verdict
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.store import Store, is_begun
from optplan.execution.trial_files import synchronise, write_whole
from optplan.formulations.boa.data.instance import BoaInstance

_LOG = logging.getLogger(__name__)

#: The published table, in the folder.
WIDTHS_FILE = "widths.json"
#: Who tells is answered with so many others at most: nobody is to wait for a transaction that takes long.
_MOST_AT_ONCE = 100
#: Calculations that are kept, and shown.
_KEPT_CALCULATIONS = 50


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

    ``instance`` is as estimated for the last calculation; the latest of ``calculations`` comes first. ``committed``,
    what jobs that were admitted take of the budget in the mean over all time, and ``debt_h`` are as
    :class:`~optplan.execution.online.ledger.Ledger` has them. ``events`` are counted ever, ``refused``
    (malformed ones included) and ``batches``, their transactions, since ``began_s``, the start of the process in
    seconds since 1970.
    """

    table: WidthTable | None
    instance: BoaInstance
    calculations: tuple[Calculation, ...]
    committed: float | None
    debt_h: float
    events: int
    refused: int
    batches: int
    began_s: float


class _Told(NamedTuple):
    events: Sequence[OnlineEvent | DataError]
    outcomes: Future[list[Reception]]


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
        missing = UsageError(f"{folder}: no calculator has begun there; give the instance, as in --instance NAME")
        if instance is None and not is_begun(folder):
            raise missing
        self._store = Store(folder)
        try:
            known = self._store.read("instance") if instance is None else instance.to_json_data()
            if known is None:
                raise missing
            self._instance = BoaInstance.parse(known) if instance is None else instance
            stored = Terms.parse(self._store.read("terms") or {})
            self._terms = terms if isinstance(terms, Terms) else stored.replace(**(terms or {}))
            self._calculator = self._restore()
            self._commit_state(instance=known, terms=self._terms.to_json_data())
            calculations = tuple(map(Calculation.parse, self._store.read("calculations") or ()))
            events = int(self._store.read("events") or 0)
        except BaseException:
            self._store.close()
            raise
        self._astray = False
        self._told: deque[_Told] = deque()
        self._worker = ThreadPoolExecutor(1, "width-calculator")  # which alone changes anything
        self.view = View(None, self._calculator.knowledge.estimate(), calculations, None, 0.0, events, 0, 0, clock())
        self._show()

    def _restore(self) -> WidthCalculator:
        state = self._store.read("state")
        return WidthCalculator(self._instance, self._terms, now_s=self._clock(), state=state)

    def start(self) -> None:
        """Publish what is known, and calculate where there is reason to."""
        self._publish()
        with suppress(OutputError):  # it is tried again
            self.calculate()

    def stop(self) -> None:
        """Take what was told, end, and let another one have the folder."""
        self._worker.shutdown()
        self._store.close()

    def tell(self, events: Sequence[OnlineEvent | DataError]) -> Future[list[Reception]]:
        """Tell of events, or of why something that was sent is none; what became of each is there with the disk.

        The future raises :class:`OutputError` where they could not be written down; then none of them counts.
        """
        told = _Told(events, Future())
        self._told.append(told)
        self._worker.submit(self._take)
        return told.outcomes

    def calculate(self) -> None:
        """Calculate widths where there is reason to, and publish them; OutputError where that cannot be written."""
        self._worker.submit(self._calculate).result()

    def _take(self) -> None:
        """Take what was told since, of many in one transaction, and answer."""
        since = [self._told.popleft() for _ in range(min(len(self._told), _MOST_AT_ONCE))]
        told = [one for one in since if one.outcomes.set_running_or_notify_cancel()]  # the others are gone
        if not told:
            return
        try:
            with self._undoing():
                outcomes = iter(self._record([event for one in told for event in one.events]))
        except OutputError as error:
            for one in told:
                one.outcomes.set_exception(error)
        else:
            for one in told:
                one.outcomes.set_result(list(islice(outcomes, len(one.events))))

    def _calculate(self) -> None:
        with self._undoing():
            made = self._calculator.consider(self._clock())
            if made is not None:
                self._note(made)

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Change something; whatever goes wrong, a full disk or a bug, what was not written down has not happened."""
        try:
            if self._astray:
                self._calculator, self._astray = self._restore(), False
            yield
        except Exception as error:
            self._astray = True
            if not isinstance(error, OptplanError):
                _LOG.exception("the calculator failed, and goes on with what it has written down")
            raise OutputError(str(error)) from error

    def _record(self, told: Sequence[OnlineEvent | DataError]) -> list[Reception]:
        """Take a batch and write it down, together with the state that follows from it."""
        events = [each for each in told if not isinstance(each, DataError)]
        known = self._store.find_known({event.id for event in events})
        fresh: dict[str, OnlineEvent] = {}
        for event in events:
            if event.id not in known:
                fresh.setdefault(event.id, event)
        complaints = dict(zip(fresh, self._calculator.take(fresh.values(), self._clock()), strict=True))
        taken = [each for each, complaint in complaints.items() if complaint is None]
        if taken:
            self._commit_state(ids=taken, events=self.view.events + len(taken))
        outcomes = []
        for each in told:
            if isinstance(each, DataError):
                outcomes.append(Reception(Reply.REFUSED, str(each)))
            elif fresh.get(each.id) is not each:
                outcomes.append(Reception(Reply.REPEATED))
            elif complaint := complaints[each.id]:
                outcomes.append(Reception(Reply.REFUSED, str(complaint)))
            else:
                outcomes.append(Reception(Reply.TAKEN))
        before, refused = self.view, sum(outcome.answer is Reply.REFUSED for outcome in outcomes)
        self._show(  # whoever is answered sees what was told
            events=before.events + len(taken), refused=before.refused + refused, batches=before.batches + 1
        )
        return outcomes

    def _note(self, made: Calculation) -> None:
        """Write a calculation down, then publish: a table that readers see is one that a new start knows."""
        calculations = (made, *self.view.calculations)[:_KEPT_CALCULATIONS]
        self._commit_state(calculations=[each.to_json_data() for each in calculations])
        self._show(calculations=calculations, instance=self._calculator.knowledge.estimate())
        level = logging.WARNING if made.verdict in (Verdict.OVER_BUDGET, Verdict.FAILED) else logging.INFO
        _LOG.log(level, "%s: %s", made.verdict, "; ".join((made.reason, *made.notes)))
        if made.verdict is Verdict.PUBLISHED:
            self._publish()

    def _commit_state(self, ids: Sequence[str] = (), **named: Any) -> None:  # noqa: ANN401 - plain data
        """Write down where the calculator stands, with what has led there."""
        self._store.commit(ids, state=self._calculator.to_json_data(), **named)

    def _publish(self) -> None:
        """Put the table where readers find it: by one renaming, so that there is always a whole one."""
        table = self._calculator.table
        if table is not None:
            publish_file(self.folder / WIDTHS_FILE, json.dumps(table.to_json_data()))

    def _show(self, **changed: Any) -> None:  # noqa: ANN401 - fields of the view
        """Show readers what has changed, and where the calculator stands."""
        table, ledger = self._calculator.table, self._calculator.ledger
        self.view = replace(self.view, table=table, committed=ledger.mean_committed, debt_h=ledger.debt_h, **changed)


def publish_file(path: Path, text: str) -> None:
    """Write a file for the user alone, whole or not at all; it survives a power loss."""
    try:
        write_whole(path, text, mode=0o600)
        synchronise(path.parent)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None
