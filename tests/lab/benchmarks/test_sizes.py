"""The suite of own clusters."""

from __future__ import annotations

from suites import run_suite


def test_the_best_policy_found_stands_beside_equal_shares() -> None:
    """Of the same jobs on as many GPUs: neither its mean nor its P95 is beaten by what many would run."""
    mean, p95, rival = run_suite("sizes", quick=True)
    assert mean["instance"] == p95["instance"] == rival["instance"] == "boa-newtrace, 96 jobs on 96 GPUs"
    assert str(mean["solver"]).startswith("least mean: ")
    assert str(p95["solver"]).startswith("least P95: ")
    assert rival["solver"] == "equal-share"
    assert float(str(mean["objective"])) <= float(str(rival["objective"]))
