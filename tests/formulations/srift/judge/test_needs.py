"""The least price and ranks of what is left, against every choice of counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from optplan.formulations.srift.judge import bounds
from optplan.formulations.srift.judge.bounds import Needs, Supply, divide


def draw(stream: np.random.Generator, *, shared: bool) -> list[Supply]:
    """Draw up to three supplies, of types of their own or of one type."""
    each = stream.uniform(0.1, 2.0, (3, 2))
    return [
        Supply(
            type=0 if shared else number,
            batches=tuple(sorted({int(size) for size in stream.choice([1, 2, 3, 5, 8], 1 if shared else 2)})),
            least=0 if shared else int(stream.choice([0, 0, 1])),
            most=3 if shared else int(stream.integers(1, 5)),
            each=each[0 if shared else number],
        )
        for number in range(int(stream.integers(1, 4)))
    ]


def list_choices(supplies: list[Supply]) -> Iterator[tuple[int, float, float]]:
    """List samples, price and ranks of all that supplies can add, one batch each, types with the VMs that they have."""
    options = [
        [(0, 0)] * (supply.least == 0)
        + [(count, batch) for batch in supply.batches for count in range(max(1, supply.least), supply.most + 1)]
        for supply in supplies
    ]
    for chosen in itertools.product(*options):
        used = sum(count for count, _ in chosen)
        if len({supply.type for supply in supplies}) < len(supplies) and used > supplies[0].most:
            continue
        amounts = sum((count * s.each for s, (count, _) in zip(supplies, chosen, strict=True)), np.zeros(2))
        yield sum(count * batch for count, batch in chosen), float(amounts[0]), float(amounts[1])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("most_units", [1000, 0])
def test_no_choice_takes_less(monkeypatch: pytest.MonkeyPatch, shared: bool, most_units: int) -> None:
    """From any supply on; with a table and types of their own, exactly the least of all choices."""
    monkeypatch.setattr(bounds, "_MOST_UNITS", most_units)
    stream = np.random.default_rng(5)
    for _ in range(60):
        supplies = draw(stream, shared=shared)
        known = Needs(supplies, 40)
        for start in range(len(supplies) + 1):
            least: dict[int, tuple[float, float]] = {}
            for samples, price, ranks in list_choices(supplies[start:]) if start < len(supplies) else [(0, 0.0, 0.0)]:
                before = least.get(samples, (np.inf, np.inf))
                least[samples] = min(before[0], price), min(before[1], ranks)
            found = known.least(start, np.arange(41))
            for samples in range(41):
                wanted = least.get(samples, (np.inf, np.inf))
                if most_units and not shared:
                    assert found[:, samples].tolist() == pytest.approx(list(wanted), rel=1e-9)
                else:
                    assert (found[:, samples] <= np.array(wanted) * (1 + 1e-12)).all()


def test_divisible_vms_by_hand() -> None:
    """Two VMs of 8 samples for 1 $ and many of 4 for 1 $: 20 samples cost 3 $, one more a quarter; 60 are too many."""
    supplies = [
        Supply(0, (4, 8), 0, 2, np.array([1.0, 4.0])),
        Supply(1, (4,), 0, 10, np.array([1.0, 1.0])),
    ]
    found = divide(supplies, np.array([16, 20, 21, 60]))
    assert found[0].tolist() == pytest.approx([2.0, 3.0, 3.25, np.inf])
    assert found[1].tolist() == pytest.approx([4.0, 5.0, 5.25, np.inf])
