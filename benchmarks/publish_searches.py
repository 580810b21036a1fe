"""Turn the rows of ``optplan bench rubberband -o rows.json`` into the tables of the docs page.

Run it on the machine that measured, with the environment that measured, because it records both::

    optplan bench rubberband -o searches.json
    python benchmarks/publish_searches.py searches.json --ran "optplan bench rubberband" --date 2026-11-21
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from publish import ASSETS, Row, say_distance, say_proof, say_time, write_table

from optplan.lab.benchmarks.sweeps import describe_machine, describe_versions


def main() -> None:
    """Write ``docs/assets/rubberband-benchmark.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="what `optplan bench rubberband -o FILE` wrote")
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


if __name__ == "__main__":
    main()
