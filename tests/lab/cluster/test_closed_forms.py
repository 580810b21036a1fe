"""The simulator against what queueing theory says."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.policies.in_turn import InTurn, hold_one_width
from optplan.lab.cluster.replaying import replay


def poisson(rate_per_s: float, count: int, seed: int) -> list[float]:
    """Draw arrivals."""
    arrivals_s: list[float] = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate_per_s, count)).tolist()
    return arrivals_s


def test_gpus_in_use_are_compound_poisson() -> None:
    """Without a queue, jobs of a class in each epoch are Poisson of mean rate x time, and GPUs their weighted sum.

    2 GPUs for 10 + 50 s at 0.1 a second, then 1 for 20: means of 6 and 2 jobs, 14 GPUs, a variance of 4 * 6 + 2 = 26.
    """
    truth = TabledApplication({2: np.array([50.0, 20.0]), 1: np.array([50.0, 10.0])}, 2, rescale_s=10.0)
    jobs = [Job(f"j{number}", "toy", at_s, truth) for number, at_s in enumerate(poisson(0.1, 8000, 1))]
    outcome = replay(jobs, InTurn("two", lambda job: 2 - job.epochs_done), gpus_per_node=4)
    steady = (outcome.times_s > 100.0) & (outcome.times_s < jobs[-1].submitted_s)
    lasted_s = np.diff(outcome.times_s, append=outcome.times_s[-1])[steady]
    found = np.bincount(outcome.gpus_used[steady], weights=lasted_s, minlength=100)[:100] / lasted_s.sum()
    angles = np.exp(-2j * np.pi * np.arange(100) / 100)
    expected = np.fft.ifft(np.exp(6.0 * (angles**2 - 1.0) + 2.0 * (angles - 1.0))).real
    gpus = np.arange(100)
    assert found @ gpus == pytest.approx(14.0, rel=0.03)
    assert found @ gpus**2 - (found @ gpus) ** 2 == pytest.approx(26.0, rel=0.06)
    assert np.abs(found - expected).sum() / 2.0 < 0.03
    assert outcome.gpus_in_use_at(0.95) == pytest.approx(int(np.searchsorted(np.cumsum(expected), 0.95)), abs=1)


def test_one_gpu_is_lindleys_queue() -> None:
    """First come, first served: who arrives waits for what is left of the wait and service of the one before."""
    arrivals_s = poisson(0.07, 1000, 2)
    truth = TabledApplication({1: np.array([10.0])}, 1)
    jobs = [Job(f"j{number}", "toy", at_s, truth) for number, at_s in enumerate(arrivals_s)]
    outcome = replay(jobs, hold_one_width(1), gpus_per_node=1, nodes=1)
    waits_s = [0.0]
    for gap_s in np.diff(arrivals_s).tolist():
        waits_s.append(max(0.0, waits_s[-1] + 10.0 - gap_s))
    assert outcome.jct_s.tolist() == pytest.approx([wait_s + 10.0 for wait_s in waits_s])
    assert outcome.summarise()["mean_queued_s"] == pytest.approx(np.mean(waits_s))
    assert outcome.summarise()["utilisation"] == pytest.approx(10_000.0 / outcome.span_s)


def test_fixed_widths_by_formula() -> None:
    """Without a queue, the mean time is that of each class by its share, and GPU-hours follow Little's law."""
    rng = np.random.default_rng(3)
    classes = {
        name: TabledApplication({k: rng.uniform(10.0, 90.0, 5) for k in (1, 3)}, 5, rescale_s=7.0) for name in "ab"
    }
    widths = {"a": 1, "b": 3}
    times_s = {name: 7.0 + float(truth.epoch_s[widths[name]].sum()) for name, truth in classes.items()}
    jobs = [
        Job(f"j{number}", name, at_s, classes[name])
        for number, (name, at_s) in enumerate(zip("aab" * 100, poisson(0.05, 300, 4), strict=True))
    ]
    outcome = replay(jobs, InTurn("widths", lambda job: widths[job.application]), gpus_per_node=2)
    assert outcome.summarise()["mean_jct_s"] == pytest.approx((2 * times_s["a"] + times_s["b"]) / 3)
    assert outcome.gpu_hours * 3600 == pytest.approx(200 * times_s["a"] + 100 * 3 * times_s["b"])
    assert outcome.summarise()["mean_gpus"] == pytest.approx(outcome.gpu_hours * 3600 / outcome.span_s)
