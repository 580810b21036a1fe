"""Reader of logs as CSV: of any scheduler, and the run tables of Weights & Biases and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from optplan.errors import DataError, nearest_name_hint
from optplan.instances.csv_tables import is_parquet, read_blocks
from optplan.instances.job_logs.columns import (
    IntColumn,
    Jobs,
    Memo,
    Times,
    Words,
    Wrong,
    fill,
    fill_from_end,
    read_columns,
    to_texts,
)
from optplan.instances.job_logs.records import LeftOut, LogReading, read_count, read_ending, read_seconds
from optplan.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

#: What tables call the columns, in small letters and in order of preference; W&B and MLflow among them.
KNOWN_NAMES = {
    "name": ("name", "job name", "jobname", "job_name", "run name", "tags.mlflow.runname", "job"),
    "id": ("id", "job id", "jobid", "job_id", "run id", "run_id", "uid"),
    "submit": (
        "submit",
        "submitted",
        "submit_time",
        "submission_time",
        "submitted_at",
        "created",
        "created_at",
        "submit_s",
    ),
    "start": ("start", "started", "start time", "start_time", "started_at", "start_s"),
    "end": ("end", "ended", "end time", "end_time", "ended_at", "finished_at", "completed_at"),
    "elapsed": ("elapsed", "runtime", "duration", "_runtime", "elapsed_s", "runtime_s", "duration_s", "run_s"),
    "minutes": ("minutes", "run_minutes", "runtime_min", "duration_min"),
    "hours": ("hours", "run_hours", "runtime_h", "duration_h"),
    "gpus": ("gpus", "gpu count", "num_gpus", "n_gpus", "ngpus", "gpu_count", "params.num_gpus", "params.gpus"),
    "gpu_type": ("gpu_type", "gpu type"),
    "state": ("state", "status"),
}
#: What is read of each row, in this order.
_ROLES = (*KNOWN_NAMES, "label")
_DELIMITERS = (",", ";", "\t", "|")
#: A character that no table contains: its lines come as they are.
_NOWHERE = "\x1f"


def read_table(path: Path, reading: LogReading, left_out: LeftOut) -> Jobs:
    """Return the rows of a table, with or without a byte order mark; what is left out is counted."""
    delimiter = ","
    if not is_parquet(path):  # what most often stands in the first line among what may stand between two fields
        blocks = read_blocks(path, delimiter=_NOWHERE, quoted=False)
        delimiter = max(_DELIMITERS, key=next((rows[0][0] for _, rows in blocks if rows), "").count)

    def place(header: list[str]) -> list[int]:
        places = _find_columns(path, header, reading)
        return [places.get(role, len(header)) for role in _ROLES]

    return read_columns(path, place, _Reader(reading).read, left_out, delimiter=delimiter)


def _find_columns(path: Path, header: list[str], reading: LogReading) -> dict[str, int]:
    unknown = sorted(set(reading.columns) - set(KNOWN_NAMES))
    if unknown:
        raise DataError("columns", f"{unknown[0]!r} is not known", nearest_name_hint(unknown[0], KNOWN_NAMES))
    small = {name.casefold(): place for place, name in reversed(list(enumerate(header)))}
    places = {}
    for role, usual in KNOWN_NAMES.items():
        if role in reading.columns:
            places[role] = _place_of(path, header, reading.columns[role])
        else:
            found = next((small[name] for name in usual if name in small), None)
            if found is not None:
                places[role] = found
    if reading.class_column is not None:
        places["label"] = _place_of(path, header, reading.class_column)
    if "submit" not in places and "start" not in places:
        _refuse_without(path, header, "submit", "when jobs were submitted (or started)")
    if not {"elapsed", "minutes", "hours"} & set(places) and not {"start", "end"} <= set(places):
        _refuse_without(path, header, "elapsed", "for how long jobs ran (or their start and end)")
    if "gpus" in places and reading.gpus is not None:
        problem = (
            f"{reading.gpus} are given for every job, and the column {header[places['gpus']]!r} says how many each had"
        )
        raise DataError("gpus", problem, "leave it out, or the column")
    if "gpus" not in places and reading.gpus is None:
        _refuse_without(path, header, "gpus", "how many GPUs jobs had (or give --gpus N for all)")
    return places


def _place_of(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise DataError(str(path), f"no column {name!r}", nearest_name_hint(name, header))
    return header.index(name)


def _refuse_without(path: Path, header: list[str], role: str, what: str) -> None:
    problem = f"no column says {what}; found {', '.join(header) or 'nothing'}"
    raise DataError(str(path), problem, f"name it, as in --columns {role}=NAME")


class _Reader:
    """Reads blocks of columns; what it has read once it knows."""

    def __init__(self, reading: LogReading) -> None:
        self._gpus = reading.gpus
        self._words = words = Words()
        self._times = Times(reading.clock.read, by_hour=reading.time_format is None)
        self._durations = [
            Memo(partial(read_seconds, unit_s=unit_s)) for unit_s in (1.0, SECONDS_PER_MINUTE, SECONDS_PER_HOUR)
        ]
        self._endings = Memo(lambda state: words[read_ending(state)] if state else None)
        self._counts = Memo(read_count)

    def read(self, columns: Sequence[Sequence[str]], lines: IntColumn, wrong: Wrong) -> Jobs:
        stripped = [[text.strip() for text in column] for column in columns]
        names, ids, submit, start, end, *durations, gpus, gpu_types, states, labels = stripped
        start_s = self._times.column(start, wrong)
        run_s = np.full(len(ids), np.nan)
        for texts, memo in zip(durations, self._durations, strict=True):
            fill(run_s, texts, memo.column, wrong)
        run_s = fill_from_end(run_s, start_s, end, self._times, wrong)
        words = self._words
        unsaid = np.where(np.isnan(run_s), words["running"], words["completed"])
        said = self._endings.column(states, wrong)
        ending = np.where(np.isnan(said), unsaid, said).astype(np.int32)
        run_s[(ending == words["running"]) | (ending == words["pending"])] = np.nan
        counts = self._counts.column(gpus, wrong) if self._gpus is None else np.full(len(ids), float(self._gpus))
        return Jobs(
            words,
            id=to_texts(ids),
            part=words.column([""] * len(ids)),
            name=to_texts(names),
            label=words.column(labels),
            submit_s=self._times.column(submit, wrong),
            start_s=start_s,
            run_s=run_s,
            gpus=np.nan_to_num(counts).astype(np.int32),
            gpu_type=words.column(gpu_types),
            ending=ending,
            where=lines,
            completed=np.zeros(len(ids), dtype=np.bool_),
        )
