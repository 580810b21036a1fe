"""``benchmarks/ddp_accuracy.py``: real training, measured and predicted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from ddp_accuracy import check_accuracy

from optplan.errors import UsageError

# Nothing is loaded where tests are collected: PyTorch takes seconds, and few of the quick ones need it.
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="the extra torch is not installed")

FACTORY = """
import torch

def make_network():
    return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)), torch.ones(1, 128)
"""


@pytest.mark.real
def test_real_training_on_two_processes_is_measured_and_predicted(tmp_path: Path) -> None:
    """Each batch has both times, and the error is the mean of theirs; how large it is depends on the machine."""
    path = tmp_path / "train.py"
    path.write_text(FACTORY, encoding="utf-8")
    found = check_accuracy(f"{path}:make_network", [16, 4], iterations=2, timeout_s=120)
    assert [row.batch for row in found.rows] == [4, 16]
    for row in found.rows:
        assert row.measured_s > 0
        assert row.predicted_s >= row.compute_s > 0
        assert row.exchange_s > 0
    errors = [abs(row.predicted_s / row.measured_s - 1) for row in found.rows]
    assert found.mape == pytest.approx(np.mean(errors))
    assert found.profile.devices["cpu"].largest_batch == 16
    # Weights and biases of 4 bytes: the second layer is ready first.
    np.testing.assert_array_equal(found.profile.layers.gradient_bytes, [4 * (256 * 64 + 64), 4 * (128 * 256 + 256)])
    assert found.bandwidth.sizes_bytes[-1] >= found.bucket_bytes


@pytest.mark.parametrize("wrong", [{"ranks": 1}, {"batches": []}, {"iterations": 0}, {"bucket_mib": 0}])
def test_an_accuracy_of_nothing_is_refused(wrong: dict[str, object]) -> None:
    """Two ranks and something to measure are needed."""
    given: dict[str, object] = {"batches": [4], **wrong}
    with pytest.raises(UsageError, match="two ranks or more, a batch or more and whole numbers from 1 on are needed"):
        check_accuracy("train.py:make", **given)  # type: ignore[arg-type]
