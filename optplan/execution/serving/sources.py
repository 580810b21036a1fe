"""What tells a publisher of events besides HTTP: a watched folder, and Slurm.

Whatever is read is told under ids of its own, and only then taken away or passed over: killed in between, it is read
again, which does no harm.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from optplan.errors import DataError, OptplanError, OutputError
from optplan.execution.online.events import OnlineEvent, parse_events
from optplan.execution.serving.publisher import Publisher, publish_file
from optplan.execution.serving.slurm import SlurmJobs
from optplan.instances.job_logs.records import LeftOut

_LOG = logging.getLogger(__name__)

#: Where files go that were taken, and those in which something is wrong.
TAKEN, REFUSED = "taken", "refused"
#: Seconds between two looks at the folder, and between two questions to sacct.
_LOOK_S, _ASK_S = 1.0, 60.0
#: Days of jobs that sacct is asked for at first, and later on.
_FIRST_DAYS, _LATER_DAYS = 2.0, 1.0 / 24.0
#: Bytes of a file at most.
_MOST_BYTES = 64 * 1024 * 1024
#: Events that are told at once.
_AT_ONCE = 5000
#: Errors that are written down beside a refused file.
_SHOWN_ERRORS = 100


class FolderWatch:
    """Takes the files of a folder. Writers rename files into it, so that none is read half.

    ``*.json`` holds an event, a list of them, or ``{"events": [...]}``; ``*.jsonl`` an event a line; ``*.sacct`` what
    ``sacct --parsable2`` printed. Names with a dot in front are left alone.
    """

    def __init__(self, folder: Path, publisher: Publisher, slurm: SlurmJobs) -> None:
        self._folder, self._publisher, self._slurm = folder, publisher, slurm
        try:
            for each in (folder, folder / TAKEN, folder / REFUSED):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder} cannot be watched ({error.strerror})") from None

    def look(self) -> int:
        """Take the files that are there, in the order of their names; return how many."""
        names = sorted(entry.name for entry in os.scandir(self._folder) if not entry.name.startswith("."))
        names = [name for name in names if name not in (TAKEN, REFUSED)]
        for name in names:
            errors = self._take(self._folder / name)
            target = self._folder / (REFUSED if errors else TAKEN) / name
            if errors:
                publish_file(target.with_name(f"{name}.errors"), "\n".join(errors[:_SHOWN_ERRORS]) + "\n")
                _LOG.warning("%s: %s", name, errors[0])
            (self._folder / name).replace(target)
        return len(names)

    def _take(self, path: Path) -> list[str]:
        """Tell of what a file says; return what is wrong with it."""
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                raise DataError(path.name, "is no regular file of at most 64 MiB", "give it as one")
            events, wrong = self._read(path)
            errors = list(wrong.values())
        except DataError as error:
            events, errors = [], [str(error)]
        except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
            events, errors = [], [f"{path.name}: cannot be read ({str(error)[:200]})"]
        if errors:
            self._publisher.tell((), malformed=len(errors))
        return errors + tell_all(self._publisher, events)

    def _read(self, path: Path) -> tuple[list[OnlineEvent], dict[int, str]]:
        if path.name.endswith(".sacct"):
            events, left_out = self._slurm.read_list(path, self._publisher.view.instance)
            _tell_left_out(path.name, left_out)
            return events, {}
        if path.name.endswith(".jsonl"):
            return parse_events([json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()])
        if path.name.endswith(".json"):
            return parse_events(json.loads(path.read_text("utf-8")))
        raise DataError(path.name, "is of no kind that is known", "name it *.json, *.jsonl or *.sacct")


class SlurmQuestions:
    """Asks sacct: at first for two days, then for the last hour."""

    def __init__(self, publisher: Publisher, slurm: SlurmJobs) -> None:
        self._publisher, self._slurm = publisher, slurm
        self._days = _FIRST_DAYS

    def look(self) -> int:
        """Ask once and tell; return how many events that were."""
        events, left_out = self._slurm.ask(self._publisher.view.instance, days=self._days)
        _tell_left_out("sacct", left_out)
        for complaint in tell_all(self._publisher, events):
            _LOG.warning("sacct: %s", complaint)
        self._days = _LATER_DAYS
        return len(events)


def tell_all(publisher: Publisher, events: Sequence[OnlineEvent]) -> list[str]:
    """Tell of events and wait; return the complaints."""
    complaints = []
    for start in range(0, len(events), _AT_ONCE):
        outcomes = publisher.tell(events[start : start + _AT_ONCE]).result()
        complaints += [outcome.complaint for outcome in outcomes if outcome.complaint]
    return complaints


def repeat(look: Callable[[], int], every_s: float) -> Callable[[], Awaitable[None]]:
    """Return what looks over and over in a thread of its own; what goes wrong is logged once, and tried again."""

    async def run() -> None:
        wrong = ""
        while True:
            try:
                await asyncio.to_thread(look)
                wrong = ""
            except (OptplanError, OSError) as error:
                if str(error) != wrong:
                    _LOG.error("%s", error)
                wrong = str(error)
            await asyncio.sleep(every_s)

    return run


def make_sources(
    publisher: Publisher, jobs: SlurmJobs, *, watch: Path | None, sacct: bool
) -> list[Callable[[], Awaitable[None]]]:
    """Return what is to run beside the service: a watched folder, and questions to ``sacct``."""
    sources = []
    if watch is not None:
        sources.append(repeat(FolderWatch(watch, publisher, jobs).look, _LOOK_S))
    if sacct:
        sources.append(repeat(SlurmQuestions(publisher, jobs).look, _ASK_S))
    return sources


def _tell_left_out(what: str, left_out: LeftOut) -> None:
    if said := str(left_out):
        _LOG.info("%s: left out %s", what, said)
