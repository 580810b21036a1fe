"""The command line: thin calls of the public functions.

Answers go to stdout, as text or with ``--json`` as JSON; progress, warnings, errors and the names of written files go
to stderr. Exit codes: 0 solved, 1 wrong data (or an output that cannot be written, or a measurement that failed), 2
wrong usage, 3 infeasible, 4 no solution within the limits, 5 verification failed, 70 internal error; 130 and 143 after
SIGINT and SIGTERM.

With ``--json``, stdout holds the answer or nothing. An error is an object on one line of stderr,
``{"error": {"kind": ..., "message": ..., "path": ...}}``: ``kind`` is the name of the error's class, and ``path``,
where there is one, the field of the user's data. Infeasible is an answer: the Result says why.
"""

from __future__ import annotations

import sys

import click

import optplan
from optplan.cli.bandwidth import bandwidth, import_nccl_tests
from optplan.cli.benchmarks import bench
from optplan.cli.calibration import calibrate
from optplan.cli.catalogue import list_registered, schema, show
from optplan.cli.commands import Group
from optplan.cli.comparison import compare
from optplan.cli.explanation import explain
from optplan.cli.exporting import export, promote, submit
from optplan.cli.failures import EXIT_INTERRUPTED, EXIT_USAGE, report
from optplan.cli.frontiers import frontier
from optplan.cli.imports import import_data
from optplan.cli.job_imports import import_jobs
from optplan.cli.largest import largest
from optplan.cli.measuring import probe
from optplan.cli.price_imports import import_prices
from optplan.cli.profiling import profile
from optplan.cli.replanning import replan
from optplan.cli.report_pages import report_page
from optplan.cli.running import logs, run, status, stop
from optplan.cli.scaling import scaling
from optplan.cli.sensitivity import sensitivity
from optplan.cli.serving import serve
from optplan.cli.simulating import simulate
from optplan.cli.solving import solve
from optplan.cli.spot_imports import import_spot_trace
from optplan.cli.spot_simulating import simulate_spot
from optplan.cli.start_simulating import simulate_starts
from optplan.cli.streaming import stream
from optplan.cli.throughput_imports import import_throughputs
from optplan.cli.verification import verify
from optplan.cli.watching import watch

#: Columns of the help, on terminals that have them.
_HELP_WIDTH = 110
_EXAMPLES = (
    "optplan solve boa-newtrace --budget 120gpu --plan plan.json --report report.html",
    "optplan frontier boa-newtrace --at 120gpu --for-jct 50min",
    "optplan solve mine.yaml --json -o result.json && optplan verify mine.yaml result.json",
    "optplan list solvers",
)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: object) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"optplan {optplan.__version__}")
        ctx.exit()


@click.group(
    cls=Group,
    examples=_EXAMPLES,
    invoke_without_command=True,
    context_settings={"max_content_width": _HELP_WIDTH, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def application(ctx: click.Context) -> int:
    """Plan elastic ML training on rented GPUs, with proofs.

    Every answer comes with a bound, a gap, a certificate that can be checked without trusting the solver, and a shadow
    price. Where no plan exists, it says why and what would help.

    Exit codes: 0 solved, 1 wrong data, 2 wrong usage, 3 infeasible, 4 no solution within the limits, 5 verification
    failed, 6 (verify) nothing is wrong, but not all that is claimed could be checked, 70 internal error, 130 and 143
    after SIGINT and SIGTERM.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        return EXIT_USAGE
    return 0


_COMMANDS = (
    solve,
    explain,
    compare,
    frontier,
    sensitivity,
    replan,
    scaling,
    largest,
    simulate,
    simulate_spot,
    simulate_starts,
    run,
    stream,
    watch,
    status,
    logs,
    stop,
    serve,
    calibrate,
    export,
    submit,
    promote,
    verify,
    report_page,
    show,
    list_registered,
    schema,
    import_data,
    profile,
    probe,
    bandwidth,
    bench,
)
import_data.add_command(import_jobs)
import_data.add_command(import_prices)
import_data.add_command(import_spot_trace)
import_data.add_command(import_throughputs)
import_data.add_command(import_nccl_tests)
for _command in _COMMANDS:
    application.add_command(_command)


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv
        Arguments without the program's name; None takes those of the process.

    Returns
    -------
    int
        The exit code. Nothing is raised.
    """
    from optplan.solvers.standard_output import drop_engines_output

    arguments = sys.argv[1:] if argv is None else argv
    drop_engines_output()
    try:
        code = application.main(args=list(arguments), prog_name="optplan", standalone_mode=False)
    except click.Abort:
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last door: whatever comes out is reported, not thrown at the user
        return report(error, as_json="--json" in arguments, with_traceback="--traceback" in arguments)
    return code if isinstance(code, int) else 0
