"""Solver and judge state costs apart: break either statement, and the other notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optplan.contracts.result import Status
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.stages import StageOptions
from optplan.solving import solve
from optplan.verification import verify

_EXACT = "optplan.formulations.rubberband.exact"
_JUDGE = "optplan.formulations.rubberband.judge"


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make a search with noise, delays, data and a minimum charge that counts."""
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 3}, {"trials": 1, "iterations": 20}]},
        "training": {
            "seconds_per_iteration": {1: 10, 2: 5.2, 4: 2.8, 8: 1.6},
            **NOISE,
        },
        "cloud": {**CLOUD, "minimum_charge_s": 200},
        "deadline_s": 112.0,
    }
    return RubberBandInstance.parse({**fields, **changes})


CLOUD: dict[str, Any] = {
    "gpus_per_instance": 2,
    "price_usd_per_hour": 3.6,
    "provision_s": 5,
    "initialise_s": {"form": "normal", "mean_s": 9, "sd_s": 1},
    "data_gb": 1,
    "data_price_usd_per_gb": 0.001,
    "most_instances": 4,
    "minimum_charge_s": 0,
}
NOISE = {"iteration_noise": {"form": "normal", "sd_fraction": 0.1}}
#: A search that has to grow: trials on several GPUs start slowly, which the short first stage does not earn.
GROWING: dict[str, Any] = {
    "experiment": {"form": "stages", "stages": [{"trials": 2, "iterations": 4}, {"trials": 1, "iterations": 100}]},
    "training": {"seconds_per_iteration": {1: 10, 2: 5.2, 4: 2.8, 8: 1.6}, "start_s_on": {2: 30}, **NOISE},
    "cloud": CLOUD,
    "deadline_s": 266.0,
}


def _scale(factor: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function's figures wrong by a factor."""

    def wrap(right: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function that it stands for
            figures = right(*arguments, **named)
            if isinstance(figures, StageOptions):
                return replace(figures, expected_s=factor * figures.expected_s)
            return tuple(factor * one for one in figures) if isinstance(figures, tuple) else factor * figures

        return wrong

    return wrap


def _patch(monkeypatch: pytest.MonkeyPatch, module: str, name: str, factor: float) -> None:
    target = __import__(module, fromlist=[name])
    monkeypatch.setattr(target, name, _scale(factor)(getattr(target, name)))


def test_the_growing_search_grows() -> None:
    """One instance first, then four: what growing takes matters to the optimum."""
    solution = solve(_make(**GROWING)).solution
    assert isinstance(solution, RubberBandSolution)
    assert [stage.instances for stage in solution.brackets[0]] == [1, 4]


@pytest.mark.parametrize("confidence", [None, 0.8], ids=["mean", "confidence"])
@pytest.mark.parametrize(
    ("module", "name", "changes"),
    [
        (f"{_EXACT}.chains", "_run_usd", {}),
        (f"{_EXACT}.costs", "time_allocations", GROWING),
        (f"{_EXACT}.costs", "missing_by_stage", {}),
        (f"{_EXACT}.costs", "expected_latest_s", GROWING),
        (f"{_EXACT}.chains", "growth", GROWING),
    ],
)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_wrong_costs_of_the_solver_prove_nothing(
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    changes: dict[str, Any],
    factor: float,
    confidence: float | None,
) -> None:
    """Running, stages, minimum charges, growth, a tenth too much or too little: no optimum comes of it.

    A table that is too cheap may still give a bound that is true, though below the optimum; too dear, it is refused.
    """
    truth = solve(_make(**changes, confidence=confidence))
    assert verify(_make(**changes, confidence=confidence), truth).ok
    with monkeypatch.context() as patch:
        _patch(patch, module, name, factor)
        result = solve(_make(**changes, confidence=confidence), check=False)
    passed = verify(_make(**changes, confidence=confidence), result).nothing_wrong
    assert not (passed and result.status is Status.OPTIMAL)
    assert not passed or (result.bound or 0.0) < (truth.objective or 0.0)
    if factor > 1.0:
        assert not passed


@pytest.mark.parametrize("confidence", [None, 0.8], ids=["mean", "confidence"])
@pytest.mark.parametrize(
    ("module", "name", "changes"),
    [
        (f"{_JUDGE}.evaluation", "option_of", {}),
        (f"{_JUDGE}.evaluation", "missing_by_stage", {}),
        (f"{_JUDGE}.evaluation", "expected_latest_s", GROWING),
    ],
)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_true_result_does_not_pass_a_wrong_judge(
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    changes: dict[str, Any],
    factor: float,
    confidence: float | None,
) -> None:
    """The solver has nothing from the judge that would be wrong in the same way."""
    result = solve(_make(**changes, confidence=confidence))
    with monkeypatch.context() as patch:
        _patch(patch, module, name, factor)
        assert not verify(_make(**changes, confidence=confidence), result).nothing_wrong


def test_nothing_of_one_side_is_remembered_for_the_other() -> None:
    """What was computed of an instance is kept apart, too; what follows from laws alone is not."""
    instance = _make()
    solve(instance, check=False)
    assert instance.solver_cache
    before = dict(instance.judge_cache)
    instance.judge_cache.clear()
    solve(instance, check=False)
    assert set(instance.judge_cache) <= set(before)
    assert not any(instance.judge_cache.get(key) is value for key, value in instance.solver_cache.items())
    assert np.isfinite(solve(instance).objective or np.nan)
