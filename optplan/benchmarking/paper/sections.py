"""The page's figures, each with what it shows in numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from optplan.benchmarking.paper.claims import average_efficiency, own_curve, reclaimed_share
from optplan.benchmarking.paper.experiments import AGENTS, POLLUX, POLLUX_THERE, SEARCHED, with_pollux_there
from optplan.benchmarking.paper.gathering import FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS, Gathered
from optplan.benchmarking.paper.running import Curves
from optplan.benchmarking.paper.tables import include, percent, say_change, write_table


def write_sections(told: Gathered, figures: set[str]) -> Iterator[str]:
    """Write a section for each figure."""
    hours = "Node-rounded GPU-hours are those of rented nodes; averages divide by the hours in which jobs arrive"
    yield from ("## Figure 4: the 85 jobs", "")
    yield (
        "The jobs of the three smaller applications in Pollux' workload-1, as the paper cut its trace (6.1); 8 h. In "
        "all charts of completion times over GPUs, lines join the points that no cheaper one of the same policy beats."
    )
    yield from ("", *include(figures, "figure4-mean", "figure4-p95"))
    yield from _write_points(told.few, told.spans_h["few"])
    yield from (f"## Figure 5: GPUs in use over time, at {FIGURE5_GPUS:g} GPUs", "", *include(figures, "figure5"))
    yield from ("## Figure 6: filterTrace", "", f"{hours}: 48.", "")
    yield from include(figures, "figure6-filtertrace-mean", "figure6-filtertrace-p95")
    yield from _write_points(told.filtered, told.spans_h["filtered"])
    yield from (
        "## Figure 6: newTrace",
        "",
        f"{hours}: 48. Divided by the time until the last job is over, averages are",
        "",
    )
    yield "lower: a few huge jobs leave a tail, and the larger the cluster, the shorter it is."
    yield from ("", *include(figures, "figure6-newtrace-mean", "figure6-newtrace-p95"))
    yield from _write_points(
        told.newtrace if told.quick else with_pollux_there(told.newtrace), told.spans_h["newtrace"]
    )
    yield from _write_pollux(told)
    yield from _write_efficiency(told, figures)
    yield from ("## Figure 8: perfect and imperfect information", "")
    yield (
        "BOA's imperfect plans are made on the goodput model fitted to the profiles, as AdaptDL's schedulers see. "
        "Where Pollux' information is imperfect, each job fits that model to what it has run on (`--knowledge "
        "learned`). Jobs run at the measured speeds."
    )
    yield from ("", *include(figures, "figure8"), *_write_points(told.information, told.spans_h["newtrace"]))
    yield from (*include(figures, "figure8-pollux"), *_write_knowledge(told))
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


def _write_knowledge(told: Gathered) -> Iterator[str]:
    """Set Pollux that learns beside Pollux that knows, point by point."""
    rows = []
    for name, curve in told.learning.items():
        known = {point.label: point for point in told.newtrace[name].points} if name in told.newtrace else {}
        for point in curve.points:
            if point.label in known:
                own = known[point.label]
                pairs = [(getattr(own, what), getattr(point, what)) for what in ("node_gpu_hours", "mean_s", "p95_s")]
                cells = [text for a, b in pairs for text in (f"{a:,.0f}", f"{b:,.0f}", say_change(b / a))]
                rows.append([name, point.label, *cells])
    head = ["policy", "set"]
    head += [
        f"{what}{word}"
        for what in ("node GPU-hours", "mean (s)", "P95 (s)")
        for word in (", known", ", learned", ", off")
    ]
    yield from write_table(head, rows)


def _write_pollux(told: Gathered) -> Iterator[str]:
    """Set Pollux here beside Pollux in the Sia artifact's simulator."""
    yield from ("### Pollux here and in the Sia artifact's simulator", "")
    yield (
        "The same trace on the same nodes; here every division is computed, there it is searched for by NSGA-II. "
        "There, jobs learn their speeds as they run and choose their batches by them, as *with agents* here "
        "(`--batch learned --knowledge learned`); elsewhere on this page, but for figure 8, speeds are known "
        "and batches the best measured ones, which makes Pollux the stronger rival. At most 10 % apart was wanted; "
        "[what explains the rest](simulation.md#pollux-against-the-artifact)."
    )
    yield ""
    here = {
        (name, point.label): point
        for name, curve in (told.newtrace | told.agents).items()
        if name in {AGENTS, POLLUX}
        for point in curve.points
    }
    rows = []
    for name, (gpus, hours, mean_s, p95_s) in itertools.product((AGENTS, POLLUX), POLLUX_THERE):
        point = here.get((name, str(gpus)))
        if point is not None:
            pairs = ((point.node_gpu_hours, hours), (point.mean_s, mean_s), (point.p95_s, p95_s))
            cells = [text for own, there in pairs for text in (f"{own:,.0f}", f"{there:,}", say_change(own / there))]
            rows.append([name, str(gpus), *cells])
    head = ["policy", "GPUs"]
    head += [
        f"{what}{word}" for what in ("node GPU-hours", "mean (s)", "P95 (s)") for word in (" here", " there", ", off")
    ]
    yield from write_table(head, rows)
    yield from _write_search(told)


