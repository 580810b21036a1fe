"""Tables of learning curves, and how much faster a trial trains on several GPUs, for SEER's benchmarks.

The tables were made by this project (``benchmarks/learning_curves.py`` trained them): what validation shows of each
configuration of a search space after each epoch. Epochs count from 1 and are those that the training completed: a
fraction of an epoch shows what the last completed one showed. A curve ends with its last epoch; beyond it that value is
*held*, though training on might have changed it.

The scaling profiles lambda(p) are relative throughputs of image models on up to eight V100 of one machine, as
HyperSched carries them; like there, what lies between two of them is interpolated, and further GPUs than the last bring
nothing.

References
----------
Liaw et al., "HyperSched: Dynamic resource reallocation for model development on a deadline", SoCC 2019. The data pack's
README, section 5, describes the file from which ``benchmarks/learning_curves.py`` derives the table.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.seer.data.prior import TrialScaling
from optplan.schema import FloatArray, IntArray, freeze

_FOLDER = Path(__file__).with_name("curves")


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """Validation of C configurations, each trained with S ``seeds`` for E epochs.

    ``accuracy`` (C, S, E) are the shares of the validation examples that were classified well after each epoch, exact;
    ``hyperparameters`` has by name the value of each configuration, ``source`` where the figures come from.
    """

    name: str
    hyperparameters: Mapping[str, tuple[float, ...]]
    seeds: tuple[int, ...]
    accuracy: FloatArray
    source: Mapping[str, str]

    @property
    def configurations(self) -> tuple[str, ...]:
        """What the configurations are called: their hyperparameters."""
        rows = zip(*self.hyperparameters.values(), strict=True)
        return tuple(" ".join(f"{n}={v:g}" for n, v in zip(self.hyperparameters, row, strict=True)) for row in rows)

    @property
    def levels(self) -> IntArray:
        """(C, hyperparameters) Place of each value among the hyperparameter's values in ascending order, from 0."""
        columns = [np.unique(values, return_inverse=True)[1] for values in self.hyperparameters.values()]
        return np.stack(columns, axis=1).astype(np.int64)

    def of_seed(self, seed: int) -> FloatArray:
        """Return the accuracies (C, E) of one seed: what a search that repeats no training sees."""
        if seed not in self.seeds:
            raise UsageError(f"seed: {self.name} has no seed {seed}; it has {', '.join(map(str, self.seeds))}")
        return self.accuracy[:, self.seeds.index(seed)]


def table_names() -> list[str]:
    """List the tables."""
    return sorted(each.name.removesuffix(".npz") for each in _FOLDER.iterdir() if each.name.endswith(".npz"))


def load_curves(name: str) -> LearningCurves:
    """Load one of the tables (:func:`table_names`)."""
    if name not in table_names():
        raise DataError("", f"no learning curves named {name!r} in the library", nearest_name_hint(name, table_names()))
    told = json.loads(_FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    with np.load(io.BytesIO(_FOLDER.joinpath(f"{name}.npz").read_bytes()), allow_pickle=False) as arrays:
        correct = np.cumsum(arrays["correct_steps"], axis=2, dtype=np.int64)
    return LearningCurves(
        name=name,
        hyperparameters={each: tuple(values) for each, values in told["hyperparameters"].items()},
        seeds=tuple(told["seeds"]),
        accuracy=freeze(correct / told["validation_examples"]),
        source=told["source"],
    )


def load_scaling(name: str) -> TrialScaling:
    """Load the scaling profile of a network and its data, such as ``resnet18-cifar10``."""
    profiles = load_table()["profiles"]
    if name not in profiles:
        raise DataError("", f"no scaling named {name!r} in the library", nearest_name_hint(name, profiles))
    return TrialScaling(gpus=profiles[name]["gpus"], speedup=profiles[name]["throughput"])


@cache
def load_table() -> dict[str, Any]:
    """Return the scaling ``profiles`` by name, and their ``source``."""
    table: dict[str, Any] = json.loads(_FOLDER.joinpath("scaling.json").read_text(encoding="utf-8"))
    return table
