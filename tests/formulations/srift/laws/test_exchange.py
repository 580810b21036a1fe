from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.srift.laws import exchange as compiled
from optplan.formulations.srift.laws.exchange import Exchange


def _simulate_plainly(ready: list[float], volumes: list[float], own: list[float], capacity: float) -> list[float]:
    """Follow equation 2 transfer by transfer: between events every active one moves at its own rate or its share."""
    left, ends, now = list(volumes), [0.0] * len(ready), 0.0
    waiting, active = list(range(len(ready))), list[int]()
    while waiting or active:
        demand = math.fsum(own[each] for each in active)
        rates = {each: own[each] if demand < capacity else min(own[each], capacity / len(active)) for each in active}
        finish = min((left[each] / rates[each] for each in active), default=math.inf)
        arrive = ready[waiting[0]] - now if waiting else math.inf
        step = max(min(finish, arrive), 0.0)
        now += step
        for each in active:
            left[each] -= step * rates[each]
        if arrive <= finish:
            active.append(waiting.pop(0))
        else:
            done = [each for each in active if left[each] <= 1e-9 * volumes[each]]
            active = [each for each in active if each not in done]
            for each in done:
                ends[each] = now
    return ends


def _run(ready: list[float], volumes: list[float], own: list[float], capacity: float) -> list[float]:
    exchange = Exchange(np.array(ready), np.array(volumes), np.array(own), capacity)
    ends: list[float] = exchange.times(1.0).tolist()
    assert exchange.seconds(1.0) == max(ends)
    return ends


def test_transfers_apart_in_time_do_not_meet() -> None:
    """10 bytes from 0 s at 5 B/s end after 2 s; 6 bytes from 3 s at 2 B/s end after 6 s."""
    assert _run([0.0, 3.0], [10.0, 6.0], [5.0, 2.0], 5.5) == [2.0, 6.0]


def test_transfers_share_the_bus_fairly() -> None:
    """Two of 10 bytes at 6 B/s on a bus of 8: both get 4 B/s.

    From 0 to 1 s the first moves 6 bytes alone; then both move 4 B/s until the first ends at 2 s; the second has moved
    4 bytes then, and its other 6 take one second at 6 B/s.
    """
    assert _run([0.0, 1.0], [10.0, 10.0], [6.0, 6.0], 8.0) == pytest.approx([2.0, 3.0], rel=1e-12)


def test_equation_2_leaves_what_a_slow_transfer_does_not_use() -> None:
    """As printed: demand 2 + 9 is not below 10, so each gets at most 10 / 2 = 5, though 8 would be left for the second.

    2 bytes at 2 B/s end at 1 s; 10 bytes have moved 5 by then, and the rest goes at 9 B/s.
    """
    assert _run([0.0, 0.0], [2.0, 10.0], [2.0, 9.0], 10.0) == pytest.approx([1.0, 1.0 + 5.0 / 9.0], rel=1e-12)


def test_demand_equal_to_the_capacity_is_shared() -> None:
    """b_agg < b_cap is strict: 2 + 6 on a bus of 8 gives min(6, 4) to the second until the first ends after 1 s."""
    assert _run([0.0, 0.0], [2.0, 10.0], [2.0, 6.0], 8.0) == pytest.approx([1.0, 1.0 + 6.0 / 6.0], rel=1e-12)


def test_equal_transfers_that_start_together_end_together() -> None:
    """Five of 4 bytes on a bus of 10, each 8 B/s alone: 2 B/s each, all done after 2 s."""
    assert _run([0.0] * 5, [4.0] * 5, [8.0] * 5, 10.0) == pytest.approx([2.0] * 5, rel=1e-12)


_TRANSFER = st.tuples(st.floats(0.0, 2.0), st.floats(0.01, 5.0), st.sampled_from([0.3, 0.5, 1.0, 1.7, 2.0]))


@given(st.lists(_TRANSFER, min_size=1, max_size=12), st.floats(2.0, 6.0))
def test_classes_move_as_single_transfers_do(transfers: list[tuple[float, float, float]], capacity: float) -> None:
    """Counting what a class has moved gives the ends that following every transfer gives."""
    ordered = sorted(transfers, key=lambda each: each[0])
    columns = [[each[column] for each in ordered] for column in range(3)]
    # Demand that meets the capacity but for rounding is on either side of equation 2's threshold.
    capacity += 1e-3 * math.pi
    expected = _simulate_plainly(columns[0], columns[1], columns[2], capacity)
    assert _run(columns[0], columns[1], columns[2], capacity) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(_TRANSFER, min_size=1, max_size=12), st.floats(2.0, 6.0))
