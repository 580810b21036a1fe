"""Tables of learning curves: what validation shows of each configuration of a search space after each epoch.

The library has tables made by this project (:func:`table_names`; ``benchmarks/learning_curves.py`` trained them), and
users bring their own as CSV files in long form, one row per configuration, seed and epoch::

    config,seed,epoch,accuracy,learning_rate,momentum
    slow,1,1,0.31,0.001,0.9
    slow,1,2,0.44,0.001,0.9

A fifth column ``loss`` is optional; every other column is a hyperparameter. Epochs count from 1 and are those that the
training completed: a fraction of an epoch shows what the last completed one showed. A curve ends with its last epoch;
beyond it that value is *held*, and :meth:`LearningCurves.is_held` says so, since training on might have changed it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.instances.csv_tables import parse_whole, read_header, read_rows
from optplan.instances.files import write_text
from optplan.schema import FloatArray, IntArray, freeze

#: A hyperparameter's value: text where it is no number.
Value = float | str

#: Columns that a file of curves must have, and the one that it may have besides the hyperparameters.
_COLUMNS = ("config", "seed", "epoch", "accuracy")
_LOSS = "loss"
_FOLDER = "curves"

#: Relative tolerance of completed epochs: sums of thousands of time steps are off by less.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """Validation of C configurations, each trained with S seeds for E epochs.

    Attributes
    ----------
    name
        Of the table.
    configurations
        C names, all different.
    hyperparameters
        By name, the value of each configuration; may be empty.
    seeds
        S numbers, all different, ascending.
    accuracy
        (C, S, E) After each epoch, shares from 0 to 1, more is better; NaN for a failed epoch.
    loss
        (C, S, E) Where it was recorded: NaN where training failed, infinite where it is too large to be stored.
    description, source
        What the table is, and where its figures come from, in words.

    Raises
    ------
    DataError
        When shapes do not agree, a name or seed occurs twice, or an accuracy is not from 0 to 1.
    """

    name: str
    configurations: tuple[str, ...]
    hyperparameters: Mapping[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    accuracy: FloatArray
    loss: FloatArray | None = None
    description: str = ""
    source: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check shapes, names and ranges, and make arrays and mappings read-only."""
        shape = (len(self.configurations), len(self.seeds))
        for what, array in (("accuracy", self.accuracy), ("loss", self.loss)):
            if array is not None:
                object.__setattr__(self, what, _check_shape(f"{self.name}.{what}", array, shape))
        if self.loss is not None and self.loss.shape != self.accuracy.shape:
            problem = f"has {self.loss.shape[2]} epochs, and accuracy {self.accuracy.shape[2]}"
            raise DataError(f"{self.name}.loss", problem, "give both after each epoch")
        _refuse_twice(f"{self.name}.configurations", self.configurations)
        _refuse_twice(f"{self.name}.seeds", self.seeds)
        if list(self.seeds) != sorted(self.seeds):
            raise DataError(f"{self.name}.seeds", f"got {self.seeds}", "list them in ascending order")
        for name, values in self.hyperparameters.items():
            if len(values) != shape[0]:
                problem = f"{len(values)} values for {shape[0]} configurations"
                raise DataError(f"{self.name}.hyperparameters.{name}", problem, "give one for each configuration")
        wrong = np.argwhere(~(np.isnan(self.accuracy) | ((self.accuracy >= 0) & (self.accuracy <= 1))))
        if len(wrong):
            c, s, e = wrong[0]
            problem = f"got {self.accuracy[c, s, e]:g} after epoch {e + 1}; shares from 0 to 1 are allowed"
            where = f"{self.name}.accuracy: {self.configurations[c]!r}, seed {self.seeds[s]}"
            raise DataError(where, problem, "divide percentages by 100; nan marks a failed epoch")
        object.__setattr__(self, "hyperparameters", MappingProxyType(dict(self.hyperparameters)))
        object.__setattr__(self, "source", MappingProxyType(dict(self.source)))

    @property
    def num_epochs(self) -> int:
        """Epochs that were recorded."""
        return int(self.accuracy.shape[2])

    @property
    def last(self) -> FloatArray:
        """(C, S) Accuracy after the last epoch."""
        return self.accuracy[:, :, -1]

    @property
    def best(self) -> FloatArray:
        """(C, S) The most that any epoch shows; NaN where all failed."""
        return np.asarray(np.fmax.reduce(self.accuracy, axis=2), dtype=np.float64)

    @property
    def levels(self) -> IntArray:
        """(C, hyperparameters) Place of each value among the hyperparameter's values in ascending order, from 0."""
        columns = []
        for values in self.hyperparameters.values():
            ordered = sorted(set(values), key=lambda value: (isinstance(value, str), value))
            columns.append([ordered.index(value) for value in values])
        return np.array(columns, dtype=np.int64).T.reshape(len(self.configurations), len(columns))

    def of_seed(self, seed: int) -> FloatArray:
        """Return the accuracies (C, E) of one seed: what a search that repeats no training sees.

        Raises
        ------
        UsageError
            When there is no such seed.
        """
        return self.accuracy[:, self._seed_index(seed)]

    def value_at(self, configuration: int, seed: int, epochs: float) -> float:
        """Return the accuracy that validation shows of a training that has passed some epochs.

        Parameters
        ----------
        configuration
            Its row, from 0.
        seed
            One of :attr:`seeds`.
        epochs
            Passed so far; of a fraction the last completed epoch counts, and beyond the curve's end its last one, which
            :meth:`is_held` tells.

        Returns
        -------
        float
            From 0 to 1; NaN before the first epoch is completed, and where training failed.

        Raises
        ------
        UsageError
            When there is no such configuration or seed, or ``epochs`` is no number from zero on.
        """
        if not 0 <= configuration < len(self.configurations):
            message = f"configuration: got {configuration}; rows from 0 to {len(self.configurations) - 1} are allowed"
            raise UsageError(message)
        curve = self.accuracy[configuration, self._seed_index(seed)]
        completed = _count_completed(epochs)
        return float(curve[min(completed, curve.size) - 1]) if completed else math.nan

    def is_held(self, epochs: float) -> bool:
        """Return whether so many epochs go beyond the end of the curves, where the last value is held.

        Raises
        ------
        UsageError
            When ``epochs`` is no number from zero on.
        """
        _count_completed(epochs)
        return epochs > self.num_epochs * (1 + _TOLERANCE)

    def _seed_index(self, seed: int) -> int:
        if seed not in self.seeds:
            message = f"seed: {self.name} has no seed {seed}; it has {', '.join(map(str, self.seeds))}"
            raise UsageError(message)
        return self.seeds.index(seed)


