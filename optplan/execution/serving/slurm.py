"""Slurm's accounting as events: what ``sacct --parsable2`` prints.

It says when a job was submitted, what it held, and how it ended, and not how fast it trained. The ids of the events
come from the job's id and the time of its submission, so that it does no harm to read a list twice.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from optplan.errors import DataError, MeasurementError
from optplan.execution.online.events import Arrival, Completion, OnlineEvent, Run
from optplan.execution.serving.naming import ClassNames
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_logs.records import LeftOut, Row
from optplan.instances.job_logs.sacct import read_sacct
from optplan.instances.job_logs.times import Clock

#: What is asked of sacct.
_FORMAT = "JobID,JobName,User,State,Submit,Start,End,Elapsed,AllocTRES,ReqTRES,Cluster"
#: Seconds that it may take.
_PATIENCE_S = 120.0
#: Endings after which nothing more comes.
_OPEN = frozenset({"running", "pending", "requeued"})


@dataclass(frozen=True)
class SlurmJobs:
    """Turns jobs of Slurm into events; ``clock`` reads times as Slurm writes them."""

    class_names: ClassNames
    clock: Clock

    def read_list(self, path: Path, instance: BoaInstance) -> tuple[list[OnlineEvent], LeftOut]:
        """Read what ``sacct --parsable2`` printed: the events, and what was left out of the list."""
        left_out = LeftOut()
        rows = read_sacct(path, clock=self.clock, class_column=None, left_out=left_out)
        return list(self._turn(rows, instance, left_out)), left_out

    def ask(self, instance: BoaInstance, *, days: float) -> tuple[list[OnlineEvent], LeftOut]:
        """Ask ``sacct`` for the jobs of the last days; times are asked for in UTC, whatever the cluster's zone."""
        since = datetime.now(UTC) - timedelta(days=days)
        command = ["sacct", "--allusers", "--parsable2", "--duplicates", "--format", _FORMAT]
        command += ["--starttime", since.strftime("%Y-%m-%dT%H:%M:%S")]
        environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
        with tempfile.NamedTemporaryFile(suffix=".sacct") as file:
            try:
                subprocess.run(
                    command,
                    stdout=file,
                    stderr=subprocess.PIPE,
                    stdin=subprocess.DEVNULL,
                    check=True,
                    timeout=_PATIENCE_S,
                    env=environment,
                )
            except FileNotFoundError:
                raise MeasurementError("sacct is not there; put its lists into the folder of --inbox instead") from None
            except subprocess.TimeoutExpired:
                raise MeasurementError(f"sacct has not answered for {_PATIENCE_S:g} s") from None
            except subprocess.CalledProcessError as error:
                said = error.stderr.decode("utf-8", "replace").strip()[:200]
                raise MeasurementError(f"sacct ended with {error.returncode}: {said}") from None
            return SlurmJobs(self.class_names, Clock()).read_list(Path(file.name), instance)

    def _turn(self, rows: Iterable[Row], instance: BoaInstance, left_out: LeftOut) -> Iterator[OnlineEvent]:
        for row in rows:
            if row.gpus < 1:
                left_out.add("jobs without GPUs", row.where)
                continue
            if row.submit_s is None:
                left_out.add("jobs without a time of submission", row.where)
                continue
            try:
                job_class = self.class_names.find(row.name, instance.classes)
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
