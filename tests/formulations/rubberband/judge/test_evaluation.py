from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts.judgement import Evaluation
from optplan.formulations.rubberband.data.distributions import Distribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import (
    completion_quantile,
    evaluate,
    follow,
    growth,
    on_time_probability,
)
from optplan.formulations.rubberband.laws.lifetimes import completion_law, expected_latest_s, latest_law
from optplan.schema import FloatArray

STAGES = [{"trials": 4, "iterations": 2}, {"trials": 2, "iterations": 3}, {"trials": 1, "iterations": 10}]


def _make(
    *,
    cloud: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of any kind
) -> RubberBandInstance:
    base: dict[str, Any] = {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "provision_s": 5, "initialise_s": 7}
    return RubberBandInstance.parse(
        {
            "experiment": {"form": "stages", "stages": STAGES},
            "training": {"seconds_per_iteration": {1: 12, 2: 7, 4: 4}, "start_s": 1, **(training or {})},
            "cloud": {**base, "minimum_charge_s": 0, **(cloud or {})},
            **changes,
        }
    )


def _plan(*chains: list[tuple[int, int]]) -> RubberBandSolution:
    data = [[{"instances": held, "gpus": gpus} for held, gpus in chain] for chain in chains]
    return RubberBandSolution.parse({"brackets": data})


