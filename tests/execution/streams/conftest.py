"""Small streams: one class of jobs, what is believed of it, and what is true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.execution.streams.arrivals import StreamJob
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.solving import solve


@pytest.fixture(scope="session")
def make_instance() -> Callable[..., BoaInstance]:
    """Return what makes an instance of one class ``a``: seconds of an epoch on one slot, speedups at 1, 2 and 4."""

    def make(
        speedup: tuple[float, float, float],
        per_hour: float = 900.0,
        epochs: int = 3,
        epoch_s: float = 1.0,
        budget: str = "1.5gpu",
    ) -> BoaInstance:
        curve = {"cpu": {"form": "table", "gpus": [1, 2, 4], "speedup": list(speedup)}}
        stated = {
            "arrival_rate_per_hour": per_hour,
            "epoch_size_gpu_hours": [epoch_s / 3600.0] * epochs,
            "speedup": curve,
        }
        fields = {"name": "small", "formulation": "boa", "gpu_types": {"cpu": {}}, "budget": budget}
        return BoaInstance.parse({**fields, "classes": {"a": stated}, "problem": "whole"})

    return make


@pytest.fixture(scope="session")
def plan_of() -> Callable[[BoaInstance], BoaPlan]:
    """Return what plans for an instance."""
    return lambda instance: build_plan(instance, solve(instance))


@pytest.fixture(scope="session")
def make_jobs() -> Callable[..., list[StreamJob]]:
    """Return what lets jobs of class ``a`` arrive evenly."""

    def make(count: int, every_s: float, **configuration: object) -> list[StreamJob]:
        return [
            StreamJob(name=f"job-{number:02d}", job_class="a", at_s=number * every_s, configuration=configuration)
            for number in range(count)
        ]

    return make
