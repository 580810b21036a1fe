"""What the figures show is what was computed: an iteration's overlaps, a run that loses a VM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.study.replanning import FleetStanding, Timeline, build_timeline, replan
from optplan.reporting.srift.continuations import draw_timeline, list_segments
from optplan.reporting.srift.presenter import PRESENTER
from optplan.reporting.srift.tables import draw_iteration

pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def traces(figure: Figure) -> dict[str, Any]:
    """Return a figure's traces by their names."""
    return {trace.name: trace for trace in figure.data}


def ends(trace: Any) -> list[float]:  # noqa: ANN401 - plotly has no types
    """Return where each bar of a trace ends."""
    return [start + length for start, length in zip(trace.base, trace.x, strict=True)]


def test_an_iteration_shows_its_overlaps(job: SriftInstance, mixed: SriftSolution) -> None:
    """5.33 ms forward, 10.67 backward. The first gradient is ready half-way, at 10.67, for 1.8 ms; the other at 16."""
    found = traces(draw_iteration(job, mixed))
    assert ends(found["forward"]) == pytest.approx([5.333] * 3, rel=1e-3)  # two groups, and the slowest of all
    assert ends(found["backward"]) == pytest.approx([16.0] * 3)
    meanwhile, after = found["exchanged meanwhile"], found["exchanged after the backward pass"]
    assert [*meanwhile.base, *ends(meanwhile)] == pytest.approx([10.667, 12.467], rel=1e-3)
    assert [*after.base, *ends(after)] == pytest.approx([16.0, 17.8], rel=1e-3)
    assert "&lt;b&gt;last&lt;/b&gt;, 1 MB" in meanwhile.hovertext[0]


def test_transfers_are_split_where_the_backward_pass_ends(job: SriftInstance, mixed: SriftSolution) -> None:
    """At a tenth of the bandwidth the first takes 18 ms from 10.67 on: 5.33 of them before 16 ms. The label says it."""
    slow = {name: vm.replace(network_gbit_per_s=0.8) for name, vm in job.types.items()}
    figure = draw_iteration(job.replace(types=slow), mixed)
    found = traces(figure)
    # Two of them share the bus from 16 ms on: 12.67 ms are left of the first, which take twice as long.
    assert ends(found["exchanged meanwhile"]) == pytest.approx([16.0])
    assert ends(found["exchanged after the backward pass"]) == pytest.approx([41.333, 46.667], rel=1e-3)
    assert [note.text for note in figure.layout.annotations] == ["an iteration: 46.7 ms"]


def test_one_rank_exchanges_nothing(job: SriftInstance) -> None:
    """There is nothing below the passes."""
    alone = job.replace(global_batch=8, deadline_s=None)
    figure = draw_iteration(alone, SriftSolution(groups=(VmGroup(type="small", count=1, batch=8),)))
    assert set(traces(figure)) == {"forward", "backward", "waits for the slowest"}
    assert list(figure.layout.yaxis.ticktext) == ["1 small@8", "slowest VM, expected"]


def test_buckets_are_called_so(job: SriftInstance, mixed: SriftSolution) -> None:
    """Both gradients make one bucket."""
    figure = draw_iteration(job.replace(bucket_bytes=1.5e6), mixed)
    assert list(figure.layout.yaxis.ticktext)[-1] == "1 bucket"


def test_a_plan_is_drawn_as_its_iteration(job: SriftInstance, mixed: SriftSolution, result: Result[Solution]) -> None:
    """What ``optplan show NAME --plot`` draws."""
    assert PRESENTER.draw_plan(job, result).to_json() == draw_iteration(job, mixed).to_json()


@pytest.fixture(scope="module")
def timeline(job: SriftInstance) -> Timeline:
    """Return a run that loses a small VM after 2 s of launching and 50 iterations, and goes on with the large one."""
    launching = job.replace(launch_s=2.0, deadline_s=8.0)
    state = FleetStanding(
        elapsed_s=2.89, iterations_done=50, running={"big": 1, "small": 7}, lost={"small": 1}, detach_s=0.5, ready_s=2.0
    )
    types = {**launching.types, "small": launching.types["small"].replace(batches=[2, 4, 8])}
    launching = launching.replace(types=types, global_batch=60)
    remainder = replan(launching, state)
    new = SriftSolution(groups=(VmGroup(type="big", count=1, batch=32), VmGroup(type="small", count=7, batch=4)))
    return build_timeline(launching, state, remainder, new=new)


def test_a_run_that_loses_a_vm(timeline: Timeline) -> None:
    """Launch, training, the pause and the rest, the last two predicted; the loss and the deadline are marked."""
    rows = [row.cells for row in list_segments(timeline).set_rows]
    assert [row[3] for row in rows] == ["waits for new VMs", "trains", "saves and restarts", "trains"]
    assert [row[6] for row in rows] == ["past", "past", "predicted", "predicted"]
    assert [row[4] for row in rows] == ["0", "50", "50", "100"]
    figure = draw_timeline(timeline)
    assert [note.text for note in figure.layout.annotations][-2:] == ["1 small lost", "deadline"]
    assert [shape.x0 for shape in figure.layout.shapes] == pytest.approx([2.89, 8.0])
    shown = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert shown == ["waits for new VMs", "trains", "saves and restarts"]
    hatched = [trace.marker.pattern.shape for trace in figure.data if trace.type == "bar"]
    assert hatched == [None, None, "/", "/"]
