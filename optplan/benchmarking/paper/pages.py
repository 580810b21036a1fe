"""The page: Markdown and figures, from what was gathered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from optplan.benchmarking.paper.claims import average_efficiency, list_claims, own_curve, reclaimed_share
from optplan.benchmarking.paper.experiments import (
    EXACT,
    ONE_WIDTH,
    POLLUX,
    POLLUX_THERE,
    PUBLISHED,
    SINGLE,
    with_pollux_there,
)
from optplan.benchmarking.paper.figures import draw_figures
from optplan.benchmarking.paper.gathering import FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS, Gathered
from optplan.benchmarking.paper.running import Curves
from optplan.instances.files import write_text

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
    yield from _write_figures(told, figures)
    yield from _write_protocol(told, command)


def _write_claims(told: Gathered) -> Iterator[str]:
    yield from ("## The paper's claims", "")
    yield (
        "Factors are between completion times at equal GPU-hours of rented nodes, with BOA's curve between its "
        "points on a line of "
        "powers, at every point of the rival for which BOA has one as cheap."
    )
    yield ""
    rows = [[claim.where, claim.says, claim.here, claim.verdict] for claim in list_claims(told)]
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
                    name,
                    f"{planned.mean_jct_s:,.0f}",
                    f"{one['mean_jct_s']:,.0f}",
                    _say_change(one["mean_jct_s"] / planned.mean_jct_s),
                    f"{planned.gpus:.1f}",
                    f"{gpus:.1f}",
                    _say_change(gpus / planned.gpus),
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
            cells = [trace, point.label, f"{point.node_gpu_hours:,.0f}", f"{point.mean_s:,.0f}"]
            for name in (PUBLISHED, SINGLE, ONE_WIDTH):
                for what in ("mean_s", "p95_s"):
                    other = curves[name].at(point.node_gpu_hours, what) if name in curves else None
                    cells.append("no such" if other is None else _say_change(other / getattr(point, what)))
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
                row["plan"],
                "measured" if row["timing"] == "tables" else "model's",
                _percent(row["mean"]),
                f"{_percent(classes[far])} ({far})",
                _percent(row["p5"]),
                _percent(row["p50"]),
                _percent(row["p95"]),
                _percent(row["most"]),
                f"{100 * row['within_5']:.0f} %",
            ]
        )
    head = ["plan", "batches", "mean", "farthest class", "P5 of the jobs", "P50", "P95", "farthest job", "within 5 %"]
    yield from write_table(head, rows)


def _write_figures(told: Gathered, figures: set[str]) -> Iterator[str]:
    hours = "Node-rounded GPU-hours are those of rented nodes; averages divide by the hours in which jobs arrive"
    yield from ("## Figure 4: the 85 jobs", "")
    yield "The jobs of the three smaller applications in Pollux' workload-1, as the paper cut its trace (6.1); 8 h."
    yield from ("", *_include(figures, "figure4-mean", "figure4-p95"))
    yield from _write_points(told.few, told.spans_h["few"])
    yield from (f"## Figure 5: GPUs in use over time, at {FIGURE5_GPUS:g} GPUs", "", *_include(figures, "figure5"))
    yield from ("## Figure 6: filterTrace", "", f"{hours}: 48.", "")
    yield from _include(figures, "figure6-filtertrace-mean", "figure6-filtertrace-p95")
    yield from _write_points(told.filtered, told.spans_h["filtered"])
    yield from (
        "## Figure 6: newTrace",
        "",
        f"{hours}: 48. Divided by the time until the last job is over, averages are",
        "",
    )
    yield "lower: a few huge jobs leave a tail, and the larger the cluster, the shorter it is."
    yield from ("", *_include(figures, "figure6-newtrace-mean", "figure6-newtrace-p95"))
    yield from _write_points(
        told.newtrace if told.quick else with_pollux_there(told.newtrace), told.spans_h["newtrace"]
    )
    yield from _write_pollux(told)
    yield from _write_efficiency(told, figures)
    yield from ("## Figure 8: perfect and imperfect information", "")
    yield "Imperfect: planned on the goodput model fitted to the profiles, as AdaptDL's schedulers see."
    yield from ("", *_include(figures, "figure8"), *_write_points(told.information, told.spans_h["newtrace"]))
    yield from _write_bursts(told, figures)
    yield from _write_reclaiming(told)


def _write_points(curves: Curves, span_h: float) -> Iterator[str]:
    own = own_curve(curves)
    rows = []
    for curve in curves.values():
        for point in curve.points:
            best = own.at(point.node_gpu_hours) if own is not None else None
            rows.append(
                [
                    curve.name,
                    point.label,
                    f"{point.gpu_hours / span_h:.1f}",
                    f"{point.node_gpu_hours / span_h:.1f}",
                    f"{point.node_gpu_hours:,.0f}",
                    f"{point.mean_s:,.0f}",
                    "" if best is None else f"{point.mean_s / best:.2f}",
                    f"{point.p95_s:,.0f}",
                    f"{point.most_gpus:,}",
                ]
            )
    head = [
        "policy",
        "set",
        "GPUs held",
        "GPUs rented",
        "node GPU-hours",
        "mean (s)",
        "times exact",
        "P95 (s)",
        "peak GPUs",
    ]
    yield from write_table(head, rows)


def _write_pollux(told: Gathered) -> Iterator[str]:
    """Set Pollux here beside Pollux in the Sia artifact's simulator."""
    yield from ("### Pollux here and in the Sia artifact's simulator", "")
    yield (
        "The same trace on the same nodes; here every division is computed, there it is searched for by NSGA-II. "
        "At most 10 % apart was wanted."
    )
    yield ""
    here = {point.label: point for point in told.newtrace[POLLUX].points} if POLLUX in told.newtrace else {}
    rows = []
    for gpus, hours, mean_s, p95_s in POLLUX_THERE:
        point = here.get(str(gpus))
        if point is not None:
            pairs = ((point.node_gpu_hours, hours), (point.mean_s, mean_s), (point.p95_s, p95_s))
            cells = [text for own, there in pairs for text in (f"{own:,.0f}", f"{there:,}", _say_change(own / there))]
            rows.append([str(gpus), *cells])
    head = ["GPUs"]
    head += [
        f"{what}{word}" for what in ("node GPU-hours", "mean (s)", "P95 (s)") for word in (" here", " there", ", off")
    ]
    yield from write_table(head, rows)


