"""The compiled loops of BOA's judge: Panjer's recursion against a sum over clumps, and the same as Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from optplan.formulations.boa.judge import loops

Interpret = Callable[[ModuleType], ModuleType]


def recur(module: ModuleType) -> np.ndarray:
    """Return chances of up to 60 cells with a mean of 3 jobs of two cells and 900 of one, at a scale."""
    cells, weights = np.array([1, 2], dtype=np.intp), np.array([[0.0, 900.0], [2 * 3.0, 0.0]])
    chances, scale = np.zeros((60, 2)), np.array([-3.0, -900.0])
    chances[0] = 1.0
    for first in range(1, 60, 7):
        module.recur_cells(cells, weights, chances, scale, first, min(first + 7, 60), 1e30)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances) + scale).T


def test_the_recursion_of_jobs_of_one_size_is_poisson() -> None:
    """P(2 n cells) = exp(-3) 3^n / n!, odd numbers never; 900 jobs underflow without a scale, and do not with it."""
    found = recur(loops)
    pairs = [-3.0 + n * math.log(3.0) - math.lgamma(n + 1) for n in range(30)]
    assert found[0, ::2].tolist() == pytest.approx(pairs, rel=1e-12)
    assert np.isneginf(found[0, 1::2]).all()
    ones = [-900.0 + n * math.log(900.0) - math.lgamma(n + 1) for n in range(60)]
    assert found[1].tolist() == pytest.approx(ones, rel=1e-12)


def test_compiled_and_interpreted_agree_to_the_bit(interpret: Interpret) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    assert recur(loops).tolist() == recur(interpret(loops)).tolist()
