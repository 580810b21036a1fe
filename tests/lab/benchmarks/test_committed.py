"""The suite of commitments."""

from __future__ import annotations

from suites import run_suite


def test_no_rule_is_better_than_widths_and_number_together() -> None:
    """For the bill of the best number at the widths that are best on demand, both together are no slower."""
    nothing, p95, rule, both, whole = run_suite("commitments", quick=True)
    assert {row["instance"] for row in (nothing, p95, rule, both, whole)} == {"boa-newtrace, 96 jobs, 45% off"}
    means = [float(str(row["objective"])) for row in (nothing, p95, rule, both, whole)]
    assert means[0] == means[1] == means[2] >= means[3] > means[4]
    bills = [float(str(row["extra"]["bill"])) for row in (nothing, p95, rule, both)]  # type: ignore[index]
    assert bills[2] < min(bills[:2])
    assert bills[3] <= bills[2] * (1.0 + 1e-6)
