"""Speedups of trials on several GPUs: the rule between and beyond the measured ones, and the library's profiles."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError, UsageError
from optplan.instances.scaling import Scaling, load_scaling


def make_scaling(gpus: tuple[int, ...] = (1, 2, 4), speedup: tuple[float, ...] = (1.0, 1.8, 3.0)) -> Scaling:
    """Make a profile of three measurements."""
    return Scaling("made-up", np.array(gpus), np.array(speedup))


@pytest.mark.parametrize(
    ("gpus", "speedup"),
    [(1, 1.0), (1.5, 1.4), (2, 1.8), (3, 2.4), (4, 3.0), (16, 3.0)],
)
def test_linear_in_between_and_held_beyond(gpus: float, speedup: float) -> None:
    """Three GPUs are half-way between two and four; sixteen are no faster than the four that were measured."""
    scaling = make_scaling()
    assert scaling(gpus) == pytest.approx(speedup, rel=1e-12)


@given(st.integers(1, 64))
def test_library_profiles_never_exceed_the_number_of_gpus(gpus: int) -> None:
    """And more GPUs are never slower."""
    for name in ("resnet18-cifar10", "resnet50-cifar10", "resnet50-imagenet"):
        scaling = load_scaling(name)
        assert scaling(gpus) <= gpus
        assert scaling(gpus) <= scaling(gpus + 1)


@pytest.mark.parametrize("gpus", [0, 0.5, math.nan, math.inf])
def test_less_than_one_gpu_is_refused(gpus: float) -> None:
    """There is no such trial."""
    with pytest.raises(UsageError, match=r"gpus: got .*; a finite number of at least 1 is needed"):
        make_scaling()(gpus)


@pytest.mark.parametrize(
    ("gpus", "speedup", "message"),
    [
        ((2, 4), (1.0, 2.0), r"made-up\.gpus: got \[2, 4\]; list each number once, ascending from 1"),
        ((1, 4, 2), (1.0, 2.0, 3.0), r"made-up\.gpus: got \[1, 4, 2\]; list each number once"),
        ((), (), r"made-up\.gpus: got \[\]; list each number once"),
        ((1, 2), (1.0,), r"made-up\.speedup: 1 values for 2 numbers of GPUs; give one for each"),
        ((1, 2), (100.0, 180.0), r"made-up\.speedup: got \[100\.0, 180\.0\]; finite numbers above zero, the first 1"),
        ((1, 2), (1.0, 0.0), r"made-up\.speedup: got \[1\.0, 0\.0\]; finite numbers above zero"),
        ((1, 2), (1.0, math.nan), r"made-up\.speedup: got \[1\.0, nan\]; finite numbers above zero"),
    ],
)
def test_tables_that_are_none_are_refused(gpus: tuple[int, ...], speedup: tuple[float, ...], message: str) -> None:
    """Every complaint names the field."""
    with pytest.raises(DataError, match=message):
        make_scaling(gpus, speedup)


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
        assert {str(gpus): scaling(gpus) for gpus in scaling.gpus.tolist()} == pytest.approx(throughput, rel=1e-5)
        assert "HyperSched" in scaling.source
        assert "V100" in scaling.hardware


def test_unknown_profiles_get_the_nearest_name() -> None:
    """As everywhere."""
    with pytest.raises(DataError, match=r"no scaling named 'resnet18' in the library; did you mean 'resnet18-cifar10'"):
        load_scaling("resnet18")
