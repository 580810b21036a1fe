"""``optplan serve``: what is wrong with its options, before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.cli import main


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "give the instance"),
        (("--budget", "4gpu"), "--budget: goes with --instance"),
        (("--instance", "boa-one-table", "--listen", "8420"), "HOST:PORT is needed"),
        (("--instance", "boa-one-table", "--listen", "localhost:99999"), "HOST:PORT is needed"),
        (("--instance", "boa-one-table", "--move", "500%"), "a part of up to 100% is needed"),
        (("--instance", "boa-one-table", "--slurm", "--class-pattern", "("), "is no regular expression"),
        (
            ("--instance", "boa-one-table", "--class-pattern", "^a"),
            "--class-pattern: finds the classes of Slurm's jobs",
        ),
        (("--instance", "boa-one-table", "--new-speedup", "fast"), "--new-speedup: got 'fast'; amdahl:FRACTION"),
        (("--instance", "seer-toy"), "seer"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    """Each is named with what is allowed, and no service begins."""
    assert main(["serve", str(tmp_path / "state"), *options]) in (1, 2)
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "state" / "address").exists()
