"""Sub-traces and bursts, from traces that are written here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from claims.boa_setting import (
    Setting,
    Trace,
    filter_trace,
    make_bursts,
    measure_variation,
    read_arrivals,
    read_rows,
    write_trace,
)

from optplan.errors import UsageError


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Two thousand jobs in 100 h, every other of them a cifar10."""
    rows = [
        {"name": f"job-{n}", "time": f"{180.0 * (n + 1):.2f}", "application": ("bert", "cifar10")[n % 2]}
        for n in range(2000)
    ]
    return write_trace("whole", rows, tmp_path, 100.0)


def test_sub_traces_keep_rows_as_they_are(trace: Trace, tmp_path: Path) -> None:
    """Of one application, and of those the first three; the span stays."""
    part = filter_trace(trace, "part", tmp_path, applications=("cifar10",), most=3)
    assert [row["name"] for row in read_rows(part.path)] == ["job-1", "job-3", "job-5"]
    assert [row["time"] for row in read_rows(part.path)] == ["360.00", "720.00", "1080.00"]
    assert part.span_h == 100.0


def test_even_arrivals_do_not_vary(trace: Trace) -> None:
    """C^2 of equal interarrival times is 0."""
    assert measure_variation(trace) == pytest.approx(0.0)


@pytest.mark.parametrize("variation", [1.0, 5.0, 30.0])
def test_bursts_vary_as_asked_at_the_same_mean_rate(trace: Trace, tmp_path: Path, variation: float) -> None:
    """Jobs, order and last arrival stay; C^2 of the draws is near the one asked for, averaged over seeds."""
    drawn = [make_bursts(trace, variation, seed, tmp_path) for seed in range(6)]
    for one in drawn:
        assert [row["name"] for row in read_rows(one.path)] == [row["name"] for row in read_rows(trace.path)]
        assert read_arrivals(one)[-1] == pytest.approx(read_arrivals(trace)[-1], abs=0.01)
        assert (np.diff(read_arrivals(one)) >= 0).all()
    assert np.mean([measure_variation(one) for one in drawn]) == pytest.approx(variation, rel=0.25)


def test_the_same_seed_draws_the_same(trace: Trace, tmp_path: Path) -> None:
    """And another seed another trace."""
    first = read_arrivals(make_bursts(trace, 5.0, 1, tmp_path))
    assert (read_arrivals(make_bursts(trace, 5.0, 1, tmp_path)) == first).all()
    assert (read_arrivals(make_bursts(trace, 5.0, 2, tmp_path)) != first).any()


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    """With the path, and what to give."""
    with pytest.raises(UsageError, match=r"data: no folder sia/traces in .*; give the folder of the public data"):
        Setting(tmp_path, tmp_path)
