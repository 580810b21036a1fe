"""The charts of the pages of claims, as SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from claims.charts import Axis, Line, draw


def test_charts_place_points_on_their_scales() -> None:
    """On a logarithmic axis from 10 to 1000 the middle is 100; the tick for it stands where the point is."""
    line = Line("a < b", [10.0, 100.0, 1000.0], [0.0, 1.0, 2.0], steps=True)
    svg = ElementTree.fromstring(draw("chart", [line], Axis("x", logarithmic=True), Axis("y", low=0.0)))
    space = "{http://www.w3.org/2000/svg}"
    middle = [float(str(circle.get("cx"))) for circle in svg.iter(f"{space}circle")][1]
    ticks = {str(text.text): text.get("x") for text in svg.iter(f"{space}text")}
    assert middle == pytest.approx((62 + 640 - 12) / 2)
    assert float(str(ticks["100"])) == pytest.approx(middle)
    assert "a < b" in ticks


def test_charts_tell_many_lines_apart_and_leave_out_what_is_dominated() -> None:
    """The ninth line has the first one's colour, dashed; a point above a cheaper one is marked, but not joined."""
    lines = [Line(f"line {number}", [1.0, 2.0, 3.0], [3.0, 4.0, 1.0], falling=True) for number in range(9)]
    svg = ElementTree.fromstring(draw("chart", lines, Axis("x"), Axis("y")))
    drawn = list(svg.iter("{http://www.w3.org/2000/svg}polyline"))
    assert drawn[8].get("stroke") == drawn[0].get("stroke") != drawn[7].get("stroke")
    assert [one.get("stroke-dasharray") is None for one in drawn] == [True] * 8 + [False]
    assert len(str(drawn[0].get("points")).split()) == 2
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == 27
