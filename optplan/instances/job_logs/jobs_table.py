"""The jobs table: what became of a log, a row for each job, beside the instance; ``--from csv`` reads it again."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optplan.instances.csv_tables import is_parquet, load_polars
from optplan.instances.files import write_text
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.naming import Classes
from optplan.instances.job_logs.records import COMPLETED, RULES
from optplan.schema import FloatArray


def tabulate_jobs(classes: Classes, sizes: Mapping[str, FloatArray]) -> dict[str, list[Any]]:
    """Return the columns of the jobs of some classes, with GPU-hours (N,) or NaN; None is not known."""
    columns: dict[str, list[Any]] = {}
    for name, jobs in classes.items():
        own = {
            "id": [id_.removeprefix("/") for id_ in jobs.id.tolist()],
            "class": [name] * len(jobs),
            "submit_s": _say(jobs.submit_s),
            "start_s": _say(jobs.start_s),
            "run_s": _say(jobs.run_s),
            "gpus": jobs.gpus.tolist(),
            "gpu_type": jobs.list_words(jobs.gpu_type),
            "state": _name_states(jobs),
            "completed": jobs.completed.tolist(),
            "size_gpu_hours": _say(sizes.get(name, np.full(len(jobs), np.nan))),
        }
        for column, values in own.items():
            columns.setdefault(column, []).extend(values)
    return columns


def write_jobs(classes: Classes, sizes: Mapping[str, FloatArray], path: Path, *, overwrite: bool = False) -> None:
    """Write the jobs of some classes, with GPU-hours (N,) or NaN, by their arrival, as CSV or Parquet."""
    arrive_s = np.concatenate([jobs.arrive_s for jobs in classes.values()])
    order = np.argsort(arrive_s, kind="stable").tolist()
    columns = {column: [values[place] for place in order] for column, values in tabulate_jobs(classes, sizes).items()}
    columns["completed"] = ["true" if each else "false" for each in columns["completed"]]
    part_ids(columns["id"])
    if is_parquet(path):
        target = io.BytesIO()
        load_polars().DataFrame(columns).write_parquet(target)
        write_text(target.getvalue(), path, overwrite=overwrite)
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(columns), *zip(*columns.values(), strict=True)])
    write_text(text.getvalue(), path, overwrite=overwrite)


def _say(numbers: FloatArray) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers.tolist()]


def _name_states(jobs: Jobs) -> list[str]:
    """Name how each job ended so that it is read as the same: one whose run does not count runs still."""
    states = []
    for word, is_completed, run_s in zip(
        jobs.list_words(jobs.ending), jobs.completed.tolist(), jobs.run_s.tolist(), strict=True
    ):
        if math.isnan(run_s):
            states.append(word if word == "pending" else "running")
        elif is_completed:
            states.append(COMPLETED)
        else:
            states.append(word if word in RULES and word != COMPLETED else "preempted")
    return states


def part_ids(ids: list[str]) -> None:
    """Give each job an id of its own, where two clusters gave the same."""
    seen: dict[str, int] = {}
    for place, id_ in enumerate(ids):
        if id_:
            seen[id_] = seen.get(id_, 0) + 1
            if seen[id_] > 1:
                ids[place] = f"{id_}#{seen[id_]}"
