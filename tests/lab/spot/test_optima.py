"""The dynamic program against brute force, and what holds of every policy."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.lab.spot.policies import POLICIES, Hindsight, Planned, estimate_hazards
from optplan.lab.spot.replaying import IDLE, ON_DEMAND, SpotJob, SpotMarket, replay

if TYPE_CHECKING:
    from tests.lab.spot.conftest import Drawer, Follower, Writer

STEP_S = 3600.0


def _least_usd(job: SpotJob, market: SpotMarket, follow: Follower) -> float:
    """Replay every list of places, and return the least cost of those that keep the deadline."""
    zones = range(len(market.zones))
    allowed = [
        [IDLE, ON_DEMAND, *(zone for zone in zones if market.available[zone, step])] for step in range(job.deadline)
    ]
    outcomes = (replay(job, market, follow(places)) for places in product(*allowed))
    return min(outcome.cost_usd for outcome in outcomes if outcome.is_kept)


@pytest.mark.parametrize("seed", range(12))
def test_hindsight_is_what_brute_force_finds(seed: int, draw: Drawer, follow: Follower) -> None:
    """Two zones with changing prices, 5 steps: the least cost of all lists of places; its replay costs as much."""
    job, market = draw(np.random.default_rng(seed), zones=2, deadline=5)
    hindsight = Hindsight(job, market)
    assert hindsight.cost_usd == pytest.approx(_least_usd(job, market, follow))
    outcome = replay(job, market, hindsight.choose)
    assert outcome.is_kept
    assert outcome.cost_usd == pytest.approx(hindsight.cost_usd)


def test_hindsight_saves_before_a_loss(write_market: Writer) -> None:
    """Six steps of spot, restart 1, checkpoint every 4: leaving after 4 of 5 steps of training saves them all.

    Work 5 in 9: 5 steps in zone a train 4, the sixth would train the fifth and end the job: $6. With one step less of
    availability the fifth has to be trained on demand, which costs a restart more: $5 + $6.
    """
    job = SpotJob(5, 9, 1, 4, STEP_S)
    assert Hindsight(job, write_market("######...")).cost_usd == 6.0
    assert Hindsight(job, write_market("#####....")).cost_usd == 11.0


def _expected_usd(job: SpotJob, market: SpotMarket, chances: np.ndarray, seen: tuple[bool, ...]) -> float:
    """Return the least mean cost by trying every choice at every step, written without sight of the program.

    ``chances[zone, was]`` is the probability that a zone is available after it was not, and after it was.
    """
    prices = market.price_usd(0)

    def best(step: int, held: int, pending: int, since: int, left: int, seen: tuple[bool, ...]) -> float:
        if left == 0:
            return 0.0
        if step == job.deadline:
            return math.inf
        if held >= 0 and not seen[held]:
            held, left, since = IDLE, left + since, 0
        costs = []
        for place in (IDLE, ON_DEMAND, *(zone for zone, there in enumerate(seen) if there)):
            wait, risk, rest = (pending, since, left) if place == held else (job.restart, 0, left)
            if place != IDLE and wait:
                wait -= 1
            elif place != IDLE:
                rest, risk = rest - 1, (risk + 1) % job.checkpoint
            mean = 0.0 if place == IDLE else float(prices[place])
            for following in product((False, True), repeat=len(seen)):
                chance = 1.0
                for zone, there in enumerate(following):
                    up = chances[zone, int(seen[zone])]
                    chance *= up if there else 1.0 - up
                mean += chance * best(step + 1, place, wait if place != IDLE else 0, risk, rest, following)
            costs.append(mean)
        return min(costs)

    return best(0, IDLE, 0, 0, job.work, seen)


@pytest.mark.parametrize(
    ("zones", "job"),
    [
        (1, SpotJob(3, 6, 1, 2, STEP_S)),
        (1, SpotJob(2, 6, 2, 1, STEP_S)),
        (1, SpotJob(3, 6, 0, 3, STEP_S)),
        (2, SpotJob(2, 4, 1, 2, STEP_S)),
        (2, SpotJob(2, 4, 0, 1, STEP_S)),
    ],
)
def test_the_plan_is_what_brute_force_expects(zones: int, job: SpotJob, write_market: Writer) -> None:
    """Hazard rates from a short history: the mean cost is that of trying every choice at every step."""
    history = write_market(*["##.#..###.", ".####.##.."][:zones], spot_usd=(1.0, 1.4))
    planned = Planned(job, history)
    chances = np.array([[hazards.found, 1.0 - hazards.lost] for hazards in planned.hazards])
    for seen in product((False, True), repeat=zones):
        assert planned.expected_usd(seen) == pytest.approx(_expected_usd(job, history, chances, seen))


def test_hazards_by_hand(write_market: Writer) -> None:
    """``##.#..``: 3 steps with VMs have one after them, 2 of which lose them; 2 without, 1 of which finds some."""
    hazards = estimate_hazards(write_market("##.#.."))[0]
    assert (hazards.lost, hazards.found) == ((2 + 0.5) / (3 + 1), (1 + 0.5) / (2 + 1))


@pytest.mark.parametrize("seed", range(40))
def test_every_policy_keeps_the_deadline_and_none_beats_hindsight(seed: int, draw: Drawer) -> None:
    """Random jobs that on demand can finish in time, on random markets: all do, at the bound or above."""
    stream = np.random.default_rng(seed)
    job, market = draw(stream, zones=int(stream.integers(1, 4)), deadline=int(stream.integers(3, 40)))
    _, history = draw(stream, zones=len(market.zones), deadline=30)
    least_usd = Hindsight(job, market).cost_usd
    for name, make in POLICIES.items():
        policy = make(job, history)
        outcome = replay(job, market, policy)
        assert outcome.is_kept, name
        assert outcome.cost_usd >= least_usd * (1 - 1e-12), name
        assert outcome.to_json_data() == replay(job, market, policy).to_json_data()


def test_planned_keeps_to_its_rates_where_they_hold(write_market: Writer) -> None:
    """On markets drawn from its own chain the mean cost of 2,000 replays is what the plan promises, within 3 %."""
    stream = np.random.default_rng(1)
    history = write_market("#####..####..###.####")
    job = SpotJob(4, 9, 1, 2, STEP_S)
    planned = Planned(job, history)
    hazards, costs = planned.hazards[0], []
    for _ in range(2000):
        marks = ["#"]
        for _ in range(8):
            is_up = stream.random() < (1.0 - hazards.lost if marks[-1] == "#" else hazards.found)
            marks.append("#" if is_up else ".")
        costs.append(replay(job, write_market("".join(marks)), planned.choose).cost_usd)
    assert np.mean(costs) == pytest.approx(planned.expected_usd((True,)), rel=0.03)


def test_too_many_zones(write_market: Writer) -> None:
    """Six zones have more joint states than are looked at."""
    history = write_market(*["##.."] * 6)
    with pytest.raises(UsageError, match=r"zones: got 6; .* up to 5"):
        Planned(SpotJob(1, 4, 1, 1, STEP_S), history)


def test_a_table_that_is_too_large(write_market: Writer) -> None:
    """A million steps of deadline, half of them slack, are refused before any memory is taken."""
    with pytest.raises(UsageError, match=r"deadline: 1,000,000 steps of 3600 s, 500,000 of them slack, .* GB"):
        Planned(SpotJob(500_000, 1_000_000, 1, 1, STEP_S), write_market("##.."))
