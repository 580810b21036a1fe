"""What whole nodes cost: bins by hand, and the formula of the design for nodes of 4."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.boa.study.node_rounding import estimate_rounding, pack
from optplan.speedup import TableSpeedup


@pytest.mark.parametrize(
    ("counts", "bins"),
    [
        ([0, 0, 0], 0),
        ([1, 0, 1], 1),  # 3 + 1
        ([0, 3, 0], 2),  # 2 + 2 | 2
        ([5, 1, 1], 3),  # 3 + 1 | 2 + 1 + 1 | 1 + 1
        ([4, 0, 0], 1),
    ],
)
def test_remainders_fill_nodes_of_four(counts: list[int], bins: int) -> None:
    """The largest first, each where it leaves least."""
    assert pack(np.array([counts]), 4).tolist() == [bins]


def test_nodes_of_four_follow_the_formula() -> None:
    """n3 + ceil(n2 / 2) + ceil((n1 - n3 - 2 (n2 mod 2))+ / 4) for any numbers of remainders."""
    counts = np.random.default_rng(0).integers(0, 9, (500, 3))
    n1, n2, n3 = counts.T
    expected = n3 + -(-n2 // 2) + -(-np.maximum(n1 - n3 - 2 * (n2 % 2), 0) // 4)
    assert pack(counts, 4).tolist() == expected.tolist()


def test_nodes_are_never_overfull() -> None:
    """On nodes of 8, bins lie between the GPUs over 8 and one for each remainder."""
    counts = np.random.default_rng(1).integers(0, 5, (300, 7))
    bins, gpus = pack(counts, 8), counts @ np.arange(1, 8)
    assert (bins >= -(-gpus // 8)).all()
    assert (bins <= counts.sum(axis=1)).all()


def test_rounding_of_one_class() -> None:
    """Ten jobs of 6 GPUs on average on nodes of 4: 60 in use, 80 apart; shared, pairs of remainders fill a node."""
    table = TableSpeedup(gpus=np.array([6]), speedup=np.array([1.0]))
    job = JobClass(arrival_rate_per_hour=10.0, epoch_size_gpu_hours=[1.0], speedup={"t4": table}, reference_width=6)
    instance = BoaInstance(classes={"job": job}, gpu_types={"t4": GpuType(gpus_per_node=4)}, problem="whole")
    plan = BoaSolution(branches={"job": (Branch(widths=np.array([6.0])),)})
    found = estimate_rounding(instance, plan)["t4"]
    assert [found.in_use, found.apart] == pytest.approx([60.0, 80.0])
    # E[ceil(N / 2)] = (E[N] + P(N odd)) / 2 = (10 + (1 - e^-20) / 2) / 2 = 5.25 nodes for the remainders, and 10 full.
    assert found.shared == pytest.approx(61.0, rel=2e-3)
