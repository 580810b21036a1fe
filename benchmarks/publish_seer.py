"""Turn the rows of ``python -m suites seer -o rows.json`` into the tables and the figure of the docs page.

Run it on the machine that measured, with the environment that measured, because it records both::

    python -m suites seer -o seer.json
    python benchmarks/publish_seer.py seer.json --ran "python -m suites seer" --date 2026-11-21
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from publish import ASSETS, Row, say_time, write_table
from suites.sweeps import describe_machine, describe_versions

#: Colours that stay apart for every kind of colour blindness (Okabe and Ito), in the order of the policies.
COLORS = (
    "#0072B2", "#56B4E9", "#000099", "#000099", "#009E73", "#E69F00", "#999999", "#CC79A7", "#D55E00", "#6b5b00"
)  # fmt: skip
#: Drawn dashed, in the colour of the one before it.
DASHED = "seer-misinformed"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 320, 52, 12, 34, 44
#: Least accuracy that the figure shows; random search is below it and stands in the table.
LEAST = 0.74


def main() -> None:
    """Write ``docs/assets/seer-benchmark.md`` and ``docs/assets/seer-accuracy.svg``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="what `python -m suites seer -o FILE` wrote")
    parser.add_argument("--ran", required=True, help="the command that measured")
    parser.add_argument("--date", required=True, help="when it ran, as in 2026-11-21")
    parser.add_argument("--machine", default=describe_machine(), help="where it ran; by default, this machine")
    arguments = parser.parse_args()
    rows: list[Row] = json.loads(arguments.rows.read_text(encoding="utf-8"))
    head = f"`{arguments.ran}` on {arguments.date}: {arguments.machine}; {describe_versions()}."
    texts = {
        "seer-benchmark.md": "\n".join([head, "", *write_spending(rows), *write_informed(rows), *write_searches(rows)]),
        "seer-accuracy.svg": draw_accuracy([row for row in rows if "accuracy" in row["extra"]]),
    }
    for name, text in texts.items():
        (ASSETS / name).write_text(text + "\n", encoding="utf-8")
        print("wrote", ASSETS / name)


def write_spending(rows: Sequence[Row]) -> Iterator[str]:
    """Write what is spent of each budget, as published and at best."""
    plans: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["objective"] is not None:
            plans.setdefault(row["instance"], {})[row["solver"]] = row
    table = []
    for name, found in plans.items():
        published, exact = found["published-seer"], found["spend-exact"]
        budget = published["bound"]
        table.append(
            [
                f"`{name}`",
                f"{budget:,.0f}",
                f"{published['objective']:,.1f} ({100 * published['objective'] / budget:.0f} %)",
                f"{exact['objective']:,.1f} ({100 * exact['objective'] / budget:.0f} %)",
                say_time(published["seconds"]),
                say_time(exact["seconds"]),
            ]
        )
    head = ["instance", "budget (GPU-min)", "as published", "proven optimum", "solved in", "solved in (optimum)"]
    yield from write_table("What is spent", head, table)


def write_informed(rows: Sequence[Row]) -> Iterator[str]:
    """Write the expected loss of informed plans, and their gain over the published ones, under the prior itself."""
    table = [
        [
            f"`{row['instance']}`",
            f"{row['extra']['uninformed_loss']:.4f}",
            f"{row['objective']:.4f}",
            f"{row['extra']['gain_loss']:.4f} ({row['extra']['gain_low_loss']:.4f} to "
            f"{row['extra']['gain_high_loss']:.4f})",
            say_time(row["seconds"]),
        ]
        for row in rows
        if row["solver"] == "informed"
    ]
    head = ["deadline and budget", "published", "informed", "gain (95 % interval)", "solved in"]
    yield from write_table("Expected loss under the prior", head, table)


def write_searches(rows: Sequence[Row]) -> Iterator[str]:
    """Write the accuracy of every policy, and its paired gain over SEER as published."""
    table = [
        [
            f"`{row['instance']}`",
            row["solver"],
            f"{row['extra']['accuracy']:.4f} ± {row['extra']['accuracy_standard_error']:.4f}",
            f"{row['extra']['gain']:+.4f} ± {row['extra']['gain_standard_error']:.4f}",
            f"{row['extra']['trials']:.0f}",
            f"{row['extra']['gpu_min']:.0f}",
            say_time(row["seconds"]),
        ]
        for row in rows
        if "accuracy" in row["extra"]
    ]
    head = ["deadline and budget", "policy", "accuracy", "gain over seer", "trials", "GPU-min", "a search takes"]
    yield from write_table("Searches", head, table)


