"""The claims of the paper on BOA: its page of claims, charts and points."""

from __future__ import annotations

from collections.abc import Iterator

from claims.boa_curves import SLOWDOWNS, SPANS_H, TRACES, list_claims_on_curves, read_curves, tabulate_points
from claims.boa_others import list_advantages, list_other_claims
from claims.boa_setting import AUTOSCALED, EXACT
from claims.boa_traces import list_concepts, list_trace_claims
from claims.charts import Axis, Line, draw
from claims.measure_boa import AT_ONCE, LATE
from claims.record import Chart, Claim, Paper, Rows
from claims.tables import write_table

INTRO = """
BOA Constrictor's evaluation on this project's [simulator](simulation.md), set up as the paper has it: without Sia's
slowdowns first, with them second. Factors are between completion times at equal GPU-hours of rented nodes, with BOA's
curve between its points on a line of powers, at every point of the rival that no cheaper one of its own beats and for
which BOA has one as cheap. How far a mean is above the proven least, that of any policy whose jobs pause when they
change width and hold as many GPU-hours, stands beside it ([audit](audit.md)). How the simulator compares with the one
of the Sia artifact stands [with it](simulation.md#against-the-sia-artifacts-simulator).
"""
_HEAD = ("policy", "set", "GPUs", "mean (s)", "above the least", "P95 (s)", "most GPUs")


def list_claims(rows: Rows) -> list[Claim]:
    """List the claims, each judged from the rows."""
    return [
        *list_claims_on_curves(rows),
        *list_trace_claims(rows),
        *list_other_claims(rows),
        *list_concepts(),
    ]


def draw_charts(rows: Rows) -> list[Chart]:
    """Draw the charts of figures 4, 5, 6, 8 and 9."""
    charts = []
    for name, part, what in (
        ("figure4", "few", "Figure 4: the 85 jobs"),
        ("figure6-filtertrace", "filtertrace", "Figure 6a: filterTrace"),
        ("figure6-newtrace", "newtrace", "Figure 6c: newTrace"),
        ("figure8", "information", "Figure 8: what errors of prediction cost BOA"),
    ):
        curves = read_curves(rows, part, "off")
        lines = [
            Line(
                each.name,
                [point.node_gpu_hours / SPANS_H.get(part, 48.0) for point in each.points],
                [point.mean_s / 60 for point in each.points],
                falling=True,
            )
            for each in curves.values()
        ]
        if lines:
            caption = (
                f"{what}, without slowdowns. The paper prints no points of its charts, so there are none of them here."
            )
            x, y = (
                Axis("GPUs rented on average", logarithmic=True),
                Axis("mean completion time (min)", logarithmic=True),
            )
            charts.append(Chart(name, caption, draw(what, lines, x, y)))
    return [*charts, *_draw_time(rows), *_draw_bursts(rows)]


def _draw_time(rows: Rows) -> list[Chart]:
    told = rows.get("over_time")
    if told is None:
        return []
    what = "Figure 5: GPUs rented over time"
    lines = [
        Line(name, told[name]["hours"], told[name]["rented"], marks=False, steps=True)
        for name in (EXACT, AT_ONCE, AUTOSCALED)
    ]
    svg = draw(what, lines, Axis("hours", low=0.0), Axis("GPUs rented", low=0.0))
    return [Chart("figure5", f"{what}, the 85 jobs without slowdowns at about 55 GPUs.", svg)]


def _draw_bursts(rows: Rows) -> list[Chart]:
    what = "Figure 9: by which factor BOA's mean is shorter, by the variability of arrivals"
    lines = []
    for slowdown, rival, name in (
        ("off", AUTOSCALED, "sizes at once"),
        ("off", LATE, "sizes a round late"),
        ("on", AUTOSCALED, "sizes at once, slowdowns"),
    ):
        found = list_advantages(rows, slowdown, rival)
        if found:
            lines.append(Line(name, [variation for variation, _ in found], [factor for _, factor in found]))
    if not lines:
        return []
    svg = draw(what, lines, Axis("C² of interarrival times", logarithmic=True), Axis("times shorter", low=1.0))
    return [Chart("figure9", f"{what}.", svg)]


def tell(rows: Rows) -> str:
    """Write the points of figures 4, 6 and 8, and what each of the two ways to run it takes."""
    parts = []
    for part, title in (*TRACES.items(), ("information", "newTrace, by what BOA knows about speeds")):
        for slowdown, words in SLOWDOWNS.items():
            curves = read_curves(rows, part, slowdown)
            if curves:
                table = write_table(_HEAD, tabulate_points(curves, SPANS_H.get(part, 48.0)))
                parts += [f"## Points: {title}, {words}", table]
    simulated = set(_list_points(rows))  # some points are in several figures
    if simulated:
        seconds = sum(cpu_s for _, _, cpu_s in simulated)
        parts.append(
            f"The {len(simulated)} simulations whose points are kept took {seconds / 60:.0f} minutes of processor "
            'time; what is in `out/paper` is not simulated again. `CLAIMS="boa --quick"` takes sub-traces of 12 jobs '
            "and about two minutes."
        )
    return "\n\n".join(parts)


def _list_points(rows: object) -> Iterator[tuple[str, float, float]]:
    """List what is told of each simulation: what was set, its mean, and seconds of processor time."""
    if isinstance(rows, dict) and "cpu_s" in rows:
        yield rows["label"], rows["mean_s"], rows["cpu_s"]
    elif isinstance(rows, list | dict):
        for each in rows.values() if isinstance(rows, dict) else rows:
            yield from _list_points(each)


PAPER = Paper("boa", "BOA", "claims-boa.md", INTRO, list_claims, draw_charts, tell)
