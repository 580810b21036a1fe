"""What the loss of spot VMs does to a run: the closed form against its own limits, by hand, and against samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from fleet_runs import follow_runs
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, VmGroup
from optplan.formulations.srift.laws.iteration import (
    count_checkpoints,
    expect_training,
    interruption_rate_per_s,
)

HOUR = 3600.0


def make(
    *, every_s: float = 600.0, checkpoint_s: float = 20.0, restart_s: float = 200.0, billed: bool = True
) -> Interruptions:
    """Return terms: by default a checkpoint of 20 s every 600 s, restarts of 200 s that are billed."""
    return Interruptions(
        checkpoint_every_s=every_s, checkpoint_s=checkpoint_s, restart_s=restart_s, restart_billed=billed
    )


def test_rate_is_the_sum_over_the_vms(make_instance: Callable[..., SriftInstance]) -> None:
    """2 VMs interrupted every 4 hours and 3 every 10 are interrupted 2/4 + 3/10 = 0.8 times an hour together."""
    types = {
        "a": {"spot": True, "interruptions_per_hour": 0.25},
        "b": {"spot": True, "interruptions_per_hour": 0.1},
        "safe": {},
    }
    instance = make_instance(types=types, interruptions={"checkpoint_every_s": 600, "restart_s": 60})
    groups = [VmGroup(type=name, count=count, batch=1) for name, count in (("a", 2), ("b", 3), ("safe", 9))]
    assert interruption_rate_per_s(instance, groups) == pytest.approx(0.8 / HOUR)


@pytest.mark.parametrize(
    ("work_s", "expected"), [(1.0, 0), (600.0, 0), (600.0 * (1 + 1e-15), 0), (601.0, 1), (1800.0, 2), (0.1 * 3, 0)]
)
def test_checkpoints_stand_between_intervals(work_s: float, expected: int) -> None:
    """One checkpoint after each full interval of 600 s, and none at the end of the run."""
    assert count_checkpoints(work_s, make()) == expected


def test_rounding_makes_no_checkpoint() -> None:
    """Three intervals of 0.1 s are 0.30000000000000004 s in floats, and have two checkpoints between them."""
    assert count_checkpoints(0.1 + 0.1 + 0.1, make(every_s=0.1)) == 2


@pytest.mark.parametrize("billed", [True, False])
def test_without_interruptions_checkpoints_are_all_there_is(billed: bool) -> None:
    """At a rate of zero, 1500 s take 1500 s and two checkpoints of 20 s, exactly; a tiny rate comes near that."""
    terms = make(billed=billed)
    assert [float(each) for each in expect_training(1500.0, 0.0, terms)] == [1540.0, 1540.0]
    assert expect_training(1500.0, 1e-15, terms)[0] == pytest.approx(1540.0, rel=1e-11)


def test_one_stretch_by_hand() -> None:
    """A stretch of 100 s without checkpoints, at a rate of 1/100 per s, with restarts of 50 s.

    Attempts fail e - 1 = 1.71828 times; all attempts take 100 (e - 1) = 171.828 s.
    Held through restarts: each takes 100 (e^.5 - 1) = 64.872 s, together 111.468 s; 283.297 s in all.
    Given back: 1.71828 * 50 = 85.914 s that are not billed.
    """
    total_s, billed_s = expect_training(100.0, 0.01, make(restart_s=50.0))
    assert total_s == pytest.approx(100 * (math.e - 1) * math.exp(0.5), rel=1e-12)
    assert total_s == billed_s == pytest.approx(171.8282 + 111.468, abs=1e-3)
    total_s, billed_s = expect_training(100.0, 0.01, make(restart_s=50.0, billed=False))
    assert billed_s == pytest.approx(171.8282, abs=1e-4)
    assert total_s - billed_s == pytest.approx(85.9141, abs=1e-4)


def test_the_last_interval_is_as_short_as_it_is() -> None:
    """700 s are a stretch of 600 + 20 s and one of 100 s: each is repeated by itself."""
    rate, whole = 1e-3, make(restart_s=0.0)
    expected = (math.expm1(0.62) + math.expm1(0.1)) / rate
    assert expect_training(700.0, rate, whole)[0] == pytest.approx(expected, rel=1e-12)


def test_agrees_with_boa_where_stretches_are_short() -> None:
    """BOA's work / (1 - rate (restart + lost)), lost = half an interval: the same up to squares of the rate."""
    rate, terms = 1e-6, make(checkpoint_s=0.0)
    boa_s = 60000.0 / (1 - rate * (200.0 + 300.0))
    assert expect_training(60000.0, rate, terms)[0] == pytest.approx(boa_s, rel=1e-6)


