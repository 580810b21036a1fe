"""Charts by class: where GPUs and time go."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting import style
from optplan.reporting.boa.breakdown import ClassBreakdown, break_down, has_types
from optplan.reporting.boa.phrases import name_objective
from optplan.reporting.phrases import count_gpus, format_gpus, format_share
from optplan.reporting.style import (
    Figure,
    color_types,
    escape_text,
    new_figure,
    shorten_name,
    time_scale,
)
from optplan.units import format_duration

#: Classes that get a bar of their own; the others are taken together.
MOST_CLASSES = 24


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
    figure.update_xaxes(range=[0, 1.28 * max(lengths)])
    figure.update_yaxes(
        range=[len(bars) - 0.4, -0.6],
        tickvals=places,
        ticktext=[shorten_name(bar.name) for bar in bars],
        showline=False,
        tickcolor="white",
        showgrid=False,
    )
