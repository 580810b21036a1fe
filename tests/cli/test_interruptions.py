"""Signals: a real process is sent real ones, and writes the best that it has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from optplan.cli import main
from optplan.cli.failures import heed_signals
from optplan.progress import Stopwatch

#: Says that it is ready at the first event of a stage, and then waits for a signal where it is told to.
SCRIPT = """
import os, signal, sys
from optplan import progress, solving
from optplan.cli import main

stage, where, *arguments = sys.argv[1:]
emit, verify = progress.Stopwatch.emit, solving.verify

come, go = os.pipe()
os.set_blocking(go, False)
signal.set_wakeup_fd(go)

def wait():
    print("ready", file=sys.stderr, flush=True)
    os.read(come, 1)

def tell(self, name, **more):
    emit(self, name, **more)
    if name == stage:
        progress.Stopwatch.emit = emit
        wait() if where == "there" else print("ready", file=sys.stderr, flush=True)

def verify_later(*arguments, **more):
    if where == "twice":
        wait()
    return verify(*arguments, **more)

progress.Stopwatch.emit, solving.verify = tell, verify_later
sys.exit(main(arguments))
"""

#: What a solve takes that is long enough to be interrupted.
ARGUMENTS = ("solve", "boa-newtrace", "--budget", "120gpu", "--gap", "0")


@contextmanager
def started(stage: str, where: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start a command that says when it is ready for a signal, and wait for that."""
    command = [sys.executable, "-c", SCRIPT, stage, where, *map(str, arguments)]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            wait_for(process, "ready")
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Read standard error up to a line that begins with a word."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(word):
            return
    pytest.fail(f"the process ended without saying {word!r}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_best_plan_so_far_is_written(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Where it was asked for, with the termination interrupted; it verifies."""
    path = tmp_path / "result.json"
    with started("bound", "there", *ARGUMENTS, "-o", path) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == code
    assert "stopped: interrupted" in " ".join(out.split())
    assert f"wrote {path}" in err
    result = json.loads(path.read_text(encoding="utf-8"))
    assert (result["termination"], result["status"]) == ("interrupted", "feasible")
    assert result["solution"] is not None
    assert main(["verify", "boa-newtrace", str(path)]) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_engines_hear_of_signals(number: signal.Signals, code: int) -> None:
    """HiGHS, which takes minutes here, is stopped; its bound is derived from a multiplier, and rivals are not tried."""
    arguments = (*ARGUMENTS, "--solver", "highs", "--compare", "linked-paths", "--json")
    with started("highs", "here", *arguments) as process:
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == code
    (result,) = json.loads(out)
    assert (result["termination"], result["solver"]) == ("interrupted", "highs")


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Nothing is written any more, and the process ends by the signal itself."""
    path = tmp_path / "result.json"
    with started("bound", "twice", *ARGUMENTS, "-o", path) as process:
        process.send_signal(signal.SIGTERM)
        wait_for(process, "ready")  # the solve has ended, and the result is being verified
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert not path.exists()


def test_handlers_are_put_back() -> None:
    """After the block signals do what they did before; in another thread nothing is touched at all."""
    before = signal.getsignal(signal.SIGTERM)
    with heed_signals() as signals:
        assert signal.getsignal(signal.SIGTERM) != before
        assert signals.exit_code == 0
    assert signal.getsignal(signal.SIGTERM) == before
    found = []

    def look() -> None:
        with heed_signals():
            found.append(signal.getsignal(signal.SIGTERM) == before)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [True]


def test_the_first_signal_ends_the_solves_of_the_block(capfd: pytest.CaptureFixture[str]) -> None:
    """It says so, and what comes next ends the process as it would end any other."""
    with heed_signals() as signals:
        stopwatch = Stopwatch()
        signal.raise_signal(signal.SIGINT)
        assert stopwatch.interrupted
        assert signals.exit_code == 130
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "once more ends at once" in capfd.readouterr().err
