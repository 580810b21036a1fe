"""The picture of an iteration: who computes, which gradients are on their way, and what is left at the end."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, write_fleet
from optplan.formulations.srift.laws.iteration import Iteration, IterationModel, Transfer
from optplan.reporting import style
from optplan.reporting.srift.words import format_short
from optplan.reporting.style import (
    Block,
    Figure,
    TimeScale,
    add_blocks,
    escape_text,
    new_figure,
    shorten_name,
    time_scale,
)

#: Below so many seconds an axis counts milliseconds.
_SHORT_S = 1.0
#: Height of a row of compute in pixels; of the rest of the figure; and the least and most rows that transfers take up.
_ROW_PIXELS, _REST_PIXELS = 34, 140
_LEAST_ROWS, _MOST_ROWS = 1.0, 8.0
#: Rows that one transfer takes up where there are few.
_ROWS_EACH = 0.5
#: How much of its row a bar fills, and of its lane a transfer.
_FILLED = 0.7
_LANE_FILLED = 0.85
#: Rows below all bars, for what the iteration takes.
_FOOT = 1.0


def draw_iteration(instance: SriftInstance, solution: SriftSolution) -> Figure:
    """Draw an iteration of a fleet over time since it began: passes of each group's VMs, each gradient's way."""
    # What is exchanged after the backward pass of the slowest VM of all, as is expected of so many, is what the
    # exchange adds.
    model = IterationModel(instance)
    found, transfers = model.trace(solution.groups)
    scale = TimeScale("milliseconds", 1e-3) if found.total_s < _SHORT_S else time_scale(found.total_s)
    lanes = min(max(_ROWS_EACH * len(transfers), _LEAST_ROWS), _MOST_ROWS) if transfers else 0.0
    figure = new_figure(height=round(_REST_PIXELS + _ROW_PIXELS * (len(solution.groups) + 1 + _FOOT + lanes)), top=36)
    names = _draw_compute(figure, model, solution, found, scale)
    if transfers:
        _draw_transfers(figure, found, transfers, lanes, scale)
        what = "gradient" if instance.bucket_bytes is None else "bucket"
        names[-lanes / 2.0] = f"{len(transfers):,} {what}{'s' if len(transfers) > 1 else ''}"
    end = found.total_s / scale.seconds
    figure.add_vline(x=end, line={"color": style.GREY, "dash": "dot", "width": 1})
    label = {"x": end, "y": -lanes - _FOOT / 2.0, "xanchor": "right", "yanchor": "middle", "showarrow": False}
    figure.add_annotation(**label, text=f"an iteration: {format_short(found.total_s)}", font={"color": style.GREY})
    figure.update_xaxes(title_text=f"time since its start ({scale.unit})", range=[0.0, 1.03 * end])
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(names),
        ticktext=list(names.values()),
        range=[-lanes - _FOOT, len(solution.groups) + 1.1],
        showgrid=False,
    )
    figure.update_layout(barmode="overlay", showlegend=True, legend=style.LEGEND_ABOVE)
    return figure


def _draw_compute(
    figure: Figure, model: IterationModel, solution: SriftSolution, found: Iteration, scale: TimeScale
) -> dict[float, str]:
    """Draw the passes of each group and of the slowest VM; return the rows' names by their places."""
    forward, backward, waiting = [], [], []
    names = {}
    computed_s = found.forward_s + found.backward_s
    for number, group in enumerate(solution.groups):
        row = len(solution.groups) - number + 0.5
        forward_s, backward_s = model.passes_s(group.type, group.batch)
        name = escape_text(write_fleet([group]))
        names[row] = shorten_name(write_fleet([group]))
        said = f"{name}, each VM as profiled<br>forward {format_short(forward_s)}, backward {format_short(backward_s)}"
        forward.append(Block(0.0, forward_s, row, _FILLED, said))
        backward.append(Block(forward_s, forward_s + backward_s, row, _FILLED, said))
        idle_s = max(0.0, computed_s - forward_s - backward_s)
        said = f"{name} waits for the slowest VM: {format_short(idle_s)} of {format_short(computed_s)}"
        waiting.append(Block(forward_s + backward_s, computed_s, row, _FILLED, said))
    count = sum(group.count for group in solution.groups)
    said = (
        f"slowest of {count:,} VMs, on average<br>forward {format_short(found.forward_s)}, "
        f"backward {format_short(found.backward_s)}"
    )
    names[0.5] = "slowest VM, expected"
    forward.append(Block(0.0, found.forward_s, 0.5, _FILLED, said))
    backward.append(Block(found.forward_s, computed_s, 0.5, _FILLED, said))
    _add_bars(figure, "forward", style.SKY, forward, scale)
    _add_bars(figure, "backward", style.BLUE, backward, scale)
    _add_bars(figure, "waits for the slowest", style.SHADE, waiting, scale, border=style.GREY)
    return names


def _draw_transfers(
    figure: Figure, found: Iteration, transfers: Sequence[Transfer], lanes: float, scale: TimeScale
) -> None:
    """Draw each gradient's way in a lane of its own, split where the backward pass ends."""
    computed_s = found.forward_s + found.backward_s
    each = lanes / len(transfers)
    during, after = [], []
    for number, transfer in enumerate(transfers):
        row = -(number + 0.5) * each
        said = (
            f"{escape_text(transfer.label)}, {transfer.gradient_bytes / 1e6:.3g} MB<br>ready after "
            f"{format_short(transfer.start_s)}, exchanged after {format_short(transfer.end_s)}"
        )
        if transfer.start_s < computed_s:
            end_s = min(transfer.end_s, computed_s)
            during.append(Block(transfer.start_s, end_s, row, _LANE_FILLED * each, said))
        if transfer.end_s > computed_s:
            start_s = max(transfer.start_s, computed_s)
            after.append(Block(start_s, transfer.end_s, row, _LANE_FILLED * each, said))
    _add_bars(figure, "exchanged meanwhile", style.GREEN, during, scale)
    _add_bars(figure, "exchanged after the backward pass", style.VERMILLION, after, scale, border=style.VERMILLION)


def _add_bars(
    figure: Figure, name: str, color: str, bars: Sequence[Block], scale: TimeScale, *, border: str | None = None
) -> None:
    marker = {"color": color, "line": {"color": border or color, "width": 1 if border else 0}}
    add_blocks(
        figure,
        name,
        [bar._replace(start=bar.start / scale.seconds, end=bar.end / scale.seconds) for bar in bars],
        marker,
    )
