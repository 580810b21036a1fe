"""``optplan import spot-trace``: an estimate on the terminal, as JSON, and in an instance."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace: of 2 VMs, two are lost together, one of them alone later; ticks of 15 minutes."""
    path = tmp_path / "zone_v100_1.json"
    alive = [2, 2, 0, 2, 2, 1, 2, 2]
    path.write_text(json.dumps({"metadata": {"gap_seconds": 900}, "data": alive}), encoding="utf-8")
    return path


def test_the_estimate(run: Callable[..., Any], trace: Path) -> None:
    """3 of 11 VM-ticks end with a loss, at 2 moments; 3 of 16 wanted are missing."""
    done = run("import", "spot-trace", trace)
    assert done.code == 0
    assert "3 VMs in 3 VM-hours, at 2 moments" in done.out
    assert "1.27 an hour" in done.out  # -4 ln(8/11)
    assert "0.25 h" in done.out
    assert "81% of those wanted" in done.out
    data = run("import", "spot-trace", trace, "--wanted", "4", "--json").data
    assert data["losses"] == 3
    assert data["availability"] == pytest.approx(13 / 32)
    assert data["high"] is None  # as many losses as VMs at risk: nothing bounds the rate
    assert data["events_per_vm_hour"] == pytest.approx(data["interruptions_per_hour"] * 2 / 3)


def test_a_trace_without_losses(run: Callable[..., Any], tmp_path: Path) -> None:
    """Nothing says how long a restart takes, unless the user does."""
    path = tmp_path / "calm.json"
    path.write_text('{"metadata": {"gap_seconds": 900}, "data": [1, 1]}', encoding="utf-8")
    assert "nothing was lost" in run("import", "spot-trace", path).out
    options = ("--into", "srift-interruption", "--vm-type", "p3.8xlarge", "--checkpoint-every", "10min", "--json")
    refused = run("import", "spot-trace", path, *options)
    assert refused.code == 2
    assert "--restart: no VM was lost in the trace" in refused.err
    assert run("import", "spot-trace", path, *options, "--restart", "3min").code == 0


def test_an_instance_with_the_rate(run: Callable[..., Any], trace: Path, tmp_path: Path) -> None:
    """The rate goes into the type, what a loss does into the instance, and the source says where from."""
    path = tmp_path / "risky.json"
    options = ("--into", "srift-interruption", "--vm-type", "p3.8xlarge", "--checkpoint-every", "10min")
    done = run("import", "spot-trace", trace, *options, "--name", "risky", "-o", path)
    assert done.code == 0
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["name"] == "risky"
    assert data["types"]["p3.8xlarge"]["interruptions_per_hour"] == pytest.approx(1.2738, abs=1e-4)
    assert data["interruptions"]["checkpoint_every_s"] == 600
    assert data["interruptions"]["restart_s"] == 900
    assert "estimated from the trace zone_v100_1.json" in data["source"]["interruptions of p3.8xlarge"]
    again = ("--into", path, "--vm-type", "g3.8xlarge", "--together", "--restart", "5min", "--json")
    data = run("import", "spot-trace", trace, *again).data
    assert data["types"]["g3.8xlarge"]["interruptions_per_hour"] == pytest.approx(1.2738 * 2 / 3, abs=1e-4)
    assert data["interruptions"]["restart_s"] == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--vm-type", "a"), "--vm-type: has a meaning with --into INSTANCE only"),
        (("--together",), "--together: has a meaning with --into INSTANCE only"),
        (("--into", "srift-interruption"), "--vm-type: say which type of VM of the instance the trace is of"),
        (
            ("--into", "srift-interruption", "--vm-type", "p3.8xlarge"),
            "--checkpoint-every: 'srift-interruption' does not say what a loss does; give the time between checkpoints",
        ),
        (
            ("--into", "srift-interruption", "--vm-type", "p3.8xlarge", "--restart", "1min"),
            "--checkpoint-every: say how much training is between two checkpoints, too",
        ),
        (
            ("--into", "boa-two-classes", "--vm-type", "p3.8xlarge"),
            "--into: 'boa-two-classes' is of formulation 'boa'; an instance of srift has types of VM",
        ),
        (("--wanted", "1"), "wanted: got 1, but zone_v100_1.json has 2 VMs at a time"),
    ],
)
def test_what_is_refused(run: Callable[..., Any], trace: Path, options: tuple[str, ...], message: str) -> None:
    """Options that go nowhere and instances that cannot take a rate are named."""
    done = run("import", "spot-trace", trace, *options)
    assert done.code == 2
    assert message in done.err
