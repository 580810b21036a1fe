"""The budget as a bound: what multipliers prove, and what they do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from optplan.formulations.seer.data.instance import SeerInstance
from optplan.formulations.seer.judge.duality import certify_budget, dual_bound


def test_the_budget_bounds_training(example: SeerInstance) -> None:
    """Training never exceeds spending: with a multiplier of 1 the bound is the budget, 80; a larger one proves less."""
    assert dual_bound(example, {"budget": 1.0, "deadline": 0.0}) == 80.0
    assert dual_bound(example, {"budget": 1.5, "deadline": 2.0}) == 140.0  # 1.5 * 80 + 2 * 10
    assert certify_budget(example).bound == 80.0


def test_less_than_one_proves_nothing(make_instance: Callable[..., SeerInstance]) -> None:
    """A GPU-minute of training costs at least one of the budget; priced lower, more of them would always pay."""
    assert dual_bound(make_instance(resize_s=60), {"budget": 0.999, "deadline": 5.0}) == pytest.approx(math.inf)
