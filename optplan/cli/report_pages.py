"""``optplan report``: the HTML page of a result that is there, with others beside it, or of what is in a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import optplan
from optplan import wings
from optplan.cli.amending import amendments, read_amended, say_check
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Progress, note, print_json
from optplan.cli.options import FILE, argument, complete_instance, option
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError


@command(
    "report",
    short_help="Write the HTML page of a result that is there, or of a run.",
    examples=(
        "optplan solve boa-newtrace --budget 120gpu -o result.json && optplan report boa-newtrace result.json",
        "optplan report mine.yaml exact.json published.json -o both.html",
        "optplan report boa-newtrace result.json --serve",
        "optplan report runs/elastic runs/static -o runs.html",
    ),
)
@amendments
def report_page(
    instance_name: str = argument(metavar="INSTANCE|DIR", shell_complete=complete_instance),
    result_paths: tuple[Path, ...] = argument(metavar="[RESULT|DIR]...", nargs=-1, type=FILE),
    *,
    output: Path = option(
        "-o", "--out", type=FILE, default=Path("report.html"), show_default=True, help="Write the page here."
    ),
    serve: bool = option(
        is_flag=True, help="Serve the page of a RESULT on this machine, and solve for what its readers try on it."
    ),
    force: bool = option(is_flag=True, help="Replace output files that exist."),
    as_json: bool,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Write the page that `optplan solve --report` writes, for a RESULT of the INSTANCE that is there.

    Further results stand beside it, as with --compare. The result is verified, and what else the page shows (other
    budgets or deadlines) is solved for. Changes of the instance that the first result carries are made again. With
    --json, prints where the page is.

    Of a folder DIR that `optplan run` or `optplan serve` wrote, shows what was planned beside what happened, or how it
    stands; of several runs of searches, one beside the other.

    With --serve, the page lies on an address that only this machine reaches, until Ctrl-C, and has a button that solves
    for the budget or deadline that is tried on it.

    Exits with 5, and writes nothing, when the result does not hold what it says.
    """
    from optplan.reporting.pages import require_packages
    from optplan.reporting.reports import build_report, prepare_report

    is_folder = Path(instance_name).is_dir()
    results = [] if is_folder else [optplan.read_result(path) for path in result_paths]
    if serve:
        refuse_but("serve", *changes, why="goes with a page in a file, and --serve writes none")
    if serve and is_folder:
        raise UsageError(f"--serve: needs a RESULT; `optplan status {instance_name} --serve` serves a folder's page")
    outputs = Outputs({} if serve else {"--out": output}, force=force, as_json=as_json)
    require_packages()
    if is_folder:
        refuse_but("output", why=f"changes an instance, and {instance_name} is a folder")
        build = wings.function("FOLDERS")
        if build is None:
            why = "is a folder, and what runs plans is not installed here; give an instance"
            raise UsageError(f"{instance_name}: {why}")
        outputs.save_page("--out", lambda: build([Path(instance_name), *result_paths]))
        return _tell(outputs, output)
    if not results:
        raise UsageError(f"RESULT is missing; `optplan solve {instance_name} -o result.json` writes one")
    result, *rivals = results
    instance = read_amended(instance_name, changes, result)
    for path, rival in zip(result_paths[1:], rivals, strict=True):
        if rival.instance_hash != result.instance_hash:
            made = f"{rival.instance_name!r} with changes ({'; '.join(rival.changes) or 'none'})"
            problem = f"is for {made}, another instance than that of {result_paths[0]}"
            raise UsageError(f"{path}: {problem}; give results for one instance, or `optplan compare` two")
    check = say_check(instance_name, result_paths[0], changes, solved=result.changes)
    serve_page = wings.function("REPORTS") if serve else None
    if serve and serve_page is None:
        raise UsageError("--serve: what serves pages is not installed here; write the page, with -o report.html")
    with Progress("report"):
        beside = prepare_report(instance, result, rivals=rivals, verify_command=check)
    if serve_page is not None:
        serve_page(instance, result, beside, partial(_tell_address, instance.name, as_json=as_json))
        return 0
    outputs.save_text("--out", lambda _: build_report(instance, result, beside))
    return _tell(outputs, output)


def _tell_address(name: str, address: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"address": address})
    note(f"serving the report of {name} at {address} until Ctrl-C")


def _tell(outputs: Outputs, output: Path) -> int:
    code = outputs.exit_code(0)
    if outputs.as_json and not code:
        print_json({"report": str(output)})
    return code
