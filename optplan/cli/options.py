"""What the commands share: how quantities and names are read from the command line, and help with examples."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optplan.cli.parameters import naming_options
from optplan.errors import UsageError, nearest_name_hint
from optplan.units import Amount, parse_budget, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from optplan.contracts import Instance, Result, Solution
    from optplan.instances.changes import Change

F = TypeVar("F", bound=Callable[..., Any])
_Value = TypeVar("_Value")

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


#: Options that many commands have, by the heading under which help lists them after a command's own.
_SECTIONS = {
    "Change the instance": ("set", "budget", "deadline", "problem", "policy"),
    "Write and print": ("output", "plan", "plot", "report_path", "new_instance", "force", "as_json"),
    "Common options": ("quiet", "traceback", "help"),
}
#: Where a command keeps the arguments that it was called with.
_ARGUMENTS = "optplan.arguments"


class Command(click.Command):
    """A command with ``--json``, ``--quiet``, ``--traceback`` and examples at the end of its help.

    Parameters
    ----------
    examples
        Command lines, as a user would type them.
    renamed
        By parameter of the functions that are called, the option that it comes from: errors name what the user typed.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        examples: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.renamed = dict(renamed or {})
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print JSON on stdout, and nothing else there."),
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                callback=_be_quiet,
                help="Tell nothing on stderr but warnings and errors: no progress, no files written.",
            ),
            click.Option(["--traceback"], is_flag=True, expose_value=False, help="Show internal errors in full."),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, for commands that tell how to repeat them."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those that many commands have, under their headings."""
        shared = {name: heading for heading, names in _SECTIONS.items() for name in names}
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *_SECTIONS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections[shared.get(str(param.name), "Options")].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - whatever the command returns
        """Run the command; warnings about the data go to stderr, once each."""
        from optplan.cli.console import tidy_warnings

        own = {str(param.name): flag(param) for param in self.params}
        with tidy_warnings(), naming_options(own, self.renamed):
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one to a line."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def _be_quiet(ctx: click.Context, _: click.Parameter, wanted: object) -> None:
    if wanted:
        from optplan.cli.console import be_quiet

        be_quiet(ctx)


def repeat_command(*dropped: str, result: str = "result.json") -> list[str]:
    """Return the command line that runs, so that it writes its result to a file and prints or writes nothing else.

    Parameters
    ----------
    dropped
        Options that are left out besides those that write and print.
    result
        The file.
    """
    ctx = click.get_current_context()
    left_out = {*_SECTIONS["Write and print"], *dropped}
    takes = {
        opt: not param.is_flag
        for param in ctx.command.params
        if isinstance(param, click.Option)
        for opt in param.opts
        if str(param.name) in left_out
    }
    kept, skips = [], False
    for argument in ctx.meta[_ARGUMENTS]:
        name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
        if not skips and name in takes:
            skips = takes[name] and argument == name
            continue
        if not skips:
            kept.append(argument)
        skips = False
    return [*ctx.command_path.split(), *kept, "-o", result]


def say_check(instance: str, result: Path | None, changes: dict[str, Any], *dropped: str) -> str:
    """Say how to check a result that was reported: how to write it first, where it was not written.

    Parameters
    ----------
    instance, result
        What the user calls the instance, and the file of the result, if there is one.
    changes
        The options that changed the instance.
    dropped
        As in :func:`repeat_command`.
    """
    check = shlex.join(["optplan", "verify", instance, str(result or "result.json"), *write_amendments(changes)])
    return check if result is not None else f"{shlex.join(repeat_command(*dropped))} && {check}"


class Group(click.Group):
    """A command that has commands, in the order in which they were added, with examples."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands as they were added, not by the alphabet."""
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one to a line."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write examples without folding their lines."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"  {example}\n")


