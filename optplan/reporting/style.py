"""How all figures look: one palette, one layout, axes in units that readers think in."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from optplan.errors import MissingExtraError
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE

#: A figure of plotly, which has no types and loads on use.
Figure: TypeAlias = Any

# Okabe and Ito's palette: its colours stay apart for every kind of colour blindness, and in grey print.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
RUST = "#A33A00"  #: Of texts that go with vermillion, which is too light for them.
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
INK = "#1f2933"
GREY = "#6b7785"
GRID = "#e4e8ec"
SHADE = "#eef0f2"

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
FONT_SIZE = 13
#: Colours in which things of a kind follow one another; beyond them they start anew.
COLORS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
#: Units that have a sign.
_UNIT_SIGNS = {"usd": "$"}
#: Longest name that a figure shows in full; the tables have the rest.
_NAME_LENGTH = 24


class TimeScale(NamedTuple):
    """The unit of an axis of time, and how many seconds it has."""

    unit: str
    seconds: float


_SCALES = (
    TimeScale("days", HOURS_PER_DAY * SECONDS_PER_HOUR),
    TimeScale("hours", SECONDS_PER_HOUR),
    TimeScale("minutes", SECONDS_PER_MINUTE),
    TimeScale("seconds", 1.0),
)


def time_scale(largest_s: float) -> TimeScale:
    """Return the largest unit of which the longest time shown has at least three."""
    return next((scale for scale in _SCALES if largest_s >= 3 * scale.seconds), _SCALES[-1])


def choose_scale(unit: str, amounts: Iterable[float]) -> TimeScale:
    """Choose the unit to draw in: seconds become minutes, hours or days where these suit the amounts."""
    return time_scale(max(amounts, default=0.0)) if unit == "s" else TimeScale(unit, 1.0)


def color_types(gpu_types: Iterable[str]) -> dict[str, str]:
    """Give GPU types their colours, by their order."""
    return {name: COLORS[number % len(COLORS)] for number, name in enumerate(gpu_types)}


def fade(color: str, share: float) -> str:
    """Mix a share of a colour with white."""
    parts = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def title_axis(what: str, unit: str) -> str:
    """Write what an axis shows and in which unit: ``cost ($)``, ``most GPUs (GPU)``, ``loss``."""
    known = not unit or unit in what.split()
    return escape_text(what.replace("_", " ") + ("" if known else f" ({_UNIT_SIGNS.get(unit, unit)})"))


def escape_text(text: str) -> str:
    """Make a user's text safe for figures, where plotly reads a part of HTML."""
    return html.escape(text, quote=False)


def shorten_name(name: str) -> str:
    """Cut a long name, so that labels leave room for data, and make it safe for figures."""
    return escape_text(name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…")


#: A place in a figure, and what hovering says there.
Point: TypeAlias = tuple[float | None, float | None, str]
#: Names of traces above the figure, from the left.
LEGEND_ABOVE = {"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"}


class Block(NamedTuple):
    """A rectangle over time: from when until when, the height of its middle, how high it is, and what hovering says."""

    start: float
    end: float
    middle: float
    height: float
    words: str


def add_points(figure: Figure, name: str, points: Iterable[Point], *, mode: str = "lines", **settings: object) -> None:
    """Add points, or a line through them; name and words are safe already."""
    x, y, words = map(list, zip(*points, strict=True)) if (points := list(points)) else ([], [], [])
    figure.add_scatter(name=name, x=x, y=y, mode=mode, hoverinfo="text", hovertext=words, **settings)


def add_blocks(
    figure: Figure, name: str, blocks: Sequence[Block], marker: Mapping[str, Any], unit: float = 1.0, **settings: object
) -> None:
    """Add rectangles over time, drawn in the unit, as one trace, if there are any; name and words are safe already."""
    if not blocks:
        return
    figure.add_bar(
        orientation="h",
        base=[block.start / unit for block in blocks],
        x=[block.end / unit - block.start / unit for block in blocks],
        y=[block.middle for block in blocks],
        width=[block.height for block in blocks],
        name=name,
        marker=marker,
        hoverinfo="text",
        hovertext=[block.words for block in blocks],
        **settings,
    )


def finish(
    figure: Figure, across: str | Mapping[str, Any], up: str | Mapping[str, Any], *, names: bool = True, **more: object
) -> Figure:
    """Name both axes, of which more may be set, and the traces above, if wanted; ``more`` is of the layout."""
    for update, axis in ((figure.update_xaxes, across), (figure.update_yaxes, up)):
        update(**{"title_text": axis} if isinstance(axis, str) else axis)
    return figure.update_layout(showlegend=names, **{"legend": LEGEND_ABOVE} | more)


def place_names(names: Mapping[float, str], low: float, high: float) -> dict[str, Any]:
    """Return the settings of an axis that has names at some places, from ``low`` to ``high``."""
    texts = {"tickmode": "array", "tickvals": list(names), "ticktext": list(names.values())}
    return texts | {"range": [low, high], "showgrid": False}


def name_panel(figure: Figure, name: str) -> None:
    """Write a name above a small chart, and no legend."""
    title = {"text": f"<b>{shorten_name(name)}</b>", "font": {"size": FONT_SIZE + 1}, "x": 0, "xref": "paper"}
    title |= {"y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 8}}
    figure.update_layout(showlegend=False, title=title)


def scale_by_doubling(lowest: float, highest: float, *, is_whole: bool = True) -> dict[str, Any]:
    """Return settings of an axis with marks at doublings, or every other; in quarters of near ends, if not whole."""
    powers = range(math.floor(math.log2(lowest)), math.ceil(math.log2(highest)) + 1)
    parts = (1.0, 1.25, 1.5, 1.75) if highest < 2.0 * lowest and not is_whole else (1.0,)
    ticks = [part * 2.0**power for power in powers for part in parts][:: 2 if len(powers) > 6 else 1]
    ends = [math.log10(lowest) - 0.12, math.log10(highest) + 0.12]
    return {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:,.4g}" for tick in ticks]}


def load_plotly() -> Any:  # noqa: ANN401 - a module of a library without types
    """Import plotly's graph objects."""
    try:
        from plotly import graph_objects
    except ModuleNotFoundError:
        raise MissingExtraError("plotly", "plot") from None
    return graph_objects


def new_figure(*, height: int, top: int = 12) -> Figure:
    """Make an empty figure in the house's style; height and upper margin in pixels, the width is the reader's."""
    axis = {
        "automargin": True,
        "fixedrange": True,  # a finger that scrolls the page must not drag the chart
        "gridcolor": GRID,
        "linecolor": GREY,
        "showline": True,
        "ticks": "outside",
        "tickcolor": GREY,
        "ticklen": 4,
        "zeroline": False,
        "title": {"standoff": 8, "font": {"size": FONT_SIZE}},
        "tickfont": {"size": FONT_SIZE - 1},
    }
    # Given at once: filled in one by one it takes ten times as long.
    layout = {
        "template": "none",
        "height": height,
        "margin": {"l": 8, "r": 12, "t": top, "b": 8},
        "font": {"family": FONT, "size": FONT_SIZE, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "dragmode": False,
        "hovermode": "closest",
        "hoverdistance": 40,
        "hoverlabel": {
            "align": "left",
            "bgcolor": "white",
            "bordercolor": GREY,
            "font": {"family": FONT, "size": FONT_SIZE, "color": INK},
        },
        "xaxis": axis,
        "yaxis": axis,
    }
    figure: Figure = load_plotly().Figure(layout=layout)
    return figure
