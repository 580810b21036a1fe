"""GPUs over time and the histograms: data of the figures, and what a browser shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optplan.instances.job_traces import Level, Stays

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

from optplan.reporting.job_use import Use, draw_use, list_uses, tell_use
from optplan.reporting.pages import Charts, Page, build_page

HOUR = 3600.0
#: The second of March 2026.
MARCH = 1_772_409_600.0


def _make_stays(*rows: tuple[str, float, float, float, float]) -> Stays:
    """Make stays from class, hours of queueing, beginning and end, and GPUs."""
    names, *columns = zip(*rows, strict=True)
    classes = tuple(dict.fromkeys(names))
    queued_h, begun_h, ended_h, gpus = (np.array(column, dtype=float) for column in columns)
    which = np.array([classes.index(name) for name in names])
    return Stays(classes, which, queued_h * HOUR, begun_h * HOUR, ended_h * HOUR, gpus)


@pytest.fixture
def happened() -> Use:
    """Vision waits 6 h for 4 GPUs and has them for 12 h; speech has 2 for the day."""
    stays = _make_stays(("vision", 0, 6, 18, 4), ("speech", 0, 0, 24, 2))
    return Use("As it happened", stays, {"vision": np.array([6 * HOUR]), "speech": np.zeros(1)})


@pytest.fixture
def replayed() -> Use:
    """All at once: 8 GPUs for vision until 6 h."""
    stays = _make_stays(("vision", 0, 0, 6, 8), ("speech", 0, 0, 24, 2))
    rented = Level(np.array([0.0, 6.0, 24.0]) * HOUR, np.array([16.0, 8.0, 0.0]))
    return Use("Replayed", stays, {"vision": np.zeros(1)}, {"budget": 4.0}, rented)


def _read(trace: Any) -> list[float]:  # noqa: ANN401 - of plotly
    return list(trace.y)


def test_uses_stand_on_one_axis_with_their_marks(happened: Use, replayed: Use) -> None:
    """Ten minutes a stretch: 72 of 144 have 4 GPUs of vision; held and waited for are compared on the same scale."""
    figure = draw_use([happened, replayed], began_s=MARCH)
    held = {(trace.name, trace.yaxis): trace for trace in figure.data}
    assert list(held) == [
        *[("vision", "y"), ("speech", "y"), ("P95", "y"), ("vision", "y2"), ("vision", "y3"), ("speech", "y3")],
        *[("P95", "y3"), ("budget", "y3"), ("rented", "y3")],
    ]
    assert _read(held["vision", "y"]) == [0.0] * 36 + [4.0] * 72 + [0.0] * 37
    assert _read(held["vision", "y2"]) == [4.0] * 36 + [0.0] * 109
    assert _read(held["vision", "y3"]) == [8.0] * 36 + [0.0] * 109
    assert [held[name, "y3"].y[0] for name in ("P95", "budget", "rented")] == [10.0, 4.0, 16.0]
    assert (held["vision", "y"].x0, held["vision", "y"].dx) == ("2026-03-02 00:00:00", 600_000.0)
    assert figure.layout.yaxis.range == figure.layout.yaxis3.range == (0.0, 1.06 * 16.0)
    assert [trace.showlegend for trace in figure.data] == [True, True, True, False, False, False, False, True, True]
    assert figure.layout.xaxis.title.text == "UTC, averages of 10 min 00 s"
    assert draw_use([happened]).layout.xaxis.title.text == "time since the start (hours), averages of 10 min 00 s"


def test_the_table_has_the_main_figures(happened: Use, replayed: Use) -> None:
    """48 and 48 GPU-hours in 24 h are 4 GPUs; six are enough for 95 % of the time; 1 GPU is waited for on average."""
    rows = list_uses([happened, replayed._replace(waits_s={})]).rows
    assert rows[0] == ["As it happened", "4", "6", "6", "96.0", "1", "4"]
    assert rows[1] == ["Replayed", "4", "10", "10", "96.0", "-", "-"]


def test_more_classes_than_colours_are_taken_together() -> None:
    """Of nine classes the five largest have a colour, and the others one; nothing that was held is lost."""
    stays = _make_stays(*[(f"class-{number}", 0, 0, 1, number + 1) for number in range(9)])
    bands = [trace for trace in draw_use([Use("As it happened", stays, {})]).data if trace.stackgroup]
    assert [trace.name for trace in bands] == [*[f"class-{number}" for number in (8, 7, 6, 5, 4)], "4 other classes"]
    assert sum(trace.y[0] for trace in bands) == 45.0


@pytest.mark.parametrize(
    ("days", "stretch"), [(1 / 1440, "1 s"), (14, "1 h 00 min"), (365, "1 d 00 h"), (3650, "16 d 00 h")]
)
def test_long_logs_have_longer_stretches(days: float, stretch: str) -> None:
    """A page keeps its size: at most 400 stretches, which begin with whole hours or days."""
    stays = _make_stays(("a", 0, 0, 24 * days, 1))
    figure = draw_use([Use("As it happened", stays, {})], began_s=MARCH)
    assert len(figure.data[0].y) <= 402
    assert figure.layout.xaxis.title.text.startswith(f"UTC, averages of {stretch}")


def test_jobs_are_counted_by_size_and_wait(happened: Use, replayed: Use) -> None:
    """Sizes are parted at powers of the root of ten, common to all classes; waits at 10 s, 1 min and so on."""
    sections = tell_use([happened, replayed], {"vision": np.array([2.0, 5.0, 80.0]), "speech": np.array([0.5])})
    (charts,) = sections[1].blocks
    assert isinstance(charts, Charts)
    figures = dict(charts.figures)
    sizes = figures["Bar chart: jobs of class vision by size"]
    assert list(sizes.layout.xaxis.ticktext) == ["1", "", "10", "", "100"]
    assert list(sizes.data[0].y) == [0, 1, 1, 0, 1, 0]
    waits = figures["Bar chart: jobs of class vision by wait"]
    assert [list(trace.y) for trace in waits.data] == [[0, 0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0]]
    assert [section.id for section in tell_use([happened], {})] == ["over-time", "jobs"]
    assert [section.id for section in tell_use([happened._replace(waits_s={})], {"vision": np.zeros(0)})] == [
        "over-time",
        "jobs",
    ]


@pytest.mark.parametrize("width", [400, 800, 1400, 2000])
def test_a_browser_shows_who_held_what(
    visit: Visitor, tmp_path: Path, happened: Use, replayed: Use, width: int
) -> None:
    """What is drawn is what was held, in hours of March; no label lies on another, and nothing is too wide."""
    sections = tell_use([happened, replayed], {"vision": np.array([2.0]), "speech": np.array([0.5])}, began_s=MARCH)
    opened = visit(build_page(Page(name="mine", title="Mine", sections=sections)), tmp_path, width)
    drawn = opened.page.evaluate(
        """Object.fromEntries(document.getElementById("chart-over-time-1").calcdata.map(points => [
            points[0].trace.name + points[0].trace.yaxis, points.map(point => [point.x, point.s ?? point.y])]))"""
    )
    assert [point[1] for point in drawn["visiony"]] == [0.0] * 36 + [4.0] * 72 + [0.0] * 37
    assert [drawn["visiony"][place][0] for place in (0, 36)] == [MARCH * 1000.0, (MARCH + 6 * HOUR) * 1000.0]
    assert opened.read_back() == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.list_collisions() == []
    assert opened.complaints == []
