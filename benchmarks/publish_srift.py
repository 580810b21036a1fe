"""Turn the rows of ``python -m suites srift -o rows.json`` into the tables of the docs page.

Run it on the machine that measured, with the environment that measured, because it records both::

    python -m suites srift -o srift.json
    python benchmarks/publish_srift.py srift.json --ran "python -m suites srift" --date 2026-11-21
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from publish import ASSETS, Row, say_distance, say_proof, say_time, write_table
from suites.sweeps import describe_machine, describe_versions

EXACT, EAGER = "best-first", "published-eager"
#: What the large problems ask, by what follows the ``@`` in their names.
KINDS = {
    "cheapest": "the cheapest fleet",
    "fastest": "the fastest fleet",
    "cheapest-in-time": "the cheapest within a deadline",
    "fastest-in-budget": "the fastest within a budget",
}


def main() -> None:
    """Write ``docs/assets/srift-benchmark.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="what `python -m suites srift -o FILE` wrote")
    parser.add_argument("--ran", required=True, help="the command that measured")
    parser.add_argument("--date", required=True, help="when it ran, as in 2026-11-21")
    parser.add_argument("--machine", default=describe_machine(), help="where it ran; by default, this machine")
    arguments = parser.parse_args()
    rows: list[Row] = json.loads(arguments.rows.read_text(encoding="utf-8"))
    head = f"`{arguments.ran}` on {arguments.date}: {arguments.machine}; {describe_versions()}."
    path = ASSETS / "srift-benchmark.md"
    path.write_text("\n".join([head, "", *write_page(rows)]) + "\n", encoding="utf-8")
    print("wrote", path)


def write_page(rows: Sequence[Row]) -> Iterator[str]:
    """Write all tables."""
    yield from write_cases([row for row in rows if row["instance"].startswith("srift-")])
    for types in sorted({row["extra"]["types"] for row in rows if "types" in row["extra"]}):
        yield from write_large(
            f"{types:g} types, up to 64 VMs of each", [r for r in rows if r["extra"].get("types") == types]
        )
    yield from write_growth([row for row in rows if "grows" in row["extra"]])


def write_cases(rows: Sequence[Row]) -> Iterator[str]:
    """Write what every solver reaches on the paper's cases, the frontiers, and the pace of the evaluator."""
    head = ["instance", "solver", "objective", "above the optimum", "gap, proof", "solved in"]
    table = [
        [
            f"`{row['instance']}`",
            f"`{row['solver']}`",
            "none" if row["objective"] is None else f"{row['objective']:.4g}",
            say_distance(row["extra"].get("objective_over_exact")),
            say_proof(row),
            say_time(row["seconds"]),
        ]
        for row in rows
        if "@" not in row["instance"]
    ]
    yield from write_table("The paper's cases", head, table)
    frontiers = [
        [f"`{row['instance'].removesuffix('@frontier')}`", f"{row['extra']['points']:g}", say_time(row["seconds"])]
        for row in rows
        if row["solver"] == "pareto"
    ]
    yield from write_table("Whole frontiers of time and money", ["frontier of", "fleets", "proven in"], frontiers)
    for row in rows:
        if row["solver"] == "evaluator":
            pace, layers = row["extra"]["evaluations_per_s"], row["extra"]["layers"]
            yield from (f"One fleet of case 3 with its {layers:g} layers is judged {pace:,.0f} times a second.", "")


def write_large(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Write, for each question, how many were proven and in what time, and how far the eager mode is above."""
    table = []
    for kind, words in KINDS.items():
        exact = [row for row in rows if row["instance"].endswith(f"@{kind}") and row["solver"] == EXACT]
        eager = [row for row in rows if row["instance"].endswith(f"@{kind}") and row["solver"] == EAGER]
        times = sorted(row["seconds"] for row in exact)
        above = [row["extra"]["objective_over_exact"] for row in eager if "objective_over_exact" in row["extra"]]
        open_gaps = [row["gap"] for row in exact if row["status"] != "optimal" and row["gap"] is not None]
        table.append(
            [
                words,
                f"{sum(row['status'] == 'optimal' for row in exact)} of {len(exact)}",
                say_time(times[len(times) // 2]) if times else "",
                say_time(times[-1]) if times else "",
                f"{100.0 * max(open_gaps):.2g} %" if open_gaps else "none",
                f"{say_distance(max(above))} at most, {len(eager) - len(above)} without a fleet"
                if above
                else "no fleet",
            ]
        )
    head = ["question", "proven", "median", "longest", "largest gap left", "eager mode (50 ms) above"]
    yield from write_table(title, head, table)


def write_growth(rows: Sequence[Row]) -> Iterator[str]:
    """Write how long the exact solver takes when one dimension grows."""
    kinds = list(dict.fromkeys(row["extra"]["kind"] for row in rows))
    for grown, title in (("types", "types with 16 VMs each"), ("most", "VMs of each of 4 types")):
        sizes = sorted({row["extra"]["size"] for row in rows if row["extra"]["grows"] == grown})
        found = {(row["extra"]["size"], row["extra"]["kind"]): row for row in rows if row["extra"]["grows"] == grown}
        table = [[f"{size:g}", *(say_solved(found.get((size, kind))) for kind in kinds)] for size in sizes]
        yield from write_table(f"More {title}, batch 2048", [title, *(kind.replace("-", " ") for kind in kinds)], table)


def say_solved(row: Row | None) -> str:
    """Say how long a proof took, or what gap was left."""
    if row is None:
        return ""
    if row["status"] == "optimal":
        return say_time(row["seconds"])
    return (
        "no fleet found" if row["gap"] is None else f"gap {100.0 * row['gap']:.2g} % after {say_time(row['seconds'])}"
    )


if __name__ == "__main__":
    main()
