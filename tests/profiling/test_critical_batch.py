"""The critical batch: what a fit finds, how sure it is, and that goodput means the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.profiling import fit_critical_batch
from optplan.speedup import GoodputSpeedup
from optplan.speedup.goodput import ThroughputParameters

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "build_batches_example.py"


def test_a_law_is_found_again() -> None:
    """1000 (1 + B / 50) is 1100, 2000 and 9000 at 5, 50 and 400; twice the least at the critical batch."""
    found = fit_critical_batch([5, 50, 400], [1100.0, 2000.0, 9000.0])
    assert (found.batch, found.least_samples) == pytest.approx((50.0, 1000.0))
    assert found.least_steps == pytest.approx(20.0)
    assert (found.low, found.high) == pytest.approx((50.0, 50.0), rel=1e-6)
    # 9000 / 400 = 22.5 steps of 20 at least: 1.125 times fewer.
    assert found.largest_gain(400) == pytest.approx(1.125)


def test_two_batches_leave_no_error_to_state() -> None:
    """Two parameters go through two points."""
    found = fit_critical_batch([10, 30], [100.0, 140.0])  # 80 + 2 B
    assert found.batch == pytest.approx(40.0)
    assert found.low is found.high is None
    assert found.rmse_log == pytest.approx(0.0, abs=1e-8)


def test_runs_of_one_batch_count_once() -> None:
    """At their geometric mean: 50 runs of one batch do not narrow the interval, 90 * 250 is 150 twice."""
    once = fit_critical_batch([1, 10, 100, 1000], [100.0, 120.0, 150.0, 900.0])
    often = fit_critical_batch([1, 10, *[100] * 50, 1000], [100.0, 120.0, *[90.0, 250.0] * 25, 900.0])
    assert once.batch == pytest.approx(often.batch)
    assert (once.low, once.high) == pytest.approx((often.low, often.high))


def test_samples_that_do_not_grow_and_that_grow_with_the_batch() -> None:
    """The critical batch is beyond all that was tried, or below: the interval is open on that side."""
    flat = fit_critical_batch([1, 2, 4, 8], [100.0, 101.0, 99.0, 100.0])
    assert flat.high == math.inf
    assert flat.low is not None
    assert flat.low > 8.0
    assert fit_critical_batch([1, 2, 4], [100.0, 99.0, 98.0]).batch == math.inf
    steep = fit_critical_batch([64, 128, 256], [1000.0, 2100.0, 3900.0])
    assert steep.low == 0.0
    assert steep.high is not None
    assert steep.high < 128.0
    steeper = fit_critical_batch([1, 2, 4], [100.0, 300.0, 900.0])
    assert steeper.batch == 0.0
    assert steeper.largest_gain(4) == 1.0


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 100 laws with noise of 5 % at five batches, 90 % of the intervals have the truth: 84 to 96 by chance."""
    rng = np.random.default_rng(7)
    batches, held = np.array([8, 32, 64, 128, 512]), 0
    for _ in range(100):
        truth = float(np.exp(rng.uniform(np.log(20.0), np.log(300.0))))
        samples = (1.0 + batches / truth) * np.exp(0.05 * rng.standard_normal(batches.size))
        found = fit_critical_batch(batches, samples)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 84 <= held <= 96


def test_goodput_means_the_same() -> None:
    """Where only the batch grows with the GPUs, 8 samples on each in a second, goodput is k over 1 + 8 k / B_crit."""
    found = fit_critical_batch([5, 50, 400], [1100.0, 2000.0, 9000.0])
    curve = GoodputSpeedup(
        parameters=ThroughputParameters(alpha_c=1, beta_c=0, alpha_n=0, beta_n=0, alpha_r=0, beta_r=0, gamma=1),
        gpus_per_node=8,
        init_batch_size=8,
        max_batch_size=8 * 64,
        min_local_batch_size=8,
        max_local_batch_size=8,
        noise_scale_samples=np.array(found.batch),
    )
    widths = np.array([1, 2, 4, 16, 64])
    samples = found.least_samples + found.least_steps * 8 * widths
    assert curve.at(widths)[0] == pytest.approx(widths * samples[0] / samples)


@pytest.mark.parametrize(
    ("batches", "samples", "message"),
    [
        ([1, 2], [1.0], r"batch_sizes and samples: got shapes \(2,\) and \(1,\); a list of one figure for each run"),
        ([1, 0], [1.0, 2.0], r"run 1: got a batch of 0 and 2 samples; give whole batches and samples above zero"),
        ([1, 2.5], [1.0, 2.0], r"run 1: got a batch of 2\.5 and 2 samples"),
        ([1, 2], [1.0, math.inf], r"run 1: got a batch of 2 and inf samples"),
        (
            [4, 4],
            [1.0, 2.0],
            r"batch_sizes: 1 distinct batch\(es\) in 2 runs; at least 2 are needed; train to the same",
        ),
    ],
)
def test_runs_that_are_refused(batches: list[int], samples: list[float], message: str) -> None:
    """Each with what is wrong of which run."""
    with pytest.raises(DataError, match=message):
        fit_critical_batch(batches, samples)


def test_the_example_is_what_the_script_writes(load_script: Callable[[Path], ModuleType], data_pack: Path) -> None:
    """Written again from the public results it is the same, byte by byte."""
    script = load_script(SCRIPT)
    assert script.write_table(data_pack) == script.TARGET.read_text(encoding="utf-8")
