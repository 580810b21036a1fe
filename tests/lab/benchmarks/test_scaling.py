"""Speedups of trials on several GPUs: the rule between and beyond the measured ones, and the library's profiles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suites.learning_curves import load_scaling, load_table

from optplan.errors import DataError
from optplan.formulations.seer.data.prior import TrialScaling


@pytest.mark.parametrize(
    ("gpus", "speedup"),
    [(1, 1.0), (1.5, 1.4), (2, 1.8), (3, 2.4), (4, 3.0), (16, 3.0)],
)
def test_linear_in_between_and_held_beyond(gpus: float, speedup: float) -> None:
    """Three GPUs are half-way between two and four; sixteen are no faster than the four that were measured."""
    scaling = TrialScaling(gpus=np.array([1, 2, 4]), speedup=np.array([1.0, 1.8, 3.0]))
    assert scaling.of(gpus) == pytest.approx(speedup, rel=1e-12)


@given(st.integers(1, 64))
def test_library_profiles_never_exceed_the_number_of_gpus(gpus: int) -> None:
    """And more GPUs are never slower."""
    for name in ("resnet18-cifar10", "resnet50-cifar10", "resnet50-imagenet"):
        scaling = load_scaling(name)
        assert scaling.of(gpus) <= gpus
        assert scaling.of(gpus) <= scaling.of(gpus + 1)


def test_the_library_carries_what_was_measured_on_gpus(data_pack: Path) -> None:
    """Six models, to six digits; neither the CPU workers nor the made-up shapes."""
    profiles = json.loads((data_pack / "hypersched" / "scaling_profiles.json").read_text(encoding="utf-8"))
    measured = {
        f"{model}-{dataset}": throughput
        for dataset in ("cifar10", "imagenet")
        for model, throughput in profiles[dataset]["throughput"].items()
    }
    for name, throughput in measured.items():
        scaling = load_scaling(name)
        assert {str(gpus): scaling.of(gpus) for gpus in scaling.gpus.tolist()} == pytest.approx(throughput, rel=1e-5)
        assert "V100" in load_table()["profiles"][name]["hardware"]
    assert "HyperSched" in load_table()["source"]["figures"]


def test_unknown_profiles_get_the_nearest_name() -> None:
    """As everywhere."""
    with pytest.raises(DataError, match=r"no scaling named 'resnet18' in the library; did you mean 'resnet18-cifar10'"):
        load_scaling("resnet18")
