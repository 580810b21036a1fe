"""The judge's statement of stages against the solver's: two statements of one problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact import costs
from optplan.formulations.rubberband.exact.costs import stage_options
from optplan.formulations.rubberband.judge.evaluation import growth, list_costs
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.progress import OutOfTime, Stopwatch

NOISES: list[dict[str, Any]] = [
    {},
    {"iteration_noise": {"form": "normal", "sd_fraction": 0.15}},
    {"iteration_noise": {"form": "log-normal", "sd_s": 4}, "start_s": {"form": "normal", "mean_s": 9, "sd_s": 1}},
]


def _make(trials: int, per_instance: int, mode: str, noise: dict[str, Any], most: int | None) -> RubberBandInstance:
    return RubberBandInstance.parse(
        {
            "experiment": {"form": "stages", "stages": [{"trials": trials, "iterations": 3}]},
            "training": {"seconds_per_iteration": {1: 12.0, 2: 7.0, 4: 4.0, 8: 2.5}, **noise},
            "cloud": {
                "gpus_per_instance": per_instance,
                "price_usd_per_hour": 3.6,
                "initialise_s": {"form": "normal", "mean_s": 20, "sd_s": 3},
                "data_gb": 2,
                "data_price_usd_per_gb": 0.01,
                "most_instances": most,
            },
            "mode": mode,
        }
    )


@given(
    trials=st.integers(1, 9),
    per_instance=st.sampled_from([1, 2, 3, 4, 8]),
    mode=st.sampled_from(["any", "fair"]),
    noise=st.sampled_from(NOISES[:2]),
    most=st.sampled_from([None, 8, 11]),
)
def test_every_allowed_allocation_is_listed(
    trials: int, per_instance: int, mode: str, noise: dict[str, Any], most: int | None
) -> None:
    """Exactly those GPUs that the rules allow, by instances."""
    instance = _make(trials, per_instance, mode, noise, most)
    costs, stage = list_costs(instance, 0, 0), instance.brackets[0][0]
    allowed = [gpus for gpus in range(1, 8 * trials + 2) if not explain_refusal(instance, stage, gpus)]
    assert sorted(costs.gpus.tolist()) == allowed
    assert np.all(np.diff(costs.instances) >= 0)


@pytest.mark.parametrize("noise", NOISES, ids=["constant", "normal", "log-normal"])
@pytest.mark.parametrize("mode", ["any", "fair"])
def test_both_statements_agree_where_both_have_an_allocation(noise: dict[str, Any], mode: str) -> None:
    """Instances, expected times and GPU-seconds of what the solver lists are what the judge finds, too."""
    instance = _make(6, 4, mode, noise, 8)
    options = stage_options(instance, 0, 0)
    for row, gpus in enumerate(options.gpus.tolist()):
        cost = option_of(instance, 0, 0, gpus)
        assert int(cost.instances[0]) == int(options.instances[row])
        assert float(cost.expected_s[0]) == pytest.approx(float(options.expected_s[row]), rel=1e-12)
        assert float(cost.busy_gpu_s[0]) == pytest.approx(float(options.busy_gpu_s[row]), rel=1e-12)


@given(before=st.integers(0, 30), after=st.integers(0, 30))
def test_both_statements_of_growth_agree(before: int, after: int) -> None:
    """Seconds and US dollars of changing the number of instances held."""
    instance = _make(6, 4, "any", {}, 8)
    for own, other in zip(growth(instance, before, after), costs.growth(instance, before, after), strict=True):
        assert float(own) == pytest.approx(float(other), rel=1e-12)


def test_listing_ends_with_the_time() -> None:
    """The judge's loops look at the clock."""
    with pytest.raises(OutOfTime):
        list_costs(_make(6, 4, "any", NOISES[2], 8), 0, 0, Stopwatch(limit_s=0.0))
