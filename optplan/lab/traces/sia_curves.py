"""Reader of the learning curves of the Sia and AdaptDL profiles, by batch size.

The file ``validation-<M>.csv`` is a training run at batch size M, one row per epoch. See the data README, sections 1.3,
1.4 and 1.6 (a) to (c).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optplan.errors import DataError
from optplan.instances.csv_tables import parse_number, read_rows
from optplan.lab.traces.sia_applications import Application
from optplan.lab.traces.sia_profiles import application_folder
from optplan.schema import FloatArray, IntArray
from optplan.speedup.goodput import GradientTable


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """How an application trains at different batch sizes.

    (S sizes, E epochs.) ``progress`` (E + 1,) is P_0 = 0 and that at which each epoch ends, the least over the batch
    sizes, in iterations at the initial one; ``iterations`` (E, S) are of each epoch at each size; ``gradients`` are
    statistics of each epoch.
    """

    batch_sizes: IntArray
    progress: FloatArray
    iterations: FloatArray
    gradients: GradientTable


def read_learning_curves(profiles_dir: Path | str, application: Application) -> LearningCurves:
    """Read the training runs of an application, its first ``epochs`` epochs, from all files ``validation-<M>.csv``."""
    folder = application_folder(Path(profiles_dir), application.name)
    runs: dict[int, FloatArray] = {}
    for path in folder.glob("validation-*.csv"):
        size = path.stem.removeprefix("validation-")
        if not size.isdecimal():
            raise DataError(str(path), f"{size!r} is not a batch size", "name the file validation-<batch size>.csv")
        runs[int(size)] = _read_run(path, application.epochs)
    sizes = sorted(runs)
    if not sizes or sizes[0] > application.init_batch_size or sizes[-1] < application.max_batch_size:
        problem = (
            f"{application.name} trains at batch sizes {application.init_batch_size} to {application.max_batch_size}; "
            f"there are learning curves (validation-<batch size>.csv) for: {', '.join(map(str, sizes)) or 'none'}"
        )
        raise DataError(str(folder), problem, "fetch the missing files")
    stacked = np.stack([runs[size] for size in sizes], axis=-1)  # (epochs, columns, sizes)
    return LearningCurves(
        batch_sizes=np.array(sizes, dtype=np.int64),
        progress=_growing(folder, "progress", np.append(0.0, stacked[:, 0].min(axis=-1))),
        iterations=np.diff(stacked[:, 1], axis=0, prepend=0.0),
        gradients=GradientTable(batch_sizes=np.array(sizes), grad_sqr=stacked[:, 2], grad_var=stacked[:, 3]),
    )


def _read_run(path: Path, epochs: int) -> FloatArray:
    """Read progress, iterations and the two statistics of one training run, shape (epochs, 4)."""
    columns = ("progress", "iteration", "grad_sqr", "grad_var")
    rows = [
        [parse_number(path, line, column, text) for column, text in zip(columns, texts, strict=True)]
        for line, texts in read_rows(path, columns)
    ]
    if len(rows) < epochs:
        problem = f"{len(rows)} rows; one for each of the {epochs} epochs is needed"
        raise DataError(str(path), problem, "fetch the file again; it may be cut off")
    run = np.array(rows[:epochs])
    _growing(path, "iteration", np.append(0.0, run[:, 1]))
    return run


def _growing(path: Path, column: str, values: FloatArray) -> FloatArray:
    """Refuse a column that does not grow in each epoch; the first value is the start."""
    falls = np.flatnonzero(np.diff(values) <= 0.0)
    if falls.size:
        epoch = int(falls[0])
        problem = f"{column} goes from {values[epoch]:.12g} to {values[epoch + 1]:.12g} in epoch {epoch} (from 0)"
        raise DataError(str(path), problem, f"correct the file: {column} must grow in each epoch")
    return values
