"""``optplan bench``: the benchmark suites."""

from __future__ import annotations

from pathlib import Path

import click

from optplan.cli.commands import Command
from optplan.cli.console import Progress, print_answer, print_json
from optplan.cli.options import force_option, known_name, output_option
from optplan.cli.outputs import Outputs

#: What the table shows of a row; ``--json`` and ``-o`` have all.
_SHOWN = (
    "instance",
    "solver",
    "status",
    "objective",
    "gap",
    "bound_proof",
    "certificate_kb",
    "seconds",
    "verify_seconds",
    "peak_mb",
)
#: Suites whose rows have more to say.
_SHOWN_AS_WELL = {"runtime": ("extra",)}


def list_suites() -> list[str]:
    """List the benchmark suites."""
    from optplan.benchmarking import suites

    return suites()


@click.command(
    cls=Command,
    short_help="Run a benchmark suite, or list the suites.",
    examples=("optplan bench", "optplan bench boa --quick", "optplan bench boa --full -o rows.json"),
)
@click.argument("suite", required=False, metavar="[SUITE]", **known_name("suite", list_suites))
@click.option("--quick", is_flag=True, help="Small sizes and few limits: does the suite work?")
@click.option("--full", is_flag=True, help="Also the slow rivals at every limit.")
@output_option("the rows as JSON")
@force_option
def bench(suite: str | None, *, quick: bool, full: bool, output: Path | None, force: bool, as_json: bool) -> int:
    """Run a benchmark SUITE; without one, list the suites.

    Everything is measured in one run: our solvers, the algorithms as published, general engines.
    """
    from optplan.benchmarking import run_suite
    from optplan.instances.files import format_json, write_text

    if suite is None:
        return _print_suites(as_json=as_json)
    outputs = Outputs({"--output": output}, force=force, as_json=as_json)
    with Progress(f"suite {suite}") as progress:
        rows = run_suite(suite, quick=quick, full=full, on_event=progress.listen)
    if as_json:
        print_json(rows)
    else:
        from optplan.reporting.tables import record_table

        shown = (*_SHOWN, *_SHOWN_AS_WELL.get(suite, ()))
        print_answer(record_table(suite, [{name: row[name] for name in shown} for row in rows]))
    outputs.save("--output", lambda path: write_text(format_json(rows) + "\n", path, overwrite=outputs.force))
    return outputs.exit_code(0)


def _print_suites(*, as_json: bool) -> int:
    if as_json:
        print_json({"suites": list_suites()})
    else:
        print_answer(*list_suites())
    return 0
