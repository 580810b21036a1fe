"""``optplan measure search --executor ray``: trials timed as actors of a real cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
pytest.importorskip("ray", reason='Ray is not installed; pip install "optplan[ray]" brings it')


def test_actors_are_timed(run_alone: Callable[..., str], folder: Path) -> None:
    """Two trials start on 1, then 1 and 2 CPUs: three timed iterations each, of 50 ms at least; nothing is left."""
    run_alone("ray_profile.py", folder)
    profiled = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
    resumed = [each for each in profiled["timings"] if each["resumed"]]
    assert [(each["trial"], each["gpus"], len(each["steps_s"])) for each in resumed] == [
        (1, 1, 3),
        (1, 2, 3),
        (2, 1, 3),
        (2, 2, 3),
    ]
    assert min(second for each in resumed for second in each["steps_s"]) >= 0.05
    assert min(each["overhead_s"] for each in resumed) > 0.0
    assert profiled["request_s"] >= 0.0
    assert profiled["launch_s"] > 0.0
    assert not list(folder.glob("optplan-profile-*"))