def draw_accuracy(rows: Sequence[Row]) -> str:
    """Draw accuracy over the deadline at 16 GPUs, and over the budget at 30 minutes, as an SVG."""
    policies = list(dict.fromkeys(row["solver"] for row in rows))
    points = {(row["solver"], *read_setting(row["instance"])): row["extra"] for row in rows}
    settings = sorted({(deadline, gpus) for _, deadline, gpus in points})
    panels = (
        ("deadline (min), 16 GPUs until then", [one for one in settings if one[1] == 16], 0),
        ("GPUs that the budget pays for 30 min", [one for one in settings if one[0] == 30], 1),
    )
    height = HEIGHT + 24 * ((len(policies) + 3) // 4)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="currentColor" style="max-width: {2 * WIDTH}px">',
        "<title>Accuracy of the trial that each search returns, mean and standard error</title>",
    ]
    for number, (title, shown, axis) in enumerate(panels):
        left = number * WIDTH + LEFT
        parts += draw_frame(left, title, [one[axis] for one in shown])
        for color, policy in zip(COLORS, policies, strict=False):
            told = [points[policy, *one] for one in shown if (policy, *one) in points]
            if len(told) == len(shown) and max(one["accuracy"] for one in told) >= LEAST:
                means = [(one["accuracy"], one["accuracy_standard_error"]) for one in told]
                parts += draw_series(left, means, color, dash=dash_of(policy))
    for number, (color, policy) in enumerate(zip(COLORS, policies, strict=False)):
        x, y = LEFT + 180 * (number % 4), HEIGHT + 16 + 24 * (number // 4)
        parts.append(f'<path d="M{x} {y}h24" stroke="{color}" stroke-width="3"{dash_of(policy)}/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{policy}</text>')
    return "\n".join([*parts, "</svg>"])


def read_setting(name: str) -> tuple[int, int]:
    """Read deadline and GPUs from a name such as ``seer-30min-16x30``."""
    deadline, gpus = name.removeprefix("seer-").split("min-")
    return int(deadline), int(gpus.split("x")[0])


def place(count: int, number: int) -> float:
    """Return how far along the axis a setting is: they have equal distances."""
    return (WIDTH - LEFT - RIGHT) * (number + 0.5) / count


def height_of(accuracy: float) -> float:
    """Return the vertical place of an accuracy."""
    share = (max(accuracy, LEAST) - LEAST) / (1.0 - LEAST)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def draw_frame(left: int, title: str, ticks: Sequence[int]) -> Iterator[str]:
    """Draw grid lines, their labels and titles."""
    right = left + WIDTH - LEFT - RIGHT
    for percent in range(75, 101, 5):
        y = height_of(percent / 100.0)
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="currentColor" stroke-opacity=".2"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
    for number, tick in enumerate(ticks):
        x = left + place(len(ticks), number)
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick}</text>'
    yield f'<path d="M{left} {TOP}V{HEIGHT - BOTTOM}H{right}" fill="none" stroke="currentColor"/>'
    yield f'<text x="{(left + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{title}</text>'
    yield f'<text x="{left - 40}" y="{TOP - 12}">accuracy</text>'


def dash_of(policy: str) -> str:
    """Return what makes a policy's line dashed, if it is."""
    return ' stroke-dasharray="5 4"' if policy == DASHED else ""


def draw_series(left: int, told: Sequence[tuple[float, float]], color: str, *, dash: str) -> Iterator[str]:
    """Draw a policy's means as a line, with bars of one standard error."""
    placed = [(left + place(len(told), number), mean, error) for number, (mean, error) in enumerate(told)]
    line = "L".join(f"{x:.1f} {height_of(mean):.1f}" for x, mean, _ in placed)
    yield f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
    for x, mean, error in placed:
        low, high = height_of(mean - error), height_of(mean + error)
        yield f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{color}"/>'
        yield f'<circle cx="{x:.1f}" cy="{height_of(mean):.1f}" r="3" fill="{color}"/>'


if __name__ == "__main__":
    main()
