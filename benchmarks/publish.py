"""Turn the rows of ``python -m suites SUITE -o rows.json`` into the tables and the figure of the docs page.

Run it on the machine that measured, with the environment that measured, because it records both::

    python -m suites boa --full -o rows.json
    python benchmarks/publish.py rows.json --ran "python -m suites boa --full" --date 2026-11-21
    python -m suites boa-types -o types.json
    python benchmarks/publish.py types.json --suite boa-types --ran "python -m suites boa-types" --date 2026-11-21
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from suites.sweeps import describe_machine, describe_versions

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
TRACE = "boa-newtrace@"
#: Ratios this close to one differ by rounding.
ROUNDING = 1e-12
#: Units of time, from the largest, and how many of each make a second.
TIME_UNITS = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))

Row = dict[str, Any]


def main() -> None:
    """Write ``docs/assets/<suite>-benchmark.md``, and for the suite boa ``docs/assets/boa-growth.svg``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="what `python -m suites SUITE -o FILE` wrote")
    parser.add_argument("--suite", choices=("boa", "boa-types"), default="boa", help="which suite it was")
    parser.add_argument("--ran", required=True, help="the command that measured")
    parser.add_argument("--date", required=True, help="when it ran, as in 2026-11-21")
    parser.add_argument("--machine", default=describe_machine(), help="where it ran; by default, this machine")
    arguments = parser.parse_args()
    rows: list[Row] = json.loads(arguments.rows.read_text(encoding="utf-8"))
    head = f"`{arguments.ran}` on {arguments.date}: {arguments.machine}; {describe_versions()}."
    write = write_trace_page if arguments.suite == "boa" else write_types_page
    texts = {f"{arguments.suite}-benchmark.md": "\n".join([head, "", *write(rows)])}
    if arguments.suite == "boa":
        texts["boa-growth.svg"] = draw_growth(pick_growth(rows))
    for name, text in texts.items():
        (ASSETS / name).write_text(text + "\n", encoding="utf-8")
        print("wrote", ASSETS / name)


# ---------------------------------------------------------------------------------------------------------- the tables


def pick_growth(rows: Sequence[Row]) -> list[Row]:
    """Pick the rows that show how time grows."""
    return [row for row in rows if "grows" in row["extra"]]


def write_trace_page(rows: Sequence[Row]) -> Iterator[str]:
    """Write the tables of the suite boa."""
    growth = pick_growth(rows)
    yield from write_trace(row for row in rows if row["instance"].startswith(TRACE) and row["solver"] != "frontier")
    yield from write_others(row for row in rows if not row["instance"].startswith(TRACE) and row not in growth)
    yield from write_frontiers(row for row in rows if row["solver"] == "frontier")
    yield from write_growth(growth)


def write_types_page(rows: Sequence[Row]) -> Iterator[str]:
    """Write the tables of the suite boa-types."""
    plans = [row for row in rows if row["solver"] != "frontier" and row["status"] != "completed"]
    head = ["instance @ dollars an hour", "solver", "mean completion time (s)", "above ours", "gap, proof", "solved in"]
    table = [
        [
            f"`{row['instance']}`",
            f"`{row['solver']}`",
            "none found" if row["objective"] is None else f"{row['objective']:,.1f}",
            say_distance(row["extra"].get("objective_over_exact")),
            say_proof(row),
            say_time(row["seconds"]),
        ]
        for row in plans
    ]
    yield from write_table(
        "Plans",
        [*head, "verified in"],
        [[*cells, say_time(row["verify_seconds"])] for cells, row in zip(table, plans, strict=True)],
    )
    yield from write_frontiers(row for row in rows if row["solver"] == "frontier")
    tools = [row for row in rows if row["status"] == "completed"]
    work = [", ".join(f"{number:,.4g} {name}" for name, number in row["extra"].items()) for row in tools]
    yield from write_table(
        "Tools",
        ["instance", "tool", "what it did", "time"],
        [
            [f"`{row['instance']}`", f"`optplan {row['solver']}`", did, say_time(row["seconds"])]
            for row, did in zip(tools, work, strict=True)
        ],
    )


