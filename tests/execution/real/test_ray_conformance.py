"""The Ray executor keeps the contract of all executors."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.real


def test_the_contract_holds_on_ray(run_alone: Callable[..., str], folder: Path) -> None:
    """All tests of the contract pass on two nodes, by a shared folder and by a bucket of S3, fleets by a folder."""
    pytest.importorskip("ray", reason='ray is not installed; pip install "optplan[ray]" brings it')
    server = shutil.which("moto_server") or str(Path(sys.prefix) / "skypilot" / "bin" / "moto_server")
    if not Path(server).is_file():
        pytest.skip(f"moto, which plays S3, is not at {server}; `make test-real` installs it")
    shown = run_alone("ray_conformance.py", folder, server)
    assert "14 passed" in shown
    assert "skipped" not in shown
