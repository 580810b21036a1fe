"""Makers of small instances that tests of several rooms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts import Instance, Result, Solution
from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.solving import solve


@pytest.fixture(scope="session")
def solve_once() -> Callable[[Instance], Result[Solution]]:
    """Return what solves an instance as it stands; what several tests ask of the library is solved for the first."""
    known: dict[tuple[str, str], Result[Solution]] = {}

    def answer(instance: Instance) -> Result[Solution]:
        key = instance.name, instance.content_hash()
        if key not in known:
            known[key] = solve(instance)
        return known[key]

    return answer


@pytest.fixture(scope="session")
def make_srift() -> Callable[..., SriftInstance]:
    """Return a maker of instances.

    A network of one layer of 1 MB; on a ``fast`` GPU a batch of b takes b ms, on a ``slow`` one 4 b ms, a third of it
    forward, up to 64 samples, without deviation. By default 64 samples, 100 iterations, one fast VM with 2 GPUs at
    7.2 usd/h and 8 slow ones with one GPU at 0.9 usd/h, networks of 8 Gbit/s and no latency.
    """

    def make(*, types: dict[str, dict[str, Any]] | None = None, **fields: Any) -> SriftInstance:  # noqa: ANN401
        def device(per_sample_s: float) -> dict[str, Any]:
            return {
                "batches": [1, 64],
                "forward_s": [per_sample_s / 3, 64 * per_sample_s / 3],
                "backward_s": [2 * per_sample_s / 3, 128 * per_sample_s / 3],
                "deviation": 0.0,
            }

        offered: dict[str, dict[str, Any]] = {
            "big": {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "network_gbit_per_s": 8, "available": 1},
            "small": {"gpu": "slow", "price_usd_per_hour": 0.9, "network_gbit_per_s": 8, "available": 8},
        }
        if types is not None:
            base = {"gpu": "slow", "price_usd_per_hour": 1.0, "network_gbit_per_s": 8}
            offered = {name: base | vm for name, vm in types.items()}
        return SriftInstance.parse(
            {
                "formulation": "srift",
                "job": {
                    "layers": {"gradient_bytes": [1e6], "ready": [0.0]},
                    "devices": {"fast": device(0.001), "slow": device(0.004)},
                },
                "global_batch": 64,
                "iterations": 100,
                "types": offered,
                "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
                **fields,
            }
        )

    return make


@pytest.fixture(scope="session")
def make_seer() -> Callable[..., SeerInstance]:
    """Return a maker of instances: the paper's example (section 3.4) with some fields changed."""

    def make(**fields: object) -> SeerInstance:
        example = {"formulation": "seer", "deadline_min": 10, "budget": "80gpu-min", "eta": 2, "resize_s": 0}
        return SeerInstance.parse(example | fields)

    return make


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
_JOB: dict[str, Any] = {
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
def two_layers() -> SriftInstance:
    """Return the job within 2.5 s, under a name that would run if it were not escaped."""
    return SriftInstance.parse(_JOB)
