"""A small stream of jobs, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.formulations.boa.data.instance import BoaInstance


@pytest.fixture
def now() -> list[float]:
    """Return what the clock shows, seconds since 1970; tests set its one entry."""
    return [1_800_000_000.0]


@pytest.fixture
def clock(now: list[float]) -> Callable[[], float]:
    """Return a clock that stands still until it is set."""
    return lambda: now[0]


@pytest.fixture
def stream() -> BoaInstance:
    """Two classes: one job an hour of one GPU-hour each, speeds 1, 1.6 and 2 on 1, 2 and 4 GPUs, no rescaling."""
    table = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
    job_class = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    return BoaInstance(
        name="two-classes",
        classes={"a": job_class, "b": job_class},
        gpu_types={"t4": {}},
        budget="2.5gpu",
        problem="whole",
    )
