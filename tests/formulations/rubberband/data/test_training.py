from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optplan.errors import DataError, DataWarning
from optplan.formulations.rubberband.data.distributions import ConstantDistribution, LogNormalDistribution
from optplan.formulations.rubberband.data.training import TrainingProfile
from optplan.instances.files import read_instance

CASES = Path(__file__).parents[3] / "cases"
ONE = np.array([1])


def test_throughput_is_interpolated_between_measurements() -> None:
    """Between 4 s on 2 GPUs (0.25/s) and 2 s on 4 (0.5/s), 3 GPUs do 0.375/s: 2.6667 s."""
    profile = TrainingProfile.parse({"seconds_per_iteration": {"4": 2, "1": 7.5, "2": 4}})
    assert profile.seconds(np.array([1, 2, 3, 4]), np.ones(4, dtype=np.int64)) == pytest.approx([7.5, 4, 8 / 3, 2])
    assert profile.knows(np.array([1, 3, 4, 5]), np.ones(4, dtype=np.int64)).tolist() == [True, True, True, False]
    assert profile.largest_gpus == 4


def test_speedup_curves_give_seconds() -> None:
    """An Amdahl curve with f = 0.1 makes 12 s into 12 * (0.1 + 0.9 / 4) = 3.9 s on 4 GPUs; tables know their widths."""
    amdahl = {"form": "scaled", "base_s": 12, "speedup": {"form": "amdahl", "serial_fraction": 0.1}}
    profile = TrainingProfile.parse({"seconds_per_iteration": amdahl})
    assert profile.seconds(np.array([4]), ONE) == pytest.approx([3.9])
    assert profile.largest_gpus is None
    table = {"form": "scaled", "base_s": 12, "speedup": {"form": "table", "gpus": [1, 4], "speedup": [1, 3]}}
    profile = TrainingProfile.parse({"seconds_per_iteration": table})
    assert profile.knows(np.array([1, 2, 4]), np.ones(3, dtype=np.int64)).tolist() == [True, False, True]


def test_spanning_instances_takes_longer() -> None:
    """A factor of 1.5 on three instances, between 1.2 on two and 1.8 on four; beyond four nothing is known."""
    profile = TrainingProfile.parse(
        {
            "seconds_per_iteration": {1: 8, 16: 1},
            "factor_by_instances": {"instances": [1, 2, 4], "factor": [1, 1.2, 1.8]},
        }
    )
    assert profile.seconds(np.array([16, 16]), np.array([1, 3])) == pytest.approx([1.0, 1.5])
    assert profile.knows(np.array([16, 16]), np.array([4, 5])).tolist() == [True, False]


def test_starts_depend_on_gpus_by_steps() -> None:
    """The start listed for 4 GPUs holds from 4 up to the next number listed."""
    profile = TrainingProfile.parse({"seconds_per_iteration": {1: 8, 16: 1}, "start_s": 1, "start_s_on": {4: 5, 8: 9}})
    starts = [profile.start(gpus).expected_s for gpus in (1, 3, 4, 7, 8, 16)]
    assert starts == [1, 1, 5, 5, 9, 9]
    assert profile.corners() == (1, 16, 3, 7)


def test_noise_is_centred_on_the_seconds() -> None:
    """Noise in seconds is the same on any number of GPUs, as a fraction it shrinks with the time; none is constant."""
    data: dict[str, Any] = {"seconds_per_iteration": {1: 8, 4: 2}}
    profile = TrainingProfile.parse(
        {
            **data,
            "iteration_noise": {"form": "log-normal", "sd_s": 1},
            "trial_noise": {"form": "normal", "sd_fraction": 0.1},
        }
    )
    assert profile.iteration(2.0) == LogNormalDistribution(mean_s=2.0, sd_s=1.0)
    assert (profile.pace(2.0).expected_s, profile.pace(2.0).deviation_s) == (2.0, 0.2)
    assert TrainingProfile.parse(data).pace(2.0) == ConstantDistribution(value_s=2.0)
    measured = TrainingProfile.parse({**data, "iteration_noise": {"form": "empirical", "factors": [0.5, 1.5]}})
    assert measured.iteration(2.0).quantile(np.array([0.5, 1.0])).tolist() == [1.0, 3.0]