def write_trace(rows: Iterator[Row]) -> Iterator[str]:
    """Write the trace at each budget: the exact solver, and every rival beside it."""
    head = [
        "budget (GPUs)",
        "solver",
        "mean completion time (s)",
        "above the optimum",
        "proof",
        "solved in",
        "verified in",
        "memory (MB)",
    ]
    table = []
    # The slow rivals are measured last; in the table they stand with their budget.
    for row in sorted(rows, key=lambda row: float(row["instance"].removeprefix(TRACE))):
        objective = row["objective"]
        table.append(
            [
                row["instance"].removeprefix(TRACE),
                f"`{row['solver']}`",
                "none found" if objective is None else f"{objective:,.1f}",
                say_excess(row),
                say_proof(row),
                say_time(row["seconds"]),
                say_time(row["verify_seconds"]),
                f"{row['peak_mb']:.0f}",
            ]
        )
    yield from write_table("The paper's trace, `boa-newtrace`", head, table)


def write_others(rows: Iterator[Row]) -> Iterator[str]:
    """Write what is not the trace: its measured tables, and large generated instances."""
    head = ["instance", "solver", "status", "gap", "proof", "solved in", "verified in", "memory (MB)"]
    table = [
        [
            f"`{row['instance']}`",
            f"`{row['solver']}`",
            row["status"],
            "none" if row["gap"] is None else f"{row['gap']:.1g}",
            say_proof(row),
            say_time(row["seconds"]),
            say_time(row["verify_seconds"]),
            f"{row['peak_mb']:.0f}",
        ]
        for row in rows
        if row["solver"] != "frontier"
    ]
    yield from write_table("Other instances", head, table)


def write_frontiers(rows: Iterator[Row]) -> Iterator[str]:
    """Write how long whole frontiers take, and look-ups on them."""
    head = ["frontier of", "points", "made in", "one look-up", "one inverse look-up"]
    table = [
        [
            f"`{row['instance'].removesuffix('@frontier')}`",
            f"{row['extra']['points']:,.0f}",
            say_time(row["seconds"]),
            say_time(row["extra"]["look_up_ms"] / 1000.0),
            say_time(row["extra"]["inverse_look_up_ms"] / 1000.0),
        ]
        for row in rows
    ]
    yield from write_table("Whole frontiers", head, table)


def write_growth(rows: Sequence[Row]) -> Iterator[str]:
    """Write the figures behind the plot."""
    head = ["what grows", "classes, epochs, widths", "solved in", "verified in"]
    table = [
        [row["extra"]["grows"], size_of(row), say_time(row["seconds"]), say_time(row["verify_seconds"])] for row in rows
    ]
    yield from write_table("Growth", head, table)


def write_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a heading and a Markdown table."""
    yield from (f"### {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def say_distance(ratio: float | None) -> str:
    """Say how far an objective is above ours; what is rounding is no distance."""
    if ratio is None:
        return ""
    percent = 100.0 * (ratio - 1.0)
    if abs(ratio - 1.0) <= ROUNDING:
        return "0 %"
    return f"{percent:.2g} %" if abs(percent) < 99.5 else f"{percent:.0f} %"


def say_excess(row: Row) -> str:
    """Say how far a plan is above the exact solver's, or that it is the proven optimum."""
    excess = row["extra"].get("objective_over_exact")
    if excess is not None:
        return f"{100.0 * (excess - 1.0):.1f} %"
    return "the optimum" if row["status"] == "optimal" else "unknown"


def say_proof(row: Row) -> str:
    """Say what a row's bound rests on, and the gap where it is open."""
    if row["bound_proof"] == "none":
        return "none"
    if row["status"] == "optimal" or row["gap"] is None:
        return str(row["bound_proof"])
    return f"{row['bound_proof']}, gap {100.0 * row['gap']:.2f} %"


def say_time(seconds: float | None) -> str:
    """Write a time with three digits in a fitting unit."""
    if seconds is None:
        return "not verified"
    factor, unit = next((f, u) for f, u in TIME_UNITS if seconds * f >= 1.0 or f == TIME_UNITS[-1][0])
    digits = max(0, 2 - math.floor(math.log10(seconds * factor)))
    return f"{seconds * factor:.{digits}f} {unit}"


