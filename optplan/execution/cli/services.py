"""Services of ``optplan serve``, looked at from outside: how one stands, and which process it is."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from itertools import groupby, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.errors import UsageError
from optplan.execution.cli.kinds import Told
from optplan.execution.online.messages import Calculation, Verdict
from optplan.execution.online.width_table import WidthTable
from optplan.execution.serving.store import read_stored
from optplan.execution.trial_files import find_holder
from optplan.formulations.boa.planning import WidthRow
from optplan.instances.plain_data import parse_json, read_text
from optplan.reporting.pages import Definitions, Page, Section
from optplan.reporting.phrases import NOTHING, capitalise, format_gap, format_share
from optplan.reporting.tables import Column, Table, fact_table, numeric, tabulate
from optplan.units import format_duration

if TYPE_CHECKING:
    from optplan.cli.console import Shown

NAME = "a service"
RESUMED: tuple[str, ...] = ()
#: Rows of the table, and calculations, that are shown at most; the others are in what --json prints.
_MOST_ROWS, _SHOWN = 1000, 10
#: From which part of the budget on a table is said to exceed it.
_ALARM = 1.05


def resume(folder: Path, *_: object) -> Told:
    """Refuse: a service goes on by itself."""
    raise UsageError(f"--resume: {folder} is a service's; `optplan serve {folder}` goes on with it")


def read(folder: Path) -> Told:
    """Read how the service stands, as plain data."""
    process, table, address = find_holder(folder), folder / "widths.json", folder / "address"
    stands = {
        "service": "boa",
        "folder": str(folder),
        "process": process,
        "address": address.read_text("utf-8").strip() if process and address.is_file() else None,
        "table": parse_json(read_text(table), str(table)) if table.is_file() else None,
        "calculations": read_stored(folder, "calculations") or [],
    }
    return Told(stands)


#: Its page shows how it stands.
look = read


def stamp(folder: Path) -> str:
    """Return what changes whenever widths are calculated."""
    return str([each["at_s"] for each in read(folder).outcome["calculations"][:1]])


def say_follower(_: Told, folder: Path, process: int | None) -> str:
    """Say whether it runs."""
    return f"runs as process {process}" if process else f"nobody runs it: `optplan serve {folder}`"


def present(stands: dict[str, Any]) -> list[Shown]:
    """Show how a service stands."""
    return [fact_table(_list_facts(stands)), *_warn(stands), "", _list_widths(stands), "", _list_calculations(stands)]


def build_page(told: Told) -> Page:
    """Build the page of a service."""
    runs, stands = told.outcome["process"] is not None, told.outcome
    title = f"The service in {stands['folder']} {'runs' if runs else 'does not run'}"
    sections = [
        Section("facts", "How it stands", [Definitions(_list_facts(stands))]),
        Section("widths", "Widths", [_list_widths(stands)]),
        Section("calculations", "What was calculated last, and why", [_list_calculations(stands)]),
    ]
    return Page("", title, "", *(("running", "good") if runs else ("stopped", "fair")), _warn(stands), (), sections)


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
    facts = [("service", say_follower(Told(stands), Path(stands["folder"]), stands["process"]))]
    if stands["address"]:
        facts.append(("address", stands["address"]))
    table = stands["table"]
    if table is None:
        return [*facts, ("widths", "none published yet")]
    promised = f"{table['gpus']:.4g} GPUs, {format_duration(table['mean_jct_s'])} on average"
    return [*facts, ("widths", f"number {table['number']}, of {len(table['classes'])} classes"), ("promised", promised)]


def _warn(stands: dict[str, Any]) -> list[str]:
    """Say what is wrong now; nothing where all is well."""
    if not stands["calculations"]:
        return []
    latest = Calculation.parse(stands["calculations"][0])
    if latest.verdict in (Verdict.OVER_BUDGET, Verdict.FAILED):
        return [f"{capitalise(latest.verdict.value)}: {'; '.join(latest.notes)}."]
    # More than is to be spent now; estimates move a little between two tables.
    if (latest.planned or 0.0) > _ALARM * max(latest.budget, latest.followed or 0.0):
        return [
            f"The widths take {_amount(latest.planned, latest)}, and the budget is {_amount(latest.budget, latest)}."
        ]
    return []


def _list_widths(stands: dict[str, Any]) -> Table:
    classes = {} if stands["table"] is None else WidthTable.parse(stands["table"]).classes
    rows = [(name, row) for name, each in classes.items() for row in each]
    columns = {
        Column("class"): lambda each: each[0],
        numeric("share of jobs"): lambda each: format_share(each[1].share),
        Column("GPUs", style="wraps"): lambda each: _list_phases(each[1]),
    }
    left = len(rows) - _MOST_ROWS
    rest = f"{left:,} more are in {stands['folder']}/widths.json" if left > 0 else ""
    return tabulate("GPUs of a job, by epoch", columns, rows[:_MOST_ROWS], 2, rest)


def _list_phases(row: WidthRow) -> str:
    """Write a way through the epochs, counted from 1: ``2 t4 (epoch 1), 4 t4 (epochs 2 to 9)``."""
    said, last = [], 0
    for (gpus, gpu_type), alike in groupby(zip(row.gpus.tolist(), row.gpu_types or repeat(""), strict=False)):
        first, last = last + 1, last + len(list(alike))
        epochs = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        said.append(f"{' '.join(filter(None, (str(gpus), gpu_type)))} ({epochs})")
    return ", ".join(said)


def _list_calculations(stands: dict[str, Any]) -> Table:
    columns = {
        Column("time (UTC)"): lambda one: datetime.fromtimestamp(one.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        Column("verdict"): lambda one: one.verdict.value,
        numeric("table"): lambda one: NOTHING if one.number is None else f"{one.number:,}",
        numeric("planned"): lambda one: _amount(one.planned, one),
        numeric("mean completion time"): lambda one: (
            NOTHING if one.mean_jct_s is None else format_duration(one.mean_jct_s)
        ),
        numeric("gap"): lambda one: NOTHING if one.gap is None else format_gap(one.gap),
        Column("reason", style="wraps"): lambda one: "; ".join((one.reason, *one.changes, *one.notes)),
    }
    return tabulate("The latest first", columns, map(Calculation.parse, stands["calculations"][:_SHOWN]))


def _amount(amount: float | None, of: Calculation) -> str:
    return NOTHING if amount is None else f"{amount:.4g} {of.unit}"
