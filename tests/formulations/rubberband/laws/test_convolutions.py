from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.formulations.rubberband.laws.convolutions import (
    ClippedLaw,
    add_laws,
    expected_chain_maximum,
    expected_law_maximum,
    expected_maximum,
    expected_shortfall,
    law_of_cdf,
)

NORMAL = NormalDistribution(mean_s=40.0, sd_s=3.0)
CLIPPED = NormalDistribution(mean_s=4.0, sd_s=10.0)
SKEWED = LogNormalDistribution(mean_s=4.0, sd_s=4.0)
MEASURED = EmpiricalDistribution(values_s=np.array([1.0, 2.5, 3.3, 7.0]))


@pytest.mark.parametrize("distribution", [NORMAL, CLIPPED, SKEWED, MEASURED], ids=str)
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_maxima_agree_with_slow_quadrature(distribution: Distribution, count: int) -> None:
    """E[max] is the integral of 1 - F**n, to nine digits."""
    corners = [1.0, 2.5, 3.3, 7.0, *distribution.quantile(np.array([1e-6, 0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-8]))]
    ends = sorted({0.0, *corners, float(distribution.quantile(np.array([1 - 1e-16]))[0]) + 1.0})

    def beyond(t: float) -> float:
        return 1.0 - float(distribution.cdf(np.array(t))) ** count

    pieces = [quad(beyond, low, high, epsabs=1e-10, epsrel=1e-12)[0] for low, high in pairwise(ends)]
    assert expected_maximum(distribution, np.array([count]))[0] == pytest.approx(sum(pieces), rel=1e-9)


def test_maxima_of_few_and_of_constants() -> None:
    """The maximum of none is zero, of one the mean; of two standard normals 1 / sqrt(pi); of constants the constant."""
    assert expected_maximum(NORMAL, np.array([0, 1, 2])) == pytest.approx([0, 40, 40 + 3 / np.sqrt(np.pi)], rel=1e-12)
    assert expected_maximum(ConstantDistribution(value_s=5.0), np.array([0, 9])).tolist() == [0.0, 5.0]


