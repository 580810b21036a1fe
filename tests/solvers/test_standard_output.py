"""Standard output stays clean while an engine runs."""

from __future__ import annotations

import os

import pytest

from optplan.solvers.standard_output import standard_output_aside


def test_what_a_library_writes_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes written to the descriptor itself end up on the other stream, nested or not, and afterwards do not."""
    with standard_output_aside():
        os.write(1, b"outer ")
        with standard_output_aside():
            os.write(1, b"inner ")
        os.write(1, b"outer again")
    os.write(1, b"after")
    captured = capfd.readouterr()
    assert captured.err == "outer inner outer again"
    assert captured.out == "after"


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
