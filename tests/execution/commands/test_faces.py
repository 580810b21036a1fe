"""What printing the outcome of a stream or of a fleet says: what its command says, in at most 15 lines."""

from __future__ import annotations

import html

import pytest

from optplan.errors import UnsupportedError
from optplan.execution.cli import fleets, streams
from optplan.execution.cli.kinds import RunKind, Told
from optplan.execution.fleets.running import FleetOutcome
from optplan.execution.runs import Outcome
from optplan.execution.streams.running import ClassOutcome, StreamOutcome

_CLASS = ClassOutcome(
    job_class="bert",
    jobs=3,
    completed=3,
    planned_jct_s=100.0,
    actual_jct_s=110.0,
    planned_gpu_hours=1.0,
    actual_gpu_hours=1.1,
    widths=(2, 4),
)
STREAM = StreamOutcome(
    status="ended",
    code=0,
    time_s=300.0,
    classes=(_CLASS,),
    planned_jct_s=100.0,
    actual_jct_s=110.0,
    gpu_hours=3.3,
    node_gpu_hours=4.0,
    tables=1,
    changes=2,
    dropped={},
)
FLEET = FleetOutcome(
    status="ended",
    code=0,
    time_s=300.0,
    cost_usd=1.0,
    iterations=400,
    target=400,
    fleets=("2 p3.8xlarge@512",),
    lost={"p3.8xlarge": 1},
    plan_id="a" * 64,
)


@pytest.mark.parametrize(
    ("outcome", "kind", "facts"),
    [
        (STREAM, "stream", ["bert", "2, 4", "1 min 50 s (planned 1 min 40 s)", "3.3", "5 min 00 s"]),
        (FLEET, "fleet", ["2 p3.8xlarge@512", "400 of 400", "$1.00", "5 min 00 s"]),
    ],
)
def test_an_outcome_says_what_its_command_says(outcome: Outcome, kind: str, facts: list[str]) -> None:
    """Jobs, GPUs, time and cost; a notebook shows the lines alone, as there is no picture."""
    text = str(outcome)
    assert [fact for fact in facts if fact not in text] == []
    assert len(text.splitlines()) <= 15
    assert outcome._repr_html_() == f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>'
    with pytest.raises(UnsupportedError, match=f"there is no picture of the run of a {kind}"):
        outcome.plot()


def test_many_classes_leave_room_for_the_whole() -> None:
    """Of forty classes the first lines are cut, and the facts about the stream are kept."""
    many = STREAM.replace(classes=(_CLASS,) * 40)
    lines = str(many).splitlines()
    assert len(lines) == 15
    assert "more lines" in lines[1]
    assert lines[-1].startswith("time ")


@pytest.mark.parametrize(
    ("outcome", "status", "code", "badge"),
    [
        (STREAM, "running", 0, ("running", "fair")),
        (STREAM, "ended", 0, ("done", "good")),
        (STREAM, "ended", 1, ("jobs were given up", "bad")),
        (STREAM, "paused", 130, ("paused", "fair")),
        (FLEET, "running", 0, ("running", "fair")),
        (FLEET, "ended", 1, ("failed", "bad")),
        (FLEET, "paused", 3, ("infeasible", "bad")),
        (FLEET, "paused", 4, ("paused", "fair")),
    ],
)
def test_a_page_says_how_a_run_stands(outcome: Outcome, status: str, code: int, badge: tuple[str, str]) -> None:
    """One that still runs is not done, whatever its kind; the reason of a pause stands at the top."""
    kinds: dict[str, RunKind] = {"stream": streams.KIND, "fleet": fleets.KIND}
    page = kinds[outcome.kind].build_page(Told(outcome.replace(status=status, code=code, why="it was asked to"), "one"))
    assert (page.badge, page.badge_kind) == badge
    assert (page.lead, page.window_title) == ("it was asked to", "run of one")
