"""Commands and groups of them: flags that all have, help in sections with examples, how to repeat a command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any

import click
from click.core import ParameterSource

from optplan import wings
from optplan.cli.console import be_quiet, tidy_warnings
from optplan.cli.failures import EXIT_USAGE
from optplan.cli.options import FILE, HeadedOption, flag, list_declared
from optplan.errors import DataError, UsageError, nearest_name_hint


@contextmanager
def naming_options(own: Mapping[str, str], others: Mapping[str, str]) -> Iterator[None]:
    """Let errors name options where they would name parameters, the command's ``own`` or those of what it calls."""
    # Wrong usage is about its own; the paths of wrong data, such as ``budget``, are mostly those of a file. Others are
    # known in front of a message by their place, within it by their underscore: other words may be meant as such, and
    # what stands in braces is a placeholder.
    unmistakable = [name for name in others if "_" in name]
    word = re.compile(rf"(?<!{{)\b(?:{'|'.join(unmistakable)})\b") if unmistakable else None

    def rename(text: str) -> str:
        return word.sub(lambda found: others[found[0]], text) if word else text

    try:
        yield
    except DataError as error:
        name, colon, rest = error.path.partition(":")
        path = f"{others.get(name, name)}{colon}{rest}"
        raise type(error)(path, rename(error.problem), rename(error.fix)) from None
    except UsageError as error:
        known = {**own, **others}
        name, colon, rest = str(error).partition(":")
        raise type(error)(f"{known.get(name, name)}{colon}{rename(rest)}") from None


#: Options that many commands have, by the heading under which help lists them after a command's own.
_SECTIONS = {
    "Change the instance": ("set", "budget", "deadline", "problem", "policy"),
    "Write and print": ("output", "plan", "plot", "report", "new_instance", "force", "as_json"),
    "Common options": ("quiet", "traceback", "help", "_click_default_help"),  # click has had both names for it
}

#: Columns of commands' names in the help, at most.
_NAME_WIDTH = 20


class _WithExamples(click.Command):
    """A command, or a group of them, with examples at the end of its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples without folding their lines."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")


class Command(_WithExamples):
    """A command with ``--json``, ``--quiet``, ``--traceback`` and examples at the end of its help."""

    # ``renamed`` leads from parameters of what is called to the options that users typed, which errors name. ``writes``
    # are the files that it can write: by the option's name what help says of it, for ``output`` (also ``-o``) after
    # *Write*; the command gets :class:`~optplan.cli.outputs.Outputs` as ``outputs`` in place of these options,
    # ``--force`` and ``--json``.

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        renamed: Mapping[str, str] | None = None,
        writes: Mapping[str, str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if isinstance(param, click.Option) and param.show_default is None:
                param.show_default = param.default != ""  # an empty one says nothing
        self.renamed = dict(renamed or {})
        self.writes = {name: "--out" if name == "output" else f"--{name.replace('_', '-')}" for name in writes or {}}
        for name, what in (writes or {}).items():
            names = ["-o", "--out", "output"] if name == "output" else [self.writes[name], name]
            said = f"Write {what}." if name == "output" else what
            self.params.append(click.Option(names, metavar="FILE", type=FILE, help=said))
        if writes:
            self.params.append(click.Option(["--force"], is_flag=True, help="Replace output files that exist."))
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print JSON on stdout, and nothing else there."),
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                callback=be_quiet,
                help="Tell nothing on stderr but warnings and errors: no progress, no files written.",
            ),
            click.Option(["--traceback"], is_flag=True, expose_value=False, help="Show internal errors in full."),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; one that only commands for a value of another option take is refused as that."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            _refuse_that_of_a_value(error.option_name, ctx.info_name)
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those that many commands have, under their headings."""
        shared = {name: heading for heading, names in _SECTIONS.items() for name in names}
        if not any("--set" in param.opts for param in self.params):  # elsewhere, such options change no instance
            shared = {name: heading for name, heading in shared.items() if heading != "Change the instance"}
        own = dict.fromkeys(param.heading for param in self.params if isinstance(param, HeadedOption))
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *own, *_SECTIONS)}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)  # see the first line
            if record is not None:
                sections[getattr(param, "heading", shared.get(str(param.name), "Options"))].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - whatever the command returns
        """Run the command; warnings about the data go to stderr, once each."""
        own = {str(param.name): flag(param) for param in self.params}
        with tidy_warnings(), naming_options(own, self.renamed):
            if self.writes:
                from optplan.cli.outputs import Outputs

                paths = {option: ctx.params.pop(name) for name, option in self.writes.items()}
                said = {name: ctx.params.pop(name) for name in ("force", "as_json")}
                ctx.params["outputs"] = Outputs(paths, **said)
            return super().invoke(ctx)


