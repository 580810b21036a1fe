"""The examples of the pages about exports, as they stand there, run to their end: plain shell, and Slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from optplan.instances.files import read_plan

pytestmark = pytest.mark.real

DOCS = Path(__file__).parents[3] / "docs"


class SlurmCluster(Protocol):
    """What conftest.py starts."""

    environment: dict[str, str]

    def wait(self) -> None:
        """Wait until no job is left."""


def run_page(name: str, until: str, folder: Path, variables: dict[str, str]) -> str:
    """Run the commands of a page up to a heading, in a folder with the page's files; return what they printed."""
    page = (DOCS / name).read_text(encoding="utf-8").split(until)[0]
    for title, text in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        (folder / title).write_text(text)
    commands = re.findall(r"^\$ (optplan (?:solve|export) .*)", page, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["solve", "export"]
    done = subprocess.run(
        ["bash", "-euc", "\n".join(commands)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def submit(words: str, folder: Path, variables: dict[str, str]) -> None:
    """Hand the jobs over from a folder that is not the one where they were exported."""
    shell = ["bash", "-euc", f"cd /; optplan submit {folder / 'jobs'} {words}"]
    done = subprocess.run(shell, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_search_in_plain_shell(tmp_path: Path, real_path: str) -> None:
    """The first example: its program stands beside the folder of the export, and stage 2 goes on to iteration 40."""
    variables = os.environ | {"PATH": real_path}
    shown = run_page("exports.md", "## The command", tmp_path, variables)
    assert shown.splitlines()[-1] == "optplan submit jobs"
    submit("", tmp_path, variables)
    winner: dict[str, Any] = json.loads((tmp_path / "jobs/winner.json").read_text())
    rates = [
        each["learning_rate"] for each in json.loads((tmp_path / "jobs/export.json").read_text())["configurations"]
    ]
    assert winner["configuration"]["learning_rate"] == max(rates), "the fastest of rates that are all too small"
    state = json.loads((tmp_path / "jobs" / winner["checkpoint"] / "state.json").read_text())
    assert state["done"] == 40
    assert json.loads((tmp_path / "jobs/export.json").read_text())["workdir"] == str(tmp_path.resolve())


def test_a_job_on_slurm(
    tmp_path: Path, slurm: SlurmCluster, real_path: str, write_training: Callable[[Path], None]
) -> None:
    """The example of Slurm's page, on a cluster that has its partition, its type of GPU and `module`."""
    write_training(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/module").write_text("#!/bin/sh\ntest \"$*\" = 'load python'\n")
    (tmp_path / "bin/module").chmod(0o755)
    variables = slurm.environment | {"PATH": f"{tmp_path}/bin:{real_path}"}
    run_page("exports-slurm.md", "## What works", tmp_path, variables)
    submit("--class vision --job vision-17", tmp_path, variables)
    slurm.wait()
    shown = "".join(log.read_text() for log in sorted((tmp_path / "jobs/logs").glob("*")))
    epochs = [each for each in read_plan(tmp_path / "plan.json").segments if each.unit == "vision"]
    place = tmp_path / "jobs/trials/vision-17"
    assert len(list(place.glob("ended-*"))) == len(epochs), shown
    assert json.loads((place / "checkpoint/state.json").read_text())["done"] == 3, shown


@pytest.fixture
def real_path() -> str:
    """Return a search path on which `optplan` and `python` are those of the tests."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"
