"""What tells a publisher of events besides HTTP: a watched folder, and Slurm's accounting, which ``sacct`` prints.

That says when a job was submitted, what it held, and how it ended, and not how fast it trained. The ids of its events
come from the job's id and the time of its submission, so that it does no harm to read a list twice.

Whatever is read is told under ids of its own, and only then taken away or passed over: killed in between, it is read
again, which does no harm.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from optplan.errors import DataError, OptplanError, OutputError, nearest_name_hint, show_value
from optplan.execution.online.events import Arrival, Completion, OnlineEvent, Run, parse_events
from optplan.execution.serving.publisher import Publisher, publish_file
from optplan.execution.slurm import call
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.naming import find_by
from optplan.instances.job_logs.records import LeftOut, Row
from optplan.instances.job_logs.sacct import read_sacct
from optplan.instances.job_logs.times import Clock

#: What is asked of sacct.
_FORMAT = "JobID,JobName,User,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES,Cluster"
#: Seconds that it may take, and what else to do.
_PATIENCE_S, _INSTEAD = 120.0, "put its lists into the folder of --inbox instead"
#: What may stand between a class and the rest of a name.
_SEPARATORS = "-_./: "
#: Endings after which nothing more comes.
_OPEN = frozenset({"running", "pending", "requeued"})


@dataclass(frozen=True)
class SlurmJobs:
    """Turns jobs of Slurm into events; ``clock`` reads times as Slurm writes them.

    The class of a job is the first group of a regular expression, or all that this finds in its name. Where it is empty
    it is the known class that the name begins with, the longest of several: ``bert`` for ``bert-large-17``.
    """

    clock: Clock
    pattern: str = ""

    def __post_init__(self) -> None:
        """Check the pattern."""
        find_by(self.pattern)

    def find_class(self, name: str, known: Iterable[str]) -> str:
        """Return the class of a job."""
        if self.pattern:
            if found := find_by(self.pattern)(name):
                return found
            raise DataError("name", f"{show_value(name)} is not what the pattern finds", "correct --class-pattern")
        classes = list(known)
        fits = [each for each in classes if name == each or (name.startswith(each) and name[len(each)] in _SEPARATORS)]
        if not fits:
            fix = f"begin its name with one of the classes, or give --class-pattern; {nearest_name_hint(name, classes)}"
            raise DataError("name", f"{show_value(name)} begins with no class that is known", fix)
        return max(fits, key=len)

    def read_list(self, path: Path, instance: BoaInstance) -> tuple[list[OnlineEvent], LeftOut]:
        """Read what ``sacct --parsable2`` printed: the events, and what was left out of the list."""
        left_out = LeftOut()
        rows = read_sacct(path, clock=self.clock, class_column=None, left_out=left_out)
        return list(self._turn(rows, instance, left_out)), left_out

    def _turn(self, rows: Iterable[Row], instance: BoaInstance, left_out: LeftOut) -> Iterator[OnlineEvent]:
        for row in rows:
            if row.gpus < 1:
                left_out.add("jobs without GPUs", row.where)
                continue
            if row.submit_s is None:
                left_out.add("jobs without a time of submission", row.where)
                continue
            try:
                job_class = self.find_class(row.name, instance.classes)
            except DataError as error:
                left_out.add("jobs of no class", row.where, error.problem)
                continue
            job = f"slurm/{row.id}{'+' if row.part else ''}{row.part}/{row.submit_s:.0f}"
            if row.part in ("", "0"):  # the components of one job arrive as one
                yield Arrival(id=job, at_s=row.submit_s, job_class=job_class)
            if row.run_s is None or row.start_s is None or row.ending in _OPEN:
                continue
            ran = Run(gpus=row.gpus, gpu_type=_name_type(row.gpu_type, instance), seconds=row.run_s)
            yield Completion(
                id=f"{job}/{row.start_s:.0f}/end",
                at_s=row.start_s + row.run_s,
                job_class=job_class,
                ran=(ran,),
                whole=row.ending == "completed",
            )


def _name_type(found: str, instance: BoaInstance) -> str | None:
    """Return the instance's name of a type of GPU, which it need not be told where it has one only."""
    if len(instance.gpu_types) == 1:
        return None
    return next((name for name in instance.gpu_types if name.casefold() == found.casefold()), found or None)


_LOG = logging.getLogger(__name__)

#: Where files go that were taken, and those in which something is wrong.
TAKEN, REFUSED = "taken", "refused"
#: Seconds between two calculations that there may be, two looks at the folder, and two questions to sacct.
BEAT_S, LOOK_S, ASK_S = 1.0, 1.0, 60.0
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
    """Asks ``sacct``: at first for two days, then for the last hour; times in UTC, whatever the cluster's zone."""

    def __init__(self, publisher: Publisher, slurm: SlurmJobs) -> None:
        self._publisher, self._slurm = publisher, replace(slurm, clock=Clock())
        self._days = _FIRST_DAYS

    def look(self) -> int:
        """Ask once and tell; return how many events that were."""
        since = datetime.now(UTC) - timedelta(days=self._days)
        command = ["sacct", "--allusers", "--parsable2", "--duplicates", "--format", _FORMAT]
        command += ["--starttime", since.strftime("%Y-%m-%dT%H:%M:%S")]
        utc = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
        found = call(*command, patience_s=_PATIENCE_S, instead=_INSTEAD, variables=utc)
        with tempfile.NamedTemporaryFile("w", suffix=".sacct", encoding="utf-8") as file:
            file.write(found)
            file.flush()
            events, left_out = self._slurm.read_list(Path(file.name), self._publisher.view.instance)
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


async def repeat(look: Callable[[], object], every_s: float) -> None:
    """Look over and over, in a thread of its own; what goes wrong is logged once, and tried again."""
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


def _tell_left_out(what: str, left_out: LeftOut) -> None:
    if said := str(left_out):
        _LOG.info("%s: left out %s", what, said)