def _write_efficiency(told: Gathered, figures: set[str]) -> Iterator[str]:
    yield from ("## Figure 7: efficiency over time", "")
    yield (
        f"At {FIGURE7_GPUS:g} GPUs; the work of all jobs, at their speeds on the fewest GPUs, over GPU-time rented, "
        "in stretches of ten minutes. "
        "Averaged over "
        "GPU-hours it says nothing of a policy: all jobs together are the same work, so efficiency is that work over "
        "the "
        "GPU-hours used, and policies with equal GPU-hours have equal efficiency, but for what runs during pauses. "
        "Only averages over "
        "time can differ, as the paper's do."
    )
    yield from ("", *_include(figures, "figure7"))
    rows = []
    for name, one in told.watched.items():
        averages = [f"{average:.3f}" for average in average_efficiency(one["cell"])]
        rows.append([name, *averages, f"{one['cell']['node_gpu_hours']:,.0f}", f"{one['cell']['mean_jct_s']:,.0f}"])
    yield from write_table(["policy", "over time", "over GPU-hours", "node GPU-hours", "mean (s)"], rows)


def _write_bursts(told: Gathered, figures: set[str]) -> Iterator[str]:
    yield from ("## Figure 9: bursts", "")
    yield (
        f"newTrace's jobs in their order, at its mean rate, arriving at a high rate or not at all; exact widths at "
        f"{FIGURE9_GPUS:g} GPUs, fixed clusters of as many. Means over the seeds. Widths do not depend on arrivals "
        "and nobody "
        "queues, so BOA's means are all the same; its peaks are what grows."
    )
    yield from ("", *_include(figures, "figure9"))
    rows = []
    for row in told.arrivals:
        for name, one in row["policies"].items():
            if one is not None:
                done = f"{one['completed']} of {one['num_jobs']}"
                times = [f"{one[what]:,.0f}" for what in ("mean_jct_s", "p95_jct_s")]
                hours = [f"{one['node_gpu_hours']:,.0f}", f"{one['most_gpus']:,}"]
                rows.append(
                    [f"{row['variation']:g}", f"{row['measured']:.2f}", str(row["seed"]), name, *times, *hours, done]
                )
    head = ["C² asked", "drawn", "seed", "policy", "mean (s)", "P95 (s)", "node GPU-hours", "peak GPUs", "completed"]
    yield from write_table(head, rows)


def _write_reclaiming(told: Gathered) -> Iterator[str]:
    yield from ("## Figure 11: until nodes are reclaimed", "")
    yield (
        "The 85 jobs again. The paper does not say how long its cloud takes; here a released node is paid for five "
        "minutes more. An "
        "upper bound: a node that is needed again meanwhile would not be released."
    )
    yield ""
    rows = [
        [name, f"{one['cell']['node_gpu_hours']:,.0f}", f"{one['releases']:,}", _percent(reclaimed_share(one))]
        for name, one in told.watched_few.items()
    ]
    yield from write_table(["policy", "node GPU-hours", "nodes released", "more to pay"], rows)


def _write_protocol(told: Gathered, command: str) -> Iterator[str]:
    yield from ("## How this was made", "")
    yield f"`{command}` on {told.date}: {told.machine}; {told.versions}."
    yield ""
    size = ", a sub-trace of each trace (`--quick`)" if told.quick else ""
    yield (
        f"{told.cells} cells were simulated{size}, {told.cpu_s / 60:.1f} minutes of processor time in all; this run "
        "took "
        f"{told.seconds / 60:.1f} minutes and found the others in its folder. Nodes have 4 T4 (`aws`); Sia's "
        f"slowdowns are on everywhere, in plans and replays; plans have widths up to {told.max_width}. No policy here "
        "draws at random; bursts have their seeds in the table."
    )
    yield ""
    rows = [
        [
            name,
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


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a Markdown table; without rows, that nothing was run."""
    if not rows:
        yield from ("Not run.", "")
        return
    yield from (f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _include(figures: set[str], *names: str) -> Iterator[str]:
    for name in names:
        if name in figures:
            yield from ('<div class="figure">', f'--8<-- "docs/assets/paper-{name}.svg"', "</div>", "")


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _say_change(ratio: float) -> str:
    return _percent(ratio - 1.0)