def size_of(row: Row) -> str:
    """Return the size in the name of a generated instance, such as ``32x64x32``."""
    found = re.match(r"random-boa-(\d+x\d+x\d+)-", row["instance"])
    return found[1] if found else row["instance"]


# ---------------------------------------------------------------------------------------------------------- the figure

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 24, 56
#: Colour, dashes and marker of each line; the colours can be told apart on light and on dark paper.
STYLES = (("#4c6ef5", "none", "circle"), ("#e8590c", "7 4", "square"), ("#2b9a47", "2 4", "triangle"))
#: Least distance between the labels at the lines' ends.
LABEL_STEP = 17


def draw_growth(rows: Sequence[Row]) -> str:
    """Draw solve time over the factor by which one dimension grows, both axes logarithmic, as an SVG.

    Text and axes have the colour of the text around the figure.
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(str(row["extra"]["grows"]), []).append((row["extra"]["factor"], row["seconds"]))
    factors = sorted({factor for points in series.values() for factor, _ in points})
    seconds = [second for points in series.values() for _, second in points]
    decades = range(math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds))) + 1)
    scale = Scale(factors[-1], decades[0], decades[-1])
    base = size_of(min(rows, key=lambda row: row["extra"]["factor"]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="currentColor" style="max-width: {WIDTH}px">',
        f"<title>Time to a proven optimum while classes, epochs or widths grow, from {base} on</title>",
        *draw_axes(scale, factors, decades, base),
    ]
    labels = []
    for (name, points), style in zip(series.items(), STYLES, strict=False):
        placed = [(scale.x(factor), scale.y(second)) for factor, second in sorted(points)]
        parts += draw_line(placed, style)
        labels.append((placed[-1][1], f"more {name}", style[0]))
    parts += draw_labels(labels)
    return "\n".join([*parts, "</svg>"])


class Scale:
    """From figures to places on the paper.

    Parameters
    ----------
    largest
        The largest factor; the least is one.
    low, high
        Powers of ten at the ends of the axis of seconds.
    """

    def __init__(self, largest: float, low: int, high: int) -> None:
        self._largest, self._low, self._high = largest, low, high

    def x(self, factor: float) -> float:
        """Return the horizontal place of a factor."""
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(factor) / math.log(self._largest)

    def y(self, seconds: float) -> float:
        """Return the vertical place of a time."""
        share = (math.log10(seconds) - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def draw_axes(scale: Scale, factors: Sequence[float], decades: range, base: str) -> Iterator[str]:
    """Draw grid lines, their labels and the titles of the axes."""
    for decade in decades:
        y = scale.y(10.0**decade)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".2"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{say_decade(decade)}</text>'
    for factor in factors:
        x = scale.x(factor)
        yield f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v5" stroke="currentColor"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{factor:g}</text>'
    yield f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="currentColor"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    times = " &#215; "
    text = f"factor, from {base.replace('x', times)} (classes{times}epochs{times}widths) on"
    yield f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{text}</text>'


def say_decade(decade: int) -> str:
    """Write a power of ten seconds."""
    return f"{10**decade:g} s" if decade >= 0 else f"{10 ** (decade + 3):g} ms"


def draw_line(points: Sequence[tuple[float, float]], style: tuple[str, str, str]) -> Iterator[str]:
    """Draw one line with its markers."""
    colour, dashes, marker = style
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}" '
        'stroke-linejoin="round"/>'
    )
    for x, y in points:
        if marker == "circle":
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
        elif marker == "square":
            yield f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
        else:
            yield f'<path d="M{x:.1f} {y - 5.5:.1f}l5 9h-10z" fill="{colour}"/>'


def draw_labels(labels: Sequence[tuple[float, str, str]]) -> Iterator[str]:
    """Write each line's name at its end, far enough from the others."""
    lowest = -math.inf
    for y, text, colour in sorted(labels):
        lowest = max(y, lowest + LABEL_STEP)
        yield f'<text x="{WIDTH - RIGHT + 12}" y="{lowest + 4:.1f}" fill="{colour}">{text}</text>'


if __name__ == "__main__":
    main()
