"""The rows about widths that are calculated again."""

from __future__ import annotations

import pytest

from optplan.benchmarking.online_widths import measure_widths


def test_rows_say_what_was_proven_and_that_nothing_was_lost() -> None:
    """Both ways to the widths prove the same optimum, and every measurement is on the disk."""
    afresh, again, intake = measure_widths(quick=True)
    assert again.objective == pytest.approx(afresh.objective)
    assert (again.gap, afresh.gap) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert again.extra["goal_s"] == 0.02
    assert (intake.extra["lost"], intake.extra["goal_s"]) == (0.0, 1.0)