def _write_search(told: Gathered) -> Iterator[str]:
    """Set the search as it was published beside the one that stands for it."""
    published = {name: curve for name, curve in told.few.items() if name.startswith(SEARCHED)}
    sizes = {point.label for curve in published.values() for point in curve.points}
    rows = [
        [name, point.label, *(f"{figure:,.0f}" for figure in (point.node_gpu_hours, point.mean_s, point.p95_s))]
        for name, curve in told.few.items()
        if name in {POLLUX, *published}
        for point in curve.points
        if point.label in sizes
    ]
    yield (
        "The search is replaced, not cut short: everywhere else on this page the division is "
        "[computed](simulation.md#pollux), which was never weaker than NSGA-II where both were tried. One point of "
        "figure 4, searched for as it was published:"
    )
    yield from ("", *write_table(["policy", "GPUs", "node GPU-hours", "mean (s)", "P95 (s)"], rows))


def _write_efficiency(told: Gathered, figures: set[str]) -> Iterator[str]:
    yield from ("## Figure 7: efficiency over time", "")
    yield (
        f"At {FIGURE7_GPUS:g} GPUs, and autoscaling at the target with the nearest GPU-hours; the work of all jobs, at "
        "their speeds on the fewest GPUs, over GPU-time rented, in stretches of ten minutes. Averaged over GPU-hours "
        "it says nothing of a policy: all jobs together are the same work, so efficiency is that work over the "
        "GPU-hours used, and policies with equal GPU-hours have equal efficiency, but for what runs during pauses. "
        "Only averages over time can differ, as the paper's do."
    )
    yield from ("", *include(figures, "figure7"))
    rows = []
    for name, one in told.watched.items():
        averages = [f"{average:.3f}" for average in average_efficiency(one["cell"])]
        rows.append([name, *averages, f"{one['cell']['node_gpu_hours']:,.0f}", f"{one['cell']['mean_jct_s']:,.0f}"])
    yield from write_table(["policy", "over time", "over GPU-hours", "node GPU-hours", "mean (s)"], rows)


def _write_bursts(told: Gathered, figures: set[str]) -> Iterator[str]:
    yield from ("## Figure 9: bursts", "")
    yield (
        "newTrace's jobs in their order, at its mean rate, arriving at a high rate or not at all. Exact widths at "
        f"{FIGURE9_GPUS:g} GPUs stand beside fixed clusters of as many, and exact widths at another budget, at which "
        "they rent what autoscaling with the target 0.7 rents on newTrace, beside autoscaling. Means over the seeds. "
        "Widths do not depend on arrivals and nobody queues, so BOA's means are all the same; its peaks are what grows."
    )
    yield from ("", *include(figures, "figure9"))
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
        [name, f"{one['cell']['node_gpu_hours']:,.0f}", f"{one['releases']:,}", percent(reclaimed_share(one))]
        for name, one in told.watched_few.items()
    ]
    yield from write_table(["policy", "node GPU-hours", "nodes released", "more to pay"], rows)
