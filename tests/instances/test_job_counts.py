"""Warnings of rates that rest on few jobs."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.arrivals import warn_few_jobs


def make(**load_gpus: float) -> BoaInstance:
    """Make an instance with a class of one job an hour for each load."""
    classes: dict[str, Any] = {
        name: {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [load],
            "speedup": {"t4": {"form": "amdahl", "serial_fraction": 0.1}},
        }
        for name, load in load_gpus.items()
    }
    return BoaInstance.parse({"gpu_types": {"t4": {}}, "widths": {"max": 4}, "classes": classes})


def test_few_jobs_that_carry_much_are_named() -> None:
    """3 of 4 GPUs rest on 9 jobs: 0.75 / sqrt(9) = 0.25 of the load is its standard error."""
    with pytest.warns(DataWarning, match=r"^classes\.a\.arrival_rate_per_hour rests on 9 jobs, .* carries 3 of 4 GPUs"):
        warn_few_jobs(make(a=3.0, b=1.0), {"a": 9, "b": 100})
    with pytest.warns(DataWarning, match=r"rests on 1 job, and"):
        warn_few_jobs(make(a=3.0, b=1.0), {"a": 900, "b": 1})


def test_many_jobs_and_small_loads_are_not() -> None:
    """0.75 / sqrt(36) = 0.125, and one job of a hundredth of the load: 0.01."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_few_jobs(make(a=3.0, b=0.96, c=0.04), {"a": 36, "b": 100, "c": 1})
