"""What multipliers prove of training and of what any search takes, and what they do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.judge.spending import dual_bound, least_consumption

MakeInstance = Callable[..., SeerInstance]


def test_the_budget_bounds_training(example: SeerInstance) -> None:
    """Training never exceeds spending: with a multiplier of 1 the bound is the budget, 80; a larger one proves less."""
    assert dual_bound(example, {"budget": 1.0, "deadline": 0.0}) == 80.0
    assert dual_bound(example, {"budget": 1.5, "deadline": 2.0}) == 140.0  # 1.5 * 80 + 2 * 10


def test_less_than_one_proves_nothing(make_instance: MakeInstance) -> None:
    """A GPU-minute of training costs at least one of the budget; priced lower, more of them would always pay."""
    assert dual_bound(make_instance(resize_s=60), {"budget": 0.999, "deadline": 5.0}) == pytest.approx(math.inf)


def test_the_least_consumption_is_one_trial(make_instance: MakeInstance) -> None:
    """2 GPUs for 3 minutes: 6 GPU-minutes of the budget, 3 minutes of the deadline."""
    instance = make_instance(least_gpus=2, least_round_min=3)
    assert least_consumption(instance, np.array([1.0, 0.0])) == {"one trial": 6.0}
    assert least_consumption(instance, np.array([0.5, 2.0])) == {"one trial": 9.0}


def test_of_a_loss_multipliers_prove_nothing(make_instance: MakeInstance) -> None:
    """80 GPU-minutes are no bound of an expected final loss, whatever the multipliers."""
    prior = {
        "form": "parametric",
        "start_loss": 1.0,
        "terminal_low_loss": 0.0,
        "terminal_high_loss": 1.0,
        "rate_low_per_min": 1.0,
        "rate_high_per_min": 1.0,
        "scaling": {"gpus": [1], "speedup": [1.0]},
    }
    instance = make_instance(objective="quality", prior=prior)
    assert dual_bound(instance, {"budget": 1.0, "deadline": 0.0}) == -math.inf
