"""What the rest of a fleet needs at least: worked out by hand, and below every way to give the samples out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optplan.formulations.srift.exact import bounds
from optplan.formulations.srift.exact.bounds import Level, Remainders


def level(number: int, batches: tuple[int, ...], price: float, *, least: int = 0, most: int = 3) -> Level:
    """Make a level of VMs with one rank each."""
    return Level(number, batches, least, most, np.array([price, 1.0, 1.0]))


def test_two_types_by_hand() -> None:
    """12 samples: 3 VMs with 4 at 2 usd/s cost 6; with one VM of 8 at 3 usd/s and one of 4, 5. 2 samples: none can."""
    both = Remainders([level(0, (4,), 2.0), level(1, (8,), 3.0, most=1)], 24)
    found = both.least(0, np.array([12, 0, 2, 4, 24]))
    np.testing.assert_allclose(found[0], [5.0, 0.0, np.inf, 2.0, np.inf])
    np.testing.assert_allclose(found[2], [2.0, 0.0, np.inf, 1.0, np.inf])
    np.testing.assert_allclose(both.least(1, np.array([8, 12]))[0], [3.0, np.inf])


def test_vms_that_must_be_there_are_paid_for() -> None:
    """At least 2 VMs of the type, so 4 samples cannot be given out, and 8 take both."""
    found = Remainders([level(0, (4,), 2.0, least=2)], 12).least(0, np.array([0, 4, 8, 12]))
    np.testing.assert_allclose(found[0], [np.inf, np.inf, 4.0, 6.0])


def test_tables_are_exact_and_lines_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against every way to choose batch and count; without a table the line is a bound still."""
    stream = np.random.default_rng(0)
    for _ in range(40):
        levels = [
            level(
                number,
                tuple(sorted({int(b) for b in stream.choice([2, 3, 4, 6, 8], 2)})),
                float(stream.uniform(1, 5)),
                least=int(stream.integers(0, 2)),
                most=int(stream.integers(1, 6)),
            )
            for number in range(3)
        ]
        samples = np.arange(37)
        best = np.full(37, np.inf)
        options = []
        for each in levels:
            own = [(count * batch, count * each.each[0]) for batch in each.batches for count in range(1, each.most + 1)]
            options.append(([(0, 0.0)] if each.least == 0 else []) + own)
        for combination in itertools.product(*options):
            total, price = sum(c[0] for c in combination), sum(c[1] for c in combination)
            if total < 37:
                best[total] = min(best[total], price)
        np.testing.assert_allclose(Remainders(levels, 36).least(0, samples)[0], best)
        monkeypatch.setattr(bounds, "MOST_UNITS", 0)
        line = Remainders(levels, 36).least(0, samples)[0]
        monkeypatch.undo()
        assert (line <= best * (1 + 1e-9)).all()


def test_levels_of_one_type_share_its_availability() -> None:
    """One VM takes 8 at most: 16 samples are too many for both batches of a type with one VM."""
    shared = Remainders([level(0, (8,), 2.0, most=1), level(0, (4,), 2.0, most=1)], 16)
    assert np.isfinite(shared.least(0, np.array([8]))[0, 0])
    assert np.isinf(shared.least(0, np.array([12]))[0, 0])
