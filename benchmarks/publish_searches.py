"""Turn the rows of ``python -m suites rubberband -o rows.json`` into the tables of the docs page.

Run it on the machine that measured, with the environment that measured, because it records both::

    python -m suites rubberband -o searches.json
    python benchmarks/publish_searches.py searches.json --ran "python -m suites rubberband" --date 2026-11-21
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from publish import ASSETS, Row, say_distance, say_proof, say_time, write_table
from suites.sweeps import describe_machine, describe_versions

#: What each sweep varies: the fields of ``extra`` that tell its rows apart.
SWEEPS = {
    9: ("Stragglers (figure 9)", ("deviation_s", "noise", "billing")),
    10: ("Price of data (figure 10)", ("usd_per_gb", "data")),
    11: ("Number of trials (figure 11)", ("trials", "billing")),
    12: ("Initialisation (figure 12)", ("initialise_s", "deadline_min")),
}
#: How the columns of a sweep are called.
NAMES = {
    "deviation_s": "deviation of an iteration (s)",
    "noise": "noise of",
    "billing": "billing",
    "usd_per_gb": "dollars for a GB",
    "data": "data set",
    "trials": "trials",
    "initialise_s": "initialisation (s)",
    "deadline_min": "deadline (min)",
}


def main() -> None:
    """Write ``docs/assets/rubberband-benchmark.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="what `python -m suites rubberband -o FILE` wrote")
    parser.add_argument("--ran", required=True, help="the command that measured")
    parser.add_argument("--date", required=True, help="when it ran, as in 2026-11-21")
    parser.add_argument("--machine", default=describe_machine(), help="where it ran; by default, this machine")
    arguments = parser.parse_args()
    rows: list[Row] = json.loads(arguments.rows.read_text(encoding="utf-8"))
    head = f"`{arguments.ran}` on {arguments.date}: {arguments.machine}; {describe_versions()}."
    path = ASSETS / "rubberband-benchmark.md"
    path.write_text("\n".join([head, "", *write_page(rows)]) + "\n", encoding="utf-8")
    print("wrote", path)


def write_page(rows: Sequence[Row]) -> Iterator[str]:
    """Write all tables."""
    yield from write_planners([row for row in rows if "figure" not in row["extra"] and row["status"] != "completed"])
    for figure, (title, fields) in SWEEPS.items():
        yield from write_sweep(title, fields, [row for row in rows if row["extra"].get("figure") == figure])
    yield from write_sampling([row for row in rows if row["solver"] == "monte-carlo"])


def write_planners(rows: Sequence[Row]) -> Iterator[str]:
    """Write what every planner reaches on the instances of tables 2 to 4."""
    head = ["instance", "solver", "cost", "time (min)", "above ours", "gap, proof", "solved in", "verified in"]
    table = [
        [
            f"`{row['instance']}`",
            f"`{row['solver']}`",
            "none" if row["objective"] is None else f"${row['objective']:.2f}",
            f"{row['extra']['expected_s'] / 60.0:.1f}" if "expected_s" in row["extra"] else "",
            say_distance(row["extra"].get("objective_over_exact")),
            say_proof(row),
            say_time(row["seconds"]),
            "" if row["verify_seconds"] is None else say_time(row["verify_seconds"]),
        ]
        for row in rows
        if row["solver"] != "frontier"
    ]
    yield from write_table("Planners", head, table)
    frontiers = [
        [f"`{row['instance'].removesuffix('@frontier')}`", f"{row['extra']['points']:,.0f}", say_time(row["seconds"])]
        for row in rows
        if row["solver"] == "frontier"
    ]
    yield from write_table("Whole frontiers of plans", ["frontier of", "plans", "made in"], frontiers)


def write_sweep(title: str, fields: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Write one line for every setting: the best static cluster, the fair greedy, and the optimum."""
    present = [field for field in fields if any(field in row["extra"] for row in rows)]
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(row["instance"], {})[row["solver"]] = row
    head = [
        *(NAMES[field] for field in present),
        "static",
        "greedy",
        "optimum",
        "static above",
        "greedy above",
        "solved in",
    ]
    table = []
    for found in groups.values():
        exact = found["held-paths"]
        rivals = [found.get(name) for name in ("static", "published-greedy-instances")]
        costs = [say_cost(row) for row in (*rivals, exact)]
        above = [say_distance(None if row is None else row["extra"].get("objective_over_exact")) for row in rivals]
        setting = [write_field(exact["extra"].get(field, "")) for field in present]
        table.append([*setting, *costs, *above, say_time(exact["seconds"])])
    yield from write_table(title, head, table)


def write_sampling(rows: Sequence[Row]) -> Iterator[str]:
    """Write how far the Monte Carlo is from the expectation."""
    head = ["instance", "samples", "time (s): expected", "sampled", "cost: expected", "sampled", "took"]
    table = [
        [
            f"`{row['instance']}`",
            f"{row['extra']['samples']:,.0f}",
            f"{row['extra']['expected_s']:.3f}",
            f"{row['extra']['mean_s']:.3f} ± {row['extra']['mean_s_standard_error']:.3f}",
            f"${row['extra']['expected_usd']:.4f}",
            f"${row['extra']['mean_usd']:.4f} ± {row['extra']['mean_usd_standard_error']:.4f}",
            say_time(row["seconds"]),
        ]
        for row in rows
    ]
    yield from write_table("Monte Carlo", head, table)


def say_cost(row: Row | None) -> str:
    """Write a cost, or that no plan was found."""
    return "none" if row is None or row["objective"] is None else f"${row['objective']:,.2f}"


def write_field(value: object) -> str:
    """Write a setting."""
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
