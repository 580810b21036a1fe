"""Replays and published policies on traces that can be followed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optplan.errors import UsageError
from optplan.lab.spot.policies import be_greedy, progress_uniformly, stay_on_demand
from optplan.lab.spot.replaying import IDLE, ON_DEMAND, SpotJob, SpotOutcome, replay

if TYPE_CHECKING:
    from tests.lab.spot.conftest import Follower, Writer

STEP_S = 3600.0


def _told(outcome: SpotOutcome) -> list[tuple[int, int, int, float, int, bool]]:
    return [(s.start, s.stop, s.place, s.cost_usd, s.trained, s.is_lost) for s in outcome.stretches]


def test_a_loss_undoes_what_was_not_saved(write_market: Writer, follow: Follower) -> None:
    """Restart 1, checkpoint every 2: of 3 steps trained in a zone 1 is lost; 2 + 2 on demand: $4 + $9."""
    job = SpotJob(work=4, deadline=8, restart=1, checkpoint=2, step_s=STEP_S)
    outcome = replay(job, write_market("####...."), follow((0, 0, 0, 0, ON_DEMAND, ON_DEMAND, ON_DEMAND, ON_DEMAND)))
    assert _told(outcome) == [(0, 4, 0, 4.0, 2, True), (4, 7, ON_DEMAND, 9.0, 2, False)]
    assert (outcome.is_kept, outcome.cost_usd, outcome.losses, outcome.starts) == (True, 13.0, 1, 2)
    assert outcome.to_json_data()["done_s"] == 7 * STEP_S


def test_who_leaves_saves_first(write_market: Writer, follow: Follower) -> None:
    """The same job that leaves zone a after 3 steps of training keeps all of it: 1 step is left, $4 + $2 in zone b."""
    job = SpotJob(work=4, deadline=8, restart=1, checkpoint=2, step_s=STEP_S)
    outcome = replay(job, write_market("####....", "....####"), follow((0, 0, 0, IDLE, 1, 1, 1, 1)))
    assert _told(outcome)[:2] == [(0, 3, 0, 3.0, 2, False), (3, 4, IDLE, 0.0, 0, False)]
    assert outcome.seconds_at(None) == 6 * STEP_S
    assert outcome.cost_usd == 6.0


def test_a_deadline_that_is_missed(write_market: Writer, follow: Follower) -> None:
    """Idle for 2 of 4 steps, a restart and one step of training leave 1 of 2; nothing is said of an end."""
    job = SpotJob(work=2, deadline=4, restart=1, checkpoint=1, step_s=STEP_S)
    outcome = replay(job, write_market("...."), follow((IDLE, IDLE, ON_DEMAND, ON_DEMAND)))
    assert (outcome.is_kept, outcome.left, outcome.to_json_data()["done_s"]) == (False, 1, None)


def test_a_zone_without_vms_cannot_be_chosen(write_market: Writer, follow: Follower) -> None:
    """Zone a has nothing in step 0, and a market of 4 steps no deadline of 5."""
    job = SpotJob(work=2, deadline=4, restart=1, checkpoint=1, step_s=STEP_S)
    with pytest.raises(UsageError, match="policy script: chose place 0 at step 0"):
        replay(job, write_market(".###"), follow((0, 0, 0, 0)), "script")
    with pytest.raises(UsageError, match="the job's deadline is 5 steps"):
        replay(SpotJob(2, 5, 1, 1, STEP_S), write_market(".###"), follow((0, 0, 0, 0)))


def test_on_demand(write_market: Writer) -> None:
    """A restart of 1 and 4 steps of work at $3, whatever spot VMs there are."""
    outcome = replay(SpotJob(4, 9, 1, 1, STEP_S), write_market("#########"), stay_on_demand)
    assert _told(outcome) == [(0, 5, ON_DEMAND, 15.0, 4, False)]


def test_greedy_waits_until_the_net(write_market: Writer) -> None:
    """Work 4 in 9 leaves slack 5; idle steps eat it until it is below 2 d + 1 = 3: after 3 of them, on demand for 5."""
    outcome = replay(SpotJob(4, 9, 1, 1, STEP_S), write_market("........."), be_greedy)
    assert _told(outcome) == [(0, 3, IDLE, 0.0, 0, False), (3, 8, ON_DEMAND, 15.0, 4, False)]


def test_greedy_takes_the_cheapest_zone_and_stays(write_market: Writer) -> None:
    """Zone b costs less than a: greedy stays in b until it is lost, and goes to a then."""
    market = write_market("#########", "####.....", spot_usd=(1.0, 0.5))
    outcome = replay(SpotJob(4, 9, 1, 1, STEP_S), market, be_greedy)
    assert _told(outcome) == [(0, 4, 1, 2.0, 3, True), (4, 6, 0, 2.0, 1, False)]


def test_uniform_progress_catches_up_and_rests(write_market: Writer) -> None:
    """Work 4 in 12 expects a third of a step each step.

    In step 0 nothing is behind, so it idles; in step 1 it is behind by 1/3 and goes on demand: restart in 1, training
    from 2 on. It stays until the work done reaches what is expected 2 steps later: after 2 (at step 4: (4 + 2) / 3),
    then rests until step 7 expects more than 2. The slack is then 12 - 7 - 2 = 3, no less than 2 d + 1, so that it is
    no safety net; the last 2 steps follow a second restart.
    """
    outcome = replay(SpotJob(4, 12, 1, 1, STEP_S), write_market("." * 12), progress_uniformly)
    places = [(s.start, s.stop, s.place) for s in outcome.stretches]
    assert places == [(0, 1, IDLE), (1, 4, ON_DEMAND), (4, 7, IDLE), (7, 10, ON_DEMAND)]


def test_uniform_progress_leaves_on_demand_for_spot_when_it_is_ahead(write_market: Writer) -> None:
    """As before with spot from step 3 on: only in step 4 is it ahead enough to risk two restarts."""
    outcome = replay(SpotJob(4, 12, 1, 1, STEP_S), write_market("...#########"), progress_uniformly)
    places = [(s.start, s.stop, s.place) for s in outcome.stretches]
    assert places == [(0, 1, IDLE), (1, 4, ON_DEMAND), (4, 7, 0)]


def test_a_job_on_the_grid() -> None:
    """In steps of 10 minutes 61 min of work are 7, of deadline 6, a restart of 1 s is 1; no work is refused."""
    job = SpotJob.of(61 * 60.0, 61 * 60.0, 1.0, 600.0, step_s=600.0)
    assert (job.work, job.deadline, job.restart, job.checkpoint) == (7, 6, 1, 1)
    assert not job.can_be_kept
    with pytest.raises(UsageError, match="work: got 0 steps of 10 min"):
        SpotJob(0, 6, 1, 1, 600.0)
