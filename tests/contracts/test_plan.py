"""Plans and prices."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import Action, Plan, PlanStep, Price
from optplan.errors import DataError

STEP: dict[str, Any] = {
    "subject": "bert",
    "trigger": "arrival",
    "until": "end of epoch 2",
    "action": "start",
    "gpu_type": "t4",
    "gpus": 4,
    "expected_duration_s": 1800.0,
    "expected_gpu_hours": 2.0,  # 4 GPUs for half an hour
}
PLAN: dict[str, Any] = {
    "formulation": "boa",
    "instance_name": "tiny",
    "instance_hash": "0" * 64,
    "solver": "layered-paths",
    "objective": 1800.0,
    "objective_unit": "s",
    "steps": [STEP],
}


def test_json_round_trip() -> None:
    """Defaults are written out, empty fields left out, and reading gives the same plan."""
    plan = Plan.parse(PLAN | {"prices": {"t4": {"usd_per_hour": 0.526, "source": "price list", "date": "2025-01-01"}}})
    data = plan.to_json_data()
    assert data["version"] == 1
    assert "bound" not in data
    assert Plan.parse(data) == plan
    assert plan.steps[0].action is Action.START
    assert plan.prices["t4"] == Price(usd_per_hour=0.526, source="price list", date="2025-01-01")


def test_unknown_versions_are_refused() -> None:
    """The message names the version that is understood."""
    with pytest.raises(DataError, match="version: got 2; allowed: 1"):
        Plan.parse(PLAN | {"version": 2})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gpus", 0, "steps.0.gpus: got 0; input should be greater than or equal to 1"),
        ("share", 0.0, "steps.0.share: got 0.0; input should be greater than 0"),
        ("share", 1.5, "steps.0.share: got 1.5; input should be less than or equal to 1"),
        ("branch", 0, "steps.0.branch: got 0; input should be greater than or equal to 1"),
        ("expected_duration_s", -1.0, "steps.0.expected_duration_s: got -1.0"),
        ("action", "kill", "steps.0.action: got 'kill'; allowed: start, resize, .*stop"),
        ("gpu", "t4", "steps.0.gpu: unknown field 'gpu'; did you mean 'gpus'"),
    ],
)
def test_impossible_steps_are_refused(field: str, value: object, message: str) -> None:
    """An executor never meets them."""
    with pytest.raises(DataError, match=message):
        Plan.parse(PLAN | {"steps": [STEP | {field: value}]})


def test_prices_are_above_zero() -> None:
    """A free GPU is a missing price."""
    with pytest.raises(DataError, match=r"usd_per_hour: got 0\.0; input should be greater than 0"):
        Price(usd_per_hour=0.0)


def test_steps_are_frozen() -> None:
    """A plan that was written down does not change."""
    with pytest.raises(ValueError, match="frozen"):
        PlanStep.parse(STEP).gpus = 8  # type: ignore[misc]
