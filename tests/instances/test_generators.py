"""Generated instances: any size, the same for the same seed, with the features of measured ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import Status
from optplan.contracts.time_and_money import Objective as FleetObjective
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.exact.feasibility import least_budget
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.exact.reachability import describe
from optplan.instances.generators import random_boa, random_srift
from optplan.quantities import round_shared
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


@settings(max_examples=30)
@given(
    types=st.integers(1, 5),
    most=st.sampled_from([8, 64]),
    power=st.integers(3, 11),
    batches=st.integers(1, 9),
    layers=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
def test_every_size_is_a_job_that_some_type_can_train_alone(
    types: int, most: int, power: int, batches: int, layers: int, seed: int
) -> None:
    """A valid instance with so many types, batches and layers, or the advice to take more VMs; never another size."""
    samples = 2**power
    try:
        instance = random_srift(types=types, most=most, global_batch=samples, batches=batches, layers=layers, seed=seed)
    except UsageError as error:
        assert "alone; take a power of two, or more than" in str(error)  # noqa: PT017 - not every size can be reached
        assert batches < 9 or most == 8
        return
    assert SriftInstance.parse(instance.to_json_data()) == instance
    assert (len(instance.types), instance.global_batch) == (types, samples)
    assert instance.job.layers.gradient_bytes.shape == (layers,)
    assert float(instance.job.layers.gradient_bytes.sum()) == pytest.approx(1e8, rel=1e-8)
    alone = []
    for name, vm in instance.types.items():
        assert vm.batches is not None
        assert vm.batches.tolist() == [vm.gpus * 256 // 2**number for number in range(batches)][::-1]
        alone += [1 for batch in instance.batches_of[name] if samples % batch == 0 and samples // batch <= most]
    assert alone


def test_fleets_come_in_pairs_of_small_and_large_vms() -> None:
    """Twelve types with 64 VMs and 6 batches for 8,192 samples: 6 kinds of GPU, each in a small and in a large VM."""
    instance = random_srift(types=12, most=64, global_batch=8192, objective=FleetObjective.TIME)
    assert describe(instance).cells == 12 * 64 * 6
    assert describe(instance).problem == "fastest"
    assert instance.limits == {}
    vms = list(instance.types.values())
    for small, large in zip(vms[::2], vms[1::2], strict=True):
        assert small.gpu == large.gpu
        assert small.gpus < large.gpus
    assert random_srift(seed=3).content_hash() == random_srift(seed=3).content_hash()
    assert random_srift(seed=3).content_hash() != random_srift(seed=4).content_hash()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"types": 0}, "types: got 0; at least 1 is needed"),
        ({"most": 0}, "most: got 0; at least 1 is needed"),
        ({"global_batch": 0}, "global_batch: got 0; at least 1 is needed"),
        ({"layers": 0}, "layers: got 0; at least 1 is needed"),
        ({"batches": 10}, "batches: got 10; at most 9, 1 to 256, are possible"),
        (
            {"global_batch": 8191},
            "global_batch: no type reaches 8191 alone; take a power of two, or more than 16 VMs",
        ),
    ],
)
def test_impossible_fleets_are_refused(sizes: dict[str, Any], message: str) -> None:
    """The message says what is possible."""
    with pytest.raises(UsageError, match=message):
        random_srift(**sizes)


def test_generated_figures_have_the_digits_that_all_processors_share() -> None:
    """Rounding to nine digits changes none of them: the last ones, in which processors differ, are gone."""
    boa, fleet = random_boa(classes=2, epochs=3, widths=8, seed=5), random_srift(types=2, layers=20, seed=5)
    figures = [boa.speeds(name) for name in boa.classes]
    figures += [each.epoch_size_gpu_hours for each in boa.classes.values()]
    figures += [np.array([each.arrival_rate_per_hour for each in boa.classes.values()])]
    figures += [fleet.job.layers.gradient_bytes, fleet.job.layers.ready]
    figures += [times for each in fleet.job.devices.values() for times in (each.forward_s, each.backward_s)]
    for array in figures:
        assert np.array_equal(array, round_shared(array))