def command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., int]], Command]:  # noqa: ANN401
    """Make a command of a function whose parameters are declared by ``option`` and ``argument``."""
    return lambda run: click.command(name, cls=Command, params=list_declared(run), **settings)(run)


def _refuse_that_of_a_value(option: str, command: str | None) -> None:
    """Refuse an option that only commands for some values of another one take, which wings bring, and say which."""
    brought = wings.brought("COMMANDS").items()
    of_values = {tuple(words.split()[1:]): home for words, home in brought if words.startswith(f"{command} --")}
    own = [
        words for words, home in of_values.items() if any(option in param.opts for param in resolve_name(home).params)
    ]
    if own:
        values = " or ".join(value for _, value in own)
        raise UsageError(f"{option}: goes with {own[0][0]} {values}; leave it out")


def is_typed(name: str) -> bool:
    """Whether the user typed an option of the command, by its parameter."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_but(*taken: str, why: str) -> None:
    """Refuse the first option that was typed and neither is ``taken`` nor one that all commands have, saying why."""
    allowed = {*taken, *_SECTIONS["Common options"], "as_json", "force"}
    for param in click.get_current_context().command.params:
        if isinstance(param, click.Option) and param.name not in allowed and is_typed(str(param.name)):
            raise UsageError(f"{flag(param)}: {why}; leave it out")


class Group(_WithExamples, click.Group):
    """A command that has commands, in the order in which they were added, with examples."""

    # ``later`` names further ones, as ``module:attribute``, loaded on use; ``extended`` the words by which wings bring
    # theirs, None where they bring none; ``headings`` the commands under each heading in the help.

    command_class = Command

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        later: Mapping[str, str] | None = None,
        extended: str | None = None,
        headings: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self._later, self._extended, self._headings = dict(later or {}), extended, dict(headings or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write the help where no command is given, line by line and not as an error's message."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(EXIT_USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands by their headings, and then as they were added; not by the alphabet."""
        there = [*self.commands, *self._later, *self._of_wings()]
        first = [name for names in self._headings.values() for name in names if name in there]
        return [*first, *(name for name in there if name not in first)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, if there is one."""
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        home = self._later.get(cmd_name) or self._of_wings().get(cmd_name)
        found: click.Command | None = None if home is None else resolve_name(home)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # noqa: ANN401 - click's own
        """Find the command, that of an option's value if a wing has one; where there is none, name the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            there = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
            known = [name for name, command in there.items() if command and not command.hidden]
            raise click.UsageError(f"No such command {args[0]!r}; {nearest_name_hint(args[0], known)}", ctx)
        name, found, rest = super().resolve_command(ctx, args)
        given = [*pairwise(rest), *(each.split("=", 1) for each in rest if "=" in each)] if self._extended == "" else []
        homes = (wings.commands(f"{name} {one}").get(value) for one, value in given if one.startswith("--"))
        own = next(filter(None, homes), None)
        return name, found if own is None else resolve_name(own), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings."""
        if not self._headings:
            super().format_commands(ctx, formatter)
            return
        there = self.list_commands(ctx)
        listed = {name for names in self._headings.values() for name in names}
        rest = [name for name in there if name not in listed]
        for heading, names in {**self._headings, "Commands": rest}.items():
            found = [(name, self.get_command(ctx, name)) for name in names if name in there]
            shown = [(name, one) for name, one in found if one and not one.hidden and not _is_empty(one, ctx)]
            rows = [(name, one.get_short_help_str(formatter.width)) for name, one in shown]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows, col_max=_NAME_WIDTH)

    def _of_wings(self) -> dict[str, str]:
        return {} if self._extended is None else wings.commands(self._extended)


def _is_empty(command: click.Command, ctx: click.Context) -> bool:
    """Whether it is a group whose commands are those of wings that are not here."""
    return isinstance(command, click.Group) and not command.list_commands(ctx)
