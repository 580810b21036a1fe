from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.rubberband.data.allocations import explain_refusal
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.costs import stage_options
from optplan.formulations.rubberband.laws.stages import count_chains, option_of, stage_cdf, stage_law
from optplan.schema import FloatArray

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


def test_allocations_need_the_instances_that_placement_gives_them() -> None:
    """On instances of 4 GPUs: 3 trials of 1 GPU need one, of 2 two, of 3 or 4 three, of 8 six, of 12 nine."""
    options = stage_options(_make(3, 1, mode="fair"), 0, 0)
    assert options.gpus.tolist() == [1, 3, 6, 9, 12, 24, 36, 48]
    assert options.gpus_per_trial.tolist() == [1, 1, 2, 3, 4, 8, 12, 16]
    assert options.instances.tolist() == [1, 1, 2, 3, 3, 6, 9, 12]
    assert options.waves.tolist() == [3, 1, 1, 1, 1, 1, 1, 1]
    # 3 GPUs each: 1 / (0.5 * (1/7 + 1/4)) = 56/11 s; 12 GPUs each: 1 / (0.5 * (1/2.5 + 1/2)) = 20/9 s
    assert options.expected_s == pytest.approx([36, 12, 7, 56 / 11, 4, 2.5, 20 / 9, 2])
    assert options.busy_gpu_s == pytest.approx([36, 36, 42, 9 * 56 / 11, 48, 60, 36 * 20 / 9, 96])


def test_fair_allocations_are_factors_and_multiples() -> None:
    """With 6 trials of at least 2 GPUs, a / 2 is 1, 2, 3 or a multiple of 6."""
    instance = _make(6, 1, mode="fair", least_gpus=2)
    options = stage_options(instance, 0, 0)
    assert sorted(options.gpus.tolist()) == [2, 4, 6, 12, 24, 48, 72, 96]
    stage = instance.brackets[0][0]
    refused = "fair allocations are factors or multiples of 6 trials of 2 GPUs"
    assert explain_refusal(instance, stage, 8) == refused
    assert explain_refusal(instance, stage, 18) == refused
    assert explain_refusal(instance, stage, 36) == ""  # 6 GPUs each is allowed, though never better than 8


def test_any_mode_queues_in_waves() -> None:
    """10 trials: 1, 2, 3, 4, 5 slots take 10, 5, 4, 3, 2 waves; 4 and 8 fill instances, 9 is all but one."""
    options = stage_options(_make(10, 1), 0, 0)
    queued = options.waves > 1
    assert sorted(options.slots[queued].tolist()) == [1, 2, 3, 4, 5, 8, 9]
    by_slots = dict(zip(options.slots[queued].tolist(), options.expected_s[queued].tolist(), strict=True))
    assert by_slots == {1: 120, 2: 60, 3: 48, 4: 36, 5: 24, 8: 24, 9: 24}


def test_chains_differ_by_one_trial_at_most() -> None:
    """10 trials on 4 slots: 2 chains of 3 and 2 of 2; on 5 slots 5 of 2; on 10 slots 10 of 1."""
    waves, long_chains, short_chains = count_chains(10, np.array([4, 5, 10]))
    assert waves.tolist() == [3, 2, 1]
    assert long_chains.tolist() == [2, 5, 10]
    assert short_chains.tolist() == [2, 0, 0]


def test_slower_with_more_gpus_is_accepted() -> None:
    """A profile that gets slower from 4 GPUs to 8 keeps both; 4 GPUs stay the fastest of what 2 instances can run."""
    options = stage_options(_make(1, 1, seconds_per_iteration={1: 12, 4: 4, 8: 6}), 0, 0)
    assert options.gpus[options.expected_s.argmin()] == 4
    assert 8 in options.gpus


@given(
    trials=st.integers(1, 12),
    per_instance=st.integers(1, 9),
    noise=st.sampled_from([None, {"form": "normal", "sd_fraction": 0.15}]),
    start=st.sampled_from([{}, {3: 5.0}, {5: 0.5, 9: 30.0}]),
    mode=st.sampled_from(["any", "fair"]),
)
def test_options_contain_the_fastest_for_any_number_of_instances(
    trials: int, per_instance: int, noise: object, start: dict[int, float], mode: str
) -> None:
    """No allowed allocation within m instances is faster than the fastest option within m."""
    changes: dict[str, Any] = {"start_s_on": start, "cloud": {"gpus_per_instance": per_instance}}
    instance = _make(trials, 7, mode=mode, iteration_noise=noise, **changes)
    stage, options = instance.brackets[0][0], stage_options(instance, 0, 0)
    gpus = np.array([a for a in range(1, 16 * trials + 1) if not explain_refusal(instance, stage, a)], dtype=np.int64)
    every = stage_options(instance, 0, 0, gpus)
    for needed, seconds in zip(every.instances, every.expected_s, strict=True):
        within = options.expected_s[options.instances <= needed]
        assert within.min() <= seconds * (1 + 1e-9)
    assert np.all(np.diff(options.instances) >= 0)


