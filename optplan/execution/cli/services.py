"""Services of ``optplan serve``, looked at from outside: how one stands, and which process it is."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Shown
from optplan.errors import UsageError
from optplan.execution.cli.kinds import Told, find_process
from optplan.instances.plain_data import parse_json, read_text
from optplan.units import format_duration

if TYPE_CHECKING:
    from optplan.reporting.pages import Page

NAME = "a service"
RESUMED: tuple[str, ...] = ()


def resume(folder: Path, *_: object) -> Told:
    """Refuse: a service goes on by itself."""
    raise UsageError(f"--resume: {folder} is a service's; `optplan serve {folder}` goes on with it")


def read(folder: Path) -> Told:
    """Read how the service stands, as plain data."""
    process, table, address = find_process(folder), folder / "widths.json", folder / "address"
    stands = {
        "service": "boa",
        "folder": str(folder),
        "process": process,
        "address": address.read_text("utf-8").strip() if process and address.is_file() else None,
        "table": parse_json(read_text(table), str(table)) if table.is_file() else None,
    }
    return Told(stands)


#: Its page shows how it stands.
look = read


def stamp(folder: Path) -> str:
    """Refuse: it serves a page itself."""
    raise UsageError(f"--serve: a service has a page of its own; `optplan status {folder}` says at which address")


def present(stands: dict[str, Any]) -> list[Shown]:
    """Show how a service stands."""
    from optplan.reporting.tables import fact_table

    return [fact_table(_list_facts(stands))]


def build_page(told: Told) -> Page:
    """Build the page of a service."""
    from optplan.reporting.pages import Definitions, Page, Section

    runs = told.outcome["process"] is not None
    title = f"The service in {told.outcome['folder']} {'runs' if runs else 'does not run'}"
    facts = [Section("facts", "How it stands", [Definitions(_list_facts(told.outcome))])]
    return Page("", title, "", *(("running", "good") if runs else ("stopped", "fair")), sections=facts)


def list_logs(folder: Path) -> dict[str, Path]:
    """Refuse: it writes none."""
    raise UsageError(
        f"{folder}: a service writes its messages to stderr; look where that goes, as in journalctl -u UNIT"
    )


def stop(folder: Path, process: int | None) -> tuple[str, bool]:
    """Ask a service to end."""
    if process is None:
        return f"{folder}: the service does not run", True
    os.kill(process, signal.SIGTERM)
    return f"asked the service, process {process}, to end; `optplan serve {folder}` goes on", True


def _list_facts(stands: dict[str, Any]) -> list[tuple[str, str]]:
    runs = (
        f"runs as process {stands['process']}"
        if stands["process"]
        else f"does not run: `optplan serve {stands['folder']}`"
    )
    facts = [("service", runs)]
    if stands["address"]:
        facts.append(("address", stands["address"]))
    table = stands["table"]
    if table is None:
        return [*facts, ("widths", "none published yet")]
    promised = f"{table['gpus']:.4g} GPUs, {format_duration(table['mean_jct_s'])} on average"
    return [*facts, ("widths", f"number {table['number']}, of {len(table['classes'])} classes"), ("promised", promised)]
