"""What a scaling study looks like: tables, and the charts of the paper's figures 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from optplan.lab.scaling import ScalingMode, ScalingPoint, ScalingStudy, average_efficiency
from optplan.reporting import style
from optplan.reporting.pages import Block, Charts, Definitions, Page, Section
from optplan.reporting.phrases import format_share
from optplan.reporting.srift.words import format_count, format_short
from optplan.reporting.tables import Column, Columns, Table, numeric, tabulate

#: A number of VMs, what is drawn of so many, and what is said of them.
_Place: TypeAlias = tuple[int, float, str]

_COLUMNS: Columns[ScalingPoint] = {
    Column("VM"): lambda point: point.type,
    numeric("VMs"): lambda point: f"{point.vms:,}",
    numeric("GPUs"): lambda point: f"{point.world:,}",
    numeric("on a GPU"): lambda point: f"{point.batch_per_rank:,}",
    numeric("iteration"): lambda point: format_short(point.iteration_s),
    numeric("exchange adds"): lambda point: format_short(max(0.0, point.exchange_s - point.backward_s)),
    numeric("samples/s"): lambda point: format_count(point.samples_per_s),
    numeric("samples/$"): lambda point: format_count(point.samples_per_usd),
    numeric("of the best"): lambda point: format_share(point.relative_efficiency),
}


def list_points(study: ScalingStudy) -> Table:
    """List the points of a study."""
    return tabulate("Fleets of one type", _COLUMNS, study.points, num_keys=2)


def say_study(study: ScalingStudy) -> str:
    """Say in a line what a study is about."""
    if study.mode is ScalingMode.WEAK:
        return f"{study.network}, weak scaling: every GPU keeps its batch."
    return f"{study.network}, strong scaling: the global batch is shared equally."


def say_left_out(study: ScalingStudy) -> list[str]:
    """Say which sizes of a type cannot be, and why."""
    sizes: dict[tuple[str, str], list[int]] = {}
    for one in study.left_out:
        sizes.setdefault((one.type, one.reason), []).append(one.size)
    return [f"{', '.join(f'{size:,}' for size in own)} {name}: {reason}" for (name, reason), own in sizes.items()]


def draw_efficiency(studies: Sequence[ScalingStudy]) -> style.Figure:
    """Draw cost-efficiency over the number of VMs, averaged over jobs, as figure 2 does."""
    found = average_efficiency(studies)
    lines: dict[str, list[_Place]] = {one.type: [] for one in found}
    for one in sorted(found, key=lambda one: one.vms):
        said = f"{one.vms} {one.type}: {format_share(one.relative_efficiency)} of the best"
        lines[one.type].append((one.vms, 100.0 * one.relative_efficiency, said))
    figure = _draw_lines(lines)
    jobs = "" if len(studies) == 1 else f", mean of {len(studies)} jobs"
    figure.update_yaxes(title_text=f"samples for a dollar, % of the best{jobs}", rangemode="tozero")
    return figure


def draw_points(study: ScalingStudy, what: str, measure: Callable[[ScalingPoint], float]) -> style.Figure:
    """Draw one figure of a study over the number of VMs, as figure 3 does, on scales of factors."""
    lines = {
        name: [(point.vms, measure(point), _describe(point)) for point in study.points_of(name)] for name in study.types
    }
    figure = _draw_lines(lines)
    every = [measure(point) for point in study.points]
    figure.update_yaxes(title_text=what, **style.scale_by_doubling(min(every), max(every), is_whole=False))
    return figure


def list_charts(studies: Sequence[ScalingStudy]) -> list[tuple[str, style.Figure]]:
    """Draw all studies, each with what it shows: of weak scaling one chart of all jobs, of strong two of each."""
    return [*_draw_weak(studies), *(chart for study in studies for chart in _draw_strong(study))]


def _draw_weak(studies: Sequence[ScalingStudy]) -> list[tuple[str, style.Figure]]:
    weak = [study for study in studies if study.mode is ScalingMode.WEAK and study.points]
    return [("Cost-efficiency of weak scaling by number of VMs.", draw_efficiency(weak))] if weak else []


def _draw_strong(study: ScalingStudy) -> list[tuple[str, style.Figure]]:
    if study.mode is not ScalingMode.STRONG or not study.points:
        return []
    return [
        (
            f"Throughput of {study.network} by number of VMs.",
            draw_points(study, "samples a second", lambda point: point.samples_per_s),
        ),
        (
            f"Cost of {study.network} by number of VMs.",
            draw_points(study, "dollars for a million samples", lambda point: 1e6 / point.samples_per_usd),
        ),
    ]


def build_scaling_page(studies: Sequence[ScalingStudy]) -> Page:
    """Gather the report of scaling studies."""
    sections = []
    charts = _draw_weak(studies)
    if charts:
        reading = "Every GPU keeps its batch. A line that falls says that larger fleets give less for a dollar."
        sections.append(Section("weak", "Weak scaling", [Charts(charts, reading)]))
    for number, study in enumerate(studies, start=1):
        sections.append(_tell_study(study, f"study-{number}"))
    networks = list(dict.fromkeys(study.network for study in studies))
    return Page(
        name=", ".join(dict.fromkeys(study.instance_name for study in studies)),
        title=f"How {' and '.join(networks)} {'scales' if len(networks) == 1 else 'scale'} with the number of VMs",
        lead="Predicted by the profile and the bandwidth model. Fleets are of one type; limits play no part.",
        sections=sections,
    )


def _tell_study(study: ScalingStudy, place: str) -> Section:
    charts = _draw_strong(study)
    left_out = [("left out", text) for text in say_left_out(study)]
    blocks: list[Block] = [
        say_study(study),
        *([Charts(charts, layout="pair")] if charts else []),
        list_points(study),
        *([Definitions(left_out)] if left_out else []),
    ]
    return Section(place, f"{study.network}, {study.mode.value} scaling", blocks)


def _draw_lines(lines: Mapping[str, Sequence[_Place]]) -> style.Figure:
    """Draw a line for each type of VM over their number."""
    sizes = sorted({vms for places in lines.values() for vms, _, _ in places})
    ticks = {"tickmode": "array", "tickvals": sizes, "ticktext": [f"{size:,}" for size in sizes]}
    figure = style.finish(style.new_figure(height=340, top=36), {"title_text": "VMs", "type": "log"} | ticks, {})
    colors = style.color_types(list(lines))
    for name, places in lines.items():
        points = [(vms, value, style.escape_text(said).replace("\n", "<br>")) for vms, value, said in places]
        look = {"line": {"color": colors[name], "width": 2}, "marker": {"size": 7, "color": colors[name]}}
        style.add_points(figure, style.shorten_name(name), points, mode="lines+markers", **look)
    return figure


def _describe(point: ScalingPoint) -> str:
    return (
        f"{point.vms} {point.type}, {point.batch_per_rank:,} samples on each GPU\n"
        f"{format_short(point.iteration_s)} an iteration, {format_count(point.samples_per_s)} samples a second\n"
        f"{format_count(point.samples_per_usd)} samples for a dollar"
    )
