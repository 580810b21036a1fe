"""Small programs by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.sparse import csr_array

from optplan.solvers.programs.program import Program

Row = tuple[Sequence[float], float, float]
MakeProgram = Callable[..., Program]


@pytest.fixture
def make_program() -> MakeProgram:
    """Return what makes a program of costs, and rows with their ends; columns are 0 or 1 unless their ends are said."""

    def make(
        cost: Sequence[float],
        *rows: Row,
        upper: Sequence[float] | None = None,
        lower: Sequence[float] | None = None,
        integral: Sequence[bool] | None = None,
    ) -> Program:
        size = len(cost)
        return Program(
            cost=np.array(cost, dtype=float),
            lower=np.zeros(size) if lower is None else np.array(lower, dtype=float),
            upper=np.ones(size) if upper is None else np.array(upper, dtype=float),
            integral=np.ones(size, dtype=np.bool_) if integral is None else np.array(integral, dtype=np.bool_),
            matrix=csr_array(np.array([numbers for numbers, _, _ in rows], dtype=float)),
            row_lower=np.array([least for _, least, _ in rows], dtype=float),
            row_upper=np.array([most for _, _, most in rows], dtype=float),
        )

    return make
