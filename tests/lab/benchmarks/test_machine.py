"""Where something was measured."""

from __future__ import annotations

import pytest
from suites import sweeps


def test_versions_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of extras that are not there are not named, and nothing fails."""
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None if name in ("ortools", "cvxpy") else object())
    assert [each.split()[0] for each in sweeps.describe_versions().split(", ")] == ["optplan", "numpy", "highspy"]
