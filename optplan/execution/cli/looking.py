"""``optplan status``, ``logs`` and ``stop``: what is in a folder, looked at and stopped, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optplan.cli.commands import Command
from optplan.cli.console import note, print_either, print_json
from optplan.cli.options import DIR
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.cli.kinds import kind_of_folder
from optplan.execution.locks import find_holder

if TYPE_CHECKING:
    from optplan.reporting.pages import Page


@click.command(
    cls=Command,
    short_help="Show how a run, an export or a service stands, or several runs beside one another.",
    examples=(
        "optplan status runs/first",
        "optplan status runs/elastic runs/static",
        "optplan status runs/first --serve",
    ),
)
@click.argument("folders", metavar="DIR...", type=DIR, nargs=-1, required=True)
@click.option(
    "--serve", is_flag=True, help="Serve its page on this machine; it follows what it shows.", show_default=False
)
def status(folders: tuple[Path, ...], *, serve: bool, as_json: bool) -> int:
    """Show how what is in a folder stands, whether or not it is being followed.

    That is a run of a search, a stream or a fleet, an export, or the state of `optplan serve`; or several runs of
    searches, each as planned and as it went. `optplan report DIR` makes a page of it; with --serve it is one that
    follows the run, until Ctrl-C, at an address that only this machine reaches.
    """
    outputs = Outputs({}, force=False, as_json=as_json)
    if serve and len(folders) > 1:
        raise UsageError("--serve: serves the page of one folder; give one, or write `optplan report DIR DIR`")
    if len(folders) > 1:
        from optplan.execution.cli.searches import comparison_table
        from optplan.execution.running import SearchRun

        runs = {str(folder): SearchRun.read(folder).describe() for folder in folders}
        data = {"runs": {name: outcome.to_json_data() for name, outcome in runs.items()}}
        outputs.answer(data, lambda: [comparison_table(runs)])
        return 0
    kind, process = kind_of_folder(folders[0]), find_holder(folders[0])
    if serve:
        return _serve(folders[0], outputs)
    told = kind.read(folders[0])
    # A service or an export says itself whether it runs.
    said = [f"{folders[0]}: {kind.say_follower(told, folders[0], process)}"] if kind.RESUMED else []
    outputs.answer(told.outcome, lambda: [*said, *kind.present(told.outcome)])
    return 0


def _serve(folder: Path, outputs: Outputs) -> int:
    from optplan.execution.cli.live import serve_page

    def tell(address: str) -> None:
        if outputs.as_json:
            print_json({"address": address})
        note(f"serving the page of {folder} at {address} until Ctrl-C")

    serve_page(folder, tell)
    return 0


def build_pages(folders: Sequence[Path]) -> Page:
    """Build the page of a folder, or of several runs of searches beside one another."""
    if len(folders) > 1:
        from optplan.execution.cli.searches import build_comparison_page

        return build_comparison_page({str(folder): folder for folder in folders})
    kind = kind_of_folder(folders[0])
    page: Page = kind.build_page(kind.look(folders[0]))
    return page


@click.command(
    cls=Command,
    short_help="Show what trials, jobs and ranks wrote.",
    examples=("optplan logs runs/first trials-0001", "optplan logs runs/fleet 001"),
)
@click.argument("folder", metavar="DIR", type=DIR)
@click.argument("trial", required=False, metavar="[NAME]")
@click.option("--lines", type=click.IntRange(min=1), default=40, help="How many, at most.")
def logs(folder: Path, trial: str | None, *, lines: int, as_json: bool) -> int:
    """Show the last lines that a trial, a job or a fleet's ranks wrote; without NAME, list who wrote any."""
    written = kind_of_folder(folder).list_logs(folder)
    if trial is None:
        print_either({"trials": list(written)}, "".join(f"{name}\n" for name in written), as_json=as_json)
        return 0
    if trial not in written:
        raise UsageError(f"{folder}: {trial!r} has written nothing; {nearest_name_hint(trial, written)}")
    text = written[trial].read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    print_either({"trial": trial, "lines": text}, "".join(f"{line}\n" for line in text), as_json=as_json)
    return 0


@click.command(
    cls=Command,
    short_help="Stop a run, which can be resumed, or a service.",
    examples=("optplan stop runs/first", "optplan stop state"),
)
@click.argument("folder", metavar="DIR", type=DIR)
def stop(folder: Path, *, as_json: bool) -> int:
    """Ask whoever follows the run in a folder to store everything and to pause, as Ctrl-C there would.

    A service of `optplan serve` is asked to end. A fleet's VMs go on.

    Exits with 1 where nobody follows a run that has neither ended nor paused: what it has started goes on for a while.
    """
    kind, process = kind_of_folder(folder), find_holder(folder)
    said, is_stopped = kind.stop(folder, process)
    if as_json:
        print_json({"driver": process, "asked": process is not None, "said": said})
    else:
        note(said)
    return 0 if is_stopped else 1  # it goes on by itself
