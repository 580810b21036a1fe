"""Ranges are checked: which truths they are of, and what the result's own plan amounts to in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts.result import Result
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.solving import solve
from optplan.verification import verify


def make_instance(**changes: Any) -> BoaInstance:  # noqa: ANN401 - fields of the instance
    """Return one job an hour of 1 GPU-hour, on 1 GPU or 1.6 times as fast on 2, which is wrong by up to 25 %."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6], "error": [0.0, 0.25]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    fields: dict[str, Any] = {"formulation": "boa", "classes": {"job": job}, "gpu_types": {"t4": {}}}
    return BoaInstance.parse(fields | {"name": "one", "problem": "whole", "budget": "1.3gpu"} | changes)


def tamper(result: Result[Any], change: Callable[[list[dict[str, Any]]], object]) -> Result[Any]:
    """Return the result with its range changed."""
    data = result.to_json_data()
    change(data["range"]["truths"])
    return type(result).parse(data)


@pytest.mark.parametrize("changes", [{}, {"problem": "rescaling", "policy": "pure"}, {"policy": "mixed"}])
def test_figures_of_the_plan_in_every_truth_are_checked(changes: dict[str, Any]) -> None:
    """Nine truths, the objective and the budget of each; what the best plan of a truth is, nobody can check."""
    instance = make_instance(**changes)
    found = verify(instance, solve(instance))
    assert found.ok
    assert len({check.index for check in found.checks if check.family == "range"}) == 27
    assert list(found.never_checked) == ["range: the best plans of other truths within the errors of speedups"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda truths: truths[1].update(objective=2800.0), "truths[1] objective"),
        (lambda truths: truths[4]["consumption"].update(budget=1.2), "truths[4] budget"),
        (lambda truths: truths[4].update(consumption={}), "truths[4] budget"),
        (lambda truths: truths[2].update(shifts={"job": {}}), "truths[2] objective"),
        (lambda truths: truths[2].update(shifts={"other": {"t4": 0.0}}), "truths[2] objective"),
        (lambda truths: truths[3].update(best_bound=1e9), "truths[3] best"),
        (lambda truths: truths[3].update(best_bound=1e9, best_objective=2e9), "truths[3] best"),
        (lambda truths: truths[3].update(best_bound=None, best_objective=None), "truths[3] best"),
        (lambda truths: truths.reverse(), "truths[0].shifts"),
    ],
)
def test_a_forged_range_is_refused(change: Callable[[list[dict[str, Any]]], object], where: str) -> None:
    """2 GPUs take 2,812.5 s at the lower end of the band; whatever else is said of it fails its check.

    That the plan itself keeps the limits there refutes a bound above it, and that no plan does.
    """
    instance = make_instance()
    found = verify(instance, tamper(solve(instance), change))
    assert where in {check.index for check in found.checks if check.family == "range" and not check.holds}


def test_a_range_without_a_plan_is_refused() -> None:
    """An answer without a plan amounts to nothing in any truth."""
    instance, poor = make_instance(), make_instance(budget="0.9gpu")
    found = verify(poor, solve(poor).replace(range=solve(instance).range))
    assert [check.message for check in found.checks if check.family == "range"] == [
        "a result without a plan that can be evaluated has no range"
    ]


def test_real_widths_are_run_as_whole_ones_and_stay_unchecked() -> None:
    """What runs is not what is decided there, so that the judge says nothing of the range."""
    instance = make_instance(problem="continuous")
    result = solve(instance)
    found = verify(instance, result)
    assert found.ok
    assert not [check for check in found.checks if check.family == "range"]
    assert result.range is not None
    assert "range: what the answer is in other truths within the errors of speedups" in found.never_checked