def test_clipped_noise_is_told_with_its_mean() -> None:
    """The paper's figure 9 draws iterations from N(4, 10): these take 6.3 s in the mean, and the user is told."""
    with pytest.warns(DataWarning, match=r"training.iteration_noise: .*these count as zero, so the mean is 6.30439 s"):
        TrainingProfile.parse({"seconds_per_iteration": {1: 4}, "iteration_noise": {"form": "normal", "sd_s": 10}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"least_gpus": 2},
            "seconds_per_iteration: is measured on 4, 8 GPUs, not on 2, the least of a trial; measure an it",
        ),
        ({"least_gpus": 8, "most_gpus": 4}, "most_gpus: is 4, below least_gpus (8); raise it"),
        ({"seconds_per_iteration": {4: 0}}, "seconds_per_iteration: entry [0]: got 0.0; numbers above zero"),
        ({"seconds_per_iteration": {4: -1}}, "seconds_per_iteration: entry [0]: got -1.0; numbers above zero"),
        ({"seconds_per_iteration": {4: float("inf")}}, "seconds_per_iteration.seconds: entry [0]: got inf; finite"),
        ({"seconds_per_iteration": {4: float("nan")}}, "seconds_per_iteration.seconds: entry [0]: got nan; finite"),
        ({"seconds_per_iteration": {0: 1}}, "gpus is [0]; numbers of at least 1 in increasing order are needed"),
        ({"seconds_per_iteration": {"four": 1}}, "seconds_per_iteration.form: is missing; add it"),
        (
            {"seconds_per_iteration": {"form": "measured", "gpus": [4, 8], "seconds": [1]}},
            "got 2 numbers of GPUs and 1 times; give one time for each",
        ),
        (
            {
                "seconds_per_iteration": {
                    "form": "scaled",
                    "base_s": 1,
                    "speedup": {"form": "power", "exponent": [0.5, 0.6]},
                }
            },
            "speedup: has 2 rows, one for each epoch; give one curve",
        ),
        ({"iteration_noise": {"form": "normal"}}, "iteration_noise: give either sd_s (seconds) or sd_fraction"),
        ({"trial_noise": {"form": "log-normal", "sd_s": 1, "sd_fraction": 1}}, "trial_noise: give either sd_s (secon"),
        (
            {"trial_noise": {"form": "empirical", "factors": [1, 2]}},
            "the mean of the factors is 1.5; it must be 1: div",
        ),
        ({"trial_noise": {"form": "empirical", "factors": []}}, "got an array of shape (0,); a list of at least one"),
        ({"start_s_on": {"x": 1}}, "start_s_on: got the key 'x'; numbers of GPUs are needed, as in {8: 12.5}"),
        (
            {"factor_by_instances": {"instances": [2, 4], "factor": [1, 2]}},
            "instances is [2, 4]; increasing numbers that begin with 1 are needed",
        ),
        (
            {"factor_by_instances": {"instances": [1, 4], "factor": [1]}},
            "got 2 numbers of instances and 1 factors; give one for each",
        ),
    ],
)
def test_bad_profiles_are_refused(changes: dict[str, Any], message: str) -> None:
    """What is wrong in a profile is named, with what to measure or to change."""
    data = {"seconds_per_iteration": {4: 8, 8: 5}, "least_gpus": 4, **changes}
    with pytest.raises(DataError, match=re.escape(message)):
        TrainingProfile.parse(data)


def test_measurements_far_apart_are_bounded() -> None:
    """Every number of GPUs between two measurements may be looked at, so that there is a largest one."""
    with pytest.raises(DataError, match="gpus ends at 100,000,000; trials on at most 1,000,000 GPUs are looked at"):
        read_instance(CASES / "measured-far-apart.json")
