"""The program as a whole: help, version, exit codes, and how errors are told."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import pytest

from optplan.cli import _HEADINGS, application, main
from optplan.cli.commands import Command, Group
from optplan.errors import EngineError, InternalError
from optplan.formulations import formulations

if TYPE_CHECKING:
    from tests.conftest import Runner

COMMANDS = ("solve", "frontier", "verify", "list", "show", "schema", "import", "run", "simulate", "bench")
#: What the help may list: names after ``optplan``, and commands in all.
MOST_ENTRIES, MOST_LEAVES = 23, 36

#: What help and version must leave unloaded, each for its weight.
HEAVY = {"numpy", "pydantic", "rich", "scipy", "yaml", "plotly", "highspy"}


def walk(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below this one with the words that call it."""
    if words:
        yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            yield from walk(part, *words, name)


ALL_COMMANDS = [pytest.param(words, command, id=" ".join(words)) for words, command in walk(application)]
EXAMPLES = [
    pytest.param(part.strip(), id=part.strip())
    for command in (application, *(command for _, command in walk(application)))
    if isinstance(command, Command | Group)
    for example in command.examples
    for part in example.split("&&")
]


def fail_with(error: BaseException) -> object:
    """Return a function that raises."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def test_there_are_few_commands() -> None:
    """What is listed, groups counted once as entries, and their commands as leaves; each explains itself."""
    context = click.Context(application)
    listed = [(words, command) for words, command in walk(application) if not command.hidden]
    assert len({words[0] for words, _ in listed}) <= MOST_ENTRIES
    leaves = [command for _, command in listed if not isinstance(command, click.Group)]
    assert len(leaves) <= MOST_LEAVES
    for _, command in listed:
        assert isinstance(command, Command | Group)
        assert command.help
        assert command.examples
    assert [name for name in application.list_commands(context) if name not in sum(_HEADINGS.values(), ())] == [
        "promote"
    ]


def test_one_name_for_what_is_written_and_where() -> None:
    """-o is --out in every command that writes a file or a folder, and no command has the old names."""
    for _, command in walk(application):
        for param in command.params:
            assert not set(param.opts) & {"--output", "--repetitions", "--gpu-type", "--instance-type"}
            if "-o" in param.opts:
                assert "--out" in param.opts


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (("steam",), "No such command 'steam'; known: solve, frontier, explain"),
        (("simulates",), "No such command 'simulates'; did you mean 'simulate'?"),
        (("import", "logs"), "No such command 'logs'; did you mean 'log'?"),
        (("promot",), "No such command 'promot'; known: solve"),
    ],
)
def test_a_command_that_is_not_there_is_answered_with_the_nearest(
    run: Runner, words: tuple[str, ...], nearest: str
) -> None:
    """In groups, too; what is not listed is not proposed."""
    told = run(*words)
    assert (told.code, told.out) == (2, "")
    assert nearest in told.err


def test_help_lists_every_command_and_examples(run: Runner) -> None:
    """The overview shows the commands in the order of use, and what to type."""
    shown = run("--help")
    assert shown.code == 0
    assert shown.err == ""
    headings = [shown.out.index(f"\n{heading}:\n") for heading in _HEADINGS]
    assert headings == sorted(headings)
    positions = [shown.out.index(f"\n  {name}") for name in COMMANDS]
    assert positions == sorted(positions)
    assert "  optplan solve boa-newtrace --budget 120gpu --plan plan.json --report report.html\n" in shown.out


@pytest.mark.parametrize(("words", "command"), ALL_COMMANDS)
def test_help_of_every_command_has_its_examples(run: Runner, words: tuple[str, ...], command: click.Command) -> None:
    """Every command explains itself, with examples on lines of their own."""
    shown = run(*words, "--help")
    assert shown.code == 0
    assert isinstance(command, Command | Group)
    assert command.name == words[-1]
    assert command.examples
    for example in command.examples:
        assert f"  {example}\n" in shown.out


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_accepted(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the help tells people to type is read without an error; nothing is run."""
    words = shlex.split(example)
    monkeypatch.chdir(tmp_path)
    for name in ("space.yaml", "pods.yaml"):  # files that options read at once
        Path(name).write_text("{rate: [1, 2]}", encoding="utf-8")
    assert words[0] == "optplan"
    command: click.Command = application
    rest = words[1:]
    while isinstance(command, click.Group):
        command = command.resolve_command(click.Context(command), rest)[1]  # type: ignore[assignment]
        rest = rest[1:]
    # click keeps the option of the first context: that of `optplan`, which other tests meet in this process.
    context = command.make_context(words[1], rest, **application.context_settings)
    assert context.params