def test_what_never_ends_is_infinite() -> None:
    """An interval of 600 s that is interrupted twice a second does not end within what floats can say."""
    for terms in (make(), make(billed=False), make(restart_s=0.0)):
        assert np.isposinf(expect_training(700.0, 2.0, terms)).all()


@given(
    work_s=st.floats(1, 1e5),
    more=st.floats(1, 3),
    rate=st.floats(0, 1e-3),
    every_s=st.floats(10, 1e4),
    checkpoint_s=st.just(0.0) | st.floats(1e-3, 100),
    restart_s=st.just(0.0) | st.floats(1e-3, 1000),
    billed=st.booleans(),
)
def test_more_work_and_more_interruptions_take_longer(
    work_s: float, more: float, rate: float, every_s: float, checkpoint_s: float, restart_s: float, billed: bool
) -> None:
    """Total and billed time never fall with work or rate, and only restarts may not be billed."""
    terms = make(every_s=every_s, checkpoint_s=checkpoint_s, restart_s=restart_s, billed=billed)
    base = np.array(expect_training(work_s, rate, terms))
    for other in (expect_training(work_s * more, rate, terms), expect_training(work_s, rate * more, terms)):
        assert (np.array(other) >= base * (1 - 1e-11)).all()
    assert base[0] >= base[1] >= work_s * (1 - 1e-15)
    assert base[0] == base[1] or (restart_s and not billed)


@pytest.mark.parametrize("billed", [True, False])
@pytest.mark.parametrize("work_s", [500.0, 3000.0])
@pytest.mark.parametrize("rate", [1e-4, 1e-3, 3e-3])
def test_samples_agree_with_the_closed_form(rate: float, work_s: float, billed: bool) -> None:
    """20 000 runs, followed from interruption to interruption, have the expected means to 4 standard errors."""
    terms = make(billed=billed)
    total_s, billed_s = map(float, expect_training(work_s, rate, terms))
    runs = np.array(follow_runs(work_s, rate, terms, samples=20_000, seed=5))
    means = np.array([total_s, billed_s, rate * billed_s])  # it is interrupted whenever it is held and paid
    assert (np.abs(runs.mean(axis=1) - means) <= 4 * runs.std(axis=1) / math.sqrt(20_000)).all()


@pytest.mark.parametrize("billed", [True, False])
@pytest.mark.parametrize("restart_s", [0.0, 200.0])
def test_many_runs_take_what_each_of_them_takes(billed: bool, restart_s: float) -> None:
    """Of many runs each takes what it takes alone, also without interruptions, and where it never ends."""
    terms = make(billed=billed, restart_s=restart_s)
    stream = np.random.default_rng(3)
    work_s = np.concatenate((10 ** stream.uniform(-3, 6, 300), [600.0, 1200.0, 1800.0]))
    rate_per_s = np.concatenate((10 ** stream.uniform(-9, 0.5, 200), np.zeros(103)))
    total_s, billed_s = expect_training(work_s, rate_per_s, terms)
    for number, (work, rate) in enumerate(zip(work_s.tolist(), rate_per_s.tolist(), strict=True)):
        one = np.array(expect_training(work, rate, terms))
        assert np.array([total_s[number], billed_s[number]]) == pytest.approx(one, rel=1e-12)
    assert np.isinf(total_s).any()
    assert all((each == work_s).all() for each in expect_training(work_s, rate_per_s, None))
