"""The page of a sweep: each suite's solvers beside one another, profiles, growth, and what is best known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optplan.lab.benchmarks import BEST_KNOWN
from optplan.parallel import Engine
from optplan.reporting.pages import Block, Card, Charts, Items, Page, Section
from optplan.reporting.phrases import format_seconds, format_share
from optplan.reporting.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new_figure
from optplan.reporting.tables import Column, Table, numbers
from suites.sweeps import OBJECTIVE_FACTORS, SHIFT_S, TIME_FACTORS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLORS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
_DASHES = ("solid", "dash", "dot")
_LEGEND = {"orientation": "h", "yref": "container", "y": 0.0, "yanchor": "bottom", "x": 0.0}
#: Of a chart, and what each line in its key beyond the third adds: on a phone each has a row of its own.
_HEIGHT, _KEY_HEIGHT = 360, 18
#: What the parts of a profile are called, and at which factors they are known.
_PROFILES = {
    "objective": ("share of the questions with an objective within this factor of the best", OBJECTIVE_FACTORS),
    "time": ("share of the questions with the best objective within this factor of the quickest's time", TIME_FACTORS),
}

#: Factors that have room for their labels.
_TICKS = {"objective": [1, 1.1, 1.2, 1.5, 2], "time": [1, 2, 5, 10, 100, 1000]}


def build_sweep_page(document: Mapping[str, Any]) -> Page:
    """Build the page of a sweep, from what :func:`~suites.sweeps.run_sweep` returns."""
    suites = document["suites"]
    rows = sum(len(suite["rows"]) for suite in suites.values())
    form = "quick" if document["quick"] else "full" if document["full"] else "usual"
    cards = [
        Card("rows measured", f"{rows:,}"),
        Card("time in all", format_seconds(document["seconds"]), f"suites {_say_where(document)}"),
    ]
    sections = [
        Section("suites", "The suites", [_list_suites(suites)], place="half"),
        Section("protocol", "How this was measured", _tell_protocol(document, form), place="half"),
    ]
    warnings = []
    if "best_known" in document:
        known = document["best_known"]
        reached = f"{known['reached'] + known['better']} of {known['values']}"
        cards.append(Card("best known values reached", reached, f"{known['proofs']['holds']} proofs hold"))
        warnings = [f"not reached, or its proof does not hold: {name}" for name in known["failed"]]
        told = _tell_best_known(suites[BEST_KNOWN]["rows"], known)
        sections.append(Section("values", "Best known values", told))
    machine = document["machine"]
    sections += [Section(name, name, _tell_suite(suite, machine), place="folded") for name, suite in suites.items()]
    return Page(
        name="benchmarks",
        title=f"Benchmarks, {form} form, {document['date']}",
        lead=f"{document['machine']}; {document['versions']}.",
        warnings=warnings,
        cards=cards,
        sections=sections,
    )


def _list_suites(suites: Mapping[str, Mapping[str, Any]]) -> Table:
    """List what each suite came to; its solvers and its rows are in its own section."""
    rows = []
    for name, suite in suites.items():
        solvers = suite["summary"]["solvers"]
        proven, answered = (sum(told[what] for told in solvers.values()) for what in ("proven", "solved"))
        answers = [f"{answered:,}", f"{proven:,}"] if solvers else ["-", "-"]
        rows.append([name, f"{len(suite['rows']):,}", format_seconds(suite["seconds"]), *answers])
    return Table("What each took", (Column("suite"), *numbers("rows", "time", "answers", "proven")), rows)


def _say_where(document: Mapping[str, Any]) -> str:
    return "on a Ray cluster" if document["engine"] == Engine.RAY else f"{document['processes']} at a time"


def _tell_protocol(document: Mapping[str, Any], form: str) -> list[Block]:
    return [
        f"Every row is one run in the {form} form, without repetition or choice. Times are wall times of solvers, "
        f"without reading files and imports; suites ran {_say_where(document)}, each in a process of its own, and "
        "those on one machine slow one another down. Every answer was verified, and that is timed apart.",
        f"Means of times are geometric, shifted by {format_seconds(SHIFT_S)}. Solvers are compared on questions that "
        "two or more of them answered; a profile shows for which share of these one is within a factor of the best.",
    ]


def _tell_best_known(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> list[Block]:
    facts = (
        f"{known['values']} values are recorded: {known['reached']} were reached again, {known['better']} bettered, "
        f"{known['missed']} missed; {known['new']} more were found. Of the files of proofs "
        f"{known['proofs']['holds']} hold, {known['proofs']['broken']} do not."
    )
    shown = [row for row in rows if row["extra"]["stands"] != "reached" or row["extra"]["proof"] != "holds"]
    if not shown:
        return [facts]
    columns = (Column("value"), *numbers("objective", "recorded"), Column("stands"), Column("proof"))
    cells = [
        [
            row["instance"],
            "none" if row["objective"] is None else f"{row['objective']:.9g}",
            f"{row['extra']['recorded_objective']:.9g}" if "recorded_objective" in row["extra"] else "none",
            row["extra"]["stands"],
            row["extra"]["proof"],
        ]
        for row in shown
    ]
    return [facts, Table("Values that changed", columns, cells)]


def _tell_suite(suite: Mapping[str, Any], machine: str) -> list[Block]:
    """Show a suite; where it ran is said where that is another machine than the one that asked."""
    summary, elsewhere = suite["summary"], "" if suite["machine"] == machine else f", on {suite['machine']}"
    blocks: list[Block] = [f"{len(suite['rows'])} rows in {format_seconds(suite['seconds'])}{elsewhere}."]
    if summary["solvers"]:
        blocks.append(_list_solvers(summary["solvers"]))
    if summary["profiles"]:
        drawn = [(_PROFILES[part][0], _draw_profile(summary["profiles"], part)) for part in _PROFILES]
        blocks.append(Charts(drawn, "Higher is better.", layout="pair"))
    if summary["growth"]:
        title = "time to the proven optimum while one dimension grows"
        blocks.append(Charts([(title, _draw_growth(summary["growth"]))]))
    others = [row for row in suite["rows"] if row["verify_seconds"] is None]
    if others:
        blocks.append(Items([_say_row(row) for row in others]))
    return blocks


def _list_solvers(solvers: Mapping[str, Mapping[str, Any]]) -> Table:
    names = ("asked", "answered", "proven", "time", "verified in", "largest gap", "best", "mean above", "most above")
    rows = []
    for name, told in solvers.items():
        compared = told.get("compared", {})
        shares = [told["largest_gap"], *(compared.get(what) for what in ("best", "mean_above", "most_above"))]
        counts = [f"{told[what]:,}" for what in ("num", "solved", "proven")]
        times = [format_seconds(told[what]) for what in ("time_s", "verify_s")]
        rows.append([name, *counts, *times, *("-" if share is None else format_share(share) for share in shares)])
    return Table("Solvers", (Column("solver"), *numbers(*names)), rows)


def _draw_profile(profiles: Mapping[str, Mapping[str, Sequence[float]]], part: str) -> Figure:
    label, factors = _PROFILES[part]
    figure = new_figure(height=_HEIGHT + _KEY_HEIGHT * max(0, len(profiles) - 3))
    for number, (name, told) in enumerate(profiles.items()):
        line = {
            "shape": "hv",
            "color": _COLORS[number % len(_COLORS)],
            "dash": _DASHES[number // len(_COLORS) % len(_DASHES)],
        }
        figure.add_scatter(x=list(factors), y=list(told[part]), name=name, mode="lines+markers", line=line)
    figure.update_xaxes(title_text=f"factor of the best {part}", type="log", tickvals=_TICKS[part], tickangle=0)
    figure.update_yaxes(title_text="share of the questions", range=[-0.03, 1.03])
    figure.update_layout(showlegend=True, legend=_LEGEND, meta=label)
    return figure


def _draw_growth(growth: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    figure = new_figure(height=_HEIGHT)
    for number, (name, points) in enumerate(growth.items()):
        sizes, seconds = zip(*points, strict=True)
        line = {"color": _COLORS[number % len(_COLORS)]}
        figure.add_scatter(x=list(sizes), y=list(seconds), name=name, mode="lines+markers", line=line)
    marks = sorted({size for points in growth.values() for size, _ in points})
    figure.update_xaxes(title_text="factor or size", type="log", tickvals=marks, tickangle=0)
    figure.update_yaxes(title_text="seconds", type="log", dtick=1)
    figure.update_layout(showlegend=True, legend=_LEGEND)
    return figure


def _say_row(row: Mapping[str, Any]) -> str:
    """Say what a row measured that is no answer to a question."""
    work = ", ".join(
        f"{name} {value:,.0f}" if abs(value) >= 1000.0 else f"{name} {value:.4g}"
        for name, value in row["extra"].items()
        if isinstance(value, float)
    )
    return f"{row['instance']}, {row['solver']}: {row['status']} in {format_seconds(row['seconds'])}" + (
        f" ({work})" if work else ""
    )
