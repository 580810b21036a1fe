"""How much faster a trial trains on several GPUs: lambda(p) of the searches, from public measurements.

The profiles are relative throughputs of image models on up to eight V100 of one machine, as HyperSched carries them.
Like there, the speedup between two measured numbers of GPUs is interpolated linearly, and beyond the largest measured
one it is that one's: further GPUs bring nothing.

References
----------
Liaw et al., "HyperSched: Dynamic resource reallocation for model development on a deadline", SoCC 2019. The data pack's
README, section 5, describes the file from which ``benchmarks/learning_curves.py`` derives the library's table.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.schema import FloatArray, IntArray, freeze


@dataclass(frozen=True, eq=False)
class Scaling:
    """Speedup of one trial over one GPU, measured at some numbers of GPUs.

    Attributes
    ----------
    name
        Model and data set.
    gpus
        Measured numbers of GPUs, ascending from 1, shape (widths,).
    speedup
        Throughput relative to one GPU, the first being 1, shape (widths,).
    hardware, source
        On what it was measured, and by whom, in words.

    Raises
    ------
    DataError
        When the numbers of GPUs do not ascend from 1, or a speedup is not above zero or not 1 at one GPU.
    """

    name: str
    gpus: IntArray
    speedup: FloatArray
    hardware: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        """Check the table and make it read-only."""
        gpus, speedup = np.array(self.gpus, dtype=np.int64), np.array(self.speedup, dtype=np.float64)
        if gpus.ndim != 1 or not gpus.size or gpus[0] != 1 or (np.diff(gpus) <= 0).any():
            raise DataError(f"{self.name}.gpus", f"got {gpus.tolist()}", "list each number once, ascending from 1")
        if speedup.shape != gpus.shape:
            problem = f"{speedup.size} values for {gpus.size} numbers of GPUs"
            raise DataError(f"{self.name}.speedup", problem, "give one for each")
        if speedup[0] != 1.0 or not (np.isfinite(speedup) & (speedup > 0)).all():
            problem = f"got {speedup.tolist()}; finite numbers above zero, the first 1, are needed"
            raise DataError(f"{self.name}.speedup", problem, "divide the throughputs by that of one GPU")
        object.__setattr__(self, "gpus", freeze(gpus))
        object.__setattr__(self, "speedup", freeze(speedup))

    def __call__(self, gpus: float) -> float:
        """Return lambda(p).

        Parameters
        ----------
        gpus
            p, at least 1; a fraction is interpolated like any number that was not measured.

        Raises
        ------
        UsageError
            When the number is below 1 or not finite.
        """
        if not (math.isfinite(gpus) and gpus >= 1):
            message = f"gpus: got {gpus!r}; a finite number of at least 1 is needed"
            raise UsageError(message)
        return float(np.interp(gpus, self.gpus, self.speedup))


def load_scaling(name: str) -> Scaling:
    """Load a profile of the library.

    Parameters
    ----------
    name
        Of a network and its data, such as ``resnet18-cifar10``.

    Raises
    ------
    DataError
        When there is no such profile.
    """
    table = _load_table()
    if name not in table["profiles"]:
        raise DataError("", f"no scaling named {name!r} in the library", nearest_name_hint(name, table["profiles"]))
    profile = table["profiles"][name]
    return Scaling(
        name=name,
        gpus=np.array(profile["gpus"], dtype=np.int64),
        speedup=np.array(profile["throughput"], dtype=np.float64),
        hardware=profile["hardware"],
        source=table["source"]["figures"],
    )


@cache
def _load_table() -> dict[str, Any]:
    text = files("optplan.instances.library").joinpath("curves", "scaling.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
