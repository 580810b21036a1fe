"""``optplan bench``: what is best known of the library, and the instances that plug-ins name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.options import DIR, argument, known_name, option
from optplan.cli.outputs import Outputs

#: What the table shows of a row; ``--json`` and ``-o`` have all.
SHOWN = (
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
#: Exit code where a recorded value or its proof did not stand.
NOT_VERIFIED = 5


def list_suites() -> list[str]:
    """List what can be measured."""
    from optplan.lab.benchmarks import suites

    return suites()


@command(
    short_help="Solve what is recorded as best known again, or a plug-in's instances.",
    examples=(
        "optplan bench",
        "optplan bench best-known --quick",
        "optplan bench best-known --proofs found -o rows.json",
    ),
    writes={"output": "the rows as JSON"},
)
def bench(
    suite: str | None = argument(required=False, metavar="[SUITE]", **known_name("suite", list_suites)),
    *,
    quick: bool = option(is_flag=True, help="Small sizes and few limits: does it work?"),
    proofs: Path | None = option(
        metavar="DIR",
        type=DIR,
        help="Of best-known: where to write what is new or better than recorded, with its proofs.",
    ),
    outputs: Outputs,
) -> int:
    """Solve, verify and measure a SUITE in one run; without one, list what there is.

    'best-known' solves every value that is recorded of the library again, and has the proofs checked; the name of a
    formulation that names instances to be measured (a plug-in's) has each of its solvers run on each of them. Exit code
    5: a value that is recorded as best known was not reached, or its proof does not hold.
    """
    from optplan.lab.benchmarks import BEST_KNOWN, run_suite
    from optplan.lab.benchmarks.best_known import summarise

    if suite is None:
        outputs.answer({"suites": list_suites()}, list_suites)
        return 0
    with Progress(f"suite {suite}") as progress:
        rows = run_suite(suite, quick=quick, proofs=proofs, on_event=progress.listen)
    known = summarise(rows) if suite == BEST_KNOWN else None

    def show() -> list[object]:
        from optplan.reporting.tables import record_table

        table = record_table(suite, [{name: row[name] for name in SHOWN} for row in rows])
        return [table] if known is None else [table, "", *say_best_known(known)]

    outputs.deliver(rows, show)
    return outputs.exit_code(NOT_VERIFIED if known is not None and known["failed"] else 0)


def say_best_known(known: Mapping[str, Any]) -> list[str]:
    """Say how the values recorded as best known stand."""
    return [
        f"best known values: {known['reached']} reached, {known['better']} bettered, {known['missed']} missed, "
        f"{known['new']} new; proofs: {known['proofs']['holds']} hold, {known['proofs']['broken']} broken",
        *(f"failed: {name}" for name in known["failed"]),
    ]
