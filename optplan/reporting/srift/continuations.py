"""How a run goes on after a loss of VMs: in words, as a table, and as a picture of what each type does (figure 8)."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, SriftInstance, write_fleet
from optplan.formulations.srift.study.replanning import FleetContinuation, FleetStanding, name_vms
from optplan.formulations.srift.study.timelines import Happening, Timeline, TimelineSegment
from optplan.reporting import style
from optplan.reporting.phrases import format_amount, format_cost
from optplan.reporting.srift.words import format_relaxation, require_fleet, say_condition
from optplan.reporting.tables import Column, Columns, Shown, Table, fact_table, numeric, plain_text, tabulate
from optplan.units import format_duration

_COLORS = {Happening.LAUNCH: style.ORANGE, Happening.TRAIN: style.BLUE, Happening.PAUSE: style.GREY}
_WORDS = {Happening.LAUNCH: "waits for new VMs", Happening.TRAIN: "trains", Happening.PAUSE: "saves and restarts"}
#: Height of a type's row and of the chart of progress below the rows, and of the rest, in pixels.
_ROW_PIXELS, _PROGRESS_PIXELS, _REST_PIXELS = 44, 150, 130
_GAP_PIXELS = 24
#: How much of its row a bar fills.
_FILLED = 0.7
_SEGMENT_COLUMNS: Columns[TimelineSegment] = {
    numeric("from"): lambda segment: format_duration(segment.start_s),
    numeric("until"): lambda segment: format_duration(segment.end_s),
    Column("the fleet"): lambda segment: segment.fleet,
    Column("what it does"): lambda segment: _WORDS[segment.happening],
    numeric("iterations done"): lambda segment: f"{segment.iterations_to:,}",
    numeric("spent"): lambda segment: format_cost(segment.spent_to_usd),
    Column("status"): lambda segment: "predicted" if segment.predicted else "past",
}


def present_continuation(
    instance: SriftInstance, state: FleetStanding, continuation: FleetContinuation, timeline: Timeline
) -> list[Shown]:
    """Say where a run stands, what is left of its limits, how it goes on, and when it ends."""
    facts = list_continuation_facts(instance, state, continuation, timeline)
    return [
        plain_text(say_continuation(continuation, timeline), "bold"),
        "",
        fact_table(facts),
        "",
        list_segments(timeline),
    ]


def say_continuation(continuation: FleetContinuation, timeline: Timeline) -> str:
    """Say in a sentence how the run goes on, or why the limits cannot be kept and what they would have to be."""
    found = continuation.infeasibility
    if found is not None:
        helps = " or ".join(f"a {one.limit} of {format_relaxation(one)}" for one in found.relaxations)
        return f"The limits cannot be kept any more: {found.reason}." + (f" What would do: {helps}." if helps else "")
    if continuation.result.solution is None:
        return "No fleet was found for the rest of the run."
    fleet = require_fleet(continuation.result.solution)
    sentence = f"Go on with {write_fleet(fleet.groups)}: it ends after {format_duration(timeline.end_s)}"
    condition = say_condition(continuation.remainder.instance, fleet)
    if continuation.remainder.gone:
        return f"{sentence}{condition}; nothing was left of the {' and the '.join(continuation.remainder.gone)}."
    words = {DEADLINE: "before the deadline", BUDGET: "under the budget"}
    spare = [f"{format_amount(limit, amount)} {words[limit]}" for limit, amount in timeline.spare.items()]
    return f"{', '.join([sentence, *spare])}{condition}."


def list_continuation_facts(
    instance: SriftInstance, state: FleetStanding, continuation: FleetContinuation, timeline: Timeline
) -> list[tuple[str, str]]:
    """List the old and the new fleet and what is left of iterations and limits."""
    remainder, solution = continuation.remainder, continuation.result.solution
    left = remainder.instance
    facts = [
        ("until the loss", timeline.segments[0].fleet if timeline.segments else name_vms(state.vms)),
        ("lost", name_vms(state.lost) or "nothing"),
        ("kept", name_vms(state.running) or "nothing"),
        ("from then on", write_fleet(require_fleet(solution).groups) if solution is not None else "no fleet"),
        ("iterations left", f"{left.iterations:,} of {instance.iterations:,}"),
    ]
    for limit, amount in instance.limits.items():
        rest = left.limits.get(limit)
        words = "nothing" if rest is None else format_amount(limit, rest)
        waits = limit == DEADLINE and rest is not None and left.launch_s
        launch = f"; new VMs take {format_duration(left.launch_s)} of it" if waits else ""
        facts.append((f"left of the {limit}", f"{words}, of {format_amount(limit, amount)}{launch}"))
    return facts


def draw_timeline(timeline: Timeline) -> style.Figure:
    """Draw a run that loses VMs, from beginning to predicted end: a row for each type, iterations done below."""
    names = list(dict.fromkeys(name for segment in timeline.segments for name in segment.vms))
    scale = style.time_scale(max(timeline.end_s, timeline.limits.get(DEADLINE, 0.0)))
    rows = _ROW_PIXELS * len(names)
    plot = rows + _GAP_PIXELS + _PROGRESS_PIXELS
    figure = style.new_figure(height=plot + _REST_PIXELS, top=56)
    for happening in Happening:
        for predicted in (False, True):
            _add_bars(figure, timeline.segments, names, happening, scale, predicted=predicted)
    _add_progress(figure, timeline, scale)
    low = (_PROGRESS_PIXELS + _GAP_PIXELS) / plot
    rows_named = style.place_names(dict(enumerate(map(style.shorten_name, names))), len(names) - 0.5, -0.5)
    figure.update_yaxes(domain=[low, 1.0], **rows_named)
    progress = figure.layout.yaxis.to_plotly_json() | {
        "domain": [0.0, _PROGRESS_PIXELS / plot],
        "tickmode": "auto",
        "tickvals": None,
        "ticktext": None,
        "range": [0, 1.08 * timeline.iterations],
        "showgrid": True,
        "title": {"text": "iterations done", "font": {"size": style.FONT_SIZE}},
        "anchor": "x",
    }
    figure.update_layout(yaxis2=progress, barmode="overlay", showlegend=True)
    figure.update_layout(legend={**style.LEGEND_ABOVE, "y": 1.0 + 28 / plot})
    longest = max(timeline.end_s, timeline.limits.get(DEADLINE, 0.0)) / scale.seconds
    title = f"time since the beginning ({scale.unit})"
    figure.update_xaxes(title_text=title, range=[0.0, 1.04 * longest], anchor="y2")
    _mark(
        figure,
        timeline.interrupted_s / scale.seconds,
        f"{name_vms(timeline.lost)} lost",
        style.RUST,
        anchor="center",
    )
    if DEADLINE in timeline.limits:
        _mark(figure, timeline.limits[DEADLINE] / scale.seconds, "deadline", style.INK, anchor="right")
    return figure


def list_segments(timeline: Timeline) -> Table:
    """List what happens when."""
    return tabulate("What happens when", _SEGMENT_COLUMNS, timeline.segments, num_keys=2)


def say_segments(timeline: Timeline) -> str:
    """Say in a line what happens when."""
    return "; ".join(
        f"{segment.fleet} {_WORDS[segment.happening]} until {format_duration(segment.end_s)}"
        for segment in timeline.segments
    )


def _add_bars(
    figure: style.Figure,
    segments: Sequence[TimelineSegment],
    names: Sequence[str],
    happening: Happening,
    scale: style.TimeScale,
    *,
    predicted: bool,
) -> None:
    """Add the bars of one kind, past or to come, over the rows of the types that take part."""
    chosen = [
        (segment, name)
        for segment in segments
        if segment.happening is happening and segment.predicted is predicted
        for name in segment.vms
    ]
    if not chosen:
        return
    marker = {"color": _COLORS[happening], "line": {"color": "white", "width": 1}}
    if predicted:
        marker["pattern"] = {"shape": "/", "size": 7, "solidity": 0.25, "fgcolor": "white", "fillmode": "overlay"}
    blocks = [
        style.Block(s.start_s / scale.seconds, s.end_s / scale.seconds, names.index(name), _FILLED, _describe(s, name))
        for s, name in chosen
    ]
    is_first = not any(trace.legendgroup == happening.value for trace in figure.data)
    style.add_blocks(figure, _WORDS[happening], blocks, marker, legendgroup=happening.value, showlegend=is_first)
    if happening is Happening.TRAIN:
        for segment, name in chosen:
            figure.add_annotation(
                x=(segment.start_s + segment.end_s) / 2.0 / scale.seconds,
                y=names.index(name),
                text=_name_vms(segment, name),
                showarrow=False,
                font={"color": "white"},
                bgcolor=_COLORS[happening],
            )


def _name_vms(segment: TimelineSegment, name: str) -> str:
    batches = "/".join(f"{batch:,}" for batch in segment.batches.get(name, ()))
    return f"{segment.vms[name]}{f'@{batches}' if batches else ''}"


def _describe(segment: TimelineSegment, name: str) -> str:
    lines = (
        f"{name}, {_name_vms(segment, name)}: {_WORDS[segment.happening]}",
        f"{format_duration(segment.start_s)} to {format_duration(segment.end_s)}",
        f"iterations {segment.iterations_from:,} to {segment.iterations_to:,}, "
        f"spent {format_cost(segment.spent_from_usd)} to {format_cost(segment.spent_to_usd)}",
    )
    return "<br>".join(style.escape_text(line) for line in lines)


def _add_progress(figure: style.Figure, timeline: Timeline, scale: style.TimeScale) -> None:
    points = [
        (seconds / scale.seconds, done, f"{format_duration(seconds)}: {done:,} iterations done")
        for s in timeline.segments
        for seconds, done in ((s.start_s, s.iterations_from), (s.end_s, s.iterations_to))
    ]
    style.add_points(figure, "iterations done", points, yaxis="y2", line={"color": style.GREEN, "width": 2})


def _mark(figure: style.Figure, place: float, words: str, color: str, *, anchor: str) -> None:
    """Draw a line through both charts, with words above."""
    figure.add_shape(
        type="line",
        x0=place,
        x1=place,
        y0=0.0,
        y1=1.0,
        yref="paper",
        line={"color": color, "dash": "dot", "width": 1.5},
    )
    figure.add_annotation(
        x=place,
        y=1.0,
        yref="paper",
        xanchor=anchor,
        yanchor="bottom",
        text=style.escape_text(words),
        showarrow=False,
        font={"color": color},
    )
