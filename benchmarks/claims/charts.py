"""Figures of the pages, as SVG for readers without scripts; text and axes have the colour of the text around them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optplan.reporting.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION

COLORS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY, "#8c6d31")
#: Of lines beyond the colours.
_DASHES = ("", ' stroke-dasharray="7 4"', ' stroke-dasharray="2 3"')
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 330, 62, 12, 12, 46
_LEGEND_STEP, _LEGEND_COLUMNS = 18, 2
#: Ticks of an axis, at most.
_MOST_TICKS = 7


@dataclass(frozen=True)
class Line:
    """A line, or points; ``steps`` hold until the next, ``falling`` joins only those below all to their left."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    marks: bool = True
    steps: bool = False
    falling: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis, its title with the unit; ``low`` and ``high`` are None for those of the data."""

    title: str
    logarithmic: bool = False
    low: float | None = None
    high: float | None = None


class _Scale:
    def __init__(self, axis: Axis, values: Sequence[float], first: float, last: float) -> None:
        low = min(values) if axis.low is None else axis.low
        high = max(values) if axis.high is None else axis.high
        if high <= low:
            low, high = (low / 2, low * 2) if axis.logarithmic else (low - 1, low + 1)
        self._log, self._first, self._last = axis.logarithmic, first, last
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        low, high, value = (math.log(v) if self._log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low)
        return self._first + (self._last - self._first) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        if self._log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
                ticks = [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high]
                if len(ticks) <= _MOST_TICKS:
                    break
            return ticks
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 2))
        step = next(step * f for f in (0.5, 1, 2, 5, 10, 20) if (self.high - self.low) / (step * f) <= _MOST_TICKS)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def draw(title: str, lines: Sequence[Line], x_axis: Axis, y_axis: Axis) -> str:
    """Draw lines of at least one point each; the title is for those who cannot see it."""
    rows = -(-len(lines) // _LEGEND_COLUMNS)
    height = _HEIGHT + rows * _LEGEND_STEP
    x = _Scale(x_axis, [v for line in lines for v in line.x], _LEFT, _WIDTH - _RIGHT)
    y = _Scale(y_axis, [v for line in lines for v in line.y], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" '
        f'font-size="12" fill="currentColor" style="max-width: {_WIDTH}px">',
        f"<title>{html.escape(title)}</title>",
        *_draw_axes(x, y, x_axis, y_axis),
    ]
    for number, line in enumerate(lines):
        color, dash = COLORS[number % len(COLORS)], _DASHES[number // len(COLORS) % len(_DASHES)]
        stroke = f'stroke="{color}"{dash}'
        points = [(x.place(a), y.place(b)) for a, b in zip(line.x, line.y, strict=True)]
        parts += _draw_line(points, line, stroke, color)
        column, row = number % _LEGEND_COLUMNS, number // _LEGEND_COLUMNS
        left = _LEFT + column * (_WIDTH - _LEFT - _RIGHT) / _LEGEND_COLUMNS
        top = _HEIGHT + 4 + row * _LEGEND_STEP
        parts.append(f'<path d="M{left:.0f} {top}h18" {stroke} stroke-width="3"/>')
        parts.append(f'<text x="{left + 24:.0f}" y="{top + 4}">{html.escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>"])


def _draw_axes(x: _Scale, y: _Scale, x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    low, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for tick in y.ticks():
        at = y.place(tick)
        yield f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="currentColor" stroke-opacity=".15"/>'
        yield f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_say(tick)}</text>'
    for tick in x.ticks():
        at = x.place(tick)
        yield f'<path d="M{at:.1f} {low}v5" stroke="currentColor"/>'
        yield f'<text x="{at:.1f}" y="{low + 18}" text-anchor="middle">{_say(tick)}</text>'
    yield f'<path d="M{_LEFT} {_TOP}V{low}H{right}" fill="none" stroke="currentColor"/>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{low + 36}" text-anchor="middle">{html.escape(x_axis.title)}</text>'
    middle = (_TOP + low) / 2
    yield (
        f'<text x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">'
        f"{html.escape(y_axis.title)}</text>"
    )


def _draw_line(points: Sequence[tuple[float, float]], line: Line, stroke: str, color: str) -> Iterator[str]:
    path = [points[0]]
    for one in points[1:]:
        if line.falling and one[1] <= path[-1][1]:  # on the screen, upwards is less
            continue
        if line.steps:
            path.append((one[0], path[-1][1]))
        path.append(one)
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b in path)
    yield f'<polyline points="{text}" fill="none" {stroke} stroke-width="1.8" stroke-linejoin="round"/>'
    if line.marks:
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.6" fill="{color}"/>' for a, b in points)


def _say(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
