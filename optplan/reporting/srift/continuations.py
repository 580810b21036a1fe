"""How a run goes on after a loss of VMs: in words, as a table, and as a picture of what each type does (figure 8)."""

from __future__ import annotations

from itertools import product

from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.formulations.srift.data.instance import SriftInstance, write_fleet
from optplan.formulations.srift.study.replanning import (
    FleetContinuation,
    FleetStanding,
    Happening,
    Timeline,
    TimelineSegment,
    name_vms,
)
from optplan.reporting import style
from optplan.reporting.phrases import format_amount, format_cost
from optplan.reporting.srift.words import format_relaxation, require_fleet, say_condition
from optplan.reporting.tables import Column, Columns, Shown, Table, fact_table, numeric, plain_text, tabulate
from optplan.units import format_duration

_COLORS = {Happening.LAUNCH: style.ORANGE, Happening.TRAIN: style.BLUE, Happening.PAUSE: style.GREY}
_WORDS = {Happening.LAUNCH: "waits for new VMs", Happening.TRAIN: "trains", Happening.PAUSE: "saves and restarts"}
#: Height of a type's row, and of the rest, in pixels.
_ROW_PIXELS, _REST_PIXELS = 44, 130
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
    left, solution = continuation.remainder.instance, continuation.result.solution
    facts = [
        ("until the loss", name_vms(state.vms)),
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
    said = plain_text(say_continuation(continuation, timeline), "bold")
    return [said, "", fact_table(facts), "", list_segments(timeline)]


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


def list_segments(timeline: Timeline) -> Table:
    """List what happens when."""
    return tabulate("What happens when", _SEGMENT_COLUMNS, timeline.segments, num_keys=2)


def draw_timeline(timeline: Timeline) -> style.Figure:
    """Draw a run that loses VMs, from beginning to predicted end: a row for each type."""
    names = list(dict.fromkeys(name for segment in timeline.segments for name in segment.vms))
    longest_s = max(timeline.end_s, timeline.limits.get(DEADLINE, 0.0))
    scale = style.time_scale(longest_s)
    plot = _ROW_PIXELS * len(names)
    figure = style.new_figure(height=plot + _REST_PIXELS, top=56)
    for happening, predicted in product(Happening, (False, True)):
        alike = [each for each in timeline.segments if (each.happening, each.predicted) == (happening, predicted)]
        _add_bars(figure, happening, alike, names, scale.seconds)
    _mark_times(figure, timeline, scale.seconds)
    rows = style.place_names(dict(enumerate(map(style.shorten_name, names))), len(names) - 0.5, -0.5)
    span = [0.0, 1.04 * longest_s / scale.seconds]
    across = {"title_text": f"time since the beginning ({scale.unit})", "range": span}
    return style.finish(figure, across, rows, barmode="overlay", legend={**style.LEGEND_ABOVE, "y": 1.0 + 28 / plot})


def _add_bars(
    figure: style.Figure, happening: Happening, alike: list[TimelineSegment], names: list[str], unit: float
) -> None:
    """Add the bars of segments of one kind, all past or all to come, over the rows of the types that take part."""
    marker = {"color": _COLORS[happening], "line": {"color": "white", "width": 1}}
    if alike and alike[0].predicted:
        marker["pattern"] = {"shape": "/", "size": 7, "solidity": 0.25, "fgcolor": "white", "fillmode": "overlay"}
    blocks = []
    for segment in alike:
        lines = (
            f"{segment.fleet}: {_WORDS[happening]}",
            f"{format_duration(segment.start_s)} to {format_duration(segment.end_s)}",
            f"iterations {segment.iterations_from:,} to {segment.iterations_to:,}, "
            f"spent {format_cost(segment.spent_from_usd)} to {format_cost(segment.spent_to_usd)}",
        )
        words = "<br>".join(map(style.escape_text, lines))
        middle = (segment.start_s + segment.end_s) / 2.0 / unit
        for name, count in segment.vms.items():
            row = names.index(name)
            blocks.append(style.Block(segment.start_s, segment.end_s, row, _FILLED, words))
            if happening is Happening.TRAIN:
                look = {"showarrow": False, "font": {"color": "white"}, "bgcolor": _COLORS[happening]}
                figure.add_annotation(x=middle, y=row, text=f"{count}", **look)
    is_first = not any(trace.legendgroup == happening.value for trace in figure.data)
    group = {"legendgroup": happening.value, "showlegend": is_first}
    style.add_blocks(figure, _WORDS[happening], blocks, marker, unit, **group)


def _mark_times(figure: style.Figure, timeline: Timeline, unit: float) -> None:
    """Draw lines through the rows, with words above: the loss, and the deadline where there is one."""
    marks = [(timeline.interrupted_s, f"{name_vms(timeline.lost)} lost", style.RUST, "center")]
    if DEADLINE in timeline.limits:
        marks.append((timeline.limits[DEADLINE], "deadline", style.INK, "right"))
    for at_s, words, color, anchor in marks:
        x, line = at_s / unit, {"color": color, "dash": "dot", "width": 1.5}
        figure.add_shape(type="line", x0=x, x1=x, y0=0.0, y1=1.0, yref="paper", line=line)
        place = {"x": x, "y": 1.0, "yref": "paper", "xanchor": anchor, "yanchor": "bottom", "showarrow": False}
        figure.add_annotation(text=style.escape_text(words), font={"color": color}, **place)
