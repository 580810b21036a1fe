"""Tables of learning curves: what validation shows of each configuration of a search space after each epoch.

The library has tables made by this project (:func:`table_names`; ``benchmarks/learning_curves.py`` trained them).
Epochs count from 1 and are those that the training completed: a fraction of an epoch shows what the last completed one
showed. A curve ends with its last epoch; beyond it that value is *held*, though training on might have changed it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.schema import FloatArray, IntArray, freeze

#: A hyperparameter's value: text where it is no number.
Value = float | str

_FOLDER = "curves"


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
        if seed not in self.seeds:
            raise UsageError(f"seed: {self.name} has no seed {seed}; it has {', '.join(map(str, self.seeds))}")
        return self.accuracy[:, self.seeds.index(seed)]


def table_names() -> list[str]:
    """List the tables of the library."""
    folder = files("optplan.instances.library").joinpath(_FOLDER)
    return sorted(each.name.removesuffix(".npz") for each in folder.iterdir() if each.name.endswith(".npz"))


def load_curves(name: str) -> LearningCurves:
    """Load a table of the library, one of :func:`table_names`.

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
