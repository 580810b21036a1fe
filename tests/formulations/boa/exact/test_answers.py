"""What BOA's solvers say about their own answers."""

from __future__ import annotations

import pytest

from optplan.contracts import SolveRequest, Status
from optplan.formulations.boa.exact.answers import status_of


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "status"),
    [
        (None, 1.0, 0.0, Status.UNKNOWN),
        (100.0, None, 0.5, Status.FEASIBLE),
        (100.0, 99.0, 0.01, Status.OPTIMAL),  # 1 / 100
        (100.0, 98.9, 0.01, Status.FEASIBLE),
        (100.0, 100.0 * (1 - 9e-10), 0.0, Status.OPTIMAL),
        (100.0, 100.0 * (1 - 2e-9), 0.0, Status.FEASIBLE),
    ],
)
def test_the_status_goes_by_objective_and_bound(
    objective: float | None, bound: float | None, gap: float, status: Status
) -> None:
    """Optimal within the gap that was asked for; a relative 1e-9 is rounding and closes every gap."""
    assert status_of(objective, bound, SolveRequest(gap=gap)) is status
