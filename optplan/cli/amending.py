"""Options that change an instance: from what is typed to changed fields, and back to a command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import optplan
from optplan.cli.commands import is_typed
from optplan.cli.console import note
from optplan.cli.options import BUDGET, TIME, Declared, F, Kind, known_name, list_known, option, with_options
from optplan.errors import InfeasibleError, UsageError

if TYPE_CHECKING:
    from optplan.contracts import Instance, Result, Solution
    from optplan.instances.changes import Change

#: The option that changes any field; it applies before those that have a field of their own.
_SET = "--set"

#: The fields that an option may stand for; no formulation has two of them.
_FIELDS = {
    "problem": ("problem",),
    "policy": ("policy", "mode"),
    "budget": ("budget",),
    "deadline": ("deadline_s", "deadline_min"),
}

#: Methods of instances whose problem or policy is not a field of its own: the fields to change for another one.
_ASKING = {"problem": "fields_of_problem", "policy": "fields_of_policy"}


#: Options that say how a result was found, as far as they were typed.
_OF_SOLVE = ("solver", "gap", "time_limit", "seed", "state")


def say_check(
    instance: str, result: Path | None, changes: dict[str, Any], *more: str, solved: Iterable[str] = ()
) -> str:
    """Say how to check a result: how to write it first, where it was not written; ``solved`` are changes it carries."""
    # ``more`` are further options of the command that writes it.
    from optplan.instances.files import is_path
    from optplan.reporting.sections import solve_again

    is_file = is_path(instance) and instance != "-"
    place = str(Path(instance).absolute()) if is_file else instance  # the check may be run in any folder
    file = "result.json" if result is None else str(result.absolute())
    carried = [part for text in solved for part in _write_change(text)]  # who solves again has to make them again
    check = shlex.join(["optplan", "verify", place, file, *(write_options(changes) or carried)])
    piped = " < instance.json" if instance == "-" else ""  # what was read from standard input has to come again
    if result is not None:
        return check + piped
    typed = {name: click.get_current_context().params[name] for name in _OF_SOLVE if is_typed(name)}
    return f"{solve_again(check, *write_options(typed), *more, '-o', file)}{piped} && {check}{piped}"


def _read_change(text: str, *, what: str) -> Change:
    from optplan.instances.changes import parse_change

    return parse_change(text, what=what)


def problem_option(list_names: Callable[[], list[str]], more: str = "") -> Any:  # noqa: ANN401 - as click's
    """Declare the option that says which problem, one of those listed; ``more`` ends its help."""
    return option(
        metavar="NAME",
        help=(
            "Which problem of the formulation: continuous, whole or rescaling for boa; cheapest, fastest, "
            "cheapest-with-confidence or fastest-with-confidence for rubberband; spend or informed for seer; "
            f"cheapest or fastest for srift.{more}"
        ),
        **known_name("problem", list_names),
    )


_AMENDMENTS: dict[str, Declared] = {
    "set": option(
        multiple=True,
        type=Kind("CHANGE", _read_change),
        help=(
            "What if: change any field, as in budget=150gpu, 'classes.bert.arrival_rate*=1.5' (also += -= /=), "
            "'classes.*.weight=1' (* for every name), budget=null. A * needs quotes in a shell. May be repeated; "
            "applies before --budget and its like."
        ),
    ),
    "budget": option(
        type=BUDGET,
        help="Limit on what is spent, with its unit: 120gpu, 45usd/hour, 30000usd/month, 25usd, 480gpu-min.",
    ),
    "deadline": option(
        type=TIME, help="Limit on the completion time, with its unit: 20min. Refused where the formulation has none."
    ),
    "problem": problem_option(list_known("problems")),
    "policy": option(
        metavar="NAME",
        help=(
            "Kind of plan: pure (one for all jobs of a class) or mixed (shares of them differ) for boa; any "
            "(number of trials at a time) or fair (shares of the GPUs, as in the paper) for rubberband; brackets "
            "for seer; one-batch (for all VMs of a type) or any-batches for srift."
        ),
        **known_name("policy", list_known("policies")),
    ),
}


def amendments_but(*useless: str) -> Callable[[F], F]:
    """Make what adds the options that change the instance, but for those that do nothing in a command."""
    # The command gets them as ``**changes``.
    return with_options([each.make(name) for name, each in _AMENDMENTS.items() if name not in useless])


amendments = amendments_but()


def read_amended(name: str, changes: dict[str, Any], result: Result[Solution] | None = None) -> Instance:
    """Read an instance and change the fields that the user asked for, by option; None leaves a field as it is.

    Changes that a ``result`` of it carries need no options, and are said.
    """
    given = amend(optplan.read_instance(name), changes)
    if result is None:
        return given
    from optplan.instances.changes import restore_changes

    instance = restore_changes(given, result)
    if instance is not given:
        note(f"changed {given.name} as for the result: {', '.join(result.changes)}")
    return instance


@contextmanager
def naming(name: str, *, alone: bool = False) -> Iterator[None]:
    """Say of an error which of several instances it is about, by what users call it."""
    try:
        yield
    except (InfeasibleError, UsageError) as error:
        raise error if alone else type(error)(f"{name}: {error}") from None


def amend(instance: Instance, changes: dict[str, Any]) -> Instance:
    """Change the fields of an instance that the user asked for, as :func:`read_amended` does."""
    return amend_and_say(instance, changes)[0]


def amend_and_say(instance: Instance, changes: dict[str, Any]) -> tuple[Instance, tuple[str, ...]]:
    """Change an instance as :func:`amend` does, and list what was changed, each as ``--set`` takes it."""
    asked, edits = _take_apart(changes)
    if edits:
        from optplan.instances.changes import apply_changes

        instance = apply_changes(instance, edits, what=_SET)
    fields: dict[str, object] = {}
    for name in _FIELDS:  # a problem may empty limits, which other options then give
        if name in asked:
            fields |= _change_fields(instance, name, asked[name])
    said = tuple(edit.text for edit in edits)
    if not fields:
        return instance, said
    from optplan.instances.changes import write_change

    changed = instance.replace(**fields)
    data = changed.to_json_data()
    said += tuple(
        write_change(field, data.get(field)) for field in fields if getattr(changed, field) != getattr(instance, field)
    )
    return changed, said


def _change_fields(instance: Instance, option: str, value: object) -> dict[str, object]:
    field = _find_field(instance, option)
    if field:
        return {field: f"{value!r}s" if field.endswith("_min") else value}  # a duration in another unit than seconds
    asking = getattr(instance, _ASKING.get(option, ""), None)
    if asking is not None:
        found: dict[str, object] = asking(value)
        return found
    formulation = getattr(instance, "formulation", "")
    message = f"--{option}: instance {instance.name!r} is of formulation {formulation!r}, which has no {option}"
    others = [f"--{other}" for other in sorted(_FIELDS) if _find_field(instance, other)]
    raise UsageError(f"{message}; leave it out (there is: {', '.join(others)})")


def _find_field(instance: Instance, option: str) -> str:
    known = type(instance).model_fields
    return next((field for field in _FIELDS[option] if field in known), "")


def write_options(options: dict[str, Any]) -> list[str]:
    """Write options that change an instance, or say how it is solved, for a command line that does likewise."""
    asked, edits = _take_apart(options)
    written = [(_SET, edit.text) for edit in edits]
    for name, value in asked.items():
        is_duration = isinstance(value, float) and name != "gap"
        written.append((f"--{name.replace('_', '-')}", f"{value!r}s" if is_duration else str(value)))
    return [part for pair in written for part in pair]


def _write_change(text: str) -> tuple[str, str]:
    field, _, value = text.partition("=")
    return ("--budget", value) if field == "budget" else (_SET, text)


def _take_apart(changes: dict[str, Any]) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """Separate the options with a field of their own, where they were given, from the changes of any field."""
    edits = changes.get("set") or ()
    return {name: value for name, value in changes.items() if name != "set" and value is not None}, edits