@pytest.mark.parametrize(("waves", "long_chains", "short_chains"), [(1, 64, 0), (2, 3, 5), (7, 1, 9), (3, 200, 56)])
@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_chains_of_unequal_length_agree_with_slow_quadrature(
    waves: int, long_chains: int, short_chains: int, sd: float
) -> None:
    """With c slots for n trials some chains have one trial fewer; the last of all ends at E[max], to nine digits."""
    mean, center = 10.0, 10.0 * waves

    def beyond(t: float) -> float:
        below = ndtr((t - center) / (sd * np.sqrt(waves))) ** long_chains
        if waves > 1:
            below *= ndtr((t - center + mean) / (sd * np.sqrt(waves - 1))) ** short_chains
        return float(1.0 - below)

    low, high = center - 10 * sd * np.sqrt(waves), center + 10 * sd * np.sqrt(waves)
    edges = np.linspace(low, high, 41)
    reference = low + sum(quad(beyond, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pairwise(edges))
    found = expected_chain_maximum(
        np.array([mean, mean]),
        np.array([sd, 0.0]),
        np.array([waves, waves]),
        np.array([long_chains, long_chains]),
        np.array([short_chains, short_chains]),
    )
    assert found == pytest.approx([reference, center], rel=1e-9)


@pytest.mark.parametrize("count", [1, 4, 100, 4096])
@pytest.mark.parametrize("draws", [1, 16, 512])
def test_grids_reproduce_normal_sums(count: int, draws: int) -> None:
    """Sums of normals are normal: convolution gives the quadrature's maxima to 1e-6, and mean and deviation exactly."""
    law = add_laws([(NORMAL, count)], offset_s=5.0)
    exact = expected_chain_maximum(
        np.array([40.0 * count]), np.array([3.0 * np.sqrt(count)]), np.array([1]), np.array([draws]), np.array([0])
    )
    assert expected_law_maximum(law, draws, None, 0) - 5.0 == pytest.approx(exact[0], rel=1e-6)
    assert law.expected_s == pytest.approx(40.0 * count + 5.0, rel=1e-12)
    assert law.deviation_s == pytest.approx(3.0 * np.sqrt(count), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("distribution", [CLIPPED, SKEWED, MEASURED], ids=str)
@pytest.mark.parametrize("count", [2, 30])
def test_grids_agree_with_draws(distribution: Distribution, count: int) -> None:
    """Maxima of 16 sums of clipped, skewed or measured times, within four standard errors of brute force."""
    rng = np.random.default_rng(1)
    latest = distribution.quantile(rng.random((20_000, 16, count))).sum(axis=2).max(axis=1)
    found = expected_law_maximum(add_laws([(distribution, count)]), 16, None, 0)
    assert abs(found - latest.mean()) <= 4 * latest.std() / np.sqrt(latest.size)


def test_normal_approximation_is_far_off_where_grids_are_needed() -> None:
    """Of 16 sums of two log-normal times, the normal approximation misses the last by more than 10 %."""
    exact = expected_law_maximum(add_laws([(SKEWED, 2)]), 16, None, 0)
    mean, deviation = np.array([8.0]), np.array([4.0 * np.sqrt(2)])
    normal = expected_chain_maximum(mean, deviation, np.array([1]), np.array([16]), np.array([0]))[0]
    assert abs(normal - exact) > 0.1 * exact


@pytest.mark.parametrize("distribution", [CLIPPED, SKEWED, MEASURED], ids=str)
def test_mixtures_of_chains_on_grids_agree_with_draws(distribution: Distribution) -> None:
    """Three chains of two trials and four of one: the last of all, within four standard errors of brute force."""
    rng = np.random.default_rng(2)
    long = distribution.quantile(rng.random((60_000, 3, 2))).sum(axis=2).max(axis=1)
    latest = np.maximum(long, distribution.quantile(rng.random((60_000, 4))).max(axis=1))
    found = expected_law_maximum(add_laws([(distribution, 2)]), 3, add_laws([(distribution, 1)]), 4)
    assert abs(found - latest.mean()) <= 4 * latest.std() / np.sqrt(latest.size)


def test_different_summands_add_up() -> None:
    """A constant, a normal and two measured times: mean 5 + 40 + 2 * 3.45, variance 9 + 2 * 4.9325; cdf as drawn."""
    law = add_laws([(ConstantDistribution(value_s=5.0), 1), (NORMAL, 1), (MEASURED, 2)])
    assert law.expected_s == pytest.approx(51.9)
    assert law.deviation_s**2 == pytest.approx(9 + 2 * MEASURED.values_s.var())
    rng = np.random.default_rng(3)
    sums = 5.0 + NORMAL.quantile(rng.random(100_000)) + MEASURED.quantile(rng.random((100_000, 2))).sum(axis=1)
    times = np.array([45.0, 50.0, 52.0, 60.0])
    assert law.cdf(times) == pytest.approx([(sums <= t).mean() for t in times], abs=0.007)
    short = np.array([np.maximum(t - sums, 0).mean() for t in times])
    assert law.shortfall(times) == pytest.approx(short, abs=0.03)
    assert law.cdf(law.quantile(np.array([0.1, 0.9]))) == pytest.approx([0.1, 0.9], abs=0.01)


def test_rare_small_values_are_not_lost() -> None:
    """One summand that is rarely far below its mean keeps the sum's mean, and the shortfall that hangs on it.

    99,999 of 100,000 values are 20 s and one is 0: the mean is 19.9998 s, the deviation 0.063 s, and 0 is 316 of these
    below. Of 30 s, 20 + 5 s fall short by 5 s and 0 + 5 s by 25 s: 5.0002 s in the mean.
    """
    rare = EmpiricalDistribution(values_s=np.array([0.0] + [20.0] * 99_999))
    law = add_laws([(rare, 1), (NormalDistribution(mean_s=5.0, sd_s=0.1), 1)])
    assert float(law.mass @ law.values_s) == pytest.approx(24.9998, abs=1e-7)
    assert float(law.shortfall(np.array([30.0]))[0]) == pytest.approx(5.0002, abs=1e-6)
    assert law.cdf(np.array([10.0]))[0] == pytest.approx(1e-5, rel=0.01)


def test_shortfall_of_one_varying_part_is_exact() -> None:
    """40 s and a measured 10 or 20 s fall short of 60 s by 10 s or not at all: exactly 5 s; two of them by a grid."""
    parts = EmpiricalDistribution(values_s=np.array([10.0, 20.0]))
    forty = ConstantDistribution(value_s=40.0)
    assert expected_shortfall([(forty, 1), (parts, 1)], 60.0) == 5.0
    assert expected_shortfall([(forty, 1), (parts, 1)], 50.0) == 0.0
    assert expected_shortfall([(forty, 1), (parts, 2)], 70.0) == pytest.approx(2.5, abs=0.02)


def test_sums_of_constants_are_one_value() -> None:
    """Nothing random leaves one value, of which the cdf is a step."""
    law = add_laws([(ConstantDistribution(value_s=5.0), 3)])
    assert law.is_constant
    assert law.cdf(np.array([14.9, 15.0])).tolist() == [0.0, 1.0]
    assert law.shortfall(np.array([10.0, 18.0])).tolist() == [0.0, 3.0]


def test_clipping_a_sum_moves_its_mean() -> None:
    """max(0, N(1, 3)): 1 * Phi(1/3) + 3 * phi(1/3), as for a single clipped normal."""
    law = ClippedLaw(add_laws([(NORMAL, 1)], offset_s=-39.0))
    single = NormalDistribution(mean_s=1.0, sd_s=3.0)
    assert law.expected_s == pytest.approx(single.expected_s, rel=1e-5)
    assert law.deviation_s == pytest.approx(single.deviation_s, rel=1e-4)
    assert law.shortfall(np.array([-1.0, 0.0, 4.0])) == pytest.approx(single.shortfall(np.array([-1, 0, 4])), rel=1e-4)
    assert law.quantile(np.array([0.01, 0.9]))[0] == 0.0


def test_laws_known_by_their_cdf_keep_the_mean() -> None:
    """A cdf put on a grid has the mean that it is given, and its deviation but for the step."""
    law = law_of_cdf(NORMAL.cdf, (10.0, 70.0), 40.0)
    assert law.expected_s == pytest.approx(40.0, rel=1e-12)
    assert law.deviation_s == pytest.approx(3.0, rel=1e-4)
    assert law.cdf(np.array([40.0, 46.0])) == pytest.approx(ndtr([0.0, 2.0]), abs=1e-5)