def test_no_transfer_is_faster_than_bus_and_readiness_allow(
    transfers: list[tuple[float, float, float]], capacity: float
) -> None:
    """Every end is at least ready + volume / own, and all bytes from any moment on need the whole bus."""
    ordered = sorted(transfers, key=lambda each: each[0])
    ready, volumes, own = ([each[column] for each in ordered] for column in range(3))
    ends = _run(ready, volumes, own, capacity)
    for start, volume, pace, end in zip(ready, volumes, own, ends, strict=True):
        assert end >= (start + volume / pace) * (1 - 1e-9)
    for first in range(len(ready)):
        assert max(ends) >= (ready[first] + sum(volumes[first:]) / capacity) * (1 - 1e-9)


@given(st.lists(_TRANSFER, min_size=1, max_size=12), st.floats(2.0, 6.0), st.floats(0.2, 3.0), st.floats(1.0, 2.0))
def test_a_longer_pass_lengthens_the_exchange_by_no_larger_share(
    transfers: list[tuple[float, float, float]], capacity: float, backward_s: float, factor: float
) -> None:
    """F(t) / t does not grow with t, wherever equation 2 jumps."""
    ready, volumes, own = np.array(sorted(transfers)).T
    exchange = Exchange(ready, volumes, own, capacity + 1e-3 * math.pi)
    paces = [exchange.seconds(each) / each for each in (backward_s, factor * backward_s)]
    assert paces[1] <= paces[0] * (1 + 1e-9)


_SPREAD = st.lists(st.tuples(_TRANSFER, st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=12)


@given(_SPREAD, st.floats(2.0, 6.0), st.floats(0.5, 1.0))
def test_a_relaxation_ends_no_later_than_what_lies_within_it(
    spread: list[tuple[tuple[float, float, float], float, float]], capacity: float, smaller: float
) -> None:
    """Transfers that are no smaller, no quicker alone than its bandwidths and no slower than what it adds up."""
    ready, volumes, own = np.array(sorted(each for each, _, _ in spread)).T
    between, below = np.array([each[1:] for each in spread]).T
    true, least = own * (1.0 - 0.3 * between), own * (1.0 - 0.3 * between) * (1.0 - 0.3 * below)
    relaxed = Exchange(ready, volumes * smaller, own, capacity, least).seconds(1.0)
    assert relaxed <= Exchange(ready, volumes, true, capacity).seconds(1.0) * (1 + 1e-9)


def test_a_relaxation_by_hand() -> None:
    """Bandwidths 2 and 9 on a bus of 10: added up as 2 and 7 they leave 9 B/s to the second, which ends at 10 / 9 s.

    With the sum of their own, it has 5 B/s until the first ends at 1 s (see above).
    """
    ready, volumes, own = np.zeros(2), np.array([2.0, 10.0]), np.array([2.0, 9.0])
    assert Exchange(ready, volumes, own, 10.0, np.array([2.0, 7.0])).seconds(1.0) == pytest.approx(10.0 / 9.0)
    assert Exchange(ready, volumes, own, 10.0, own).seconds(1.0) == pytest.approx(1.0 + 5.0 / 9.0)


def test_the_compiled_exchange_is_that_of_python_to_the_bit(interpret: Callable[[ModuleType], ModuleType]) -> None:
    """Ends of 60 transfers in ten classes, at three lengths of the backward pass."""
    stream = np.random.default_rng(0)
    ready, volumes = np.sort(stream.uniform(0.0, 1.0, 60)), stream.lognormal(0.0, 1.5, 60)
    own = stream.choice(stream.uniform(0.1, 20.0, 10), 60)
    for least in (None, 0.9 * own):
        found, wanted = (kind(ready, volumes, own, 25.0, least) for kind in (Exchange, interpret(compiled).Exchange))
        for backward_s in (0.1, 1.0, 30.0):
            assert found.times(backward_s).tolist() == wanted.times(backward_s).tolist()
            assert found.seconds(backward_s) == wanted.seconds(backward_s) == found.times(backward_s).max()
