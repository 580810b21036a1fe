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
