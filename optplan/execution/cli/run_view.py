"""What is shown while a plan is followed: one line that changes on a terminal, a line for each segment elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from optplan.cli.console import note
from optplan.contracts.modes import Mode
from optplan.errors import OutputError, show_text
from optplan.execution import records as told
from optplan.execution.journal import Kind
from optplan.execution.options import Rules
from optplan.execution.records import read_metric
from optplan.execution.standing import spent_usd
from optplan.execution.state import Phase, State
from optplan.reporting.phrases import format_amount, format_seconds
from optplan.units import format_duration

if TYPE_CHECKING:
    from rich.status import Status

#: Lines of a failed trial's output that are shown.
_TAIL_LINES = 12


#: What is said of records wherever there are such, and in fleets besides.
_SAID: dict[type[told.Record], str] = {
    told.OperationFailed: "{0.operation}: {0.why}",
    told.TrialDropped: "gave up {0.trial}: {0.why}",
    told.CheckpointWanted: "rank {0.rank} is asked for a checkpoint: {0.why}",
    told.TablePublished: "new widths: {0.why}",
    told.Replanned: "{0.why}",
    told.Noted: "{0.text}",
}
_OF_FLEETS = {
    told.OperationWanted: "{0.operation} is started on {1} VMs",
    told.OperationStarted: "{0.operation} is there and trains",
}


def say(record: told.Record, kind: Kind = "search") -> str:
    """Say in a line what has happened in a run of a kind; empty for what readers need not know."""
    match record:
        case told.OperationFailed(blameless=True) if kind == "fleet":
            return ""
        case told.NodeChanged(phase="lost"):
            return f"{record.node} is lost: {record.why}"
        case told.NodeChanged(phase="ready") if record.why:
            return f"{record.node} {record.why}: it is taken back"
        case told.NodeNoticed():
            return f"{record.node} will be taken back at {format_seconds(record.at_s)}"
        case told.Reported():
            return f"rank {record.rank} has stored {record.iterations or 0:,} iterations"
        case told.Resumed():
            given = ((name.partition("_")[0], record.options.get(name)) for name in ("deadline_s", "budget_usd"))
            limits = ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in given if amount is not None)
            return f"limits from now on: {limits}" if limits else ""
    said = _SAID | (_OF_FLEETS if kind == "fleet" else {})
    return said.get(type(record), "").format(record, len(getattr(record, "place", ())))


class RunView:
    """Says what happens in a run."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def __call__(self, record: told.Record) -> list[str]:
        """Return the lines that say what a record tells, where it is worth any."""
        text = self._say(record)
        return [f"[{format_duration(round(record.t, 1))}] {text}"] if text else []

    def _say(self, record: told.Record) -> str:
        return say(record, self._kind)


class SearchView(RunView):
    """Says what happens in a search; what it hears is applied to the state that it is given, which is its own."""

    def __init__(self, state: State, rules: Rules) -> None:
        super().__init__("search")
        self._state = state
        self._rules = rules
        self._seen: dict[str, float] = {}

    def __call__(self, record: told.Record) -> list[str]:
        """Take note of a record or of progress, and return the lines that say what happened, where it is worth one."""
        if not isinstance(record, told.Progressed):
            self._state.apply(record)
        tail: list[str] = []
        match record:
            case told.Began() | told.Resumed() if self._rules.is_virtual:
                trained = "trials are trained at once" if self._rules.is_trained else "nothing is trained"
                return [f"virtual run: {trained}"]
            case told.Progressed() | told.OperationEnded():
                value = read_metric(record.metrics.get(self._rules.metric))
                if math.isfinite(value):
                    self._seen[record.operation.split(".")[-2]] = value
            case told.OperationFailed():
                tail = [f"    {line}" for line in record.tail.splitlines()[-_TAIL_LINES:]]
        return [*super().__call__(record), *tail]

    def _say(self, record: told.Record) -> str:
        """Say what has happened, with the names of stages and the best trial, which their state knows."""
        match record:
            case told.SegmentOpened() if record.members:
                return self._name(record.segment)
            case told.SegmentEnded():
                best = record.ranking[0] if record.ranking else ""
                shown = f"; best: {best} ({self._rules.metric} {self._seen[best]:.6g})" if best in self._seen else ""
                return f"{record.segment} ended{shown}"
            case told.Paused():
                return f"paused: {record.why}"
            case _:
                return super()._say(record)

    def _name(self, segment: str) -> str:
        return self._state.segments[segment].segment.label or segment

    def line(self, now_s: float) -> str:
        """Say what runs, how good it is, what it has taken, and how long it is expected to go on."""
        state = self._state
        going = [state.segments[name] for name in sorted(state.open)]
        parts = ["virtual run"] if self._rules.is_virtual else []
        parts += ["; ".join(self._name(each.segment.id) for each in going) or "waiting"]
        if any(each.began_s is None for each in going):
            ready = sum(node.phase is Phase.READY for node in state.nodes.values())
            parts.append(f"waiting for nodes ({ready} are ready)")
        alive = {t for each in going for t in each.members if not state.trials[t].why_dropped}
        if alive:
            parts.append(f"{len(alive):,} trial{'s' if len(alive) > 1 else ''}")
        if self._seen:
            best = (min if self._rules.mode is Mode.MIN else max)(self._seen, key=self._seen.__getitem__)
            parts.append(f"best {self._rules.metric} {self._seen[best]:.6g} ({best})")
        spent, planned = spent_usd(state, now_s), state.plan.totals().get("cost_usd")
        if spent is not None and planned is not None:
            parts.append(f"${spent:,.2f} of ${planned:,.2f}")
        return " | ".join([*parts, f"{format_duration(now_s)}, about {format_duration(self._left_s(now_s))} to go"])

    def _left_s(self, now_s: float) -> float:
        """Return how long the run goes on if what is open, and what comes after it, takes what is planned."""
        state = self._state
        going = [each for each in map(state.segments.__getitem__, state.open) if each.opened_s is not None]
        late_s = max(((each.opened_s or 0.0) - each.segment.expected.start_s for each in going), default=0.0)
        return max(0.0, max((each.end_s for each in state.plan.segments), default=0.0) + late_s - now_s)


@contextmanager
def listening(events: Path | None, view: RunView) -> Iterator[Callable[[told.Record], None]]:
    """Make a listener that writes events into a file, where there is one, and notes what is said of them.

    On a terminal the last line of a search changes with every record.
    """
    line = view.line if isinstance(view, SearchView) else None
    with ExitStack() as held:
        file = None if events is None else held.enter_context(_open_events(events))
        status: Status | None = None
        if line is not None and sys.stderr.isatty():
            from rich.console import Console

            status = held.enter_context(Console(stderr=True).status("starting"))

        def listen(record: told.Record) -> None:
            if file is not None and not isinstance(record, told.MetricsShown):  # each was written when it came
                file.write(told.encode(record) + "\n")
                file.flush()
            for text in view(record):
                note(text)
            if line is not None and status is not None:
                status.update(show_text(line(record.t)))

        yield listen


def _open_events(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"--events: {path} cannot be written ({error.strerror})") from None
