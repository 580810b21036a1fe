"""GPUs in use at once: what cannot be listed."""

from __future__ import annotations

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.reports import build_report
from optplan.solving import solve


def test_more_gpus_than_can_be_listed_are_not_told() -> None:
    """Ten billion jobs an hour of 1e11 GPU-hours each: nothing is said, and nothing that large is built."""
    curve = {"form": "amdahl", "serial_fraction": 0.0}
    job_class = {"arrival_rate_per_hour": 1e10, "epoch_size_gpu_hours": [1e11], "speedup": {"t4": curve}}
    instance = BoaInstance.parse(
        {
            "formulation": "boa",
            "classes": {"job": job_class | {"widths": {"max": 2}}},
            "gpu_types": {"t4": {"price_usd_per_hour": 1e-20}},
            "budget": "12000usd/month",
        }
    )
    result = solve(instance)
    assert result.solution is not None
    assert result.demand == {}
    assert build_report(instance, result)
