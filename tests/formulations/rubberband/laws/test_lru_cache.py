"""What is remembered of distributions."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.formulations.rubberband.data.distributions import ConstantDistribution, NormalDistribution
from optplan.formulations.rubberband.laws import stages
from optplan.formulations.rubberband.laws.stages import LruCache, TrialTime


def test_what_was_not_asked_for_longest_goes_first() -> None:
    """A cache of size 3 keeps what was asked for last, and makes again what went."""
    made: list[str] = []
    cache = LruCache(3)

    def find(name: str, size: int) -> str:
        def make() -> str:
            made.append(name)
            return name

        return cache.find(name, make, lambda _: size)

    assert [find("a", 1), find("b", 2), find("a", 1)] == ["a", "b", "a"]
    assert made == ["a", "b"]
    find("c", 2)  # with it 5: b goes, as a was asked for after it
    assert cache.size == 3
    find("a", 1)
    assert made == ["a", "b", "c"]
    find("b", 2)
    assert made == ["a", "b", "c", "b"]


def test_what_is_larger_than_the_shelf_is_found_until_the_next() -> None:
    """One entry stays whatever its size, so that whoever made it finds it again."""
    cache = LruCache(1)
    assert cache.find("wide", lambda: 7, lambda _: 100) == 7
    assert cache.find("wide", lambda: 8, lambda _: 100) == 7
    assert cache.find("next", lambda: 9, lambda _: 1) == 9
    assert cache.size == 1


def test_equal_trials_share_distributions_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records of the same trial have one distribution; with another mean or number of iterations it is another."""
    monkeypatch.setattr(stages, "_CACHE", LruCache(1 << 20))

    def make(mean_s: float, iterations: int) -> TrialTime:
        start, pace = ConstantDistribution(value_s=1.0), ConstantDistribution(value_s=mean_s)
        return TrialTime(start, pace, NormalDistribution(mean_s=mean_s, sd_s=1.0), mean_s, iterations)

    law = make(2.0, 3).chain_law(2)
    assert make(2.0, 3).chain_law(2) is law
    assert np.isclose(law.expected_s, 2 * make(2.0, 3).expected_s)
    for other in (make(2.5, 3), make(2.0, 4)):
        assert np.isclose(other.chain_law(2).expected_s, 2 * other.expected_s)
    assert make(2.0, 3).chain_law(3) is not law
