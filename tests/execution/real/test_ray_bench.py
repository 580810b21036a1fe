"""Benchmarks on a Ray cluster: the same suites, each in a worker of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import optplan

pytestmark = pytest.mark.real
pytest.importorskip("ray", reason='Ray is not installed; pip install "optplan[ray]" brings it')


def test_suites_run_on_a_cluster(run_alone: Callable[..., str], folder: Path) -> None:
    """Every task has a process of its own; a sweep has all suites, and says that nobody knows how many ran at once."""
    run_alone("ray_bench.py", folder)
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert {name: double for name, (double, _, _) in found["fresh"].items()} == {"0": 0, "1": 2, "2": 4, "3": 6}
    assert len({process for _, process, _ in found["fresh"].values()}) == 4
    assert {package for _, _, package in found["fresh"].values()} == {optplan.__file__}
    sweep = found["sweep"]
    assert (sweep["engine"], sweep["processes"]) == ("ray", None)
    assert sweep["suites"]["srift"]["summary"]["solvers"]["best-first"]["compared"]["best"] == 1.0
    assert sweep["suites"]["runtime"]["rows"]
    assert all(suite["machine"] == sweep["machine"] for suite in sweep["suites"].values())
