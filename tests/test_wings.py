"""The core stands without its wings: a copy of the package without them solves, proves, plans and reports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import optplan
from optplan import wings
from optplan.cli.commands import Group
from optplan.contracts.parts import load

TESTS = Path(__file__).parent
#: Tests of what wings bring; the pages' examples call all of it.
OF_WINGS = (*wings.WINGS, "docs", "fuzz", Path(__file__).name)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Copy the package without its wings, and return the environment in which it is the one that is imported.

    What is compiled of it goes along, and what is not is kept once it is: else every command would compile it anew.
    """
    folder = tmp_path_factory.mktemp("core")
    shutil.copytree(Path(optplan.__file__).parent, folder / "optplan", ignore=shutil.ignore_patterns(*wings.WINGS))
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "", "COLUMNS": "200"}


def call(core: dict[str, str], *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the copy."""
    return subprocess.run(
        [sys.executable, "-P", "-m", *words], cwd=cwd, env=core, check=False, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        ("boa-two-classes", "--policy", "pure"),
        ("rubberband-two-stages",),
        ("seer-paper-example",),
        ("srift-case1",),
        ("throughputs-resnet50-gavel",),
    ],
    ids=lambda question: question[0],
)
def test_every_problem_is_solved_proven_planned_and_reported(
    core: dict[str, str], tmp_path: Path, question: tuple[str, ...]
) -> None:
    """Without what runs plans, simulates or measures."""
    told = call(
        core,
        *("optplan.cli", "solve", *question, "-o", "result.json", "--plan", "plan.json", "--report", "report.html"),
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "plan.json").is_file()
    assert "<html" in (tmp_path / "report.html").read_text("utf-8")
    shown = call(core, "optplan.cli", "show", *question, "-o", "mine.json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    checked = call(core, "optplan.cli", "verify", "mine.json", "result.json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_commands_of_wings_are_not_there(core: dict[str, str], tmp_path: Path) -> None:
    """Neither listed nor called."""
    listed = call(core, "optplan.cli", "--help", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\n  solve " in listed.stdout
    assert "\n  measure " not in listed.stdout
    assert not [name for name in wings.commands() if f"\n  {name} " in listed.stdout]
    assert call(core, "optplan.cli", "run", "plan.json", cwd=tmp_path).returncode == 2
    sized = call(core, "optplan.cli", "frontier", "boa-two-classes", "--by", "gpus", cwd=tmp_path)
    assert sized.returncode == 2
    assert "--by gpus: replays jobs, and this copy of optplan has no simulator (optplan.lab)" in sized.stderr
    scaled = call(core, "optplan.cli", "frontier", "srift-case3", "--limit", "vms", cwd=tmp_path)
    assert scaled.returncode == 2
    assert "--limit vms: studies sizes of fleets, which this copy of optplan cannot (optplan.lab)" in scaled.stderr
    (tmp_path / "audit.json").write_text('{"assumptions": []}', encoding="utf-8")
    checked = call(core, "optplan.cli", "verify", "boa-two-classes", "audit.json", cwd=tmp_path)
    assert checked.returncode == 2
    assert "RESULT: this copy of optplan has nothing that reads audits (optplan.lab); add it" in checked.stderr


@pytest.mark.slow
def test_no_test_of_the_core_needs_a_wing(core: dict[str, str]) -> None:
    """All of them can be read and collected there; `make test-core` runs them."""
    left_out = [f"--ignore={TESTS / name}" for name in OF_WINGS]
    # Asserts are rewritten as they are here, so that modules that were compiled for it here are not compiled again.
    words = ("pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *left_out, str(TESTS))
    told = call({**core, "PYTHONDONTWRITEBYTECODE": "1"}, *words, cwd=TESTS.parent)
    assert told.returncode == 0, told.stdout[-2000:]


def test_everything_that_wings_bring_is_there() -> None:
    """Each command under its name and each list, loaded from where the wing says that it stands."""
    groups = {name.rpartition(" ")[0] for wing in wings.wings() for name in wing.COMMANDS}
    for group in groups:
        for name, home in wings.commands(group).items():
            assert load(home).name == name
    assert all(callable(load(home)) for home in wings.brought("LISTS").values())
    assert all(callable(wings.function(name)) for name in ("FOLDERS", "REPORTS"))


def test_a_name_that_nobody_brings_is_no_command() -> None:
    """As in any group."""
    assert Group(extended="").get_command(click.Context(Group()), "fly") is None
