"""What pictures and pages of scaling studies show is what was computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.formulations.srift.data.instance import SriftInstance
from optplan.lab.scaling import ScalingMode, study_scaling
from optplan.lab.scaling_page import build_scaling_page, draw_efficiency, list_charts, list_points, say_left_out
from optplan.reporting.pages import build_page

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from tests.plugins.pages import Visitor


def traces(figure: Figure) -> dict[str, Any]:
    """Return a figure's traces by their names."""
    return {trace.name: trace for trace in figure.data}


@pytest.fixture
def job(make_srift: Callable[..., SriftInstance]) -> SriftInstance:
    """Return a job on VMs of two types, under a name that would run if it were not escaped."""
    big = {"gpu": "fast", "gpus": 2, "price_usd_per_hour": 7.2, "available": 1}
    small = {"price_usd_per_hour": 0.8, "available": 8, "spot": True}
    made = make_srift(name="<img src=x onerror=alert(1)>", types={"big": big, "small": small})
    return made.replace(job=made.job.replace(network="two-layers"))


def test_studies_are_drawn_as_in_the_paper(job: SriftInstance) -> None:
    """Figure 2: efficiency of the best, in percent; figure 3: throughput and cost of a million samples."""
    weak = study_scaling(job, ScalingMode.WEAK, sizes=[1, 2])
    strong = study_scaling(job, ScalingMode.STRONG, sizes=[1, 2, 4])
    efficiency = traces(draw_efficiency([weak]))
    assert list(efficiency["small"].x) == [1, 2]
    assert max(max(trace.y) for trace in efficiency.values()) == pytest.approx(100.0)
    throughput, cost = (traces(figure) for _, figure in list_charts([strong]))
    for name in strong.types:
        points = strong.points_of(name)
        assert list(throughput[name].y) == [point.samples_per_s for point in points]
        assert list(cost[name].y) == pytest.approx([1e6 / point.samples_per_usd for point in points])
    assert [label for label, _ in list_charts([weak, strong])] == [
        "Cost-efficiency of weak scaling by number of VMs.",
        "Throughput of two-layers by number of VMs.",
        "Cost of two-layers by number of VMs.",
    ]


def test_a_browser_draws_the_studies(job: SriftInstance, visit: Visitor, tmp_path: Path) -> None:
    """Both kinds on one page, on a phone."""
    studies = [study_scaling(job, mode, sizes=[1, 2, 4]) for mode in ScalingMode]
    opened = visit(build_page(build_scaling_page(studies)), tmp_path, 400)
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])


def test_a_study_in_words(job: SriftInstance) -> None:
    """64 samples on a slow GPU: 256 ms, 250 a second, 250 x 3600 / 0.8 = 1,125,000 for a dollar."""
    strong = study_scaling(job, ScalingMode.STRONG, sizes=[1, 3, 5])
    assert list_points(strong).rows[-1] == (
        *("small", "1", "1", "64"),
        *("256 ms", "0 s", "250", "1,125,000", "100 %"),
    )
    assert [line.split(": ")[0] for line in say_left_out(strong)] == ["3, 5 big", "3, 5 small"]
    page = build_scaling_page([study_scaling(job, ScalingMode.WEAK), strong])
    assert page.title == "How two-layers scales with the number of VMs"
    assert [section.heading for section in page.sections] == [
        "Weak scaling",
        "two-layers, weak scaling",
        "two-layers, strong scaling",
    ]
    text = build_page(page)
    assert "<img src=x" not in text
    assert "3, 5 small: 64 samples cannot be shared equally by so many GPUs" in text
