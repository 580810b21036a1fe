"""The Ray executor keeps the contract of all executors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.real


def test_the_contract_holds_on_ray(run_alone: Callable[..., str], folder: Path) -> None:
    """All five tests of the contract pass on a cluster of two nodes, and none is left out."""
    pytest.importorskip("ray", reason='ray is not installed; pip install "optplan[ray]" brings it')
    shown = run_alone("ray_conformance.py", folder)
    assert "5 passed" in shown
    assert "skipped" not in shown
