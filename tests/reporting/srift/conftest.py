"""What the tests of Srift's pages and tables share: a small job, worked out by hand, and its results."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.solving import solve


def _device(per_sample_s: float) -> dict[str, Any]:
    """Return a device that takes so long for each sample, a third of it forward."""
    return {
        "batches": [1, 64],
        "forward_s": [per_sample_s / 3, 64 * per_sample_s / 3],
        "backward_s": [2 * per_sample_s / 3, 128 * per_sample_s / 3],
        "deviation": 0.0,
    }


#: Two gradients of 1 MB, ready half-way through and at the end of the backward pass; networks of 1 GB/s. A sample takes
#: 1 ms on a fast GPU and 4 ms on a slow one. 64 samples, 100 iterations:
#:
#: - 1 big@32 + 8 small@4: 16 ms, and 2 x 0.9 MB after it: 17.8 ms, 1.78 s at 13.6 usd/h: 0.672 cents.
#: - 1 big@64: 32 ms and 1 ms, 3.3 s at 7.2 usd/h: 0.66 cents.
#: - 8 small@8: 32 ms and 1.75 ms, 3.375 s at 6.4 usd/h: 0.6 cents.
#: - 1 big@32 + 4 small@8: 32 ms and 1.667 ms, 3.367 s at 10.4 usd/h: 0.973 cents.
JOB: dict[str, Any] = {
    "formulation": "srift",
    "name": "<img src=x onerror=alert(1)>",
    "job": {
        "network": "two-layers",
        "layers": {"gradient_bytes": [1e6, 1e6], "ready": [0.5, 1.0], "names": ["<b>last</b>", "first"]},
        "devices": {"fast": _device(0.001), "slow": _device(0.004)},
        "source": "made up",
    },
    "global_batch": 64,
    "iterations": 100,
    "types": {
        "big": {
            "gpu": "fast",
            "gpus": 2,
            "price_usd_per_hour": 7.2,
            "network_gbit_per_s": 8,
            "available": 1,
            "batches": [32, 64],
        },
        "small": {
            "gpu": "slow",
            "price_usd_per_hour": 0.8,
            "network_gbit_per_s": 8,
            "available": 8,
            "batches": [4, 8],
            "spot": True,
        },
    },
    "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
    "deadline_s": 2.5,
    "source": {"figures": "by hand"},
}


@pytest.fixture(scope="session")
def job() -> SriftInstance:
    """Return the job within 2.5 s, under a name that would run if it were not escaped."""
    return SriftInstance.parse(JOB)


@pytest.fixture(scope="session")
def mixed() -> SriftSolution:
    """Return the job's best fleet within 2.5 s."""
    return SriftSolution(groups=(VmGroup(type="big", count=1, batch=32), VmGroup(type="small", count=8, batch=4)))


@pytest.fixture(scope="session")
def result(job: SriftInstance) -> Result[Solution]:
    """Return the job's optimum."""
    return solve(job, solver="enumeration")


@pytest.fixture(scope="session")
def rival(job: SriftInstance) -> Result[Solution]:
    """Return what the cost-aware policy makes: 8 small@8, too late."""
    return solve(job, solver="published-cost-aware")
