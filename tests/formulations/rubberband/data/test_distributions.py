from __future__ import annotations

import warnings

import numpy as np
import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.rubberband.data.cloud import Cloud
from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)

DISTRIBUTIONS = [
    ConstantDistribution(value_s=3.0),
    NormalDistribution(mean_s=40.0, sd_s=3.0),
    NormalDistribution(mean_s=4.0, sd_s=10.0),
    NormalDistribution(mean_s=4.0, sd_s=0.0),
    LogNormalDistribution(mean_s=4.0, sd_s=6.0),
    LogNormalDistribution(mean_s=4.0, sd_s=0.0),
    EmpiricalDistribution(values_s=np.array([7.0, 1.0, 2.5])),
    EmpiricalDistribution(values_s=np.array([2.0, 2.0])),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_moments_are_those_of_the_draws(distribution: Distribution) -> None:
    """Mean and deviation describe what is drawn, clipping included, and nothing drawn is negative."""
    draws = distribution.quantile(np.random.default_rng(0).random(400_000))
    error = distribution.deviation_s / np.sqrt(draws.size)
    assert draws.min() >= 0
    assert abs(draws.mean() - distribution.expected_s) <= 4 * error + 1e-12
    assert draws.std() == pytest.approx(distribution.deviation_s, rel=0.05)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_shortfall_is_the_integral_of_the_cdf(distribution: Distribution) -> None:
    """E[max(t - X, 0)] is the area under the cdf up to t."""
    edges = np.linspace(-1.0, 60.0, 61_001)
    middles = (edges[1:] + edges[:-1]) / 2
    area = np.concatenate([[0.0], np.cumsum(distribution.cdf(middles)) * (edges[1] - edges[0])])
    assert np.abs(distribution.shortfall(edges) - area).max() <= 2e-3


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_quantile_undoes_the_cdf(distribution: Distribution) -> None:
    """The quantile is where the cdf reaches the probability, and not before."""
    probability = np.array([0.2, 1 / 3, 0.5, 2 / 3, 0.9])
    quantile = distribution.quantile(probability)
    assert np.all(distribution.cdf(quantile + 1e-9) >= probability - 1e-9)
    lower = np.maximum(quantile - 1e-6, 0.0)
    assert np.all((distribution.cdf(lower) <= probability + 1e-9) | (quantile == 0))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_scaling_scales_everything(distribution: Distribution) -> None:
    """Half the duration has half the mean and half the deviation."""
    half = distribution.scaled(0.5)
    assert half.expected_s == pytest.approx(distribution.expected_s / 2)
    assert half.deviation_s == pytest.approx(distribution.deviation_s / 2)
    assert half.is_constant is distribution.is_constant


def test_clipped_normal_has_the_known_mean() -> None:
    """max(0, N(4, 10)) has mean 4 * Phi(0.4) + 10 * phi(0.4) = 4 * 0.655422 + 10 * 0.368270 = 6.304388."""
    assert NormalDistribution(mean_s=4.0, sd_s=10.0).expected_s == pytest.approx(6.304388, abs=1e-6)


def test_bare_number_is_a_constant() -> None:
    """A file may say ``initialise_s: 15``."""
    cloud = Cloud.parse({"gpus_per_instance": 4, "price_usd_per_hour": 12.24, "initialise_s": 15})
    assert cloud.initialise_s == ConstantDistribution(value_s=15.0)
    assert Cloud.parse(cloud.to_json_data()) == cloud


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (-1, "initialise_s.value_s: got -1"),
        (True, "initialise_s"),
        ({"form": "nomal", "mean_s": 1, "sd_s": 1}, "initialise_s.form: got 'nomal'; allowed: constant, normal, log-n"),
        (
            {"form": "normal", "mean_s": float("nan"), "sd_s": 1},
            "initialise_s.mean_s: got nan; input should be a finite number",
        ),
        ({"form": "normal", "mean_s": 1, "sd_s": float("inf")}, "initialise_s.sd_s: got inf"),
        ({"form": "log-normal", "mean_s": 0, "sd_s": 1}, "initialise_s.mean_s: got 0"),
        ({"form": "empirical", "values_s": []}, "initialise_s.values_s: got an array of shape .0,.; a list of at leas"),
        (
            {"form": "empirical", "values_s": [1, -2]},
            r"values_s: entry \[1\]: got -2.0; numbers not below zero are all",
        ),
        ({"form": "empirical", "values_s": [1, float("nan")]}, r"values_s: entry \[1\]: got nan; finite numbers are"),
        (
            {"form": "empirical", "values_s": [1e21]},
            "values_s: got 1e.21; numbers from 1e-20 to 1e.20 are allowed; che",
        ),
    ],
)
def test_bad_durations_are_refused(given: object, message: str) -> None:
    """What is no duration is refused with the path, the value and what is allowed."""
    with pytest.raises(DataError, match=message):
        Cloud.parse({"gpus_per_instance": 4, "price_usd_per_hour": 12.24, "initialise_s": given})


def test_material_clipping_is_told_with_the_resulting_mean() -> None:
    """A normal distribution that would often be negative is accepted, and the mean that it then has is stated."""
    normal = {"form": "normal", "mean_s": 4, "sd_s": 10}
    with pytest.warns(DataWarning, match=r"cloud.provision_s: .* negative in 0.34 of all cases.*mean is 6.30439 s"):
        Cloud.parse({"gpus_per_instance": 4, "price_usd_per_hour": 12.24, "provision_s": normal})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mild = {"form": "normal", "mean_s": 10, "sd_s": 2}
        Cloud.parse({"gpus_per_instance": 4, "price_usd_per_hour": 12.24, "provision_s": mild})


@pytest.mark.parametrize("price", [0, -1, float("nan"), float("inf")])
def test_prices_must_be_above_zero(price: float) -> None:
    """With a price of zero no plan would be cheaper than another."""
    with pytest.raises(DataError, match="price_usd_per_hour: got"):
        Cloud(gpus_per_instance=4, price_usd_per_hour=price)
