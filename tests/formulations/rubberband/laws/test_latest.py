from __future__ import annotations

import numpy as np
import pytest

from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.formulations.rubberband.laws.lifetimes import law_of_last

SINGLES: list[Distribution] = [
    NormalDistribution(mean_s=20.0, sd_s=3.0),
    LogNormalDistribution(mean_s=20.0, sd_s=15.0),
    EmpiricalDistribution(values_s=np.array([5.0, 10.0, 30.0])),
]


def test_the_last_of_two_measured_values_by_hand() -> None:
    """Of 1 and 3, each as likely: the larger of two draws is 1 once in four, so 2.5 on average, 0.75 at 2."""
    law = law_of_last(EmpiricalDistribution(values_s=np.array([1.0, 3.0])), 2)
    assert law.expected_s == pytest.approx(0.25 * 1 + 0.75 * 3)
    assert law.deviation_s == pytest.approx(np.sqrt(0.25 * 1.5**2 + 0.75 * 0.5**2))
    assert law.shortfall(np.array([2.0, 4.0])) == pytest.approx([0.25, 1.5])
    assert law.quantile(np.array([0.2, 0.3])).tolist() == [1.0, 3.0]


def test_one_draw_and_constants_stay_what_they_are() -> None:
    """There is nothing to wait for beyond the one, or beyond what is always the same."""
    assert law_of_last(SINGLES[0], 1) is SINGLES[0]
    constant = ConstantDistribution(value_s=7.0)
    assert law_of_last(constant, 9) is constant


@pytest.mark.parametrize("single", SINGLES, ids=["normal", "log-normal", "measured"])
@pytest.mark.parametrize("draws", [2, 7])
def test_sampling_confirms_the_last(single: Distribution, draws: int) -> None:
    """Mean and shortfall of 200,000 drawn maxima agree within five standard errors."""
    drawn = single.quantile(np.random.default_rng(3).random((200_000, draws))).max(axis=1)
    law = law_of_last(single, draws)
    assert abs(law.expected_s - drawn.mean()) <= 5 * drawn.std() / np.sqrt(drawn.size)
    short = np.maximum(25.0 - drawn, 0.0)
    assert abs(float(law.shortfall(np.array([25.0]))[0]) - short.mean()) <= 5 * short.std() / np.sqrt(drawn.size)
