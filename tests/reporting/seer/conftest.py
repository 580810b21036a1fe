"""What the tests of SEER's pages and tables share: the paper's example and its results."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.solving import solve

EXAMPLE: dict[str, Any] = {
    "formulation": "seer",
    "name": "<img src=x onerror=alert(1)>",
    "deadline_min": 10.0,
    "budget": "80gpu-min",
    "eta": 2.0,
    "resize_s": 0.0,
    "source": {"figures": "section 3.4"},
}


@pytest.fixture(scope="session")
def example() -> SeerInstance:
    """Return the example of section 3.4, under a name that would run if it were not escaped."""
    return SeerInstance.parse(EXAMPLE)


@pytest.fixture(scope="session")
def pausing() -> SeerInstance:
    """Return the example with pauses of 6 s, a price and nodes of 4 GPUs."""
    figures = {"resize_s": 6.0, "price_usd_per_gpu_hour": 3.0, "gpus_per_node": 4, "budget": "4usd"}
    return SeerInstance.parse(EXAMPLE | figures | {"price_source": "a list", "price_date": "2026-01"})


@pytest.fixture(scope="session")
def result(example: SeerInstance) -> Result[Solution]:
    """Return the example's optimum."""
    return solve(example)


@pytest.fixture(scope="session")
def rival(example: SeerInstance) -> Result[Solution]:
    """Return the example's published plan."""
    return solve(example, solver="published-seer")
