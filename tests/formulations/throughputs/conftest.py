"""What the tests of measured speeds share: a maker of small instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.formulations.throughputs.data import ThroughputsInstance

MakeInstance = Callable[..., ThroughputsInstance]


@pytest.fixture(scope="session")
def make_instance() -> MakeInstance:
    """Return a maker of instances.

    3.6 million samples; ``small`` VMs at 0.5 usd/h do 100, 190, 350 samples a second on 1, 2, 4 of them; ``large``
    ones, of 8 GPUs at 3 usd/h, do 400 on one by data parallelism, and 600 as tensors, 1000 on two as a pipeline.
    """

    def make(**fields: Any) -> ThroughputsInstance:  # noqa: ANN401 - any field
        rows = [("small", 1, "", 100), ("small", 2, "", 190), ("small", 4, "", 350)]
        rows += [("large", 1, "dp8", 400), ("large", 1, "tp8", 600), ("large", 2, "tp8 pp2", 1000)]
        return ThroughputsInstance.parse(
            {
                "formulation": "throughputs",
                "version": 1,
                "samples": 3.6e6,
                "types": {"small": {"price_usd_per_hour": 0.5}, "large": {"price_usd_per_hour": 3.0, "gpus": 8}},
                "measurements": [
                    {"type": name, "vms": vms, "configuration": configuration, "samples_per_s": speed}
                    for name, vms, configuration, speed in rows
                ],
                **fields,
            }
        )

    return make
