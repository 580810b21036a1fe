"""How much greater than a limit the mean may be of what keeps it with a probability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.formulations.rubberband.laws import confidence
from optplan.formulations.rubberband.laws.confidence import share_of_limit

from ..conftest import ListPlans


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    """Make one trial of four iterations of 10 s on one GPU, which vary by a fifth: 40 s with a deviation of 4 s."""
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": [{"trials": 1, "iterations": 4}]},
        "training": {"seconds_per_iteration": {1: 10}, "iteration_noise": {"form": "normal", "sd_fraction": 0.2}},
        "cloud": {"gpus_per_instance": 1, "price_usd_per_hour": 3.6, "most_instances": 2},
        "deadline_s": 60,
        "confidence": 0.9,
    }
    return RubberBandInstance.parse(fields | changes)


def test_cantelli_by_hand() -> None:
    """A tenth of the mean, and sqrt(0.1 / 0.9) = 1/3 for nine of ten runs: a limit is 1 - 1/30 of what it leaves."""
    assert share_of_limit(_make()) == pytest.approx(1.0 - 1.0 / 30.0, abs=1e-4)
    assert share_of_limit(_make(confidence=0.5)) == pytest.approx(0.9, abs=2e-4)
    # A request of 2, 4 or 6 s has a deviation of sqrt(8/3), 0.408 of its mean.
    cloud = _make().cloud.to_json_data() | {"provision_s": {"form": "empirical", "values_s": [2, 4, 6]}}
    share = 1.0 - math.sqrt(8.0 / 3.0) / 4.0 / 3.0
    assert share_of_limit(_make(cloud=cloud)) == pytest.approx(share, abs=1e-3)


def test_two_values_leave_no_room() -> None:
    """One request of ten takes 1,001 s, the others 1 s: nine of ten runs are done in 1 s, of a mean of 101 s.

    The deviation is 300 s; 1 - 300 / 101 / 3 is 1 / 101. With half of the runs nothing follows.
    """
    cloud = _make().cloud.to_json_data() | {"provision_s": {"form": "empirical", "values_s": [1] * 9 + [1001]}}
    training = {"seconds_per_iteration": {1: 1e-6}}
    assert 0.0 < share_of_limit(_make(cloud=cloud, training=training, confidence=0.905)) < 0.05
    assert share_of_limit(_make(cloud=cloud, training=training)) == pytest.approx(1.0 / 101.0, abs=2e-3)
    assert share_of_limit(_make(cloud=cloud, training=training)) < 1.0 / 101.0
    assert share_of_limit(_make(cloud=cloud, training=training, confidence=0.5)) < 0.0


def test_nothing_is_known_of_more_durations_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two, an allocation and an initialisation, are more than one: no share is above zero."""
    monkeypatch.setattr(confidence, "_MOST_DURATIONS", 1)
    assert share_of_limit(_make()) == -math.inf


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.9, 0.99])
def test_every_plan_that_keeps_a_limit_has_such_a_mean(confidence: float, list_every_plan: ListPlans) -> None:
    """Of every plan the quantile of the time is at least that share of its mean; stages, starts and delays vary."""
    stages = [{"trials": 3, "iterations": 2}, {"trials": 1, "iterations": 4}]
    training = {
        "seconds_per_iteration": {1: 10, 2: 6},
        "iteration_noise": {"form": "log-normal", "sd_fraction": 0.8},
        "start_s": {"form": "log-normal", "mean_s": 5, "sd_s": 5},
    }
    cloud = _make().cloud.to_json_data() | {
        "gpus_per_instance": 2,
        "provision_s": {"form": "log-normal", "mean_s": 10, "sd_s": 10},
        "initialise_s": {"form": "empirical", "values_s": [5, 10, 30]},
    }
    experiment = {"form": "stages", "stages": stages}
    instance = _make(experiment=experiment, training=training, cloud=cloud, confidence=confidence)
    share = share_of_limit(instance)
    measures = [evaluate(instance, plan).measures for plan in list_every_plan(instance)]
    least = np.array([one["confident_s"] / one["expected_s"] for one in measures]).min()
    assert share <= least
