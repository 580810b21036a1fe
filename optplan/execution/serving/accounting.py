"""What Slurm's accounting tells a publisher of, which ``sacct`` prints.

That says when a job was submitted, what it held, and how it ended, and not how fast it trained. The ids of its events
come from the job's id and the time of its submission, so that it does no harm to be told twice.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from optplan.errors import DataError, nearest_name_hint, show_value
from optplan.execution.executors import call
from optplan.execution.online.messages import Arrival, Completion, OnlineEvent, Run
from optplan.execution.serving.publisher import Publisher
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.naming import find_by
from optplan.instances.job_logs.records import LeftOut, LogFormat, LogReading, Row
from optplan.instances.job_logs.sacct import read_sacct

_LOG = logging.getLogger(__name__)

#: What is asked of sacct.
_FORMAT = "JobID,JobName,User,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES,Cluster"
#: Seconds that it may take, and what else to do.
_PATIENCE_S, _INSTEAD = 120.0, "run on a machine that can ask Slurm, or leave --slurm out"
#: Days of jobs that are asked for at first, and later on.
_FIRST_DAYS, _LATER_DAYS = 2.0, 1.0 / 24.0
#: Events that are told at once: others are not to wait for long.
_AT_ONCE = 5000
#: What may stand between a class and the rest of a name.
_SEPARATORS = "-_./: "
#: Endings after which nothing more comes.
_OPEN = frozenset({"running", "pending", "requeued"})


class SlurmJobs:
    """Turns jobs of Slurm into events; times are in UTC, whatever the cluster's zone.

    The class of a job is the first group of a regular expression, or all that this finds in its name. Where it is empty
    it is the known class that the name begins with, the longest of several: ``bert`` for ``bert-large-17``.
    """

    def __init__(self, pattern: str = "") -> None:
        self._pattern = pattern
        find_by(pattern)  # refuses what is none
        self._days = _FIRST_DAYS

    def find_class(self, name: str, known: Iterable[str]) -> str:
        """Return the class of a job."""
        if self._pattern:
            if found := find_by(self._pattern)(name):
                return found
            raise DataError("name", f"{show_value(name)} is not what the pattern finds", "correct --class-pattern")
        classes = list(known)
        fits = [each for each in classes if name == each or (name.startswith(each) and name[len(each)] in _SEPARATORS)]
        if not fits:
            fix = f"begin its name with one of the classes, or give --class-pattern; {nearest_name_hint(name, classes)}"
            raise DataError("name", f"{show_value(name)} begins with no class that is known", fix)
        return max(fits, key=len)

    def read(self, printed: str, instance: BoaInstance) -> tuple[list[OnlineEvent], LeftOut]:
        """Read what ``sacct --parsable2`` printed: the events, and what was left out of the list."""
        left_out = LeftOut()
        with tempfile.NamedTemporaryFile("w", suffix=".sacct", encoding="utf-8") as file:
            file.write(printed)
            file.flush()
            rows = read_sacct(Path(file.name), LogReading(LogFormat.SACCT), left_out)
        return list(self._turn(rows, instance, left_out)), left_out

    def tell(self, publisher: Publisher) -> int:
        """Ask ``sacct`` once, at first for two days and then for the last hour, and tell; return how many events."""
        since = datetime.now(UTC) - timedelta(days=self._days)
        command = ["sacct", "--allusers", "--parsable2", "--duplicates", "--format", _FORMAT]
        command += ["--starttime", since.strftime("%Y-%m-%dT%H:%M:%S")]
        utc = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
        printed = call(*command, patience_s=_PATIENCE_S, instead=_INSTEAD, variables=utc)
        events, left_out = self.read(printed, publisher.view.instance)
        if said := str(left_out):
            _LOG.info("sacct: left out %s", said)
        for start in range(0, len(events), _AT_ONCE):
            for outcome in publisher.tell(events[start : start + _AT_ONCE]).result():
                if outcome.complaint:
                    _LOG.warning("sacct: %s", outcome.complaint)
        self._days = _LATER_DAYS
        return len(events)

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
