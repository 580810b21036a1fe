"""``optplan export``, ``submit`` and ``promote``: from a plan's file to jobs, and what is refused on the way."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.execution.exports.folder import exporters

if TYPE_CHECKING:
    from tests.conftest import Runner

SPACE = '{"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}'
COMMAND = 'bash -c \'echo "{{\\"loss\\": $0}}" >>"$OPTPLAN_METRICS"\' {rate} {gpus}'


@pytest.fixture
def search(run: Runner, tmp_path: Path) -> tuple[str, ...]:
    """Return the command that exports a search to plain shell."""
    assert run("solve", "rubberband-two-stages", "--plan", tmp_path / "plan.json").code == 0
    (tmp_path / "space.json").write_text(SPACE)
    (tmp_path / "own.yaml").write_text(f'optplan: "{sys.executable} -m optplan.cli"\n')
    given = ("--command", COMMAND, "--space", str(tmp_path / "space.json"), "--gpus-per-node", "4")
    return ("export", str(tmp_path / "plan.json"), "--to", "script", *given)


def test_placeholders_keep_their_names(run: Runner, search: tuple[str, ...], tmp_path: Path) -> None:
    """A message that lists them does not take one for the option of the same name."""
    told = run(*search[:4], "--command", "train {rate}", *search[6:], "--out", tmp_path / "jobs")
    assert told.code == 2
    assert "use one of {nodes}, {gpus_per_node}, {gpus}, {workers}, --launcher torchrun" in told.err


def test_a_plan_becomes_jobs_that_run(run: Runner, search: tuple[str, ...], tmp_path: Path) -> None:
    """Exported, submitted, and ranked again: the trial of rate 0.3 has won."""
    jobs = tmp_path / "my jobs"
    done = run(*search, "--template", tmp_path / "own.yaml", "--out", jobs)
    assert done.out == f"optplan submit '{jobs}'\n"
    assert run("submit", jobs).code == 0
    winner = json.loads(run("promote", jobs, "--winner", "--json").out)["winner"]
    assert winner["configuration"] == {"rate": 0.3}
    assert run("promote", jobs, "b1-s2").out == f"b1-s2: {winner['trial']}\n"


def test_a_search_that_stops_early_is_no_success(run: Runner, search: tuple[str, ...], tmp_path: Path) -> None:
    """Stage 2 fails: the best of stage 1 is named, with exit code 1; without any number there is nobody to name."""
    for name, shell, said in (
        (
            "early",
            "[ $OPTPLAN_SEGMENT = b1-s1 ] || exit 7; ",
            "; the best of b1-s1, as nobody ended the last steps with",
        ),
        ("none", "exit 7; ", "nobody ended any step with a number"),
    ):
        command = COMMAND.replace("echo", f"{shell}echo", 1)
        given = [command if word == COMMAND else word for word in search]
        assert run(*given, "--template", tmp_path / "own.yaml", "--out", tmp_path / name).code == 0
        assert run("submit", tmp_path / name).code == 2
        done = run("promote", tmp_path / name, "--winner")
        assert (done.code, said in done.out) == (1, True), done.out


def test_classes_have_commands_of_their_own(run: Runner, tmp_path: Path) -> None:
    """The option is repeated, once for a class; a class that the plan does not have is refused."""
    assert run("solve", "boa-two-classes", "--plan", tmp_path / "plan.json").code == 0
    given = ("export", tmp_path / "plan.json", "--to", "slurm", "--command", "train {gpus}")
    assert run(*given, "--command", "vision=see {gpus}", "--out", tmp_path / "jobs").code == 0
    steps = {file.name: file.read_text() for file in (tmp_path / "jobs/steps").iterdir()}
    assert {name.split("-")[0]: text.split("argv=(")[1].split()[0] for name, text in steps.items()} == {
        "vision": "see",
        "speech": "train",
    }
    done = run(*given, "--command", "visoin=see {gpus}", "--out", tmp_path / "other")
    assert (done.code, "there is no class 'visoin'; did you mean 'vision'" in done.err) == (2, True), done.err


@pytest.mark.parametrize("option", ["--template", "--space"])
def test_an_empty_file_is_refused(run: Runner, search: tuple[str, ...], tmp_path: Path, option: str) -> None:
    """It would be taken for none at all."""
    (tmp_path / "empty.yaml").touch()
    done = run(*search, "--out", tmp_path / "jobs", option, tmp_path / "empty.yaml")
    assert (done.code, f"empty.yaml: is empty; fill it, or leave out {option}" in done.err) == (2, True)
    assert not (tmp_path / "jobs").exists()


def test_a_template_of_another_type_is_refused(run: Runner, search: tuple[str, ...], tmp_path: Path) -> None:
    """A list, a value of another type, a field that is not known, a tag that would run a program."""
    for text, said in {
        "- a": "template: got ['a']",
        "setup: [1]": "template.setup: got [1]",
        "setpu: x": "unknown field 'setpu'; did you mean 'setup'",
        '!!python/object/apply:os.system ["touch pwned"]': "is not YAML",
    }.items():
        (tmp_path / "t.yaml").write_text(text)
        done = run(*search, "--out", tmp_path / "jobs", "--template", tmp_path / "t.yaml")
        assert (done.code, said in done.err) == (1, True), done.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--margin", "-1", "-1.0 is not in the range"),
        ("--time-quantile", "1", "1.0 is not in the range"),
        ("--retries", "-1", "-1 is not in the range"),
        ("--seed", "-1", "-1 is not in the range"),
        ("--gpus-per-node", "0", "0 is not in the range"),
    ],
)
def test_numbers_out_of_range_are_wrong_usage(
    run: Runner, search: tuple[str, ...], tmp_path: Path, option: str, value: str, said: str
) -> None:
    """The option and what is allowed are named, and nothing is written."""
    done = run(*search, "--out", tmp_path / "jobs", option, value)
    assert (done.code, f"'{option}': {said}" in done.err) == (2, True), done.err
    assert not (tmp_path / "jobs").exists()


def test_folders_that_are_none_are_refused(run: Runner, search: tuple[str, ...], tmp_path: Path) -> None:
    """A file, a link to nowhere, and a folder without an export."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out, said in {
        tmp_path / "plan.json": "is no folder that can be read",
        tmp_path / "link": "cannot be made",
        tmp_path / "plan.json/x": "Not a directory",
    }.items():
        done = run(*search, "--out", out)
        assert (done.code, said in done.err) == (1, True), done.err
    for command in (("submit", tmp_path), ("promote", tmp_path, "b1-s2")):
        done = run(*command)
        assert (done.code, "has no export.json" in done.err) == (2, True), done.err


def test_exporters_are_listed(run: Runner) -> None:
    """Beside what the core lists: each with what it needs, and by what its files were checked."""
    listed = run("list", "exporters", "--json").data["exporters"]
    assert [record["name"] for record in listed] == list(exporters())
    assert {*listed[0]} == {"name", "summary", "needs"}
    assert next(iter(exporters())) in run("list").out