def test_per_function_keeps_every_width() -> None:
    """Where GPUs are paid one by one, every number of GPUs per trial can be best."""
    options = stage_options(_make(1, 1, cloud={"billing": "per-function"}), 0, 0)
    assert options.gpus.tolist() == list(range(1, 17))


def test_instances_allowed_bound_the_options() -> None:
    """With two instances of 4 GPUs, 3 trials get at most 2 GPUs each."""
    options = stage_options(_make(3, 1, cloud={"most_instances": 2}), 0, 0)
    assert options.gpus.max() == 6
    assert options.instances.max() == 2


NOISES: list[dict[str, Any]] = [
    {"iteration_noise": {"form": "normal", "sd_fraction": 0.1}, "start_s": {"form": "normal", "mean_s": 9, "sd_s": 1}},
    {"iteration_noise": {"form": "log-normal", "sd_fraction": 1.0}},
    {"iteration_noise": {"form": "empirical", "factors": [0.4, 0.9, 1.7]}, "start_s": 3},
    {"trial_noise": {"form": "log-normal", "sd_s": 4}},
    {"trial_noise": {"form": "empirical", "factors": [0.5, 1.5]}, "iteration_noise": {"form": "normal", "sd_s": 0.3}},
    {
        "iteration_noise": {"form": "log-normal", "sd_fraction": 1.5},
        "trial_noise": {"form": "log-normal", "sd_fraction": 1.5},
        "start_s": {"form": "log-normal", "mean_s": 2, "sd_s": 1},
    },
]


def _draw_stage(instance: RubberBandInstance, gpus: int, samples: int) -> FloatArray:
    """Run the stage by brute force: every iteration of every trial is drawn, trial i queues behind trial i - slots."""
    rng, training, stage = np.random.default_rng(5), instance.training, instance.brackets[0][0]
    slots, per_trial = min(gpus, stage.trials), max(gpus // stage.trials, 1)
    seconds, x = float(training.seconds(np.array([per_trial]), np.array([1]))[0]), stage.iterations
    shape = (samples, stage.trials)
    trained = training.iteration(seconds).quantile(rng.random((*shape, x))).sum(axis=2)
    trained += x * training.pace(seconds).quantile(rng.random(shape)) - x * seconds
    times = training.start(per_trial).quantile(rng.random(shape)) + np.maximum(trained, 0.0)
    ends = np.zeros((samples, slots))
    for trial in range(stage.trials):
        ends[:, trial % slots] += times[:, trial]
    return np.asarray(ends.max(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=range(len(NOISES)))
@pytest.mark.parametrize("gpus", [3, 4, 8])
def test_expected_times_agree_with_brute_force(noise: dict[str, Any], gpus: int) -> None:
    """Expected time and distribution of 4 trials of 3 iterations, queued and at once, within four standard errors."""
    instance = _make(4, 3, **noise)
    drawn = _draw_stage(instance, gpus, 60_000)
    option = option_of(instance, 0, 0, gpus)
    assert abs(float(option.expected_s[0]) - drawn.mean()) <= 4 * drawn.std() / math.sqrt(drawn.size)
    middle = np.quantile(drawn, [0.2, 0.5, 0.9]) * (1 + 1e-9)
    share = (drawn[:, None] <= middle).mean(axis=0)
    error = 4 * np.sqrt(share * (1 - share) / drawn.size)
    jumps = noise.get("iteration_noise", {}).get("form") == "empirical" or noise == NOISES[4]
    if not jumps:
        assert np.all(np.abs(stage_cdf(instance, 0, 0, gpus, middle) - share) <= error)
    law = stage_law(instance, 0, 0, gpus)
    assert law.expected_s == pytest.approx(float(option.expected_s[0]), rel=1e-9)
    assert law.deviation_s == pytest.approx(drawn.std(), rel=0.05)


def test_iteration_noise_averages_out_and_trial_noise_does_not() -> None:
    """From 100 to 10,000 iterations the last trial's excess grows tenfold by the one, hundredfold by the other."""
    for field, factor in (("iteration_noise", 10.0), ("trial_noise", 100.0)):
        excess = []
        noise: dict[str, Any] = {field: {"form": "normal", "sd_fraction": 0.1}}
        for iterations in (100, 10_000):
            instance = _make(8, iterations, **noise)
            excess.append(float(option_of(instance, 0, 0, 8).expected_s[0]) - 12.0 * iterations)
        assert excess[1] / excess[0] == pytest.approx(factor, rel=1e-9)
    # E[max] of 8 standard normals is 1.423600
    assert excess[0] == pytest.approx(100 * 12 * 0.1 * 1.4236003, rel=1e-6)


def test_wide_noise_meets_the_normal_case_where_clipping_ends() -> None:
    """At six deviations above zero the quadrature takes over from the convolution: no jump beyond 1e-6."""
    seconds = []
    for fraction in (1 / 6 - 1e-9, 1 / 6 + 1e-9):
        instance = _make(8, 4, iteration_noise={"form": "normal", "sd_fraction": fraction})
        seconds.append(option_of(instance, 0, 0, 8).expected_s[0])
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-6)