@pytest.mark.parametrize(("words", "command"), [p for p in ALL_COMMANDS if not isinstance(p.values[1], click.Group)])
def test_every_command_takes_json(words: tuple[str, ...], command: click.Command) -> None:
    """--json is an option of every command."""
    assert words
    assert "as_json" in {option.name for option in command.params}


def test_help_names_what_the_registry_has(run: Runner) -> None:
    """The help's own text keeps up with the problems and policies of the registry, where there is a choice."""
    shown = " ".join(run("solve", "--help").out.split()).replace("- ", "-")
    for formulation in formulations().values():
        for names in (
            {problem for solver in formulation.solvers for problem in solver.problems},
            {policy for solver in formulation.solvers for policy in solver.policies},
        ):
            assert len(names) == 1 or all(name in shown for name in names)


def test_without_a_command_the_help_goes_to_stderr(run: Runner) -> None:
    """No command is a wrong usage; the help is not an answer."""
    shown = run()
    assert shown.code == 2
    assert shown.out == ""
    assert "Decide:" in shown.err


@pytest.mark.parametrize("group", ["import", "measure", "simulate"])
def test_a_group_without_a_command_shows_its_help(run: Runner, group: str) -> None:
    """On stderr, as it is written, and as wrong usage."""
    shown = run(group)
    assert (shown.code, shown.out) == (2, "")
    assert "\nCommands:\n" in shown.err
    assert "error:" not in shown.err


