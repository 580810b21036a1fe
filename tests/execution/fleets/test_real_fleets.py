"""Fleets for real: gloo processes that are killed, a monitor that is killed, and a loss curve that does not show it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from optplan.execution.fleets.running import watch
from optplan.execution.runs import read_run
from optplan.execution.supervision import end, list_homes
from optplan.formulations.srift.planning import SriftPlan
from optplan.instances.files import write_json

pytestmark = pytest.mark.real
pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
pytest.importorskip("torch", reason='torch is not installed; pip install "optplan[torch]" brings it')

TRAIN = shlex.join([sys.executable, str(Path(__file__).with_name("train.py"))])
OPTIONS: dict[str, Any] = {
    "executor": "local",
    "command": TRAIN,
    "heartbeat_s": 20.0,  # nothing is to be missed here, however busy the machine is
    "grace_s": 20.0,
    "launch_wait_s": 120.0,
}
#: Seconds after which a test that hangs is given up.
PATIENCE_S = 240.0


def _read_losses(path: Path, fleets: int = 1) -> list[float]:
    """Return the loss of each iteration, as the last of so many fleets that did it has it."""
    told: dict[str, dict[int, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fleet, iteration, loss = json.loads(line)
        told.setdefault(fleet, {})[iteration] = loss
    assert len(told) == fleets
    last = {iteration: loss for fleet in sorted(told) for iteration, loss in told[fleet].items()}
    assert sorted(last) == list(range(len(last)))
    return [last[iteration] for iteration in sorted(last)]


def _end_all(out: Path) -> None:
    for folder in sorted((out / "operations").glob("*")):
        for home in list_homes(folder):
            end(home)


def _wait_for(path: Path, iterations: int) -> None:
    """Wait until so many iterations are in the losses."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if path.is_file() and len(path.read_text(encoding="utf-8").splitlines()) >= 2 * iterations:
            return
        time.sleep(0.1)
    pytest.fail(f"{iterations} iterations were not done in {PATIENCE_S:g} s")


def _send(out: Path, rank: int, number: signal.Signals) -> None:
    report = (out / "operations" / "fleet-001" / "ranks" / f"{rank:05d}.jsonl").read_text(encoding="utf-8")
    os.kill(json.loads(report.splitlines()[0])["pid"], number)


def _start(*options: str | Path) -> subprocess.Popen[bytes]:
    """Start a monitor as a process of its own."""
    return subprocess.Popen([sys.executable, "-P", "-m", "optplan.cli", "run", *options, "--quiet"])


@pytest.fixture(scope="module")
def losses_alone(small_plan: SriftPlan, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of a fleet to which nothing happens."""
    folder = tmp_path_factory.mktemp("alone")
    path = folder / "losses.jsonl"
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOSSES", str(path))
            patch.setenv("STEP_S", "0")
            outcome = watch(small_plan, out=folder / "run", **OPTIONS)
    finally:
        _end_all(folder / "run")
    assert (outcome.status, outcome.code, outcome.fleets) == ("ended", 0, ("2 spot@32",))
    return _read_losses(path)


@pytest.mark.parametrize(("rank", "how"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (0, signal.SIGSTOP)])
def test_a_lost_rank_does_not_show_in_the_losses(
    rank: int,
    how: signal.Signals,
    small_plan: SriftPlan,
    losses_alone: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rank is killed, or stands still and the other hangs; the monitor is killed on and on: losses are the same."""
    path, out = tmp_path / "losses.jsonl", tmp_path / "run"
    monkeypatch.setenv("LOSSES", str(path))
    monkeypatch.setenv("STEP_S", "0.1")
    dice = random.Random(rank)
    plan = tmp_path / "plan.json"
    write_json(small_plan, plan)
    terms = ("--heartbeat", "4s", "--grace", "20s", "--launch-wait", "120s")
    monitor = _start(plan, "--out", out, "--executor", "local", "--command", TRAIN, *terms)
    try:
        _wait_for(path, 20)
        _send(out, rank, how)
        kills = 0
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                monitor.wait(dice.uniform(0.5, 4.0) if kills < 5 else PATIENCE_S)
                break
            monitor.kill()
            monitor.wait()
            kills += 1
            monitor = _start("--resume", out)
    finally:
        monitor.kill()
        monitor.wait()
        _end_all(out)
    outcome = read_run(out).describe()
    assert (outcome.status, outcome.code, outcome.iterations) == ("ended", 0, 60)
    assert outcome.fleets == ("2 spot@32", "1 spot@32 + 1 steady@32")
    assert outcome.lost == {"spot": 1}
    assert kills > 0
    assert _read_losses(path, fleets=2) == pytest.approx(losses_alone, rel=1e-5)
    assert len(losses_alone) == 60
    assert losses_alone[-1] < 0.1 * losses_alone[0]


def test_a_rank_that_stalls_is_taken_back(
    small_plan: SriftPlan, losses_alone: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still until it is missed, and goes on then: the same VMs train on, and the losses are the same."""
    path, out, plan = tmp_path / "losses.jsonl", tmp_path / "run", tmp_path / "plan.json"
    monkeypatch.setenv("LOSSES", str(path))
    monkeypatch.setenv("STEP_S", "0.1")
    write_json(small_plan, plan)
    terms = ("--heartbeat", "4s", "--grace", "20s", "--launch-wait", "120s", "--return-wait", "2min")
    monitor = _start(plan, "--out", out, "--executor", "local", "--command", TRAIN, *terms)
    try:
        _wait_for(path, 20)
        _send(out, 1, signal.SIGSTOP)
        until = time.monotonic() + PATIENCE_S
        while not read_run(out).describe().lost and time.monotonic() < until:
            time.sleep(0.05)
        _send(out, 1, signal.SIGCONT)
        assert monitor.wait(PATIENCE_S) == 0
    finally:
        monitor.kill()
        monitor.wait()
        _end_all(out)
    outcome = read_run(out).describe()
    assert (outcome.fleets, outcome.lost, outcome.iterations) == (("2 spot@32",), {}, 60)
    assert _read_losses(path, fleets=2) == pytest.approx(losses_alone, rel=1e-5)
