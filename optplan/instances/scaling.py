"""How much faster a trial trains on several GPUs: lambda(p) of the searches, from public measurements.

The profiles are relative throughputs of image models on up to eight V100 of one machine, as HyperSched carries them;
like there, what lies between two of them is interpolated, and further GPUs than the last bring nothing.

References
----------
Liaw et al., "HyperSched: Dynamic resource reallocation for model development on a deadline", SoCC 2019. The data pack's
README, section 5, describes the file from which ``benchmarks/learning_curves.py`` derives the library's table.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from optplan.errors import DataError, nearest_name_hint
from optplan.formulations.seer.data.prior import TrialScaling


def load_scaling(name: str) -> TrialScaling:
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
    profiles = load_table()["profiles"]
    if name not in profiles:
        raise DataError("", f"no scaling named {name!r} in the library", nearest_name_hint(name, profiles))
    return TrialScaling(gpus=profiles[name]["gpus"], speedup=profiles[name]["throughput"])


@cache
def load_table() -> dict[str, Any]:
    """Return the library's table: its ``profiles`` by name, and their ``source``."""
    text = files("optplan.instances.library").joinpath("curves", "scaling.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
