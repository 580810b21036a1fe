"""Generated instances: any size, the same for the same seed, with the features of measured ones."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Status
from optplan.errors import UsageError
from optplan.formulations.boa.data import BoaInstance, Policy, Problem
from optplan.formulations.boa.feasibility import least_budget
from optplan.instances.generators import random_boa
from optplan.solving import solve


def test_the_same_seed_makes_the_same_instance() -> None:
    """To the last bit; another seed makes another one."""
    assert random_boa(seed=3).content_hash() == random_boa(seed=3).content_hash()
    assert random_boa(seed=3).content_hash() != random_boa(seed=4).content_hash()


@settings(max_examples=30)
@given(
    classes=st.integers(1, 4),
    epochs=st.integers(1, 6),
    widths=st.integers(1, 9),
    seed=st.integers(0, 1000),
    noise=st.sampled_from([0.0, 0.02, 0.4]),
)
def test_every_size_is_a_valid_instance_with_a_feasible_budget(
    classes: int, epochs: int, widths: int, seed: int, noise: float
) -> None:
    """One class, epoch and width included; s(1) is 1, and the budget is 1.6 times the load to six digits."""
    instance = random_boa(classes=classes, epochs=epochs, widths=widths, seed=seed, noise=noise)
    assert len(instance.classes) == classes
    for name, job_class in instance.classes.items():
        assert instance.speeds(name).shape == (epochs, widths)
        assert np.all(instance.speeds(name)[:, 0] == 1.0)
        assert job_class.num_epochs == epochs
        assert 15.0 <= job_class.rescale_s <= 250.0
    load = sum(c.arrival_rate_per_hour * c.size_gpu_hours for c in instance.classes.values())
    assert instance.budget_amount() == pytest.approx(1.6 * load, rel=1e-5)
    assert BoaInstance.parse(instance.to_json_data()) == instance


@pytest.mark.parametrize("problem", list(Problem))
@pytest.mark.parametrize("policy", list(Policy))
def test_problem_and_policy_are_passed_on(problem: Problem, policy: Policy) -> None:
    """The same data for each of them, and each is solved."""
    instance = random_boa(classes=2, epochs=3, widths=4, noise=0.0, problem=problem, policy=policy)
    assert (instance.problem, instance.policy) == (problem, policy)
    assert least_budget(instance)[0] < instance.budget_amount()
    assert solve(instance).status is Status.OPTIMAL


def test_tables_are_like_measured_ones() -> None:
    """Neither monotone nor concave, and different in every epoch."""
    speeds = random_boa(classes=1, epochs=20, widths=32, seed=1).speeds("class-0001")
    assert np.any(np.diff(speeds, axis=1) < 0)
    assert np.any(np.diff(speeds, n=2, axis=1) > 0)
    assert np.unique(speeds[:, -1]).size == 20


def test_without_noise_every_table_is_concave() -> None:
    """So the continuous problem takes them as they are, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        instance = random_boa(classes=3, epochs=5, widths=16, noise=0.0, problem=Problem.CONTINUOUS)
    for name in instance.classes:
        assert np.all(np.diff(instance.speeds(name), axis=1) > 0)
        assert np.all(np.diff(instance.speeds(name), n=2, axis=1) < 0)


@pytest.mark.parametrize("field", ["classes", "epochs", "widths"])
def test_counts_are_at_least_one(field: str) -> None:
    """Each by its name."""
    with pytest.raises(UsageError, match=f"{field}: got 0; at least 1 is needed"):
        random_boa(**{field: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [-0.01, 0.5, float("nan")])
def test_noise_is_a_small_fraction(noise: float) -> None:
    """More would make speedups that nobody measures."""
    with pytest.raises(UsageError, match=r"noise: got .*; a number from 0 to below 0\.5 is needed"):
        random_boa(noise=noise)
