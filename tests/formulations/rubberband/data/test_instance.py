from __future__ import annotations

import re
from typing import Any

import pytest

from optplan.errors import DataError, UsageError
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.costs import describe


def _data(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of any kind
    return {
        "experiment": {"form": "sha", "trials": 4, "least_iterations": 1, "most_iterations": 3},
        "training": {"seconds_per_iteration": {1: 40, 2: 22, 4: 12}},
        "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 12.24},
        **changes,
    }


def test_deadline_is_a_limit_in_seconds() -> None:
    """The cheapest plan within a deadline: cost in dollars, limit in seconds."""
    instance = RubberBandInstance.parse(_data(deadline_s=600))
    assert (instance.objective_unit, instance.limits) == ("usd", {"deadline": 600.0})
    assert instance.limit_as_given("deadline") == (600.0, "s")
    assert instance.price_unit("deadline") == "usd per s of deadline"
    assert describe(instance).problem == "cheapest"


def test_budget_is_a_limit_in_dollars() -> None:
    """The fastest plan within a budget: time in seconds, limit in dollars."""
    instance = RubberBandInstance.parse(_data(objective="time", budget="25usd"))
    assert (instance.objective_unit, instance.limits) == ("s", {"budget": 25.0})
    assert instance.limit_as_given("budget") == (25.0, "usd")
    assert instance.price_unit("budget") == "s per usd of budget"
    assert describe(instance).problem == "fastest"


def test_description_names_what_solvers_must_know() -> None:
    """Problem, mode, the number of choices, and what goes beyond one cluster billed by instance."""
    hyperband = {"form": "hyperband", "most_iterations": 9, "order": "side-by-side"}
    cloud = {"gpus_per_instance": 4, "price_usd_per_hour": 1, "billing": "per-function"}
    data = _data(experiment=hyperband, cloud=cloud, deadline_s=9, confidence=0.9, mode="fair")
    described = describe(RubberBandInstance.parse(data))
    assert described.problem == "cheapest-with-confidence"
    assert described.policy == "fair"
    assert described.features == {"side-by-side", "per-function"}
    # 4 trials: 1 or 2 slots, or p = 1 to 4 each; 2 trials: 1 slot, or p = 1 to 4
    assert describe(RubberBandInstance.parse(_data(mode="fair"))).cells == 6 + 5


def test_files_say_the_same_when_read_again() -> None:
    """Writing and reading an instance changes nothing, nor does the order of a table's keys."""
    instance = RubberBandInstance.parse(_data(deadline_s=600))
    again = RubberBandInstance.parse(instance.to_json_data())
    assert again == instance
    assert again.content_hash() == instance.content_hash()
    swapped = _data(deadline_s=600, training={"seconds_per_iteration": {"4": 12, "2": 22, "1": 40}})
    assert RubberBandInstance.parse(swapped).content_hash() == instance.content_hash()


def test_missing_limit_is_asked_for() -> None:
    """Without a deadline or a budget there is a frontier, but no limit."""
    instance = RubberBandInstance.parse(_data())
    assert not instance.has_limit
    with pytest.raises(UsageError, match="has no deadline; give one, as in --deadline 20min or deadline_s=1200"):
        _ = instance.limits
    with pytest.raises(UsageError, match="has no budget; give one, as in --budget 25usd"):
        _ = instance.replace(objective="time").limits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "time", "budget": "25gpu"}, "budget: got '25gpu'; the budget is money in all"),
        ({"objective": "time", "budget": "25eur"}, "budget: '25eur' has no known unit"),
        ({"objective": "time", "budget": 25}, "budget: got 25; write an amount of money with its unit, as in 25usd"),
        ({"objective": "time", "budget": "1e30usd"}, "numbers from 1e-20 to 1e+20 are allowed; check the unit"),
        ({"deadline_s": 0}, "deadline_s: got 0; input should be greater than 0"),
        ({"deadline_s": float("nan")}, "deadline_s: got nan"),
        ({"confidence": 1}, "confidence: got 1; input should be less than or equal to 0.9999"),
        ({"confidence": 0}, "confidence: got 0; input should be greater than or equal to 0.001"),
        ({"mode": "unfair"}, "mode: got 'unfair'; allowed: any, fair; did you mean 'fair'?"),
        ({"deadline": 5}, "unknown field 'deadline'; did you mean 'deadline_s'?"),
        (
            {
                "training": {
                    "seconds_per_iteration": {
                        "form": "scaled",
                        "base_s": 1,
                        "speedup": {"form": "power", "exponent": 1},
                    }
                }
            },
            "training.seconds_per_iteration: are known for any number of GPUs, and nothing limits the number of inst",
        ),
        (
            {
                "training": {"seconds_per_iteration": {8: 1}, "least_gpus": 8},
                "cloud": {"gpus_per_instance": 4, "price_usd_per_hour": 1, "most_instances": 1},
            },
            "cloud.most_instances: is 1; a trial of 8 GPUs needs 2; raise it",
        ),
        (
            {
                "training": {
                    "seconds_per_iteration": {8: 1},
                    "least_gpus": 8,
                    "factor_by_instances": {"instances": [1], "factor": [1]},
                }
            },
            "training.factor_by_instances: ends at 1 instances; a trial of 8 GPUs spans 2; measure the factor for 2",
        ),
        (
            {"experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 0}]}},
            "experiment.stages.0.iterations: got 0; input should be greater than or equal to 1",
        ),
    ],
)
def test_bad_instances_are_refused(changes: dict[str, Any], message: str) -> None:
    """Every message names the field, the value, what is allowed and what to do."""
    with pytest.raises(DataError, match=re.escape(message)):
        RubberBandInstance.parse(_data(**changes))