def _failures(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    return [(check.family, check.index, check.message) for check in evaluation.checks if not check.holds]


def test_elastic_plan_adds_up_by_hand() -> None:
    """Two instances, then one, then two again; an instance-second costs 0.001 usd.

    Stage 1: 4 trials on 4 GPUs: 1 + 2 * 12 = 25 s. Stage 2: 2 trials on 2 GPUs: 1 + 3 * 12 = 37 s. Stage 3: one trial
    on 4 GPUs: 1 + 10 * 4 = 41 s. Growths: 5 + 7 s before stages 1 and 3.
    Paid: 2 * 7 (INIT) + 2 * 25 + 1 * 37 + 1 * 12 (held through the growth) + 1 * 7 (new) + 2 * 41 = 202 s.
    """
    evaluation = evaluate(_make(deadline_s=127.0), _plan([(2, 4), (1, 2), (2, 4)]))
    assert not _failures(evaluation)
    assert evaluation.objective == pytest.approx(0.202)
    assert evaluation.consumption == {"deadline": pytest.approx(12 + 25 + 37 + 12 + 41)}
    measures = evaluation.measures
    assert measures["growth_s"] == pytest.approx(24)
    assert measures["instances_started"] == 3
    assert measures["held_gpu_hours"] * 3600 == pytest.approx(404)
    assert measures["busy_gpu_hours"] * 3600 == pytest.approx(4 * 25 + 2 * 37 + 4 * 41)


def test_functions_are_paid_while_they_train() -> None:
    """The same plan per function: 4 * 25 + 2 * 37 + 4 * 41 = 338 GPU-seconds at 0.0005 usd; data for 3 instances."""
    cloud = {"billing": "per-function", "data_gb": 10, "data_price_usd_per_gb": 0.1, "minimum_charge_s": 60}
    evaluation = evaluate(_make(cloud=cloud), _plan([(2, 4), (1, 2), (2, 4)]))
    assert evaluation.measures["data_usd"] == pytest.approx(3.0)
    assert evaluation.objective == pytest.approx(0.169 + 3.0)


def test_minimum_charges_by_hand() -> None:
    """Of two instances one lives 7 + 25 = 32 s and is paid 60; the other 7 + 25 + 37 + 12 + 41 = 122 s; the third 48 s.

    With the oldest released first, 28 + 12 = 40 s more are paid.
    """
    evaluation = evaluate(_make(cloud={"minimum_charge_s": 60}), _plan([(2, 4), (1, 2), (2, 4)]))
    assert evaluation.measures["minimum_charge_usd"] == pytest.approx(0.040)
    assert evaluation.objective == pytest.approx(0.242)


def test_time_is_the_objective_within_a_budget() -> None:
    """The roles exchanged: 127 s for 0.202 usd, which a budget of 0.202 usd allows and one of 0.2 usd does not."""
    plan = _plan([(2, 4), (1, 2), (2, 4)])
    evaluation = evaluate(_make(objective="time", budget="0.202usd"), plan)
    assert evaluation.objective == pytest.approx(127)
    assert evaluation.consumption == {"budget": pytest.approx(0.202)}
    assert not _failures(evaluation)
    failed = evaluate(_make(objective="time", budget="0.2usd"), plan)
    assert _failures(failed) == [("budget", "", "the expected cost must not exceed the budget")]


def test_brackets_side_by_side_add_up_and_the_slowest_counts() -> None:
    """Hyperband R = 4, eta = 2 on clusters of their own: costs add up, the completion time is the largest."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}
    instance = _make(experiment=experiment, deadline_s=1000)
    chains = [[(1, 1)] * len(chain) for chain in instance.brackets]
    measures = evaluate(instance, _plan(*chains)).measures
    each = [(measures[f"brackets.{b}.expected_s"], measures[f"brackets.{b}.expected_usd"]) for b in range(3)]
    assert measures["expected_s"] == max(seconds for seconds, _ in each)
    assert measures["expected_usd"] == pytest.approx(sum(usd for _, usd in each))
    assert measures["most_instances"] == 3


@pytest.mark.parametrize(
    ("chain", "family", "index", "message"),
    [
        (
            [(2, 4), (1, 2)],
            "stages",
            "",
            "the solution must have one allocation for each stage: [3] by bracket, got [2]",
        ),
        ([(2, 5), (1, 2), (2, 4)], "allocation", "stage 1", "4 trials at once need a multiple of 4 GPUs"),
        (
            [(2, 4), (1, 2), (3, 6)],
            "allocation",
            "stage 3",
            "trials would get 6 GPUs each, and iterations are measured on 1, 2, 4 GPUs; measure them on 6 GPUs",
        ),
        ([(2, 4), (1, 4), (2, 4)], "instances", "stage 2", "the instances held must be at least those needed"),
        ([(2, 4), (5, 4), (2, 4)], "instances", "stage 2", "the instances held must be at most those the cloud allows"),
        ([(2, 4), (1, 1), (2, 4)], "deadline", "", "the expected completion time must not exceed the deadline"),
    ],
)
def test_every_broken_rule_is_named(chain: list[tuple[int, int]], family: str, index: str, message: str) -> None:
    """A solution that breaks one rule fails that rule's check, with the stage and what is wrong."""
    instance = _make(cloud={"most_instances": 4}, deadline_s=127)
    evaluation = evaluate(instance, _plan(chain))
    assert _failures(evaluation) == [(family, index, message)]
    assert math.isnan(evaluation.objective) == (family != "deadline")


def test_growth_by_hand() -> None:
    """From 1 to 3: 5 + 7 s; the held one pays 12 s, the new ones 7 s each, and data; shrinking is free."""
    instance = _make(cloud={"data_gb": 1, "data_price_usd_per_gb": 0.5})
    seconds, usd = growth(instance, np.array([1, 3, 2]), np.array([3, 3, 1]))
    assert seconds.tolist() == [12, 0, 0]
    assert usd == pytest.approx([0.001 * (12 + 14) + 1.0, 0, 0])
    assert float(growth(instance, 1, 3)[1]) == pytest.approx(usd[0])
    pairs = growth(instance, np.arange(3)[:, None], np.arange(4))
    assert pairs[0].shape == pairs[1].shape == (3, 4)


def test_latest_initialisation_is_the_maximum() -> None:
    """Three initialisations of N(70, 3) take 70 + 3 * 0.846284 s; many counts at once agree with each alone."""
    instance = _make(cloud={"initialise_s": {"form": "normal", "mean_s": 70, "sd_s": 3}})
    assert expected_latest_s(instance, np.array([0, 1, 3])) == pytest.approx([0, 70, 70 + 3 * 0.8462844], rel=1e-8)
    many = expected_latest_s(instance, np.array([3, 20_000, 1]))
    assert many[[0, 2]] == pytest.approx(expected_latest_s(instance, np.array([3, 1])))


NOISY: list[dict[str, Any]] = [
    {
        "training": {"iteration_noise": {"form": "normal", "sd_fraction": 0.1}},
        "cloud": {"initialise_s": {"form": "normal", "mean_s": 30, "sd_s": 4}},
    },
    {
        "training": {
            "iteration_noise": {"form": "log-normal", "sd_fraction": 0.8},
            "trial_noise": {"form": "log-normal", "sd_fraction": 0.3},
            "start_s": {"form": "log-normal", "mean_s": 3, "sd_s": 2},
        },
        "cloud": {
            "provision_s": {"form": "log-normal", "mean_s": 5, "sd_s": 6},
            "initialise_s": {"form": "empirical", "values_s": [3, 8, 20]},
        },
    },
]


class _BruteForce:
    """Times, costs and lives of the plan (2, 4), (1, 2), (3, 4), task by task, written without the package's models."""

    def __init__(self, instance: RubberBandInstance, samples: int) -> None:
        self.rng, self.instance, self.samples = np.random.default_rng(11), instance, samples
        cloud, minimum = instance.cloud, instance.cloud.minimum_charge_s
        first_init, later_init = (
            self.draw(cloud.initialise_s, 2).max(axis=1),
            self.draw(cloud.initialise_s, 2).max(axis=1),
        )
        scale = [self.draw(cloud.provision_s, 1)[:, 0] for _ in range(2)]
        # 4 trials on 4 GPUs, 2 trials on 2 GPUs, 1 trial on 4 GPUs
        one = self.trials(4, 12.0, 2).max(axis=1)
        two = self.trials(2, 12.0, 3).max(axis=1)
        three = self.trials(1, 4.0, 10).max(axis=1)
        self.time = scale[0] + first_init + one + two + scale[1] + later_init + three
        released = first_init + one
        kept = released + two + scale[1] + later_init + three
        lives = [(1, released), (1, kept), (2, later_init + three)]
        self.paid = sum(count * np.maximum(life, minimum) for count, life in lives) * cloud.price_usd_per_s

    def draw(self, distribution: Distribution, count: int) -> FloatArray:
        return distribution.quantile(self.rng.random((self.samples, count)))

    def trials(self, trials: int, seconds: float, iterations: int) -> FloatArray:
        training = self.instance.training
        total = training.iteration(seconds).quantile(self.rng.random((self.samples, trials, iterations))).sum(axis=2)
        total += iterations * (self.draw(training.pace(seconds), trials) - seconds)
        return np.asarray(np.maximum(total, 0.0) + self.draw(training.start_s, trials))


@pytest.mark.slow
@pytest.mark.parametrize("noisy", NOISY, ids=["normal", "skewed"])
@pytest.mark.parametrize("minimum", [0, 60, 150])
def test_expectations_agree_with_brute_force(noisy: dict[str, Any], minimum: float) -> None:
    """Expected time and cost with minimum charges, within four standard errors of drawing every task of the plan."""
    instance = _make(training=noisy["training"], cloud={**noisy["cloud"], "minimum_charge_s": minimum})
    measures = evaluate(instance, _plan([(2, 4), (1, 2), (3, 4)])).measures
    drawn = _BruteForce(instance, 100_000)
    for found, values in ((measures["expected_s"], drawn.time), (measures["expected_usd"], drawn.paid)):
        assert abs(found - values.mean()) <= 4 * values.std() / math.sqrt(values.size)


@pytest.mark.parametrize("noisy", NOISY, ids=["normal", "skewed"])
def test_chances_agree_with_brute_force(noisy: dict[str, Any]) -> None:
    """The distribution of the completion time agrees with draws, and its quantile undoes it."""
    instance, plan = _make(**noisy), _plan([(2, 4), (1, 2), (3, 4)])
    drawn = _BruteForce(instance, 100_000).time
    for deadline in np.quantile(drawn, [0.1, 0.5, 0.95]).tolist():
        share = (drawn <= deadline).mean()
        chance = on_time_probability(instance, plan, deadline)
        assert abs(chance - share) <= 4 * math.sqrt(share * (1 - share) / drawn.size)
        assert completion_quantile(instance, plan, chance) == pytest.approx(deadline, rel=1e-6)
    chain = plan.brackets[0]
    law = completion_law(instance, 0, [each.instances for each in chain], [each.gpus for each in chain])
    assert law.expected_s == pytest.approx(evaluate(instance, plan).measures["expected_s"], rel=1e-9)


def test_confidence_is_checked_as_a_probability() -> None:
    """With a confidence the limit is on a quantile: a deadline at it holds, a second less does not."""
    plan, noise = _plan([(2, 4), (1, 2), (3, 4)]), NOISY[0]
    quantile = completion_quantile(_make(**noise), plan, 0.9)
    evaluation = evaluate(_make(**noise, deadline_s=quantile, confidence=0.9), plan)
    assert not _failures(evaluation)
    assert evaluation.consumption["deadline"] == pytest.approx(quantile)
    assert evaluation.measures["on_time_probability"] == pytest.approx(0.9)
    assert evaluation.measures["expected_s"] < quantile
    failed = evaluate(_make(**noise, deadline_s=quantile - 1, confidence=0.9), plan)
    assert [family for family, _, _ in _failures(failed)] == ["confidence"]


def test_constant_plans_are_on_time_or_not() -> None:
    """Without noise the chance is one from the completion time on, in spite of rounding, and zero before."""
    instance, plan = _make(), _plan([(2, 4), (1, 2), (2, 4)])
    assert [on_time_probability(instance, plan, t) for t in (126.9, 127.0, 128.0)] == [0.0, 1.0, 1.0]
    assert completion_quantile(instance, plan, 0.9) == pytest.approx(127)
    evaluation = evaluate(_make(deadline_s=127, confidence=0.99), plan)
    assert not _failures(evaluation)


@pytest.mark.parametrize("form", ["normal", "log-normal"])
def test_law_of_the_latest_has_its_mean(form: str) -> None:
    """The distribution of the last of five initialisations has the mean that quadrature gives."""
    instance = _make(cloud={"initialise_s": {"form": form, "mean_s": 70, "sd_s": 8}})
    law = latest_law(instance, 5)
    assert law.expected_s == pytest.approx(float(expected_latest_s(instance, np.array(5))), rel=1e-9)
    assert latest_law(instance, 1) == instance.cloud.initialise_s


def test_shortfall_of_a_life() -> None:
    """An instance of stage 2 only (7 + 37 s) falls 16 s short of 60; others do not, and per function nothing does."""
    chain = _plan([(2, 4), (4, 2), (1, 2)]).brackets[0]  # two old ones go with a new one
    instance = _make(cloud={"minimum_charge_s": 60})
    assert [stage.short_s for stage in follow(instance, 0, chain)] == pytest.approx([0, 16, 0])
    functions = _make(cloud={"minimum_charge_s": 60, "billing": "per-function"})
    assert [stage.short_s for stage in follow(functions, 0, chain)] == [0, 0, 0]


@pytest.mark.slow
@given(
    held=st.lists(st.integers(2, 6), min_size=3, max_size=3),
    factor=st.sampled_from([0.5, 3.0, 1e4]),
    minimum=st.sampled_from([0.0, 60.0, 500.0]),
)
def test_units_do_not_matter(held: list[int], factor: float, minimum: float) -> None:
    """Scaling every duration scales time and cost; scaling the price scales the cost alone."""
    plan = _plan(list(zip(held, [4, 2, 4], strict=True)))
    base = evaluate(_make(cloud={"minimum_charge_s": minimum}), plan).measures
    slower = evaluate(
        _make(
            training={"seconds_per_iteration": {1: 12 * factor, 2: 7 * factor, 4: 4 * factor}, "start_s": factor},
            cloud={"minimum_charge_s": minimum * factor, "provision_s": 5 * factor, "initialise_s": 7 * factor},
        ),
        plan,
    ).measures
    dearer = evaluate(_make(cloud={"minimum_charge_s": minimum, "price_usd_per_hour": 3.6 * factor}), plan).measures
    assert slower["expected_s"] == pytest.approx(factor * base["expected_s"])
    assert slower["expected_usd"] == pytest.approx(factor * base["expected_usd"])
    assert dearer["expected_usd"] == pytest.approx(factor * base["expected_usd"])
    assert dearer["expected_s"] == base["expected_s"]