def test_version(run: Runner) -> None:
    """--version prints name and version."""
    shown = run("--version")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("optplan ")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(argument: str) -> None:
    """Asking for help loads no array library, no validation and no drawing."""
    probe = (
        f"import json, sys\nfrom optplan.cli import main\nmain([{argument!r}])\nprint(json.dumps(sorted(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", probe], capture_output=True, text=True, check=True, env=environment
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_main_reads_the_arguments_of_the_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments, main takes those of the process."""
    monkeypatch.setattr(sys, "argv", ["optplan", "bench"])
    assert main() == 0
    assert "best-known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solvee"], "No such command 'solvee'"),
        (["solve"], "Missing argument 'INSTANCE'"),
        (["solve", "boa-one-table", "--bugdet", "1gpu"], "No such option"),
        (["solve", "boa-one-table", "--seed", "small"], "'small' is not a valid integer"),
        (["import", "trace", "a.csv"], "Missing option '--from'"),
        (["frontier", "boa-one-table", "--points", "1"], "1 is not in the range x>=2"),
        (["show", "boa-one-table", "--model", "gams"], "'gams' is not one of 'lp', 'mps'"),
    ],
)
def test_a_wrong_command_line_exits_with_2(run: Runner, arguments: list[str], message: str) -> None:
    """Wrong usage is told in one line, with the way to the help, and nothing on stdout."""
    told = run(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("error: ")
    assert message in told.err
    assert "--help' for help." in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "120"], "--budget: '120' has no known unit; use one of gpu, "),
        (["--budget", "many"], "--budget: cannot read 'many'; write a number and a unit, as in 120gpu"),
        (["--budget=-3gpu"], "--budget: got '-3gpu'; a finite number above zero is needed"),
        (["--time-limit", "60"], "--time-limit: '60' has no known unit of time; use one of ms, s, "),
        (["--time-limit", "0s"], "--time-limit: got '0s'; a finite number above zero is needed"),
        (["--deadline", "soon"], "--deadline: cannot read 'soon'; write a number and a unit, as in 20min"),
        (["--solver", "layerd-paths"], "--solver: no solver 'layerd-paths'; did you mean 'layered-paths'?"),
        (["--compare", "higs"], "--compare: no solver 'higs'; did you mean 'highs'?"),
        (["--problem", "hole"], "--problem: no problem 'hole'; did you mean 'whole'?"),
        (["--policy", "mixd"], "--policy: no policy 'mixd'; did you mean 'mixed'?"),
        (["--gap", "200%"], "--gap: got '200%'; a relative gap from 0 to below 1 is needed, such as 1e-6 or 1%"),
        (["--gap", "small"], "--gap: got 'small'; a relative gap from 0 to below 1 is needed, such as 1e-6 or 1%"),
        (
            ["--deadline", "20min"],
            "--deadline: instance 'boa-one-table' is of formulation 'boa', which has no deadline; leave it out "
            "(there is: --budget, --policy, --problem)",
        ),
        (["--solver", "conic"], "solver 'conic' does not solve the 'whole' problem"),
        (["--compare", "published-algorithm1"], "solver 'published-algorithm1' does not solve the 'whole' problem"),
        (["--out", "x.json", "--plan", "x.json"], "--out and --plan both name x.json; give each its own file"),
    ],
)
def test_values_that_make_no_sense_exit_with_2(run: Runner, arguments: list[str], message: str) -> None:
    """A unit that is missing, a name that is unknown, a limit that does not exist: said before anything is solved."""
    told = run("solve", "boa-one-table", *arguments)
    assert (told.code, told.out) == (2, "")
    assert message in told.err


def test_errors_as_json_keep_stdout_empty(run: Runner) -> None:
    """With --json an error is one object on stderr: kind, message, and the path into the data where there is one."""
    told = run("solve", "boa-one-tabel", "--json")
    assert (told.code, told.out) == (1, "")
    assert told.error["kind"] == "DataError"
    assert told.error["message"].endswith("did you mean 'boa-one-table'?")
    usage = run("solve", "--json")
    assert (usage.code, usage.out) == (2, "")
    assert usage.error["kind"] == "MissingParameter"


def test_runs_where_folders_cannot_be_locked_say_so(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system without fcntl a run ends with 2 and says what can be done there; it is no bug."""

    def refuse(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'fcntl'", name="fcntl")

    monkeypatch.setattr("optplan.instances.files.read_instance", refuse)
    told = run("solve", "boa-two-classes")
    assert told.code == 2
    assert "runs lock their folders as POSIX systems do (Linux, macOS); here plans can only be made" in told.err


def test_an_unexpected_error_asks_for_a_report(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug exits with 70, says what to report, and shows where it happened only when asked."""
    monkeypatch.setattr("optplan.instances.files.read_instance", fail_with(ZeroDivisionError("oh")))
    told = run("solve", "boa-one-table")
    assert (told.code, told.out) == (70, "")
    assert told.err.startswith(
        "error: internal error: ZeroDivisionError: oh\nThis is a bug of optplan. Please report it"
    )
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in told.err
    assert "Traceback" not in told.err
    full = run("solve", "boa-one-table", "--traceback")
    assert full.code == 70
    assert full.err.startswith("Traceback (most recent call last)")
    as_json = run("solve", "boa-one-table", "--json")
    assert (as_json.code, as_json.out) == (70, "")
    assert as_json.error["kind"] == "InternalError"


def test_a_wrong_record_of_a_solver_is_an_internal_error(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told like any other bug, with what to report."""
    monkeypatch.setattr("optplan.solving.solve", fail_with(InternalError("solver 'x' made a record")))
    told = run("solve", "boa-one-table")
    assert told.code == 70
    assert told.err.startswith(
        "error: internal error: InternalError: solver 'x' made a record\nThis is a bug of optplan."
    )
    assert run("solve", "boa-one-table", "--json").error["kind"] == "InternalError"


def test_a_failing_engine_exits_with_70(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's failure is neither wrong data nor infeasibility."""
    monkeypatch.setattr("optplan.solving.solve", fail_with(EngineError("HiGHS gave up")))
    told = run("solve", "boa-one-table")
    assert (told.code, told.err) == (70, "error: HiGHS gave up\n")


class FullDisk(io.StringIO):
    """A stream that takes nothing."""

    def write(self, _: str) -> int:
        """Fail as a full disk does."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "boa-one-table"],
        ["solve", "boa-one-table", "--json"],
        ["frontier", "boa-one-table"],
        ["list"],
        ["schema"],
        ["show", "boa-one-table", "--model", "lp"],
    ],
)
@pytest.mark.parametrize(
    ("stdout", "reason"),
    [
        (FullDisk(), f"stdout cannot be written ({os.strerror(errno.ENOSPC)}); send it to another place"),
        (None, "stdout is closed; the answer has nowhere to go"),
    ],
)
def test_an_answer_that_cannot_be_printed_exits_with_1(
    run: Runner, monkeypatch: pytest.MonkeyPatch, arguments: list[str], stdout: FullDisk | None, reason: str
) -> None:
    """A full disk behind stdout, or no stdout, is the user's to mend: one line, no traceback, no call for a report."""
    monkeypatch.setattr(sys, "stdout", stdout)
    told = run(*arguments)
    assert told.code == 1
    if "--json" in arguments:
        assert json.loads(told.err)["error"] == {"kind": "OutputError", "message": reason}
    else:
        assert told.err == f"error: {reason}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_a_full_disk_leaves_one_line(json_flag: list[str]) -> None:
    """In a process of its own: what the interpreter flushes at its end adds nothing to the report."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "optplan.cli", "show", "boa-newtrace", *json_flag],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "stdout cannot be written" in done.stderr


@pytest.mark.parametrize(("codes", "code"), [((), 130), ((143,), 143)])
def test_interrupting_exits_with_the_code_of_the_signal(
    run: Runner, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], code: int
) -> None:
    """Control-C ends with the shell's code for it and no traceback, and so does another signal that says its own."""
    monkeypatch.setattr("optplan.solving.solve", fail_with(KeyboardInterrupt(*codes)))
    told = run("solve", "boa-one-table")
    assert told.code == code
    assert told.err.splitlines()[-1] == "interrupted"
