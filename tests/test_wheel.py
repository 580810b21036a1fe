"""The package as users get it: a wheel, in an environment that holds nothing else."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


def _run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.real
def test_wheel_solves_verifies_reports_and_runs_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel brings all that it needs: no module, template or instance is left behind in the repository."""
    pip = ("-m", "pip", "--disable-pip-version-check", "--no-input")
    _run(
        sys.executable, *pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT, folder=tmp_path
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python, optplan = tmp_path / "env/bin/python", tmp_path / "env/bin/optplan"
    pins = ROOT / "constraints.txt"
    _run(python, *pip, "install", "-q", "-c", pins, f"optplan[plot,run] @ {wheel.as_uri()}", folder=tmp_path)

    solve = ("solve", "boa-newtrace", "--budget", "120gpu", "-o", "result.json", "--report", "report.html")
    assert "proven optimal" in _run(optplan, *solve, folder=tmp_path)
    _run(optplan, "verify", "boa-newtrace", "result.json", folder=tmp_path)
    assert "26 min 57 s" in (tmp_path / "report.html").read_text()

    _run(optplan, "solve", "rubberband-two-stages", "--plan", "plan.json", folder=tmp_path)
    trainable = ROOT / "tests/execution/trainables/quadratic.py"
    run = ("run", "plan.json", "--train", f"{trainable}:Quadratic", "--executor", "local", "--out", "run")
    _run(optplan, *run, folder=tmp_path)
    assert "ended" in _run(optplan, "status", "run", folder=tmp_path)


@pytest.mark.slow
def test_what_runs_before_a_commit_is_what_the_checks_run() -> None:
    """Ruff has one version, before a commit and in ``make check``."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (rev,) = [each["rev"] for each in hooks if "ruff" in each["repo"]]
    assert f"ruff=={rev.removeprefix('v')}" in (ROOT / "constraints.txt").read_text().split()
