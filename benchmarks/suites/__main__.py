"""Run one benchmark suite, or all of them: see ``--help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from optplan.cli.commands import Command
from optplan.cli.console import Progress
from optplan.cli.failures import report
from optplan.cli.options import known_name
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.lab.cli.benchmarks import NOT_VERIFIED, SHOWN, say_best_known
from suites.rows import run_suite, suites

#: What stands for every suite.
ALL = "all"
#: Suites whose rows have more to say.
_SHOWN_AS_WELL = {"online": ("extra",), "runtime": ("extra",)}


def list_choices() -> list[str]:
    """List what can be run: the suites, and all of them."""
    return [*suites(), ALL]


@click.command(
    cls=Command,
    short_help="Run a benchmark suite, or list the suites.",
    examples=(
        "python -m suites",
        "python -m suites boa --quick",
        "python -m suites boa --full -o rows.json",
        "python -m suites all --quick -o bench.json --report bench.html",
    ),
    writes={"output": "the rows as JSON", "report": "Write an HTML report."},
)
@click.argument("suite", required=False, metavar="[SUITE]", **known_name("suite", list_choices))
@click.option("--quick", is_flag=True, help="Small sizes and few limits: does the suite work?")
@click.option("--full", is_flag=True, help="Also the slow rivals at every limit.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="With 'all': suites that run at once; one on each processor by default.",
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    help="With 'all': who runs the suites: processes of this machine, or a Ray cluster.",
)
@click.option(
    "--proofs",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Of the suite best-known: where to write what is new or better than recorded, with its proofs.",
)
def bench(
    suite: str | None,
    *,
    quick: bool,
    full: bool,
    processes: int | None,
    engine: str,
    proofs: Path | None,
    outputs: Outputs,
) -> int:
    """Run a benchmark SUITE, or all of them; without one, list the suites.

    Everything is measured in one run: our solvers, the algorithms as published, general engines. 'all' runs the suites
    side by side; its JSON and its report also say what the rows amount to. Exit code 5: a value that is recorded as
    best known was not reached, or its proof does not hold.
    """
    if suite is None:
        outputs.answer({"suites": suites()}, suites)
        return 0
    if suite == ALL:
        how = {"quick": quick, "full": full, "processes": processes, "engine": engine, "proofs": proofs}
        return _run_all(outputs, how)
    if processes is not None or engine != "processes" or "--report" in outputs:
        raise UsageError(f"--processes, --engine and --report go with {ALL!r}; {suite} is one suite")
    with Progress(f"suite {suite}") as progress:
        rows = run_suite(suite, quick=quick, full=full, proofs=proofs, on_event=progress.listen)

    def show() -> list[object]:
        from optplan.reporting.tables import record_table

        shown = (*SHOWN, *_SHOWN_AS_WELL.get(suite, ()))
        return [record_table(suite, [{name: row[name] for name in shown} for row in rows])]

    return outputs.deliver(rows, show)


def _run_all(outputs: Outputs, how: dict[str, Any]) -> int:
    from suites.pages import build_sweep_page
    from suites.sweeps import run_sweep

    with Progress("every suite") as progress:
        document = run_sweep(**how, on_event=progress.listen)
    known = document["best_known"]

    def show() -> list[object]:
        from optplan.reporting.tables import record_table

        suites = document["suites"].items()
        records = [{"suite": name, "rows": len(one["rows"]), "seconds": one["seconds"]} for name, one in suites]
        return [
            record_table("suites", records),
            "",
            *say_best_known(known),
        ]

    outputs.deliver(document, show)
    outputs.save_page("--report", lambda: build_sweep_page(document))
    return outputs.exit_code(NOT_VERIFIED if known["failed"] else 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code, as ``optplan`` has them."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = bench.main(args=given, prog_name="python -m suites", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - reported as optplan's own commands report theirs
        return report(error, as_json="--json" in given, with_traceback="--traceback" in given)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
