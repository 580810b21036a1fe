"""Made-up measurements: the paper's grid and figures, and the label that they carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.profiling.allreduce_data import Measurement, Origin, Place
from optplan.profiling.synthetic_bandwidth import (
    NETWORKS,
    SyntheticSettings,
    choose_networks,
    synthesize_measurements,
)
from optplan.quantities import round_shared


def test_every_row_says_that_it_is_synthetic() -> None:
    """The paper's grid: 28 sizes, 6 numbers of ranks, 3 types in 2 regions, 3 times each."""
    data = synthesize_measurements()
    assert len(data.rows) == 28 * 6 * 3 * 2 * 3
    assert all(row.synthetic for row in data.rows)
    assert data.origin is Origin.SYNTHETIC
    assert data.label.startswith("SYNTHETIC all-reduces, fingerprint")
    assert (min(row.size_bytes for row in data.rows), max(row.size_bytes for row in data.rows)) == (4, 512 * 2**20)


def test_a_seed_gives_its_rows() -> None:
    """The same again, and others for another seed."""
    one, same, other = (
        synthesize_measurements(SyntheticSettings(ranks=(2,), sizes_bytes=(4, 2**20), seed=seed)) for seed in (1, 1, 2)
    )
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_large_transfers_have_the_means_and_deviations_of_table_2() -> None:
    """1 GB between two VMs waits 60 us in some 0.7 s, so its bandwidth is the capacity, drawn 4,000 times.

    The standard error of the mean is 0.98 / sqrt(4000) = 0.016, that of the deviation 0.98 / sqrt(8000) = 0.011.
    """
    settings = SyntheticSettings(
        networks={"p3.8xlarge": NETWORKS["p3.8xlarge"]},
        sizes_bytes=(10**9,),
        ranks=(2,),
        regions=("here",),
        repeats=4000,
    )
    found = np.array([row.bus_gbit_per_s for row in synthesize_measurements(settings).rows])
    assert found.mean() == pytest.approx(11.2, abs=0.05)
    assert found.std() == pytest.approx(0.98, abs=0.04)


def test_small_transfers_wait_for_the_steps() -> None:
    """4 B among 4 ranks: 6 steps of 30 us and nearly nothing else, 48 bits of volume: 48 / 180 us = 2.67e-4 Gbit/s."""
    row = Measurement(Place("g3.8xlarge"), 4, 4, 1e-4)
    assert SyntheticSettings().expected_gbit_per_s(row) == pytest.approx(48 / 180e-6 / 1e9, rel=1e-3)


def test_transfers_at_once_share_the_capacity() -> None:
    """Half of 11.9 Gbit/s for each of two."""
    row = Measurement(Place("g3.8xlarge"), 10**9, 2, 1.0, transfers=2)
    assert SyntheticSettings().expected_gbit_per_s(row) == pytest.approx(5.95, rel=1e-3)


def test_types_are_chosen_by_name() -> None:
    """All of table 2, or some of them."""
    assert list(choose_networks([])) == ["p3.8xlarge", "g3.8xlarge", "g4dn.4xlarge"]
    assert list(choose_networks(["g3.8xlarge"])) == ["g3.8xlarge"]
    with pytest.raises(UsageError, match=r"type of VM: table 2 has no 'p3.8xl'; did you mean 'p3.8xlarge'"):
        choose_networks(["p3.8xl"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": ()}, "ranks: is empty; give at least one"),
        ({"ranks": (1, 2)}, r"ranks \[1, 2\].*two ranks or more, and at least 1 of the others, are needed"),
        ({"repeats": 0}, "repeats 0: two ranks or more, and at least 1 of the others"),
        ({"step_latency_s": 0.0}, r"step_latency_s 0\.0, .*: a latency above zero and a deviation from 0"),
        ({"latency_deviation": 1.0}, r"latency_deviation 1\.0: a latency above zero and a deviation from 0 to below 1"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    """Nothing can be made up without a grid, a repetition and a latency."""
    with pytest.raises(UsageError, match=message):
        SyntheticSettings(**change)


def test_the_fingerprint_is_the_same_on_every_processor() -> None:
    """The bandwidths have the digits that all processors share, so that their hash is one that can be written down."""
    data = synthesize_measurements()
    figures = np.array([row.bus_gbit_per_s for row in data.rows])
    assert np.array_equal(figures, round_shared(figures))
    assert data.fingerprint.startswith("71f09074ba81")
