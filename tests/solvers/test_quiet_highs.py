"""What an engine writes to standard output ends up nowhere."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from optplan.contracts import Status
from optplan.instances.library import build_named
from optplan.solvers import quiet_highs
from optplan.solvers.programs import TUNING, highs
from optplan.solvers.quiet_highs import drop_engines_output, standard_output_aside
from optplan.solving import solve


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no other thread, whatever other tests have left."""
    monkeypatch.setattr(quiet_highs._ASIDE, "is_ours", False)
    monkeypatch.setattr(quiet_highs, "_others_may_write", lambda: False)


@pytest.mark.usefixtures("alone")
def test_what_a_library_writes_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes written to the descriptor itself, and what C holds back, nested or not; what comes afterwards stays."""
    libc = ctypes.CDLL(None)
    with standard_output_aside():
        libc.puts(b"held back by C, as standard output is no terminal here")
        os.write(1, b"outer ")
        with standard_output_aside():
            os.write(1, b"inner ")
        os.write(1, b"outer again")
    libc.puts(b"by C afterwards")
    libc.fflush(None)
    os.write(1, b"after")
    captured = capfd.readouterr()
    assert captured.err == ""
    assert captured.out == "by C afterwards\nafter"


def test_what_other_threads_may_have_written_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless this process says that nobody else writes, as the command line does."""
    monkeypatch.setattr(quiet_highs._ASIDE, "is_ours", False)
    monkeypatch.setattr(quiet_highs, "_others_may_write", lambda: True)
    with standard_output_aside():
        os.write(1, b"outer ")
        with standard_output_aside():
            os.write(1, b"inner ")
        os.write(1, b"outer again")
    os.write(1, b"after")
    captured = capfd.readouterr()
    assert captured.err == "outer inner outer again"
    assert captured.out == "after"
    drop_engines_output()
    with standard_output_aside():
        os.write(1, b"dropped")
    assert capfd.readouterr() == ("", "")


def test_output_comes_back_after_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception in between does not leave standard output redirected."""

    def fail() -> None:
        with standard_output_aside():
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    os.write(1, b"after")
    assert capfd.readouterr().out == "after"


def test_a_process_without_the_streams_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard output is closed there is nothing to keep clean, and nothing fails."""

    def refuse(_descriptor: int) -> int:
        raise OSError

    monkeypatch.setattr(os, "dup", refuse)
    with standard_output_aside():
        pass


@pytest.mark.parametrize("solver", ["highs", "linked-paths"])
def test_no_engine_writes_on_the_terminal(solver: str, tmp_path: Path) -> None:
    """Whatever HiGHS prints while it runs, a command's two streams hold the answer alone."""
    script = tmp_path / "noisy.py"
    script.write_text(
        "import ctypes, sys\n"
        "import highspy\n"
        "from optplan.cli import main\n"
        "run = highspy.Highs.run\n"
        "def noisy(engine, *given):\n"
        "    ctypes.CDLL(None).puts(b'a forgotten line')\n"
        "    return run(engine, *given)\n"
        "highspy.Highs.run = highspy.Highs.solve = noisy\n"
        f"sys.exit(main(['solve', 'boa-two-classes', '--solver', {solver!r}, '--policy', 'mixed', '--json', '-q']))\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.startswith("{")
    assert "forgotten" not in ran.stdout


def test_an_engine_in_a_process_of_its_own_writes_nothing_either(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its banner: the thread there that hears of interruptions writes nothing that would be lost."""
    monkeypatch.setattr(highs, "TUNING", replace(TUNING, many_columns=1))
    instance = build_named("boa-two-classes").replace(policy="mixed")
    assert solve(instance, solver="highs").status is Status.OPTIMAL
    assert capfd.readouterr() == ("", "")
