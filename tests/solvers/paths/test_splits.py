"""Divisions of branch and price: which are listed, and what they are expected to gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optplan.solvers.paths.run_problem import Gains, RunProblem


def test_divisions_of_a_mixture_by_hand() -> None:
    """Paths 0, 0 (0.4) and 1, 2 (0.6), kinds {0, 1} and {2}: layer 1 is divided by kind, layer 0 within kind {0, 1}."""
    nodes = np.array([[0, 0], [1, 2]], dtype=np.int32)
    problem: Any = RunProblem
    problem = problem(None, np.array([0, 2]), np.array([[0, 2, 3]]), np.zeros(0), None)  # its costs are not looked at
    found = problem.list_splits(np.zeros(2, dtype=int), nodes, np.array([0.4, 0.6]))
    # Of node 0 alone both layers hold 0.4, one stretch: its middle layer stands for it.
    assert sorted(found) == [(0, 0, 0, 1), (0, 1, 0, 2), (0, 1, 2, 3)]


def test_gains_are_expected_of_the_same_nodes_in_layers_near_by() -> None:
    """Of 8 layers two make a stretch; what nobody tried is expected to gain what all gained, 2 of 1 and 3."""
    gains = Gains(np.array([0, 8]))
    assert gains.expect((0, 0, 0, 1)) == 0.0
    gains.note((0, 0, 0, 1), 1.0)
    gains.note((0, 7, 0, 1), 3.0)
    assert gains.expect((0, 1, 0, 1)) == pytest.approx((1.0 + 2.0) / 2)
    assert gains.expect((0, 6, 0, 1)) == pytest.approx((3.0 + 2.0) / 2)
    assert gains.expect((0, 3, 0, 1)) == gains.expect((0, 0, 0, 2)) == pytest.approx(2.0)
