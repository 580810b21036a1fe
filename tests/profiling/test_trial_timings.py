"""What timed trials amount to: means, two kinds of noise, starts, and the section of an instance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optplan.errors import MeasurementError
from optplan.profiling.trial_timings import Estimate, TrialTiming, describe_seconds, summarise


def timing(trial: int, gpus: int, steps_s: tuple[float, ...], overhead_s: float = 2.0, **parts: float) -> TrialTiming:
    """Return the timing of a trial that went on from a checkpoint."""
    return TrialTiming(trial, gpus, True, steps_s, (1.0,) * len(steps_s), overhead_s, **parts)


def test_noise_is_split_into_that_of_iterations_and_that_of_trials() -> None:
    """Means 10 and 12 s around 11: 2/121 within trials, so 1/121 of the 2/121 between the means is theirs alone."""
    measured = summarise([timing(1, 1, (9.0, 11.0)), timing(2, 1, (11.0, 13.0))])
    assert (measured.iteration_s[1].mean, measured.iteration_s[1].count) == (11.0, 2)
    assert measured.iteration_s[1].sd == pytest.approx(math.sqrt(2.0))
    assert measured.iteration_noise == pytest.approx(math.sqrt(2.0) / 11.0)
    assert measured.trial_noise == pytest.approx(1.0 / 11.0)
    training = measured.make_training().to_json_data()
    assert training["iteration_noise"] == {"form": "normal", "sd_fraction": 0.12856}
    assert training["trial_noise"] == {"form": "normal", "sd_fraction": 0.090909}


def test_numbers_of_gpus_are_pooled_relative_to_their_means() -> None:
    """The same relative times on 2 GPUs, at half the seconds, leave both noises as they are."""
    one = [timing(1, 1, (9.0, 11.0)), timing(2, 1, (11.0, 13.0))]
    both = summarise([*one, timing(1, 2, (4.5, 5.5)), timing(2, 2, (5.5, 6.5))])
    alone = summarise(one)
    assert both.iteration_noise == pytest.approx(alone.iteration_noise)
    assert both.trial_noise == pytest.approx(alone.trial_noise)


def test_iterations_that_explain_all_leave_no_noise_to_trials() -> None:
    """Equal means: between trials there is less than chance would make, and that counts as nothing."""
    measured = summarise([timing(1, 1, (9.0, 11.0)), timing(2, 1, (8.0, 12.0))])
    assert measured.trial_noise == 0.0
    assert "trial_noise" not in measured.make_training().to_json_data()


@pytest.mark.parametrize(
    ("overheads", "form", "starts"),
    [
        ({1: (2.0, 2.0), 4: (2.0, 2.0)}, "constant", (2.0, 2.0)),
        ({1: (1.0, 1.0), 4: (2.0, 2.0)}, "constant", (1.0, 2.0)),
        ({1: (1.5, 3.5), 4: (2.5, 2.7)}, "log-normal", (2.55, 2.55)),  # 2.5 and 2.6 s: no more than chance
        ({1: (1.0, 1.1), 4: (9.0, 9.1)}, "normal", (1.05, 9.05)),
    ],
)
def test_starts_are_told_apart_where_they_differ(
    overheads: dict[int, tuple[float, float]], form: str, starts: tuple[float, float]
) -> None:
    """Only where the means differ by more than chance does each number of GPUs have its own."""
    timings = [
        timing(trial, gpus, (1.0, 1.0), each)
        for gpus, pair in overheads.items()
        for trial, each in enumerate(pair, start=1)
    ]
    training = summarise(timings).make_training()
    assert training.start_s.form == form
    assert tuple(training.start(gpus).expected_s for gpus in overheads) == pytest.approx(starts)
    assert bool(training.start_s_on) == (starts[0] != starts[1])


def test_noises_that_were_drawn_are_found_again() -> None:
    """400 trials of 10 iterations, on 2 GPUs as well: 5 % within and 10 % between, to a twentieth of themselves."""
    rng, timings = np.random.default_rng(7), []
    for trial in range(1, 401):
        for gpus, mean_s in ((1, 10.0), (2, 6.0)):
            pace = mean_s * (1.0 + 0.1 * rng.standard_normal())
            timings.append(timing(trial, gpus, tuple((pace + 0.05 * mean_s * rng.standard_normal(10)).tolist())))
    measured = summarise(timings)
    assert measured.iteration_noise == pytest.approx(0.05, rel=0.05)
    assert measured.trial_noise == pytest.approx(0.1, rel=0.05)


def test_parts_of_a_start() -> None:
    """Set-up takes 3 s; with a checkpoint 5, so reading it takes 2; where nobody saw it, nothing is said."""
    fresh = TrialTiming(1, 1, False, (), (), 9.0, launch_s=1.0, load_s=3.0, save_s=0.5)
    measured = summarise([fresh, timing(1, 1, (1.0, 1.0), launch_s=2.0, load_s=5.0, save_s=0.5)])
    assert measured.launch_s is not None
    assert measured.launch_s.mean == 1.5
    assert measured.initialise_s == Estimate(3.0, 0.0, 1)
    assert measured.load_s == Estimate(2.0, 0.0, 1)
    assert measured.save_s == Estimate(0.5, 0.0, 2)
    silent = summarise([timing(1, 1, (1.0, 1.0))])
    assert (silent.launch_s, silent.initialise_s, silent.load_s, silent.save_s) == (None, None, None, None)


def test_durations_are_numbers_or_distributions() -> None:
    """All the same: a number; less than a millisecond: nothing; far from zero: normal; near it: log-normal."""
    assert describe_seconds(Estimate.of([7.0, 7.0])) == 7.0
    assert describe_seconds(Estimate.of([1e-5, 3e-5])) == 0.0
    assert describe_seconds(Estimate.of([9.0, 11.0])) == {"form": "normal", "mean_s": 10.0, "sd_s": 1.4142}
    assert describe_seconds(Estimate.of([1.0, 3.0])) == {"form": "log-normal", "mean_s": 2.0, "sd_s": 1.4142}


def test_intervals_are_students() -> None:
    """9, 10 and 11: a deviation of 1, so 4.303 (t with 2 degrees of freedom) over the root of 3 to each side."""
    assert Estimate.of([9.0, 10.0, 11.0]).interval == pytest.approx((10.0 - 2.4841, 10.0 + 2.4841), abs=1e-4)
    assert Estimate.of([9.0]).interval is None
    # Of two measurements t is 12.71: 1.6 s, give or take 12.71 * 0.6, would begin at -6.0 s.
    assert Estimate.of([1.0, 2.2]).interval == pytest.approx((0.0, 9.224), abs=1e-3)


def test_without_a_checkpoint_nothing_is_known_of_starts() -> None:
    """A search's trials go on from checkpoints, and so have some of those that are timed."""
    with pytest.raises(MeasurementError, match="no trial went on from a checkpoint"):
        summarise([TrialTiming(1, 1, False, (1.0,), (1.0,), 2.0)])
