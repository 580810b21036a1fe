"""``benchmarks/publish.py``: from the rows of a run to the table and the figure of the benchmarks page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "publish.py"


@pytest.fixture(scope="module")
def publish(load_script: Callable[[Path], ModuleType]) -> ModuleType:
    """Return the script as a module."""
    return load_script(SCRIPT)


def make_row(instance: str, solver: str, **changes: object) -> dict[str, object]:
    """Make a row as the benchmark suites write them."""
    row: dict[str, object] = {
        "instance": instance,
        "solver": solver,
        "status": "optimal",
        "objective": 1616.69,
        "bound": 1616.69,
        "gap": 0.0,
        "bound_proof": "enumerated",
        "seconds": 0.0532,
        "verify_seconds": 0.2,
        "peak_mb": 57.4,
        "extra": {},
    }
    return {**row, **changes}


def test_trace_table_says_how_far_rivals_are_above_the_optimum(publish: ModuleType) -> None:
    """The exact row is the optimum; a rival has its excess, and one without a plan says so."""
    rows = [
        make_row("boa-newtrace@120", "layered-paths"),
        make_row(
            "boa-newtrace@120",
            "published-algorithm1",
            status="feasible",
            bound_proof="none",
            gap=None,
            extra={"objective_over_exact": 1.0663},
        ),
        make_row("boa-newtrace@120", "highs", status="unknown", objective=None, gap=None, bound_proof="lagrangian"),
    ]
    exact, rival, engine = list(publish.write_trace(iter(rows)))[4:7]
    assert exact == "| 120 | `layered-paths` | 1,616.7 | the optimum | enumerated | 53.2 ms | 200 ms | 57 |"
    assert "| 6.6 % | none |" in rival
    assert "| none found | unknown | lagrangian |" in engine


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(61.04, "61.0 s"), (1.2274, "1.23 s"), (0.132, "132 ms"), (3.13e-5, "31.3 µs"), (None, "not verified")],
)
def test_times_have_three_digits_and_a_fitting_unit(publish: ModuleType, seconds: float | None, text: str) -> None:
    """A time between a microsecond and minutes can be read without counting zeros."""
    assert publish.say_time(seconds) == text


def test_figure_has_a_line_for_each_dimension(publish: ModuleType) -> None:
    """The figure is well-formed SVG, with a line and a label for each dimension that grows."""
    rows = [
        make_row(
            f"random-boa-{4 * factor if name == 'classes' else 4}x8x16-seed1@20",
            "layered-paths",
            seconds=0.01 * factor,
            extra={"grows": name, "factor": float(factor)},
        )
        for name in ("classes", "epochs", "widths")
        for factor in (1, 2, 4)
    ]
    figure = ElementTree.fromstring(publish.draw_growth(rows))
    space = "{http://www.w3.org/2000/svg}"
    assert len(figure.findall(f"{space}polyline")) == 3
    labels = {text.text for text in figure.findall(f"{space}text")}
    assert {"more classes", "more epochs", "more widths", "10 ms", "100 ms"} <= labels
    # Time proportional to the factor from 10 ms on: 10, 20 and 40 ms, so the last point is lg 4 = 0.60 of a decade up.
    heights = [float(point.split(",")[1]) for point in figure.findall(f"{space}polyline")[0].attrib["points"].split()]
    assert heights[0] - heights[2] == pytest.approx(0.602 * (heights[0] - publish.TOP), rel=1e-2)
