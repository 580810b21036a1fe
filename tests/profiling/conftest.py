"""Synthetic measurements, and a model that was learned from them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from optplan.profiling.synthetic_bandwidth import SyntheticSettings, choose_networks, synthesize_measurements

if TYPE_CHECKING:
    from optplan.profiling.allreduce_data import AllreduceData
    from optplan.profiling.learned_bandwidth import LearnedBandwidth

SETTINGS = SyntheticSettings(
    networks=choose_networks(["p3.8xlarge", "g4dn.4xlarge"]),
    ranks=(2, 8),
    sizes_bytes=[4**power for power in range(1, 15)],
)


@pytest.fixture(scope="session")
def synthetic_data() -> AllreduceData:
    """Return 4 B to 256 MiB among 2 and 8 ranks, on two types of VM in two regions, three times."""
    return synthesize_measurements(SETTINGS)


@pytest.fixture(scope="session")
def learned(synthetic_data: AllreduceData) -> LearnedBandwidth:
    """Return a model of them, chosen among few."""
    if find_spec("xgboost") is None:
        pytest.skip("the extra learn is not installed")
    from optplan.profiling.bandwidth_training import learn_bandwidth

    return learn_bandwidth(synthetic_data, folds=3, depths=(4,), rounds=(40, 80))
