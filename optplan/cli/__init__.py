"""The command line: thin calls of the public functions.

Answers go to stdout, as text or with ``--json`` as JSON; progress, warnings, errors and the names of written files go
to stderr. Exit codes: 0 solved, 1 wrong data (or an output that cannot be written, or a measurement that failed), 2
wrong usage, 3 infeasible, 4 no solution within the limits, 5 verification failed, 6 not all that is claimed could be
checked, 70 internal error; 130 and 143 after SIGINT and SIGTERM.

With ``--json``, stdout holds the answer or nothing. An error is an object on one line of stderr,
``{"error": {"kind": ..., "message": ..., "path": ...}}``: ``kind`` is the name of the error's class, and ``path``,
where there is one, the field of the user's data. Infeasible is an answer: the Result says why.
"""

from __future__ import annotations

import gc
import sys

import click

import optplan
from optplan.cli.commands import Group
from optplan.cli.failures import EXIT_INTERRUPTED, report

#: New objects before Python looks for dead cycles of them: a command makes as many while it loads, and keeps them. With
#: the usual 700 that search is a tenth of a small solve.
_LOADED_OBJECTS = 200_000
#: Columns of the help, on terminals that have them.
_HELP_WIDTH = 110
_EXAMPLES = (
    "optplan solve boa-newtrace --budget 120gpu --plan plan.json --report report.html",
    "optplan frontier boa-newtrace --at 120gpu --for-jct 50min",
    "optplan solve mine.yaml --json -o result.json && optplan verify mine.yaml result.json",
    "optplan list solvers",
)

#: The commands by what they are for, those of wings among them, in the order of the help.
_HEADINGS = {
    "Decide": ("solve", "frontier", "explain", "compare", "verify", "report", "list", "show", "schema", "doctor"),
    "Bring data": ("import", "measure"),
    "Run": ("run", "status", "logs", "stop", "serve", "calibrate", "export", "submit"),
    "Study": ("audit", "simulate", "bench"),
}
#: Where each command of the core stands.
_COMMANDS = {
    "solve": "optplan.cli.solving:solve",
    "explain": "optplan.cli.explanation:explain",
    "compare": "optplan.cli.comparison:compare",
    "frontier": "optplan.cli.frontiers:frontier",
    "verify": "optplan.cli.verification:verify",
    "report": "optplan.cli.report_pages:report_page",
    "show": "optplan.cli.catalogue:show",
    "list": "optplan.cli.catalogue:list_registered",
    "schema": "optplan.cli.catalogue:schema",
    "doctor": "optplan.cli.doctor:doctor",
    "import": "optplan.cli.imports:import_data",
    "measure": "optplan.cli.imports:measure",
}


def _print_version(ctx: click.Context, _: click.Parameter, wanted: object) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"optplan {optplan.__version__}")
        ctx.exit()


@click.group(
    cls=Group,
    examples=_EXAMPLES,
    later=_COMMANDS,
    extended="",
    headings=_HEADINGS,
    context_settings={"max_content_width": _HELP_WIDTH, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def application() -> None:
    """Plan elastic ML training on rented GPUs, with proofs.

    Every answer comes with a bound, a gap, a certificate that can be checked without trusting the solver, and a shadow
    price. Where no plan exists, it says why and what would help.

    Exit codes: 0 solved, 1 wrong data, 2 wrong usage, 3 infeasible, 4 no solution within the limits, 5 verification
    failed, 6 (verify) nothing is wrong, but not all that is claimed could be checked, 70 internal error, 130 and 143
    after SIGINT and SIGTERM.
    """


def main(argv: list[str] | None = None) -> int:
    """Run the command line, with the process's own arguments unless given; return the exit code, and raise nothing."""
    from optplan.solvers.quiet_highs import drop_engines_output

    arguments = sys.argv[1:] if argv is None else argv
    drop_engines_output()
    thresholds = gc.get_threshold()
    gc.set_threshold(_LOADED_OBJECTS, *thresholds[1:])
    try:
        code = application.main(args=list(arguments), prog_name="optplan", standalone_mode=False)
    except click.Abort as abort:
        click.echo("interrupted", err=True)
        codes = getattr(abort.__cause__, "args", ())  # of a KeyboardInterrupt that another signal has raised
        return codes[0] if codes else EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last door: whatever comes out is reported, not thrown at the user
        return report(error, as_json="--json" in arguments, with_traceback="--traceback" in arguments)
    finally:
        if argv is None:  # the process ends: its memory goes back whole, and need not be looked through for dead cycles
            gc.freeze()
        gc.set_threshold(*thresholds)
    return code if isinstance(code, int) else 0
