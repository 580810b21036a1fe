"""Made-up measurements, those of the page on bandwidth, and a model that was learned from them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.profiling.allreduce_data import AllreduceData, read_measurements

if TYPE_CHECKING:
    from optplan.profiling.learned_bandwidth import LearnedBandwidth

MADE_UP = Path(__file__).resolve().parents[2] / "docs" / "examples" / "all-reduces.csv"


@pytest.fixture(scope="session")
def synthetic_data() -> AllreduceData:
    """Return 4 B to 256 MiB among 2 and 8 ranks, on two types of VM in two regions, three times."""
    rows = read_measurements(MADE_UP).rows
    return AllreduceData(tuple(row for row in rows if row.ranks < 64 and row.place.vm_type != "g3.8xlarge"))


@pytest.fixture(scope="session")
def learned(synthetic_data: AllreduceData) -> LearnedBandwidth:
    """Return a model of them, chosen among few."""
    if find_spec("xgboost") is None:
        pytest.skip("the extra learn is not installed")
    from optplan.profiling.bandwidth_training import learn_bandwidth

    return learn_bandwidth(synthetic_data, folds=3, depths=(4,), rounds=(40, 80))
