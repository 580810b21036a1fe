"""The sections of a run's page: its pictures, everyone in a table, what was planned anew and what else happened."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from optplan.execution.cli.run_figures import LOOKS, draw_curves, draw_gpus, draw_places, draw_spent, pay
from optplan.execution.history import History, Seen, held
from optplan.reporting.pages import Charts, Items, Section
from optplan.reporting.phrases import NOTHING
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Rows of tables, and events, at most.
_MOST_ROWS, _MOST_EVENTS = 1000, 60
#: Names of what was tried that get a column each; of more, one column has all of them.
_MOST_NAMES = 5


def tell_history(history: History, own: Iterable[Section] = ()) -> list[Section]:
    """Tell how a run went: its curves, who was where, GPUs and cost, everyone in a table, and what was planned anew.

    Sections of its ``own`` stand before all that happened.
    """
    who, sections = {"stream": "jobs", "fleet": "ranks"}.get(history.kind, "trials"), []
    if any(each.curve for each in history.members):
        counts = [(sum(each.state == state for each in history.members), state) for state in reversed(LOOKS)]
        reading = (
            f"A line for each of the {who}; {'higher' if history.is_most else 'lower'} is better. "
            f"{', '.join(f'{count:,} {state}' for count, state in counts if count)}. A few values far from all others "
            "may lie outside, and of many lines not every point is drawn."
        )
        label = f"Line chart: {history.metric or 'metric'} after each iteration"
        if history.kind == "fleet":
            reading = "The first number of what the job's ranks have shown. What was done again is drawn once."
        else:
            label += f", a line for each of the {who}"
        chart = label, draw_curves(history)
        sections.append(Section("curves", "Learning curves", [Charts([chart], reading)]))
    if history.nodes:
        reading = (
            f"A row for each node, or for several of a kind one after the other; bars are {who} on its GPUs. Grey: the "
            "node is there, and nobody has it; orange: it is launched. Of very many bars the longest are drawn."
        )
        if not history.spent:  # of an export, whose nodes nobody tells
            reading = f"A row for each of the {who}: bars are when it ran, grey is the time between two steps."
        chart = f"For each row bars over time: when {who} ran", draw_places(history)
        sections.append(Section("places", f"{who.capitalize()} over time", [Charts([chart], reading)]))
    if history.forecasts:
        what = "cost" if history.is_priced else "GPU-hours"
        reading = f"Dotted: as planned; dashed: as planned anew. The {what} counts nodes that are held, at work or not."
        drawn = [("Step chart: GPUs over time, and as planned", draw_gpus(history))]
        drawn += [(f"Line chart: {what} over time, and as planned", draw_spent(history))] if history.spent else []
        heading = f"GPUs and {what} over time"
        sections.append(Section("use", heading, [Charts(drawn, reading, "pair")], f"GPUs and {what}"))
    table = _list_vms(history) if history.kind == "fleet" else _list_members(history)
    if table.rows:
        heading = "VMs" if history.kind == "fleet" else who.capitalize()
        sections.append(Section("members", heading, [table]))
    if history.replans:
        sections.append(Section("replans", "What was planned anew, and why", [_list_plans(history)], "Planned anew"))
    sections += own
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
    is_wide, shown = len(names) <= _MOST_NAMES, any(each.curve for each in members)
    columns = [Column("trial" if is_search else "job", style="name"), Column("state")]
    columns += numbers(*[history.metric or "metric"][:shown], "iterations" if is_search else "epochs")
    columns += [Column(name, True, "name") for name in names] if is_wide else [Column("configuration", style="wraps")]
    columns += [Column(name, name != "class") for name in own]
    columns += numbers("restarts", "GPU-hours", *["cost ($)"][: history.is_priced])
    columns.append(Column("node"))

    def write(each: Seen) -> tuple[str, ...]:
        tried = [_write(each.configuration.get(name)) for name in names]
        where = [*[*each.place][:1], *[f"{len(each.place) - 1} more"][: len(each.place) > 1]]
        return (
            *(each.name, each.state),
            *[_write(each.curve[-1].height if each.curve else None)][:shown],
            f"{each.iterations:,}",
            *(tried if is_wide else [", ".join(f"{n}={v}" for n, v in zip(names, tried, strict=True))]),
            *(_write(each.own.get(name), digits=3) for name in own),
            *(f"{each.restarts:,}", _write(each.gpu_s / SECONDS_PER_HOUR, digits=3)),
            *[_write(each.usd, digits=3)][: history.is_priced],
            " and ".join(where) or NOTHING,
        )

    return _cut(f"All {len(members):,} of them", columns, [write(each) for each in members[:_MOST_ROWS]], len(members))


def _list_vms(history: History) -> Table:
    """List the VMs of a fleet; readers may sort them."""
    columns = [Column("VM", style="name"), Column("type"), Column("state")]
    columns += numbers("ranks", "asked for (h)", "ready (h)", "gone (h)", "held (h)")
    rows = []
    for vm, span in zip(history.nodes, held(history.nodes, history.t, history.gpus), strict=True):
        times = (span.begin_s, vm.ready_s, vm.end_s, span.end_s - span.begin_s)
        hours = [_write(None if t is None else t / SECONDS_PER_HOUR, digits=3) for t in times]
        rows.append((vm.name, vm.resource, vm.phase.value, str(history.gpus[vm.resource]), *hours))
    return _cut("From when they were asked for until they were gone", columns, rows[:_MOST_ROWS], len(rows))


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
        lasts = [pay(*forecast)[-1] for forecast in history.forecasts]
        changes = [(_when(a.t), _when(b.t), _write(a.height), _write(b.height)) for a, b in pairwise(lasts)]
        rows = [(*row, *change) for row, change in zip(rows, changes, strict=False)]
    return Table("When, and why", columns, rows)


def _write(value: object, digits: int = 6) -> str:
    if isinstance(value, float):
        return f"{value:,.{digits}f}" if digits < 6 and abs(value) >= 0.1 else f"{value:,.{digits}g}"
    return NOTHING if value is None else str(value)


def _when(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"
