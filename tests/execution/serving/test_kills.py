"""A publisher that is killed at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from optplan.execution.serving.publisher import Publisher

_KILLED = Path(__file__).with_name("killed_publisher.py")


def test_thirty_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    """Killed thirty times while it takes events and publishes, it has every confirmed event once and whole tables."""
    command = [sys.executable, "-P", str(_KILLED), str(tmp_path / "s"), "30", "1"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=300).stdout)
    publisher = Publisher(tmp_path / "s")
    publisher.stop()
    assert publisher.view.events == 5 * told["batches"]
    # Of a window of 1e9 h, the rate is the stated one and 4 arrivals of each batch.
    rate = publisher.view.instance.classes["a"].arrival_rate_per_hour
    assert (rate - 1.0) * 1e9 == pytest.approx(4 * told["batches"], abs=0.5)
