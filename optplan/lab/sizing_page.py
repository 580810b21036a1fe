"""Own clusters of several sizes for readers: sentences, a table, and a page with charts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optplan.lab.sizing import Replay, Sizing
from optplan.reporting.faces import Face
from optplan.reporting.pages import Block, Card, Charts, Page, Section
from optplan.reporting.phrases import NOTHING, count_gpus, format_share
from optplan.reporting.style import BLUE, GREY, VERMILLION, Figure, new_figure, scale_by_doubling, time_scale
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import format_duration


def say_sizing(found: Sizing) -> str:
    """Say where the knee is, and by which rule."""
    knee, last = found.knee, found.sizes[-1]
    nodes = f"{knee.nodes} node{'s' if knee.nodes > 1 else ''} of {count_gpus(found.gpus_per_node)}"
    on = f"{count_gpus(knee.gpus)}, on which jobs finish in {format_duration(knee.best.mean_jct_s)}"
    said = f"In replays, the knee is at {nodes}: {on}"
    rule = "There GPUs times mean completion time are least; beyond, 1 % more GPUs saves less than 1 % of the time."
    if len(found.sizes) > 1 and knee is last:
        rule = "GPUs times mean completion time still fall there: look at larger clusters, too."
    return f"{said} on average. {rule}"


def list_sizes(found: Sizing) -> Table:
    """List for each size the replay of the least mean and, where it is another, that of the least P95; then the log."""
    columns = (*numbers("nodes", "GPUs", "mean", "bound", "P95", "waiting", "in use"), Column("policy", style="whole"))
    rows = []
    for size in found.sizes:
        bound = NOTHING if size.bound_s is None else format_duration(size.bound_s)
        rows.append(_list_figures(f"{size.nodes:,}", f"{size.gpus:,}", bound, size.best))
        if size.best_p95 != size.best:
            rows.append(_list_figures("", "", "", size.best_p95))
    if found.log is not None:
        log, times_s = found.log, (found.log.mean_jct_s, found.log.p95_jct_s, found.log.mean_waited_s)
        mean, p95, waited = map(format_duration, times_s)
        whose = f"the log's own, {log.jobs:,} of {found.jobs:,} jobs"
        rows.append(["", f"{log.most_gpus:g}", mean, "", p95, waited, "", whose])
    return Table("Sizes", columns, rows, 2)


def _list_figures(nodes: str, gpus: str, bound: str, replay: Replay) -> list[str]:
    name = replay.policy if replay.budget_gpus is None else f"{replay.policy}, plan of {replay.budget_gpus:.4g}"
    mean, p95, waited = map(format_duration, (replay.mean_jct_s, replay.p95_jct_s, replay.mean_waited_s))
    return [nodes, gpus, mean, bound, p95, waited, format_share(replay.use), name]


def face_of(found: Sizing) -> Face:
    """Show the sizes as the command does, and their completion times as the picture."""
    return Face([say_sizing(found), "", list_sizes(found)], partial(_draw, found), f"GPUs for {found.instance_name}")


def build_sizing_page(found: Sizing, warnings: Sequence[str] = ()) -> Page:
    """Gather the report."""
    reading = (
        "Each point is the best replay found on a cluster of so many GPUs, of the mean and of the P95; the knee is "
        "marked. No scheduler is below the dotted line, where there is one."
    )
    blocks: list[Block] = [
        Charts([("Completion time by GPUs of the cluster", _draw(found))], reading),
        list_sizes(found),
    ]
    knee = found.knee
    return Page(
        name=found.instance_name,
        title=f"How many GPUs {found.instance_name} needs",
        lead=say_sizing(found),
        warnings=warnings,
        cards=[
            Card("knee", f"{knee.gpus} GPUs", f"{knee.nodes} nodes of {found.gpus_per_node}"),
            Card("mean there", format_duration(knee.best.mean_jct_s)),
            Card("least P95 there", format_duration(knee.best_p95.p95_jct_s)),
            Card("load", f"{found.load_gpus:.4g} GPUs", "on the widths that take least"),
        ],
        sections=[Section("sizes", "Sizes", blocks)],
    )


def _draw(found: Sizing) -> Figure:
    gpus = [size.gpus for size in found.sizes]
    curves: list[tuple[str, str, str, list[float | None]]] = [
        ("mean", BLUE, "solid", [size.best.mean_jct_s for size in found.sizes]),
        ("P95", VERMILLION, "solid", [size.best_p95.p95_jct_s for size in found.sizes]),
        ("no scheduler's mean is below", GREY, "dot", [size.bound_s for size in found.sizes]),
    ]
    scale = time_scale(max(size.best_p95.p95_jct_s for size in found.sizes))
    figure = new_figure(height=380, top=36)
    for name, color, dash, times_s in curves:
        shown = [None if each is None else each / scale.seconds for each in times_s]
        if any(each is not None for each in shown):
            figure.add_scatter(x=gpus, y=shown, name=name, mode="lines+markers", line={"color": color, "dash": dash})
    knee = found.knee
    marks: list[tuple[str, float, float]] = [("knee", knee.gpus, knee.best.mean_jct_s)]
    if found.log is not None:
        marks.append(("the log's own cluster", found.log.most_gpus, found.log.mean_jct_s))
    for name, at, mean_s in marks:
        marker = {"size": 13, "symbol": "circle-open", "color": BLUE if name == "knee" else GREY}
        figure.add_scatter(x=[at], y=[mean_s / scale.seconds], name=name, mode="markers", marker=marker)
    figure.update_xaxes(title_text="GPUs of the cluster")
    ends = [each / scale.seconds for _, _, _, times_s in curves for each in times_s if each]
    ends += [mean_s / scale.seconds for _, _, mean_s in marks]
    figure.update_yaxes(title_text=f"completion time ({scale.unit})", **scale_by_doubling(min(ends), max(ends)))
    figure.update_layout(showlegend=True, legend={"orientation": "h", "x": 0.0, "y": 1.0, "yanchor": "bottom"})
    return figure
