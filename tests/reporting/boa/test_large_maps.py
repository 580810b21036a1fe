"""The map of widths in a real browser, of one class and of a hundred by a hundred epochs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import optplan
from optplan.formulations.boa.data.instance import BoaInstance

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
pytest.importorskip("jinja2", reason='jinja2 is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.reports import build_report

#: Shade of each cell and what is written in it, by row, as it stands on the screen.
CELLS = """id => [...document.querySelectorAll(`#${id} .barlayer .point`)].map(cell => ({
    box: cell.querySelector("path").getBBox(), fill: getComputedStyle(cell.querySelector("path")).fill,
    words: cell.querySelector("text")?.textContent ?? "" }))
    .map(({ box, fill, words }) => [box.y, box.x, box.width, fill, words])"""


@pytest.mark.parametrize(("classes", "epochs"), [(1, 1), (100, 100)])
def test_the_map_of_widths_is_read_back(visit: Visitor, tmp_path: Path, classes: int, epochs: int) -> None:
    """A row for each class, in it a cell for each stretch of one width; cells of as many GPUs have one shade."""
    made = _make_classes(classes, epochs)
    result = optplan.solve(made, ranges=False)
    plan = optplan.build_plan(made, result)
    opened = visit(build_report(made, result), tmp_path, 1280)
    cells = opened.page.evaluate(CELLS, "chart-widths-1")
    assert len(cells) == len(plan.segments)
    assert len({y for y, *_ in cells}) == classes
    shades: dict[int, set[str]] = {}
    for segment, (_, _, width, fill, words) in zip(plan.segments, cells, strict=True):
        assert words in ("", str(segment.gpus))
        assert width > 0
        shades.setdefault(segment.gpus, set()).add(fill)
    assert all(len(fills) == 1 for fills in shades.values())
    assert len(set.union(*shades.values())) == len(shades)
    assert opened.list_collisions() == [] or classes > 1
    assert opened.complaints == []


def _make_classes(classes: int, epochs: int) -> BoaInstance:
    """Make classes whose jobs gain more from GPUs the longer they train, each a little more than the one before."""
    widths = [1, 2, 4, 8, 16, 32]
    return optplan.read_instance("boa-two-classes", BoaInstance).replace(
        name=f"{classes} by {epochs}",
        budget=f"{2 * epochs}gpu",
        classes={
            f"class-{number:03}": {
                "arrival_rate_per_hour": 2.0 / classes,
                "epoch_size_gpu_hours": [0.3] * epochs,
                "rescale_s": 0.0,
                "speedup": {
                    "v100": {
                        "form": "table",
                        "gpus": widths,
                        "speedup": [
                            [width ** (0.4 + 0.4 * epoch / epochs + 0.1 * number / classes) for width in widths]
                            for epoch in range(epochs)
                        ],
                    }
                },
            }
            for number in range(classes)
        },
    )
