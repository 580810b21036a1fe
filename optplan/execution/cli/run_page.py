"""The sections of a run's page: its pictures, everyone in a table, what was planned anew and what else happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from optplan.execution.cli.run_figures import LOOKS, draw_curves, draw_gpus, draw_places, draw_spent
from optplan.execution.history import History, Seen, held_s
from optplan.execution.state import NodeState
from optplan.reporting.pages import Charts, Items, Section
from optplan.reporting.phrases import NOTHING
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Rows of tables, and events, at most.
_MOST_ROWS, _MOST_EVENTS = 1000, 60
#: Names of what was tried that get a column each; of more, one column has all of them.
_MOST_NAMES = 5


def tell_history(history: History) -> list[Section]:
    """Tell how a run went: its curves, who was where, GPUs and cost, everyone in a table, and what was planned anew."""
    who = {"stream": "jobs", "fleet": "ranks"}.get(history.kind, "trials")
    sections = []
    if any(each.curve for each in history.members):
        label = f"Line chart: {history.metric} after each iteration, a line for each of the {who}"
        counts = [(sum(each.state == state for each in history.members), state) for state in reversed(LOOKS)]
        reading = (
            f"A line for each of the {who}; {'higher' if history.is_most else 'lower'} is better. "
            f"{', '.join(f'{count:,} {state}' for count, state in counts if count)}. A few values far from all others "
            "may lie outside, and of many lines not every point is drawn."
        )
        sections.append(Section("curves", "Learning curves", [Charts([(label, draw_curves(history))], reading)]))
    if history.nodes:
        label = f"For each node a row over time: {who} on its GPUs, and when it was there"
        reading = (
            f"A row for each node, or for several of a kind one after the other; bars are {who} on its GPUs. Grey: the "
            "node is there, and nobody has it; orange: it is launched. Of very many bars the longest are drawn."
        )
        charts = Charts([(label, draw_places(history))], reading)
        sections.append(Section("places", f"{who.capitalize()} on nodes", [charts]))
    if history.forecasts:
        what = "cost" if history.is_priced else "GPU-hours"
        reading = f"Dotted: as planned; dashed: as planned anew. The {what} counts nodes that are held, at work or not."
        label = f"Line chart: {what} over time, and as planned"
        drawn = [("Step chart: GPUs over time, and as planned", draw_gpus(history)), (label, draw_spent(history))]
        heading = f"GPUs and {what} over time"
        sections.append(Section("use", heading, [Charts(drawn, reading, "pair")], f"GPUs and {what}"))
    table = _list_vms(history) if history.kind == "fleet" else _list_members(history)
    if table.rows:
        heading = "VMs" if history.kind == "fleet" else who.capitalize()
        sections.append(Section("members", heading, [table]))
    if history.replans:
        sections.append(Section("replans", "What was planned anew, and why", [_list_plans(history)], "Planned anew"))
    if history.events:
        said = history.events[-_MOST_EVENTS:]
        heading = "What happened" if len(said) == len(history.events) else f"The last {len(said)} things that happened"
        sections.append(Section("events", heading, [Items(said)]))
    return sections


def _list_members(history: History) -> Table:
    """List all trials or jobs, those of a search by merit, the best first; readers may sort them."""
    members, is_search = history.members, history.kind != "stream"
    if is_search:
        places, sign = {state: -number for number, state in enumerate(LOOKS)}, -1.0 if history.is_most else 1.0
        value = {each.name: sign * each.curve[-1].height if each.curve else math.inf for each in members}
        members = sorted(members, key=lambda each: (places[each.state], value[each.name]))
    names = [*dict.fromkeys(name for each in members for name in each.configuration)]
    own = [*dict.fromkeys(name for each in members for name in each.own)]
    is_wide, is_shown = len(names) <= _MOST_NAMES, any(each.curve for each in members)
    columns = [Column("trial" if is_search else "job", style="name"), Column("state")]
    columns += numbers(*([history.metric or "metric"] if is_shown else []), "iterations" if is_search else "epochs")
    columns += numbers(*names) if is_wide else [Column("configuration", style="wraps")]
    columns += numbers(*own, "restarts", "GPU-hours", *(["cost ($)"] if history.is_priced else []))
    columns.append(Column("node"))

    def write(each: Seen) -> tuple[str, ...]:
        tried = [_write(each.configuration.get(name)) for name in names]
        return (
            each.name,
            each.state,
            *([_write(each.curve[-1].height if each.curve else None)] if is_shown else []),
            f"{each.iterations:,}",
            *(tried if is_wide else [", ".join(f"{n}={v}" for n, v in zip(names, tried, strict=True))]),
            *(_write(each.own.get(name)) for name in own),
            f"{each.restarts:,}",
            _write(each.gpu_s / SECONDS_PER_HOUR),
            *([_write(each.usd)] if history.is_priced else []),
            " and ".join([*[*each.place][:1], *([f"{len(each.place) - 1} more"] if len(each.place) > 1 else [])])
            or NOTHING,
        )

    return _cut(f"All {len(members):,} of them", columns, [write(each) for each in members[:_MOST_ROWS]], len(members))


def _list_vms(history: History) -> Table:
    """List the VMs of a fleet; readers may sort them."""
    columns = [Column("VM", style="name"), Column("type"), Column("state")]
    columns += numbers("ranks", "asked for (h)", "ready (h)", "gone (h)", "held (h)")

    def write(vm: NodeState) -> tuple[str, ...]:
        begin_s, end_s = held_s(vm, history.t)
        times = (begin_s, vm.ready_s, vm.end_s, end_s - begin_s)
        hours = [_write(None if t is None else t / SECONDS_PER_HOUR) for t in times]
        return vm.name, vm.resource, vm.phase.value, str(history.gpus[vm.resource]), *hours

    rows = [write(vm) for vm in history.nodes[:_MOST_ROWS]]
    return _cut("From when they were asked for until they were gone", columns, rows, len(history.nodes))


def _cut(caption: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], count: int) -> Table:
    rest = f"The first {len(rows):,} of {count:,} are shown." if len(rows) < count else ""
    return Table(caption, columns, rows, rest=rest, is_sortable=True)


def _list_plans(history: History) -> Table:
    """List what was planned anew, when, why, and what that changed."""
    columns = [Column("after"), Column("why", style="wraps")]
    rows: list[tuple[str, ...]] = [(_when(t), why) for t, why in history.replans[-_MOST_ROWS:]]
    if len(history.forecasts) > 1:
        what = "cost ($)" if history.is_priced else "GPU-hours"
        columns += numbers("end, as planned", "planned anew", f"{what}, as planned", "planned anew")
        ends = pairwise(_when(each.gpus[-1].t) for each in history.forecasts)
        spent = pairwise(_write(each.spent[-1].height) for each in history.forecasts)
        rows = [(*row, *end, *usd) for row, end, usd in zip(rows, ends, spent, strict=False)]
    return Table("When, and why", columns, rows)


def _write(value: object) -> str:
    return NOTHING if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)


def _when(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"