def read_duration(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Read a duration into seconds; click calls this."""
    return None if text is None else parse_duration(text, what=flag(option))


def read_budget(_: click.Context, option: click.Parameter, text: str | None) -> Amount | None:
    """Read a budget; click calls this."""
    return None if text is None else parse_budget(text, what=flag(option))


def read_changes(_: click.Context, option: click.Parameter, texts: Iterable[str]) -> tuple[Change, ...]:
    """Read changes of an instance; click calls this."""
    texts = tuple(texts)
    if not texts:
        return ()
    from optplan.instances.changes import parse_change

    return tuple(parse_change(text, what=flag(option)) for text in texts)


def read_many(read: Callable[[click.Context, click.Parameter, str | None], _Value | None]) -> Any:  # noqa: ANN401
    """Make a reader of a repeated option from the reader of one value."""

    def read_each(ctx: click.Context, option: click.Parameter, texts: Iterable[str]) -> list[_Value | None]:
        return [read(ctx, option, text) for text in texts]

    return read_each


def known_name(what: str, list_names: Callable[[], list[str]]) -> dict[str, Any]:
    """Make the settings of an option whose values are names from the registry.

    The registry is read when a name is given or completed, never to show help.

    Parameters
    ----------
    what
        What is named, for messages.
    list_names
        Returns the names.
    """

    def check(_: click.Context, option: click.Parameter, value: str | tuple[str, ...] | None) -> Any:  # noqa: ANN401
        for name in (value,) if isinstance(value, str) else value or ():
            if name not in list_names():
                message = f"{flag(option)}: no {what} {name!r}; {nearest_name_hint(name, list_names())}"
                raise UsageError(message)
        return value

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str | CompletionItem]:
        return [name for name in list_names() if name.startswith(incomplete)]

    return {"callback": check, "shell_complete": complete}


def flag(option: click.Parameter) -> str:
    """Return how the user writes an option or an argument."""
    return str(option.name).upper() if isinstance(option, click.Argument) else max(option.opts, key=len)


def complete_instance(_: click.Context, __: click.Parameter, incomplete: str) -> list[str | CompletionItem]:
    """Complete library names, and files as the shell does."""
    from click.shell_completion import CompletionItem

    from optplan.instances.library import names

    found: list[str | CompletionItem] = [name for name in names() if name.startswith(incomplete)]
    return [*found, CompletionItem(incomplete, type="file")]


def instance_argument(command: F) -> F:
    """Add the argument INSTANCE: a file or a name of the library."""
    return click.argument("instance_name", metavar="INSTANCE", shell_complete=complete_instance)(command)


def instances_argument(command: F) -> F:
    """Add the argument INSTANCE..., one or more: files or names of the library."""
    return click.argument(
        "instance_names", metavar="INSTANCE...", nargs=-1, required=True, shell_complete=complete_instance
    )(command)


def amendments(command: F) -> F:
    """Add the options that change the instance; the command gets them as ``**changes``."""
    return amendments_but()(command)


def amendments_but(*useless: str) -> Callable[[F], F]:
    """Make what adds the options that change the instance, but for those that do nothing in a command."""
    options = _make_amendments()
    wanted = [option for name, option in options.items() if name not in useless]
    return lambda command: functools.reduce(lambda wrapped, option: option(wrapped), reversed(wanted), command)


def _make_amendments() -> dict[str, Callable[[Any], Any]]:
    return {
        "set": click.option(
            _SET,
            multiple=True,
            metavar="CHANGE",
            callback=read_changes,
            help=(
                "What if: change any field, as in budget=150gpu, 'classes.bert.arrival_rate*=1.5' (also += -= /=), "
                "'classes.*.weight=1' (* for every name), budget=null. A * needs quotes in a shell. May be repeated; "
                "applies before the options below."
            ),
        ),
        "budget": click.option(
            "--budget",
            metavar="AMOUNT",
            callback=read_budget,
            help="Limit on what is spent, with its unit: 120gpu, 45usd/hour, 30000usd/month, 25usd, 480gpu-min.",
        ),
        "deadline": click.option(
            "--deadline",
            metavar="TIME",
            callback=read_duration,
            help="Limit on the completion time, with its unit: 20min. Refused where the formulation has none.",
        ),
        "problem": click.option(
            "--problem",
            metavar="NAME",
            help=(
                "Which problem of the formulation: continuous, whole or rescaling for boa; cheapest, fastest or "
                "cheapest-with-confidence for rubberband; spend or informed for seer; cheapest or fastest for srift."
            ),
            **known_name("problem", list_problems),
        ),
        "policy": click.option(
            "--policy",
            metavar="NAME",
            help=(
                "Kind of plan: pure (one for all jobs of a class) or mixed (shares of them differ) for boa; any "
                "(number of trials at a time) or fair (shares of the GPUs, as in the paper) for rubberband; brackets "
                "for seer; one-batch (for all VMs of a type) or any-batches for srift."
            ),
            **known_name("policy", list_policies),
        ),
    }


def output_option(what: str) -> Callable[[F], F]:
    """Make the option ``-o``."""
    return click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help=f"Write {what}.")


force_option = click.option("--force", is_flag=True, help="Replace output files that exist.")


def read_amended(name: str, changes: dict[str, Any]) -> Instance:
    """Read an instance and change the fields that the user asked for.

    Parameters
    ----------
    name
        A file or a name of the library.
    changes
        By option (``set``, ``budget``, ``deadline``, ...); None leaves a field as it is.

    Raises
    ------
    UsageError
        When the formulation has no such field, or a change cannot be made.
    DataError
        When the instance is wrong, or becomes so by the change.
    """
    from optplan.instances.files import read_instance

    return amend(read_instance(name), changes)


def restore(given: Instance, result: Result[Solution]) -> Instance:
    """Return the instance that a result solves; changes that the result carries need no options, and are said."""
    from optplan.cli.console import note
    from optplan.instances.changes import restore_changes

    instance = restore_changes(given, result)
    if instance is not given:
        note(f"changed {given.name} as for the result: {', '.join(result.changes)}")
    return instance


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
    for option in _FIELDS:  # a problem may empty limits, which other options then give
        if option in asked:
            fields |= _change_fields(instance, option, asked[option])
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
    """Return the fields that an option changes, with their values."""
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


def write_amendments(changes: dict[str, Any]) -> list[str]:
    """Write the options that :func:`amendments` reads, for a command line that changes the instance likewise."""
    asked, edits = _take_apart(changes)
    written = [(_SET, edit.text) for edit in edits]
    written += [(f"--{option}", _write_value(value)) for option, value in asked.items()]
    return [part for pair in written for part in pair]


def _take_apart(changes: dict[str, Any]) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """Separate the options with a field of their own, where they were given, from the changes of any field."""
    edits = changes.get("set") or ()
    return {name: value for name, value in changes.items() if name != "set" and value is not None}, edits


def _write_value(value: object) -> str:
    return f"{value!r}s" if isinstance(value, float) else str(value)


def list_formulations() -> list[str]:
    """List the registered formulations."""
    from optplan.formulations import formulations

    return list(formulations())


def list_solvers() -> list[str]:
    """List the registered solvers of all formulations, without repetition."""
    from optplan.formulations import formulations

    return list(dict.fromkeys(s.name for f in formulations().values() for s in f.solvers))


def list_solver_choices() -> list[str]:
    """List what ``--solver`` takes."""
    from optplan.solving import AUTO

    return [AUTO, *list_solvers()]


def list_problems() -> list[str]:
    """List the problems that some registered solver solves."""
    from optplan.formulations import formulations

    return sorted({p for f in formulations().values() for s in f.solvers for p in s.problems})


def list_policies() -> list[str]:
    """List the kinds of plan that some registered solver makes."""
    from optplan.formulations import formulations

    return sorted({p for f in formulations().values() for s in f.solvers for p in s.policies})
