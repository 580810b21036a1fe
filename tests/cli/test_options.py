"""Names and quantities from the command line, and completion in the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.cli import application
from optplan.cli.amending import write_options
from optplan.cli.options import TIME, complete_instance
from optplan.instances.changes import parse_change
from optplan.units import Amount, BudgetUnit, parse_budget

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Runner

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)


def load(name: str) -> click.Command:
    """Return the command of that name."""
    command = application.get_command(click.Context(application), name)
    assert command is not None
    return command


def complete(command: str, option: str, text: str) -> list[str]:
    """Return what the shell offers for a text."""
    found = load(command)
    context = click.Context(found)
    parameter = next(p for p in found.params if option in (*p.opts, p.name))
    return [item.value for item in parameter.shell_complete(context, text)]


@given(POSITIVE, st.sampled_from(BudgetUnit), POSITIVE)
def test_changes_are_written_as_they_are_read(value: float, unit: BudgetUnit, deadline_s: float) -> None:
    """What a report tells people to type means what was solved."""
    changes = {"budget": Amount(value, unit), "deadline": deadline_s, "problem": "whole", "policy": None}
    written = write_options(changes)
    assert written[::2] == ["--budget", "--deadline", "--problem"]
    assert parse_budget(written[1]) == changes["budget"]
    option = click.Option(["--deadline"])
    assert TIME.convert(written[3], option, None) == deadline_s
    assert written[5] == "whole"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_numbers_of_a_range_are_finite(run: Runner, text: str) -> None:
    """What is no number lies in no range."""
    told = run("solve", "boa-one-table", "--over", text)
    assert told.code == 2
    assert "Invalid value for '--over': " in told.err


@pytest.mark.parametrize(
    ("command", "option", "text", "offered"),
    [
        ("solve", "--solver", "layer", ["layered-paths"]),
        ("solve", "--compare", "published-a", ["published-algorithm1"]),
        ("solve", "--problem", "w", ["whole"]),
        ("solve", "--problem", "ch", ["cheapest", "cheapest-with-confidence"]),
        ("solve", "--policy", "m", ["mixed"]),
        ("solve", "--policy", "f", ["fair"]),
        ("schema", "--formulation", "b", ["boa"]),
        pytest.param("bench", "suite", "b", ["best-known"], marks=pytest.mark.wings),
        pytest.param("export", "--to", "s", ["slurm", "script", "skypilot"], marks=pytest.mark.wings),
    ],
)
def test_completion_comes_from_the_registry(command: str, option: str, text: str, offered: list[str]) -> None:
    """The shell completes what is registered."""
    assert complete(command, option, text) == offered


def test_instances_complete_by_name_and_by_file() -> None:
    """Library names first, then whatever files the shell finds."""
    context = click.Context(application)
    found = complete_instance(context, application.params[0], "boa-two-e")
    assert [(item.value, item.type) for item in found] == [("boa-two-epochs", "plain"), ("boa-two-e", "file")]


def test_what_the_shell_reads_names_no_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Completing `optplan solve boa-two-e` offers the name, and asks for files."""
    monkeypatch.setenv("COMP_WORDS", "optplan solve boa-two-e")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setenv("_OPTPLAN_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        application.main([], prog_name="optplan")
    assert capsys.readouterr().out == "plain,boa-two-epochs\nfile,boa-two-e\n"


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in application.list_commands(click.Context(application))
        if any(isinstance(p, click.Argument) and p.metavar in ("INSTANCE", "INSTANCE...") for p in load(name).params)
    ),
)
def test_every_command_with_an_instance_takes_changes(name: str) -> None:
    """Who reads an instance can ask what if."""
    assert any("--set" in parameter.opts for parameter in load(name).params)


def test_changes_of_any_field_are_written_first() -> None:
    """They apply before the options that have a field of their own, and so they stand before them."""
    edits = (parse_change("classes.*.weight*=2"), parse_change("budget=9gpu"))
    written = write_options({"budget": Amount(8.0, BudgetUnit.GPU), "set": edits, "policy": None})
    assert written == ["--set", "classes.*.weight*=2", "--set", "budget=9gpu", "--budget", "8gpu"]


def test_changes_apply_before_the_other_options(run: Runner) -> None:
    """Both change the budget: the option has the last word, and what was set is on record."""
    edits = ("--set", "classes.*.arrival_rate*=1.5", "--set", "budget=9gpu")
    told = run("show", "boa-two-classes", *edits, "--budget", "8gpu", "--json")
    assert [c["arrival_rate_per_hour"] for c in told.data["classes"].values()] == [3.0, 1.5]
    assert told.data["budget"] == "8gpu"
    assert told.data["source"]["changes"] == "classes.*.arrival_rate*=1.5; budget=9gpu"


def test_a_wrong_change_names_the_option_and_the_field(run: Runner) -> None:
    """What cannot be made is wrong usage; what makes the data wrong is wrong data, at its path."""
    told = run("show", "boa-two-classes", "--set", "classes.visio.weight=2", "--json")
    assert (told.code, told.out) == (2, "")
    assert told.error["message"] == "--set 'classes.visio.weight=2': classes has no 'visio'; did you mean 'vision'?"
    told = run("show", "boa-two-classes", "--set", "classes.vision.weight=-2", "--json")
    assert (told.code, told.error["path"]) == (1, "classes.vision.weight")
    assert "--set 'classes.vision.weight=-2' led to this" in told.error["message"]
    told = run("show", "boa-two-classes", "--set", "budget")
    assert told.code == 2
    assert "--set: cannot read 'budget'" in told.err


def test_what_is_solved_with_changes_is_verified_with_them(run: Runner, tmp_path: Path) -> None:
    """A result belongs to the changed instance: verify makes the changes that the result carries, or is given them."""
    path, change = tmp_path / "result.json", ("--set", "classes.*.arrival_rate*=0.5")
    assert run("solve", "boa-two-classes", *change, "-o", path).code == 0
    assert run("verify", "boa-two-classes", path, *change).code == 0
    assert run("verify", "boa-two-classes", path).code == 0
    assert run("verify", "boa-two-classes", path, "--set", "classes.*.arrival_rate*=0.6").code == 2
