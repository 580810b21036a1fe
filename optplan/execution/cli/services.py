"""Services of ``optplan serve``, looked at from outside: how one stands, and which process it is."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import format_duration

if TYPE_CHECKING:
    from optplan.reporting.pages import Page

NAME, SIGNAL = "a service", signal.SIGTERM
OPTIONS: tuple[str, ...] = ()
RESUMED: tuple[str, ...] = ()


def resume(folder: Path, *_: object) -> int:
    """Refuse: a service goes on by itself."""
    raise UsageError(f"--resume: {folder} is a service's; `optplan serve {folder}` goes on with it")


def show(folder: Path, outputs: Outputs) -> int:
    """Show how the service stands."""
    from optplan.reporting.tables import fact_table

    data = _read(folder)
    outputs.answer(data, lambda: [fact_table(_list_facts(folder, data))])
    return outputs.exit_code(0)


def build_page(folder: Path) -> Page:
    """Build the page of the service."""
    from optplan.reporting.pages import Definitions, Page, Section

    data = _read(folder)
    title = f"The service in {folder} {'runs' if data['process'] else 'does not run'}"
    badge = ("running", "good") if data["process"] else ("stopped", "fair")
    return Page(
        "", title, "", *badge, sections=[Section("facts", "How it stands", [Definitions(_list_facts(folder, data))])]
    )


def list_logs(folder: Path) -> dict[str, Path]:
    """Refuse: it writes none."""
    raise UsageError(
        f"{folder}: a service writes its messages to stderr; look where that goes, as in journalctl -u UNIT"
    )


def find_process(folder: Path) -> int | None:
    """Return the process that is the service; None where none is."""
    from optplan.execution.serving.store import find_keeper

    return find_keeper(folder)


def say_stopped(folder: Path, process: int | None) -> tuple[str, bool]:
    """Say what has become of the wish to stop it."""
    if process is None:
        return f"{folder}: the service does not run", True
    return f"asked the service, process {process}, to end; `optplan serve {folder}` goes on", True


def _read(folder: Path) -> dict[str, Any]:
    process, table = find_process(folder), folder / "widths.json"
    address = folder / "address"
    return {
        "service": "boa",
        "process": process,
        "address": address.read_text("utf-8").strip() if process and address.is_file() else None,
        "table": json.loads(table.read_text("utf-8")) if table.is_file() else None,
    }


def _list_facts(folder: Path, data: dict[str, Any]) -> list[tuple[str, str]]:
    runs = f"runs as process {data['process']}" if data["process"] else f"does not run: `optplan serve {folder}`"
    facts = [("service", runs)]
    if data["address"]:
        facts.append(("address", data["address"]))
    table = data["table"]
    if table is None:
        return [*facts, ("widths", "none published yet")]
    promised = f"{table['gpus']:.4g} GPUs, {format_duration(table['mean_jct_s'])} on average"
    return [*facts, ("widths", f"number {table['number']}, of {len(table['classes'])} classes"), ("promised", promised)]
