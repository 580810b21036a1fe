"""How quantities and names are read from the command line, and the options that many commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optplan.errors import UsageError, nearest_name_hint
from optplan.units import Amount, parse_budget, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


F = TypeVar("F", bound=Callable[..., Any])

_Value = TypeVar("_Value")


def read_duration(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Read a duration into seconds; click calls this."""
    return None if text is None else parse_duration(text, what=flag(option))


def read_budget(_: click.Context, option: click.Parameter, text: str | None) -> Amount | None:
    """Read a budget; click calls this."""
    return None if text is None else parse_budget(text, what=flag(option))


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


def file_option(*names: str, **settings: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Make an option for the path of a file."""
    return click.option(*names, metavar="FILE", type=click.Path(path_type=Path), **settings)


force_option = click.option("--force", is_flag=True, help="Replace output files that exist.")


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
