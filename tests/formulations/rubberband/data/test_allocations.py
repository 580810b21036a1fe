from __future__ import annotations

import re
from typing import Any

import pytest

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.costs import stage_options
from optplan.formulations.rubberband.judge.evaluation import list_costs
from optplan.formulations.rubberband.laws.lifetimes import list_runs

TABLE = {1: 12.0, 2: 7.0, 4: 4.0, 8: 2.5, 16: 2.0}


def _make(trials: int, iterations: int, *, mode: str = "any", **changes: Any) -> RubberBandInstance:  # noqa: ANN401
    cloud = {"gpus_per_instance": 4, "price_usd_per_hour": 3.6, **changes.pop("cloud", {})}
    return RubberBandInstance.parse(
        {
            "experiment": {"form": "stages", "stages": [{"trials": trials, "iterations": iterations}]},
            "training": {"seconds_per_iteration": TABLE, **changes},
            "cloud": cloud,
            "mode": mode,
        }
    )


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        (1, "a trial needs at least 2 GPUs"),
        (3, "trials that queue run on 2 GPUs each, so a multiple of 2 is needed"),
        (13, "6 trials at once need a multiple of 6 GPUs"),
        (
            102,
            "trials would get 17 GPUs each, and iterations are measured on 1, 2, 4, 8, 16 GPUs; "
            "measure them on 17 GPUs",
        ),
        (48, "needs 12 instances of the 9 that are allowed"),
    ],
)
def test_refused_allocations_say_why(gpus: int, reason: str) -> None:
    """An allocation that trials cannot run on is refused with the rule that it breaks, or with what to measure."""
    instance = _make(6, 1, least_gpus=2, cloud={"most_instances": 9})
    assert explain_refusal(instance, instance.brackets[0][0], gpus) == reason
    with pytest.raises(DataError, match=re.escape(f"brackets.0.0.gpus: got {gpus}; {reason}")):
        list_runs(instance, RubberBandSolution.parse({"brackets": [[{"instances": 99, "gpus": gpus}]]}))


def test_what_is_unknown_or_too_wide_is_named() -> None:
    """Beyond most_gpus, and beyond the instances spanned that were measured, nothing is allowed."""
    capped = _make(1, 1, most_gpus=4)
    assert stage_options(capped, 0, 0).gpus.max() == 4
    assert list_costs(capped, 0, 0).gpus.max() == 4
    reason = "trials would get 8 GPUs each, of the 4 that training.most_gpus allows"
    assert explain_refusal(capped, capped.brackets[0][0], 8) == reason
    near = _make(1, 1, factor_by_instances={"instances": [1, 2], "factor": [1, 1.1]})
    assert stage_options(near, 0, 0).gpus.max() == 8
    reason = "trials would span 3 instances each, and training.factor_by_instances ends at 2; measure the factor for 3"
    assert explain_refusal(near, near.brackets[0][0], 12) == reason
