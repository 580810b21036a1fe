"""What is shown while a plan is followed: one line that changes on a terminal, a line for each segment elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from optplan.cli.console import note
from optplan.errors import OutputError
from optplan.runtime.protocol import Progressed
from optplan.runtime.records import (
    NodeChanged,
    Noted,
    OperationEnded,
    OperationFailed,
    Paused,
    Record,
    Replanned,
    SegmentBegan,
    SegmentEnded,
    SegmentOpened,
    TrialDropped,
    encode,
    plain,
)
from optplan.units import format_duration

if TYPE_CHECKING:
    from rich.status import Status

    from optplan.contracts.plan import Plan

#: Lines of a failed trial's output that are shown.
_TAIL_LINES = 12


class RunView:
    """Listens to a run, shows it on stderr, and writes its events to a file.

    Parameters
    ----------
    plan
        Which is followed.
    events
        Where each record is written as a line of JSON; None writes none.
    metric
        What trials show.
    """

    def __init__(self, plan: Plan, *, events: Path | None = None, metric: str = "loss") -> None:
        self._segments = {segment.id: segment for segment in plan.segments}
        self._planned_s = plan.totals().get("time_s", 0.0)
        self._metric = metric
        self._running: dict[str, int] = {}
        self._seen: dict[str, float] = {}
        self._events = events
        self._file: TextIO | None = None
        self._status: Status | None = None

    def __enter__(self) -> Self:
        """Open the file, and the changing line where there is a terminal.

        Raises
        ------
        OutputError
            When the file cannot be written.
        """
        if self._events is not None:
            try:
                self._file = self._events.open("w", encoding="utf-8")
            except OSError as error:
                raise OutputError(f"--events: {self._events} cannot be written ({error.strerror})") from None
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("starting")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close both."""
        if self._status is not None:
            self._status.stop()
        if self._file is not None:
            self._file.close()

    def listen(self, record: Record | Progressed) -> None:
        """Take note of a record, or of progress."""
        if self._file is not None:
            self._file.write(self._encode(record) + "\n")
            self._file.flush()
        for line in self._tell(record):
            note(line)
        if self._status is not None:
            self._status.update(self._line(record.t))

    def _encode(self, record: Record | Progressed) -> str:
        if isinstance(record, Progressed):
            fields = {"kind": "Progressed", "t": record.t, "operation": record.operation}
            return json.dumps(fields | {"iterations": record.iterations, "metrics": plain(dict(record.metrics))})
        return encode(record)

    def _tell(self, record: Record | Progressed) -> list[str]:
        """Return the lines that say what happened, where it is worth one."""
        when = f"[{_write(record.t)}]"
        match record:
            case SegmentOpened() if record.members:
                segment = self._segments[record.segment]
                return [f"{when} {segment.label or segment.id}"]
            case SegmentBegan():
                self._running[record.segment] = 0
            case SegmentEnded():
                self._running.pop(record.segment, None)
                best = record.ranking[0] if record.ranking else "nobody"
                return [f"{when} {record.segment} ended; best: {best}{self._show(best)}"]
            case Progressed() | OperationEnded():
                value = record.metrics.get(self._metric)
                if isinstance(value, int | float):
                    self._seen[record.operation.split(".")[-2]] = float(value)
            case OperationFailed():
                tail = [f"    {line}" for line in record.tail.splitlines()[-_TAIL_LINES:]]
                return [f"{when} {record.operation}: {record.why}", *tail]
            case TrialDropped():
                return [f"{when} gave up {record.trial}: {record.why}"]
            case NodeChanged() if record.phase == "lost":
                return [f"{when} lost {record.node}: {record.why}"]
            case Replanned():
                from optplan.instances.parsing import parse_plan

                self._segments |= {segment.id: segment for segment in parse_plan(record.plan, path="plan").segments}
                self._planned_s = max((segment.end_s for segment in self._segments.values()), default=0.0)
                return [f"{when} {record.why}"]
            case Noted():
                return [f"{when} {record.text}"]
            case Paused():
                return [f"{when} paused: {record.why}"]
        return []

    def _show(self, trial: str) -> str:
        return f" ({self._metric} {self._seen[trial]:.6g})" if trial in self._seen else ""

    def _line(self, t: float) -> str:
        left = max(0.0, self._planned_s - t)
        stages = ", ".join(self._running) or "waiting"
        best = min(self._seen.values(), default=None)
        shown = "" if best is None else f" | {self._metric} {best:.6g}"
        return f"{stages}{shown} | {_write(t)}, planned to last {_write(left)} more"


def _write(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"
