"""Names and quantities from the command line, and completion in the shell."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.cli import application
from optplan.cli.options import complete_instance, read_duration, write_amendments
from optplan.units import Amount, BudgetUnit, parse_budget

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)


def complete(command: str, option: str, text: str) -> list[str]:
    """Return what the shell offers for a text."""
    found = application.commands[command]
    context = click.Context(found)
    parameter = next(p for p in found.params if option in (*p.opts, p.name))
    return [item.value for item in parameter.shell_complete(context, text)]


@given(POSITIVE, st.sampled_from(BudgetUnit), POSITIVE)
def test_changes_are_written_as_they_are_read(value: float, unit: BudgetUnit, deadline_s: float) -> None:
    """What a report tells people to type means what was solved."""
    changes = {"budget": Amount(value, unit), "deadline": deadline_s, "problem": "whole", "policy": None}
    written = write_amendments(changes)
    assert written[::2] == ["--budget", "--deadline", "--problem"]
    assert parse_budget(written[1]) == changes["budget"]
    option = click.Option(["--deadline"])
    assert read_duration(click.Context(application), option, written[3]) == deadline_s
    assert written[5] == "whole"


@pytest.mark.parametrize(
    ("command", "option", "text", "offered"),
    [
        ("solve", "--solver", "layer", ["layered-paths"]),
        ("solve", "--compare", "published", ["published-algorithm1", "published-algorithm1-cvxpy"]),
        ("solve", "--problem", "w", ["whole"]),
        ("solve", "--policy", "", ["mixed", "pure"]),
        ("schema", "--formulation", "b", ["boa"]),
        ("bench", "suite", "b", ["boa"]),
    ],
)
def test_completion_comes_from_the_registry(command: str, option: str, text: str, offered: list[str]) -> None:
    """The shell completes what is registered."""
    assert complete(command, option, text) == offered


def test_instances_complete_by_name_and_by_file() -> None:
    """Library names first, then whatever files the shell finds."""
    context = click.Context(application)
    found = complete_instance(context, application.params[0], "boa-two-e")
    assert found[0] == "boa-two-epochs"
    last = found[-1]
    assert not isinstance(last, str)
    assert last.type == "file"
