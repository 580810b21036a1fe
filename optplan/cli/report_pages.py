"""``optplan report``: the HTML page of a result that is there, with others beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optplan.cli.amending import amendments, read_amended, restore, say_check
from optplan.cli.commands import Command
from optplan.cli.console import Progress, print_json
from optplan.cli.options import FILE, force_option, instance_argument
from optplan.cli.outputs import Outputs


@click.command(
    "report",
    cls=Command,
    short_help="Write the HTML page of a result that is there.",
    examples=(
        "optplan solve boa-newtrace --budget 120gpu -o result.json && optplan report boa-newtrace result.json",
        "optplan report mine.yaml exact.json published.json -o both.html",
    ),
)
@instance_argument
@click.argument("result_paths", metavar="RESULT...", nargs=-1, required=True, type=FILE)
@amendments
@click.option(
    "-o", "--out", "output", type=FILE, default=Path("report.html"), show_default=True, help="Write the page here."
)
@force_option
def report_page(
    instance_name: str,
    result_paths: tuple[Path, ...],
    *,
    output: Path,
    force: bool,
    as_json: bool,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Write the page that `optplan solve --report` writes, for a RESULT of the INSTANCE that is there.

    Further results stand beside it, as with --compare. The result is verified, and what else the page shows (other
    budgets or deadlines) is solved for. Changes of the instance that the first result carries are made again. With
    --json, prints where the page is.

    Exits with 5, and writes nothing, when the result does not hold what it says.
    """
    from optplan.instances.files import read_result
    from optplan.reporting.pages import require_packages
    from optplan.reporting.reports import write_report

    outputs = Outputs({"--out": output}, force=force, as_json=as_json)
    require_packages()
    result, *rivals = [read_result(path) for path in result_paths]
    instance = restore(read_amended(instance_name, changes), result)
    check = say_check(instance_name, result_paths[0], changes)

    def write(path: Path) -> None:
        with Progress("report"):
            write_report(path, instance, result, rivals=rivals, verify_command=check, overwrite=force)

    outputs.save("--out", write)
    code = outputs.exit_code(0)
    if as_json and not code:
        print_json({"report": str(output)})
    return code
