"""Two like classes, with limits of their own, for the tests of due dates and of floors."""

from __future__ import annotations

from typing import Any

from optplan.formulations.boa.data.instance import BoaInstance

#: General engines that such limits are compared with.
ENGINES = ("highs",)


def make_two_streams(field: str, policy: str = "pure", **limits: str | float) -> BoaInstance:
    """Make two like classes of one job an hour: 1 h on 1 GPU, 0.6 h (1.2 GPU-hours) on 2, which one can have."""
    curve = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.0 / 0.6]}
    job_class: dict[str, Any] = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": curve}}
    classes = {name: job_class | {"weight": weight} for name, weight in (("heavy", 2.0), ("light", 1.0))}
    for name, amount in limits.items():
        classes[name] = classes[name] | {field: amount}
    fields = {"classes": classes, "gpu_types": {"t4": {}}, "problem": "whole", "policy": policy, "budget": "2.2gpu"}
    return BoaInstance.parse({"formulation": "boa"} | fields)
