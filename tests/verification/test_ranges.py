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
    """Nine truths, of each objective, budget, best plan and bound; and version, gap, truths and widths."""
    instance = make_instance(**changes)
    found = verify(instance, solve(instance))
    assert found.ok
    assert len({check.index for check in found.checks if check.family == "range"}) == 9 * 4 + 4
    assert not found.never_checked
    assert not found.on_trust


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda truths: truths[1].update(objective=2800.0), "truths[1] objective"),
        (lambda truths: truths[4]["consumption"].update(budget=1.2), "truths[4] budget"),
        (lambda truths: truths[4].update(consumption={}), "truths[4] budget"),
        (lambda truths: truths[2].update(shifts={"job": {}}), "truths[2].shifts"),
        (lambda truths: truths[2].update(shifts={"other": {"t4": 0.0}}), "truths[2].shifts"),
        (lambda truths: truths[2].update(best_objective=2000.0, best_bound=2000.0), "truths[2] best"),
        (lambda truths: truths[3].update(best_bound=1e9), "truths[3] bound"),
        (lambda truths: truths[3].update(best_bound=1e9, best_objective=2e9), "truths[3] best"),
        (lambda truths: truths[3].update(best_bound=None, best_objective=None), "truths[3] best"),
        (lambda truths: truths[3].update(best_bound=None), "truths[3] bound"),
        (lambda truths: truths[3].update(multipliers={}), "truths[3] bound"),
        (lambda truths: truths[3].update(plan={"branches": 3}), "truths[3] plan"),
        (lambda truths: truths[0].update(best_bound=truths[0]["best_bound"] * 0.99), "truths[0] bound"),
        (lambda truths: truths[1].update(best_objective=truths[1]["best_objective"] * 1.01), "truths[1] best"),
        (lambda truths: truths.reverse(), "truths[0].shifts"),
        (lambda truths: truths.pop(), "truths"),
    ],
)
def test_a_forged_range_is_refused(change: Callable[[list[dict[str, Any]]], object], where: str) -> None:
    """2 GPUs take 2,812.5 s at the lower end of the band; whatever else is said of it fails its check.

    That the plan itself keeps the limits there refutes a bound above it, and that no plan does.
    """
    instance = make_instance()
    found = verify(instance, tamper(solve(instance), change))
    assert where in {check.index for check in found.checks if check.family == "range" and not check.holds}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"gap": 0.1}, "gap"),
        ({"widths": {"job": {"t4": [1, 4]}}}, "widths"),
        ({"widths": {}}, "widths"),
        ({"measurements": []}, "measurements"),
        ({"measurements": [{"subject": "other", "gpu_type": "t4", "gpus": 2, "worth": 5.0}]}, "measurements"),
        ({"measurements": [{"subject": "job", "gpu_type": "t4", "gpus": 2, "worth": 5.0}]}, "worth of job"),
    ],
)
def test_what_follows_from_the_truths_is_derived_again(changes: dict[str, Any], where: str) -> None:
    """Widths are those of the plans given, and what to measure is what the certificate's multipliers say."""
    instance = make_instance(budget="1.2gpu")
    result = solve(instance)
    data = result.to_json_data()
    data["range"] |= changes
    found = verify(instance, type(result).parse(data))
    assert [check.index for check in found.checks if check.family == "range" and not check.holds] == [where]


def test_a_plan_beyond_the_budget_shows_no_end() -> None:
    """2.6 GPUs let all jobs run on 2; at the lower end of the band, of 1.28 times, these take 1.5625, more than 1.4."""
    instance, loose = make_instance(budget="1.4gpu"), solve(make_instance(budget="2.6gpu"))
    assert loose.range is not None
    fast, plan = loose.range.truths[1], loose.to_json_data()["solution"]

    def change(truths: list[dict[str, Any]]) -> None:
        truths[1].update(plan=plan, best_objective=fast.best_objective, best_bound=fast.best_bound)

    found = verify(instance, tamper(solve(instance), change))
    assert {"truths[1] plan"} <= {check.index for check in found.checks if not check.holds}


def test_that_no_plan_is_left_is_derived_again() -> None:
    """On 2 GPUs alone the load is 2 / 1.6 = 1.25 GPUs, and 1.5625 at the lower end: no plan keeps 1.4, which is so."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6], "error": [0.0, 0.25]}
    widths = {"only": [2]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}, "widths": widths}
    instance = make_instance(classes={"job": job}, budget="1.4gpu")
    result = solve(instance)
    assert result.range is not None
    assert result.range.may_have_no_plan
    assert verify(instance, result).ok


def test_that_several_limits_leave_no_plan_is_on_trust() -> None:
    """At the lower end 2 GPUs keep 48 min and take 1.5625 of 1.3 GPUs, 1 GPU keeps these: no limit alone is too low."""
    table = {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.6], "error": [0.0, 0.25]}
    job = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"t4": table}}
    instance = make_instance(classes={"job": job | {"most_mean_jct_s": 2880.0}})
    found = verify(instance, solve(instance))
    assert found.nothing_wrong
    assert "range: the bound of truths[1], that no plan keeps all limits" in found.on_trust


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