def table_names() -> list[str]:
    """List the tables of the library."""
    folder = files("optplan.instances.library").joinpath(_FOLDER)
    return sorted(each.name.removesuffix(".npz") for each in folder.iterdir() if each.name.endswith(".npz"))


def load_curves(name: str) -> LearningCurves:
    """Load a table of the library.

    Parameters
    ----------
    name
        One of :func:`table_names`.

    Returns
    -------
    LearningCurves
        With accuracies as counted (correct validation examples over all of them), so exact; losses are rounded.

    Raises
    ------
    DataError
        When there is no such table.
    """
    if name not in table_names():
        raise DataError("", f"no learning curves named {name!r} in the library", nearest_name_hint(name, table_names()))
    folder = files("optplan.instances.library").joinpath(_FOLDER)
    told = json.loads(folder.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    with np.load(io.BytesIO(folder.joinpath(f"{name}.npz").read_bytes()), allow_pickle=False) as arrays:
        correct = np.cumsum(arrays["correct_steps"], axis=2, dtype=np.int64)
        loss = arrays["loss"].astype(np.float64)
    hyperparameters = {each: tuple(values) for each, values in told["hyperparameters"].items()}
    return LearningCurves(
        name=name,
        configurations=tuple(_name_configuration(hyperparameters, row) for row in range(len(correct))),
        hyperparameters=hyperparameters,
        seeds=tuple(told["seeds"]),
        accuracy=correct / told["validation_examples"],
        loss=loss,
        description=told["description"],
        source=told["source"],
    )


def read_curves(path: Path | str) -> LearningCurves:
    """Read a table from a CSV file in long form.

    Parameters
    ----------
    path
        First line: ``config``, ``seed``, ``epoch`` and ``accuracy``, in any order, perhaps ``loss``, and
        hyperparameters. The rows of a configuration and seed have their epochs in order, from 1 on; they may stand
        between those of others. Accuracy is a share from 0 to 1, or nan.

    Returns
    -------
    LearningCurves
        Configurations in the order in which the file first names them, seeds ascending.

    Raises
    ------
    DataError
        When the file cannot be read, a field is not what it should be, an epoch is missing, repeated or out of order,
        a seed or an end is missing for one of the configurations, or a hyperparameter changes within a configuration.
    """
    path = Path(path)
    header = read_header(path)
    if "" in header:
        raise DataError(str(path), f"column {header.index('') + 1} has no name", "name it, or remove it")
    extra = [name for name in header if name not in (*_COLUMNS, _LOSS)]
    figures = ("accuracy", _LOSS) if _LOSS in header else ("accuracy",)
    curves: dict[tuple[str, int], list[list[float]]] = {}
    settings: dict[str, tuple[Value, ...]] = {}
    for line, row in read_rows(path, (*_COLUMNS[:3], *figures, *extra)):
        config, seed = row[0], _parse_seed(path, line, row[1])
        if not config:
            raise DataError(f"{path}:{line}", "config is empty", "name the configuration")
        curve = curves.setdefault((config, seed), [])
        _check_epoch(path, line, parse_whole(path, line, "epoch", row[2]), len(curve))
        curve.append(_parse_figures(path, line, figures, row[3 : 3 + len(figures)]))
        given = tuple(_parse_value(text) for text in row[3 + len(figures) :])
        if settings.setdefault(config, given) != given:
            name = next(n for n, old, new in zip(extra, settings[config], given, strict=True) if old != new)
            problem = f"{name} of {config!r} changes within the file"
            raise DataError(f"{path}:{line}", problem, "give other settings another name in the column config")
    if not curves:
        raise DataError(str(path), "the file holds no curve", "give a row for each configuration, seed and epoch")
    seeds = tuple(sorted({seed for _, seed in curves}))
    figures_by_epoch = _stack(path, curves, tuple(settings), seeds)
    return LearningCurves(
        name=path.stem,
        configurations=tuple(settings),
        hyperparameters={name: tuple(given[i] for given in settings.values()) for i, name in enumerate(extra)},
        seeds=seeds,
        accuracy=figures_by_epoch[..., 0],
        loss=figures_by_epoch[..., 1] if len(figures) > 1 else None,
        description=f"{len(settings)} configurations, {len(seeds)} seeds, {figures_by_epoch.shape[2]} epochs.",
        source={"file": path.name},
    )


def write_curves(curves: LearningCurves, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a table as a CSV file that :func:`read_curves` reads back, to the last digit.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    UsageError
        When a hyperparameter is named like another column.
    """
    taken = [name for name in curves.hyperparameters if name in (*_COLUMNS, _LOSS)]
    if taken:
        message = f"hyperparameters: {taken[0]!r} is also the name of another column; rename it"
        raise UsageError(message)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_COLUMNS, *([] if curves.loss is None else [_LOSS]), *curves.hyperparameters])
    rows.writerows(_list_rows(curves))
    write_text(text.getvalue(), path, overwrite=overwrite)


def _list_rows(curves: LearningCurves) -> Iterator[list[str | int | float]]:
    for c, config in enumerate(curves.configurations):
        settings = [values[c] for values in curves.hyperparameters.values()]
        for s, seed in enumerate(curves.seeds):
            for e in range(curves.num_epochs):
                loss = [] if curves.loss is None else [float(curves.loss[c, s, e])]
                yield [config, seed, e + 1, float(curves.accuracy[c, s, e]), *loss, *settings]


def _name_configuration(hyperparameters: Mapping[str, Sequence[Value]], row: int) -> str:
    return " ".join(f"{name}={values[row]:g}" for name, values in hyperparameters.items())


def _check_shape(where: str, array: FloatArray, shape: tuple[int, int]) -> FloatArray:
    if array.ndim != 3 or array.shape[:2] != shape or not array.size:
        problem = f"got an array of shape {array.shape}; {shape[0]} configurations by {shape[1]} seeds by epochs"
        raise DataError(where, problem, "give a figure for each configuration, seed and epoch")
    return freeze(np.array(array, dtype=np.float64))


def _refuse_twice(where: str, names: Sequence[object]) -> None:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise DataError(where, f"{name!r} occurs twice", "name each once")
        seen.add(name)


def _count_completed(epochs: float) -> int:
    """Return the completed epochs, of which a sum of time steps may fall short by rounding."""
    if not (math.isfinite(epochs) and epochs >= 0):
        message = f"epochs: got {epochs!r}; a finite number from zero on is needed"
        raise UsageError(message)
    return math.floor(epochs * (1 + _TOLERANCE))


def _parse_seed(path: Path, line: int, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        problem = f"seed is {text!r}; a whole number is needed"
        raise DataError(f"{path}:{line}", problem, "correct the row") from None


def _parse_value(text: str) -> Value:
    """Read a number where the text is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _check_epoch(path: Path, line: int, epoch: int, before: int) -> None:
    if epoch != before + 1:
        problem = f"epoch is {epoch}, where {before + 1} is due for this configuration and seed"
        raise DataError(f"{path}:{line}", problem, "give every epoch from 1 on, once and in order")


def _parse_figures(path: Path, line: int, names: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Read accuracy and perhaps loss; NaN says that training failed."""
    found = []
    for name, text in zip(names, texts, strict=True):
        try:
            number = float(text)
        except ValueError:
            raise DataError(f"{path}:{line}", f"{name} is {text!r}; a number or nan is needed", "correct it") from None
        if name == "accuracy" and not (math.isnan(number) or 0 <= number <= 1):
            problem = f"accuracy is {text!r}; a share from 0 to 1, or nan, is needed"
            raise DataError(f"{path}:{line}", problem, "divide percentages by 100")
        found.append(number)
    return found


def _stack(
    path: Path, curves: Mapping[tuple[str, int], list[list[float]]], configs: Sequence[str], seeds: Sequence[int]
) -> NDArray[np.float64]:
    """Return the figures (C, S, E, figures); every curve has to be there, with the same number of epochs."""
    epochs = max(map(len, curves.values()))
    for config in configs:
        for seed in seeds:
            found = len(curves.get((config, seed), ()))
            if found < epochs:
                problem = f"{config!r}, seed {seed} has {found} epochs, and the longest curve has {epochs}"
                raise DataError(str(path), problem, "add the missing rows (accuracy nan if it failed), or cut the rest")
    return np.array([[curves[config, seed] for seed in seeds] for config in configs], dtype=np.float64)
