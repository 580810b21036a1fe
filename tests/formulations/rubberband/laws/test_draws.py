"""Random numbers: streams that do not depend on the plan, and sums drawn at once that are distributed as sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.formulations.rubberband.laws.sampling import FEW, draw_sum, draw_uniforms, open_stream
from optplan.schema import FloatArray

#: Samples of the statistical tests.
SAMPLES = 40_000

SINGLE: dict[str, Distribution] = {
    "normal": NormalDistribution(mean_s=10.0, sd_s=1.0),
    "clipped": NormalDistribution(mean_s=4.0, sd_s=5.0),
    "skewed": LogNormalDistribution(mean_s=4.0, sd_s=2.0),
    "heavy": LogNormalDistribution(mean_s=4.0, sd_s=8.0),
    "measured": EmpiricalDistribution(values_s=np.array([1.0, 2.0, 2.0, 50.0])),
    "rarely short": EmpiricalDistribution(values_s=np.array([1.0] + [100.0] * 99)),
    "nearly constant": EmpiricalDistribution(values_s=np.array([1000.0, 1000.00001])),
}


def add_up(distribution: Distribution, count: int) -> FloatArray:
    """Return sums drawn one by one."""
    rng = np.random.default_rng(count)
    total = np.zeros(SAMPLES)
    for _ in range(count):
        total += distribution.quantile(rng.random(SAMPLES))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 40])
def test_sums_are_distributed_as_sums(name: str, count: int) -> None:
    """Whether drawn one by one, in closed form or from a table: mean, deviation and distribution are those of the sum.

    Two empirical distributions of n values each are somewhere 2.4 / sqrt(n) apart with a probability of about
    2 * exp(-2.4**2) = 0.6 % if they are from one distribution (Kolmogorov and Smirnov).
    """
    single = SINGLE[name]
    drawn = draw_sum(single, count)(open_stream(3, count), SAMPLES // 4, 4).ravel()
    error = single.deviation_s * math.sqrt(count / SAMPLES)
    assert abs(drawn.mean() - count * single.expected_s) < 4.0 * error
    reference = add_up(single, count)
    # Tables blur the jumps of measured values by some steps; so does this rounding.
    digits = 7 if name == "nearly constant" else 0
    drawn, reference = np.round(drawn, digits), np.round(reference, digits)
    places = np.union1d(drawn, reference)
    distance = np.abs(
        np.searchsorted(np.sort(drawn), places, side="right")
        - np.searchsorted(np.sort(reference), places, side="right")
    )
    assert distance.max() / SAMPLES < 2.4 / math.sqrt(SAMPLES)


def test_constants_need_no_random_numbers() -> None:
    """The sum of a constant has one row, and its stream stays where it was."""
    stream = open_stream(0)
    drawn = draw_sum(ConstantDistribution(value_s=2.5), 4)(stream, 100, 3)
    assert drawn.tolist() == [[10.0, 10.0, 10.0]]
    assert stream.random() == open_stream(0).random()


def test_streams_differ_by_name_and_seed() -> None:
    """The same name and seed give the same numbers, any other ones others."""
    first = draw_uniforms(open_stream(1, 2, 3), 5)
    assert (first == draw_uniforms(open_stream(1, 2, 3), 5)).all()
    for seed, name in ((2, (2, 3)), (1, (3, 2)), (1, (2, 3, 0)), (1, (2,))):
        assert not (first == draw_uniforms(open_stream(seed, *name), 5)).any()


def test_uniforms_do_not_depend_on_how_they_are_cut() -> None:
    """Ten rows at once are the same as three and then seven."""
    whole, stream = draw_uniforms(open_stream(5), 10, 4), open_stream(5)
    assert (np.concatenate([draw_uniforms(stream, 3, 4), draw_uniforms(stream, 7, 4)]) == whole).all()


def test_uniforms_stay_between_their_ends() -> None:
    """A generator that returns zero gives a number whose quantile is finite."""

    class Zeros:
        def random(self, shape: tuple[int, ...]) -> FloatArray:
            return np.zeros(shape)

    stream: Any = Zeros()
    assert np.isfinite(SINGLE["normal"].quantile(draw_uniforms(stream, 3))).all()
