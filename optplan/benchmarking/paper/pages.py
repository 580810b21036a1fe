"""The page: Markdown and figures, from what was gathered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from optplan.benchmarking.paper.claims import list_claims
from optplan.benchmarking.paper.experiments import (
    EXACT,
    ONE_WIDTH,
    PUBLISHED,
    SINGLE,
)
from optplan.benchmarking.paper.figures import draw_figures
from optplan.benchmarking.paper.gathering import Gathered
from optplan.benchmarking.paper.sections import write_sections
from optplan.benchmarking.paper.tables import percent, say_change, write_table
from optplan.instances.files import write_text
from optplan.units import SECONDS_PER_HOUR

#: Policies are compared on other traces at the GPU-hours of exact widths at these budgets.
_COMPARED = ("110", "130", "160", "200")


def write_page(told: Gathered, docs: Path, *, command: str) -> list[Path]:
    """Write ``paper.md`` and its figures into the folder of the documentation; returns what was written."""
    figures = draw_figures(told)
    paths = []
    for name, svg in figures.items():
        paths.append(docs / "assets" / f"paper-{name}.svg")
        write_text(svg + "\n", paths[-1], overwrite=True)
    text = "\n".join(_write(told, set(figures), command)).rstrip() + "\n"
    paths.append(docs / "paper.md")
    write_text(text, paths[-1], overwrite=True)
    return paths


def _write(told: Gathered, figures: set[str], command: str) -> Iterator[str]:
    yield from ("# BOA Constrictor's evaluation", "")
    yield (
        "The figures of the paper's evaluation (sections 5.4 and 6, appendix D) on this project's "
        "[simulator](simulation.md), and what the paper does not show. The page is generated; "
        "[how](#how-this-was-made) stands at its end."
    )
    yield ""
    if told.left:
        yield f"**{told.left} cells are not run yet**: points and rows that need them are absent, or say *not run*."
        yield ""
    yield from _write_claims(told)
    yield from _write_predictions(told)
    yield from _write_elsewhere(told)
    yield from _write_sia(told)
    yield from write_sections(told, figures)
    yield from _write_protocol(told, command)


def _write_claims(told: Gathered) -> Iterator[str]:
    yield from ("## The paper's claims", "")
    yield (
        "Factors are between completion times at equal GPU-hours of rented nodes, with BOA's curve between its points "
        "on a line of powers, at every point of the rival that no cheaper one of its own beats and for which BOA has "
        "one as cheap."
    )
    yield ""
    rows = [
        [claim.where.replace(" ", "\N{NO-BREAK SPACE}"), claim.says, claim.here, claim.verdict]
        for claim in list_claims(told)
    ]
    yield from write_table(["where", "the paper", "here", "it"], rows)


def _write_predictions(told: Gathered) -> Iterator[str]:
    yield from ("## Prediction and simulation", "")
    yield (
        "Plans with exact widths, made on newtrace-1 with Sia's slowdowns; no start of nodes, no queue, GPUs as jobs "
        "hold them "
        "(not rounded to nodes) and averaged over the 48 h in which jobs arrive. On the other traces there are other "
        "shares "
        "of the applications, which the plan could not know."
    )
    yield ""
    rows = []
    for row in told.predictions:
        planned = row["planned"]
        for name, one in row["told"].items():
            if one is None:
                continue
            gpus = one["gpu_hours"] / row["spans_h"][name]
            rows.append(
                [
                    f"{planned.budget_gpus:g}",
                    f"`{name}`",
                    f"{planned.mean_jct_s:,.0f}",
                    f"{one['mean_jct_s']:,.0f}",
                    say_change(one["mean_jct_s"] / planned.mean_jct_s),
                    f"{planned.gpus:.1f}",
                    f"{gpus:.1f}",
                    say_change(gpus / planned.gpus),
                ]
            )
    head = [
        "budget (GPUs)",
        "replayed",
        "mean predicted (s)",
        "simulated (s)",
        "off",
        "GPUs predicted",
        "simulated",
        "off",
    ]
    yield from write_table(head, rows)


def _write_elsewhere(told: Gathered) -> Iterator[str]:
    yield from ("## Against the trivial rivals, on traces that were not planned on", "")
    yield (
        "Plans are made on the rates of the first trace of a family and replayed on the others. By how much each "
        "policy's mean is "
        "above that of exact widths at equal *measured* GPU-hours of rented nodes: those that the exact plan of the "
        "budget used "
        "there. *One width* is the best of all widths for all jobs, chosen afterwards on the replayed trace itself."
    )
    yield ""
    rows, kept = [], []
    for trace, curves in told.elsewhere.items():
        exact = curves.get(EXACT)
        for point in exact.points if exact is not None else ():
            if point.label not in _COMPARED and not told.quick:
                continue
            cells = [f"`{trace}`", point.label, f"{point.node_gpu_hours:,.0f}", f"{point.mean_s:,.0f}"]
            for name in (PUBLISHED, SINGLE, ONE_WIDTH):
                for what in ("mean_s", "p95_s"):
                    other = curves[name].at(point.node_gpu_hours, what) if name in curves else None
                    cells.append("no such" if other is None else say_change(other / getattr(point, what)))
                    if other is not None:
                        kept.append((name, what, other / getattr(point, what)))
            rows.append(cells)
    head = ["trace", "budget", "node GPU-hours", "mean, exact (s)"]
    head += [
        f"{name}: {word}" for name in ("Algorithm 1", "best single widths", "one width") for word in ("mean", "P95")
    ]
    yield from write_table(head, rows)
    for name in (PUBLISHED, SINGLE, ONE_WIDTH):
        said = []
        for what, word in (("mean_s", "mean"), ("p95_s", "P95")):
            factors = [factor for one, which, factor in kept if (one, which) == (name, what)]
            if factors:
                above = sum(factor > 1.0 for factor in factors)
                least, middle, most = (100 * (f - 1) for f in (min(factors), float(np.median(factors)), max(factors)))
                said.append(
                    f"{word} {least:+.1f} to {most:+.1f} %, median {middle:+.1f} %, above at {above} of {len(factors)}"
                )
        if said:
            yield f"- {name}: {'; '.join(said)}."
    yield ""


def _write_sia(told: Gathered) -> Iterator[str]:
    yield from ("## Job by job against the Sia artifact's simulator", "")
    yield (
        "The width tables that were replayed there (newtrace-1, 960 jobs), replayed here: completion times here over "
        "there, less one. "
        "First with the best measured batch sizes, as everywhere else on this page, then with those that the fitted "
        "model "
        "takes for the best, as jobs there do. [Where the rest comes "
        "from](simulation.md#against-the-sia-artifacts-simulator)."
    )
    yield ""
    rows = []
    for row in told.sia:
        classes = row["classes"]
        far = max(classes, key=lambda name: abs(classes[name]))
        rows.append(
            [
                f"`{row['plan']}`",
                "measured" if row["timing"] == "tables" else "model's",
                percent(row["mean"]),
                f"{percent(classes[far])} ({far})",
                percent(row["p5"]),
                percent(row["p50"]),
                percent(row["p95"]),
                percent(row["most"]),
                f"{100 * row['within_5']:.0f}\N{NO-BREAK SPACE}%",
            ]
        )
    head = ["plan", "batches", "mean", "farthest class", "P5 of the jobs", "P50", "P95", "farthest job", "within 5 %"]
    yield from write_table(head, rows)


def _write_protocol(told: Gathered, command: str) -> Iterator[str]:
    yield from ("## How this was made", "")
    yield f"`{command}` on {told.date}: {told.machine}; {told.versions}."
    yield ""
    size = ", of sub-traces (`--quick`)" if told.quick else ""
    cpu_s = sum(seconds for _, seconds in told.taken.values())
    yield (
        f"{told.cells} cells{size} took {cpu_s / SECONDS_PER_HOUR:.2f} hours of processor time in all; 8 hours on 2 "
        f"cores are 16. This run took {told.seconds / 60:.1f} minutes and found the others in its folder. Nodes have 4 "
        f"T4 (`aws`); Sia's slowdowns are on everywhere, in plans and replays; plans have widths up to "
        f"{told.max_width}. Bursts have their seeds in the table, NSGA-II has seed 0, and nothing else draws at random."
    )
    yield ""
    taken = sorted(told.taken.items(), key=lambda one: -one[1][1])
    rows = [[policy, f"{count:,}", f"{seconds / 60:.1f}"] for policy, (count, seconds) in taken]
    yield from write_table(["policy", "cells", "minutes of processor time"], rows)
    rows = [
        [
            f"`{name}`",
            f"{one['jobs']:,}",
            f"{one['span_h']:g}",
            f"{one['variation']:.2f}",
            ", ".join(f"{application} {count}" for application, count in one["applications"].items()),
        ]
        for name, one in told.traces.items()
    ]
    yield from write_table(["trace", "jobs", "hours", "C²", "applications"], rows)
    yield "A cell is one trace under one policy with its parameters; its file is named after a digest of all that"
    yield "decides its figures, so a run that was interrupted or changed runs only what is not there. To make it again:"
    yield from ("", "```bash", "make bench-paper DATA=../shared/data CELLS=../paper-cells", "```", "")
    yield '`PAPER_FLAGS="--time-limit 1h"` begins no new cells after an hour; `--quick` takes sub-traces and a minute.'
