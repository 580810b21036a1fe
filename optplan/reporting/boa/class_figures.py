"""Charts by class: how widths change over a job's epochs, and where GPUs and time go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting import style
from optplan.reporting.boa.breakdown import ClassBreakdown, JobPath, break_down, has_types
from optplan.reporting.boa.phrases import name_objective
from optplan.reporting.phrases import count_gpus, format_gpus, format_share
from optplan.reporting.style import (
    Figure,
    Point,
    add_points,
    color_types,
    escape_text,
    name_panel,
    new_figure,
    scale_by_doubling,
    shorten_name,
    time_scale,
)
from optplan.units import format_duration

#: Classes that get a bar or a chart of their own; the others are taken together, or are in the tables only.
MOST_CLASSES = 24


def draw_widths(
    instance: BoaInstance, result: Result[Solution], comparison: Result[Solution] | None = None
) -> dict[str, Figure]:
    """Draw the widths over the epochs, a small chart for each of the :data:`MOST_CLASSES` that use most GPUs."""
    # All have the same vertical axis, in powers of two; ``comparison`` is drawn faintly behind. Where shares of a
    # class's jobs differ, a line is the thicker the more jobs follow it; where there are several GPU types, it has
    # their colours.
    classes = break_down(instance, result)
    behind = {} if comparison is None else {c.name: c for c in break_down(instance, comparison)}
    kept = {c.name for c in sorted(classes, key=lambda c: -c.gpus)[:MOST_CLASSES]}
    shown = [c for c in classes if c.name in kept]
    every = [path.widths for c in (*shown, *behind.values()) for path in c.paths]
    lowest, highest = min((w.min() for w in every), default=1.0), max((w.max() for w in every), default=1.0)
    figures = {}
    for part in shown:
        figure = new_figure(height=210, top=34)
        if comparison is not None and part.name in behind:
            _add_steps(
                figure, behind[part.name], comparison.solver, {"color": style.GREY, "dash": "dot"}, thickness=0.6
            )
        if has_types(instance):
            _add_colored_steps(figure, part, color_types(instance.gpu_types))
        else:
            _add_steps(figure, part, "this plan", {"color": style.BLUE}, thickness=1.0)
        _finish_steps(figure, part, float(lowest), float(highest))
        figures[part.name] = figure
    return figures


def draw_gpu_use(instance: BoaInstance, result: Result[Solution]) -> Figure:
    """Draw how many GPUs each class holds on average: of each type where there are several, else by what they do."""
    bars = _make_bars(instance, result)
    total = sum(bar.gpus for bar in bars)
    figure = new_figure(height=_bar_height(bars), top=46)
    for label, color, parts in _divide_bars(instance, bars):
        if not any(parts):
            continue
        figure.add_bar(
            orientation="h",
            name=escape_text(label),
            y=list(range(len(bars))),
            x=parts,
            marker={"color": color},
            hoverinfo="text",
            hovertext=[
                f"<b>{escape_text(bar.name)}</b><br>{escape_text(label)}: {count_gpus(part)} on average<br>"
                f"{format_share(part / total)} of all GPUs in use"
                for bar, part in zip(bars, parts, strict=True)
            ],
        )
    _label_bars(figure, bars, [bar.gpus for bar in bars], [format_gpus(bar.gpus) for bar in bars])
    figure.update_xaxes(title_text="GPUs in use, time average")
    return figure


def draw_time_shares(instance: BoaInstance, result: Result[Solution]) -> Figure:
    """Draw what each class adds to the (weighted) mean completion time."""
    bars = _make_bars(instance, result)
    total_s = sum(bar.contribution_s for bar in bars)
    scale = time_scale(max(bar.contribution_s for bar in bars))
    figure = new_figure(height=_bar_height(bars), top=46)
    lengths = [bar.contribution_s / scale.seconds for bar in bars]
    figure.add_bar(
        orientation="h",
        name="part of the mean",
        y=list(range(len(bars))),
        x=lengths,
        # Where colours tell GPU types apart, that of a type would mislead.
        marker={"color": style.GREY if has_types(instance) else style.GREEN},
        hoverinfo="text",
        hovertext=[
            f"<b>{escape_text(bar.name)}</b><br>adds {format_duration(bar.contribution_s)} to the "
            f"{name_objective(instance)}"
            + (f"<br>one job takes {format_duration(bar.mean_jct_s)} on average" if bar.paths else "")
            for bar in bars
        ],
    )
    _label_bars(figure, bars, lengths, [format_share(bar.contribution_s / total_s) for bar in bars])
    figure.update_xaxes(title_text=f"part of the mean ({scale.unit})")
    figure.update_layout(showlegend=False)
    return figure


def _make_bars(instance: BoaInstance, result: Result[Solution]) -> list[ClassBreakdown]:
    """Return the largest classes, and all others as one."""
    classes = break_down(instance, result)
    if len(classes) <= MOST_CLASSES:
        return classes
    classes = sorted(classes, key=lambda c: -c.gpus)
    alone, rest = classes[: MOST_CLASSES - 1], classes[MOST_CLASSES - 1 :]
    others = ClassBreakdown(
        name=f"{len(rest)} other classes",
        paths=(),
        gpus_running=sum(c.gpus_running for c in rest),
        gpus_rescaling=sum(c.gpus_rescaling for c in rest),
        gpus_by_type={t: sum(c.gpus_by_type.get(t, 0.0) for c in rest) for t in instance.gpu_types},
        mean_jct_s=0.0,
        contribution_s=sum(c.contribution_s for c in rest),
    )
    return [*alone, others]


def _divide_bars(instance: BoaInstance, bars: Sequence[ClassBreakdown]) -> list[tuple[str, str, list[float]]]:
    """Divide the GPUs of all bars into parts with a label and a colour."""
    if not has_types(instance):
        return [
            ("running", style.BLUE, [bar.gpus_running for bar in bars]),
            ("rescaling", style.ORANGE, [bar.gpus - bar.gpus_running for bar in bars]),
        ]
    colors = color_types(instance.gpu_types)
    return [(name, color, [bar.gpus_by_type.get(name, 0.0) for bar in bars]) for name, color in colors.items()]


def _bar_height(bars: Sequence[ClassBreakdown]) -> int:
    return 110 + 34 * len(bars)


def _label_bars(figure: Figure, bars: Sequence[ClassBreakdown], lengths: Sequence[float], texts: Sequence[str]) -> None:
    """Write each bar's total at its end, leave room for it, and name the bars."""
    # The bars stand at numbers, not at names: two long names may be the same once they are cut.
    places = list(range(len(bars)))
    figure.add_scatter(
        x=list(lengths),
        y=places,
        text=[f" {text}" for text in texts],
        mode="text",
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
    figure.update_layout(
        barmode="stack",
        bargap=0.35,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom", "traceorder": "normal"},
    )
    figure.update_xaxes(range=[0, 1.18 * max(lengths)])
    figure.update_yaxes(
        range=[len(bars) - 0.4, -0.6],
        tickvals=places,
        ticktext=[shorten_name(bar.name) for bar in bars],
        showline=False,
        tickcolor="white",
        showgrid=False,
    )


def _add_steps(figure: Figure, part: ClassBreakdown, label: str, line: dict[str, str], *, thickness: float) -> None:
    """Draw each path as steps: an epoch reaches half a step to either side of its number."""
    for path in part.paths:
        epochs = path.widths.size
        shared = "" if len(part.paths) == 1 else f"<br>{format_share(path.share)} of the jobs"
        steps = [
            (epoch, width, f"<b>{escape_text(label)}</b>, epoch {epoch}: {_name_held(path, epoch)}{shared}")
            for epoch, width in enumerate(path.widths.tolist(), start=1)
        ]
        drawn = [(0.5, *steps[0][1:]), *steps, (epochs + 0.5, *steps[-1][1:])]
        look = {**line, "width": thickness * (1.5 + 2.0 * path.share), "shape": "hvh"}
        add_points(figure, escape_text(label), drawn, line=look)


def _name_held(path: JobPath, epoch: int) -> str:
    """Write what a job holds in an epoch: ``8 GPUs``, or ``8 a100`` where there are several types."""
    gpus = float(path.widths[epoch - 1])
    if path.gpu_types is None:
        return count_gpus(gpus)
    return f"{format_gpus(gpus)} {escape_text(path.gpu_types[epoch - 1])}"


def _add_colored_steps(figure: Figure, part: ClassBreakdown, colors: Mapping[str, str]) -> None:
    """Draw each path as steps in the colours of the GPU types, over a thin grey line that joins them."""
    for path in part.paths:
        width = 1.5 + 2.0 * path.share
        ends = [(r.first - 0.5, r.last + 0.5) for r in path.ranges]
        figure.add_scatter(
            name="changes",
            x=[end for pair in ends for end in pair],
            y=[r.gpus for r in path.ranges for _ in range(2)],
            mode="lines",
            line={"color": style.GREY, "width": 1},
            hoverinfo="skip",
        )
        for gpu_type in dict.fromkeys(r.gpu_type for r in path.ranges):
            line = {"color": colors[gpu_type], "width": width}
            add_points(figure, escape_text(gpu_type), _list_steps(path, gpu_type), line=line)


def _list_steps(path: JobPath, gpu_type: str) -> Iterator[Point]:
    """List the points of all ranges of epochs on a type, with a gap behind each."""
    shared = "" if path.share == 1.0 else f"<br>{format_share(path.share)} of the jobs"
    for held in (r for r in path.ranges if r.gpu_type == gpu_type):
        said = f"{format_gpus(held.gpus)} {escape_text(gpu_type)}{shared}"
        for place in (held.first - 0.5, *range(held.first, held.last + 1), held.last + 0.5):
            epoch = min(max(int(place), held.first), held.last)
            yield place, held.gpus, f"<b>this plan</b>, epoch {epoch}: {said}"
        yield None, None, ""


def _finish_steps(figure: Figure, part: ClassBreakdown, lowest: float, highest: float) -> None:
    epochs = part.paths[0].widths.size
    figure.update_xaxes(
        title_text="epoch", range=[0.5, epochs + 0.5], nticks=8, tickformat=",d", dtick=1 if epochs <= 8 else None
    )
    figure.update_yaxes(title_text="GPUs a job", **scale_by_doubling(lowest, highest))
    name_panel(figure, part.name)
