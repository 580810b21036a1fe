"""A small fleet: two spot VMs, and one that stays for each that is lost; and the paper's."""

from __future__ import annotations

import pytest

from optplan import build_plan, solve
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.instances.files import read_instance


def _plan(instance: SriftInstance) -> SriftPlan:
    return build_plan(instance, solve(instance))


@pytest.fixture(scope="session")
def small_plan() -> SriftPlan:
    """Return the plan of 60 iterations of 64 samples on two spot VMs of one rank with 32 samples each."""

    def vm(price: float, *, spot: bool) -> dict[str, object]:
        return {
            "gpu": "cpu",
            "price_usd_per_hour": price,
            "network_gbit_per_s": 1.0,
            "available": 4,
            "batches": [32],
            "spot": spot,
        }

    seconds = {"batches": [1, 64], "forward_s": [0.02, 0.02], "backward_s": [0.04, 0.04], "deviation": 0.0}
    return _plan(
        SriftInstance.parse(
            {
                "name": "small",
                "formulation": "srift",
                "job": {"layers": {"gradient_bytes": [20.0], "ready": [0.0]}, "devices": {"cpu": seconds}},
                "global_batch": 64,
                "iterations": 60,
                "types": {"spot": vm(1.0, spot=True), "steady": vm(3.0, spot=False)},
                "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
                "deadline_s": 600,
            }
        )
    )


@pytest.fixture(scope="session")
def paper_plan() -> SriftPlan:
    """Return the plan of section 5.4: ResNet50 for 400 iterations within 500 s, on two p3.8xlarge."""
    return _plan(read_instance("srift-interruption", SriftInstance))
