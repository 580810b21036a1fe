"""Policies of a job on spot VMs of several zones: published rules, our plan, and the hindsight optimum.

The rules are those of Wu et al. (*Can't Be Late*, NSDI 2024), as printed. The paper has one zone, no training that a
loss undoes, and no grid. Of several zones the cheapest that is available is taken (SkyPilot's managed jobs choose by
price among the places that have capacity, too); the safety net is wider by the most training that a loss undoes, and by
a step, within which nothing can be decided.

Our plan and the hindsight optimum are one dynamic program. State, n steps before the deadline: the slack s (steps of
the n that are no training, so n - s is the training still to do), where the job is, how far its restart is, how much
training is not saved yet, and which zones are available. The slack is what the job can lose: training keeps it, idling
and restarting take one step from it, a loss takes the training since the last checkpoint. Below zero the deadline
cannot be kept: infinite cost, so that no plan ever risks it.

Places of a job in a zone are numbered in the order in which they follow one another: R steps of restart, then 0 to K -
1 steps of training since the last checkpoint; on demand R steps of restart, then training. To start somewhere is to be
at the first place and stay. Availability is one of A joint states: one only in hindsight, where the future is known,
all 2^Z where each zone is a Markov chain of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UsageError, nearest_name_hint
from optplan.lab.spot.replaying import IDLE, ON_DEMAND, BoolArray, Situation, SpotJob, SpotMarket, SpotPolicy
from optplan.schema import FloatArray

#: Memory that a table may take.
MOST_BYTES = 2e9


@dataclass(frozen=True, eq=False)
class Table:
    """What is best in each state: ``value_usd`` (A,) from the start, idle, by what is available in the first step."""

    # ``leaves`` (T + 1, M, (S + 8) // 8, A) says whether to leave, by steps left, place, slack (a bit each) and what is
    # available, ``away`` (T + 1, Z + 1, S + 1, A) where to: zones from 0, then on demand, then idle.

    job: SpotJob
    zones: int
    value_usd: FloatArray
    leaves: NDArray[np.uint8]
    away: NDArray[np.int8]

    def choose(self, situation: Situation, state: int) -> int:
        """Return the best place in a situation, with what is available numbered."""
        job, n, slack, held = self.job, situation.steps_left, situation.slack, situation.held
        if slack < 0:
            return ON_DEMAND  # too late: what is fastest
        if held != IDLE:
            width = job.restart + job.checkpoint
            start = width * (held if held >= 0 else self.zones)
            training = 0 if held == ON_DEMAND else situation.since
            place = start + (job.restart - situation.pending if situation.pending else job.restart + training)
            if not self.leaves[n, place, slack >> 3, state] >> (7 - slack % 8) & 1:
                return held
        going = int(self.away[n, held if held >= 0 else self.zones, slack, state])
        return going if going < self.zones else (ON_DEMAND, IDLE)[going - self.zones]


def tabulate(
    job: SpotJob,
    up_at: Callable[[int], BoolArray],
    price_at: Callable[[int], FloatArray],
    chain: FloatArray | None = None,
) -> Table:
    """Work back from the deadline, which can be kept on demand.

    ``up_at`` (Z, A) says which zones are available in a step, in each joint state; ``price_at`` (Z + 1,) is dollars of
    a step in each zone and on demand; ``chain`` (A, A) has the probabilities from one joint state to the next, all
    above zero; None where there is one state.
    """
    zones, states = up_at(0).shape
    width, slack = job.restart + job.checkpoint, job.slack
    places = zones * width + job.restart + 2
    size_bytes = (job.deadline + 1) * states * ((zones + 1) * (slack + 1) + places * (slack + 8) // 8)
    if size_bytes > MOST_BYTES:
        message = (
            f"deadline: {job.deadline:,} steps of {job.step_s:g} s, {slack:,} of them slack, with {zones} zones need a"
        )
        raise UsageError(
            f"{message} table of {size_bytes / 1e9:.1f} GB; use coarser traces, fewer zones or a shorter deadline"
        )
    leaves = np.zeros((job.deadline + 1, places, (slack + 8) // 8, states), dtype=np.uint8)
    away = np.zeros((job.deadline + 1, zones + 1, slack + 1, states), dtype=np.int8)
    values = np.zeros((places, slack + 1, states))
    for n in range(1, job.deadline + 1):
        ahead = values if chain is None else values @ chain.T
        step = job.deadline - n
        values, is_better = _step_back(job, ahead, up_at(step), price_at(step), away[n])
        leaves[n] = np.packbits(is_better, axis=1)
        values[:, n:] = 0.0  # done
    return Table(job, zones, values[-1, slack], leaves, away)


def _step_back(
    job: SpotJob,
    ahead: FloatArray,
    up: BoolArray,
    price_usd: FloatArray,
    away: NDArray[np.int8],
) -> tuple[FloatArray, BoolArray]:
    """Return the values of all places one step earlier and where leaving is better, and fill in where to go."""
    zones, width = up.shape[0], job.restart + job.checkpoint
    stay = [
        _stay(job, ahead[zone * width : (zone + 1) * width], float(price_usd[zone]), job.checkpoint)
        for zone in range(zones)
    ]
    stay.append(_stay(job, ahead[zones * width : -1], float(price_usd[zones]), 1))
    starts = [np.where(up[zone], stay[zone][0], np.inf) for zone in range(zones)]
    options = np.stack([*starts, stay[zones][0], _later(ahead[-1])])
    away[zones] = options.argmin(axis=0)
    best = options.min(axis=0)
    values, leaves = np.empty_like(ahead), np.zeros(ahead.shape, dtype=np.bool_)
    for zone in range(zones):
        elsewhere = options.copy()
        elsewhere[zone] = np.inf  # to go where one is would be a restart that saves: the replay has no such thing
        away[zone] = elsewhere.argmin(axis=0)
        going = elsewhere.min(axis=0)
        block = slice(zone * width, (zone + 1) * width)
        values[block] = np.where(up[zone], np.minimum(stay[zone], going), _losing(job, going))
        leaves[block] = going < stay[zone]
    block = slice(zones * width, -1)
    values[block] = np.minimum(stay[zones], best)
    leaves[block] = best < stay[zones]
    values[-1] = best
    return values, leaves


def _stay(job: SpotJob, ahead: FloatArray, price_usd: float, checkpoint: int) -> FloatArray:
    """Return the cost of staying, for each place of a zone or on demand."""
    after = [*range(1, job.restart + checkpoint), job.restart]
    stay = ahead[after] + price_usd
    stay[: job.restart] = _later(stay[: job.restart])
    return stay


def _later(values: FloatArray) -> FloatArray:
    """Return the values with one step less slack."""
    moved = np.full_like(values, np.inf)
    moved[..., 1:, :] = values[..., :-1, :]
    return moved


def _losing(job: SpotJob, going: FloatArray) -> FloatArray:
    """Return the values of a zone's places when its VMs are lost: of going elsewhere, less the training not saved."""
    lost = np.full((job.restart + job.checkpoint, *going.shape), np.inf)
    lost[: job.restart + 1] = going
    for since in range(1, min(job.checkpoint, going.shape[0])):
        lost[job.restart + since, since:] = going[:-since]
    return lost


def stay_on_demand(_: Situation) -> int:
    """Be on demand all the time."""
    return ON_DEMAND


def needs_net(situation: Situation) -> bool:
    """Tell whether a job that holds no spot VM has to be on demand until its end."""
    job = situation.job
    return situation.slack < 2 * job.restart + (job.checkpoint - 1) + 1


def be_greedy(situation: Situation) -> int:
    """Spot whenever there is any; on demand when the deadline leaves no choice (section 4)."""
    # The safety net: idle with less time left than work and two restarts, one for a VM that is lost before it trains.
    if situation.held >= 0:
        return situation.held
    return ON_DEMAND if needs_net(situation) else situation.cheapest_spot


def progress_uniformly(situation: Situation) -> int:
    """Spot where there is any; on demand to keep up with uniform progress (section 5.2.2), ep(t) = t C(0) / R(0)."""
    # Idle and behind, go on demand; there, stay until cp(t) >= ep(t + 2 d). The safety net is that of the greedy one.
    job, held, spot = situation.job, situation.held, situation.cheapest_spot
    if held >= 0:
        return held
    if needs_net(situation):
        return ON_DEMAND
    if held == IDLE and spot != IDLE:
        return spot
    expected = situation.step + (2 * job.restart if held == ON_DEMAND else 0)
    is_behind = (job.work - situation.left) * job.deadline < expected * job.work
    return ON_DEMAND if is_behind else spot


class Hindsight:
    """The least cost of keeping a deadline, had the market been known beforehand: omniscient (section 5.3)."""

    # Exact on the replay's own grid, so that no policy costs less, in any number of zones.

    def __init__(self, job: SpotJob, market: SpotMarket) -> None:
        self._table = tabulate(job, lambda step: market.available[:, step, None], market.price_usd)
        #: Least cost.
        self.cost_usd = float(self._table.value_usd[0])

    def choose(self, situation: Situation) -> int:
        """Return what is best, knowing what comes."""
        return self._table.choose(situation, 0)


#: Zones whose joint states are looked at: two to the power of it.
MOST_ZONES = 5


@dataclass(frozen=True)
class Hazards:
    """Probabilities per step that a zone with spot VMs has none in the next, and the other way round."""

    lost: float
    found: float

    @property
    def chain(self) -> FloatArray:
        """(2, 2) From without and with to without and with."""
        return np.array([[1.0 - self.found, self.found], [self.lost, 1.0 - self.lost]])


def estimate_hazards(market: SpotMarket) -> tuple[Hazards, ...]:
    """Estimate hazard rates from a market that is over: changes over steps at risk, with Jeffreys' prior."""
    found = []
    for had in market.available:
        before, after = had[:-1], had[1:]
        lost, gone = int((before & ~after).sum()), int(before.sum())
        came, waited = int((~before & after).sum()), int((~before).sum())
        found.append(Hazards((lost + 0.5) / (gone + 1.0), (came + 0.5) / (waited + 1.0)))
    return tuple(found)


class Planned:
    """Does what costs least on average if zones come and go at the hazard rates of a market that is over."""

    # Zones are independent two-state Markov chains at mean prices. No hazard is zero, and a state that might miss the
    # deadline costs infinitely much: wrong hazards cost money, never the deadline.

    def __init__(self, job: SpotJob, history: SpotMarket) -> None:
        zones = len(history.zones)
        if zones > MOST_ZONES:
            raise UsageError(
                f"zones: got {zones}; the planned policy looks at up to {MOST_ZONES} at once: leave some out"
            )
        self.hazards = estimate_hazards(history)
        states = np.arange(2**zones)
        up = (states >> np.arange(zones)[::-1, None] & 1).astype(
            bool
        )  # the first zone is the highest digit, as in kron
        chain: FloatArray = np.ones((1, 1))
        for hazards in self.hazards:
            chain = np.asarray(np.kron(chain, hazards.chain), dtype=np.float64)
        prices = np.mean([history.price_usd(step) for step in range(history.steps)], axis=0)
        self._weights = 2 ** np.arange(zones)[::-1]
        self._table = tabulate(job, lambda _: up, lambda _: prices, chain)

    def expected_usd(self, available: tuple[bool, ...]) -> float:
        """Return the mean cost that the plan promises, by what is available in the first step."""
        return float(self._table.value_usd[self._number(available)])

    def choose(self, situation: Situation) -> int:
        """Return what costs least on average."""
        return self._table.choose(situation, self._number(situation.available))

    def _number(self, available: tuple[bool, ...]) -> int:
        return int(self._weights @ np.array(available, dtype=np.int64))


#: Those that see nothing of the future, made for a job and a market that is over, from which some learn.
POLICIES: Mapping[str, Callable[[SpotJob, SpotMarket], SpotPolicy]] = {
    "on-demand": lambda *_: stay_on_demand,
    "greedy": lambda *_: be_greedy,
    "uniform-progress": lambda *_: progress_uniformly,
    "planned": lambda job, history: Planned(job, history).choose,
}


def make_policy(name: str, job: SpotJob, history: SpotMarket) -> SpotPolicy:
    """Return a policy; ``history`` is a market that is over, for those that learn from one."""
    if name not in POLICIES:
        raise UsageError(f"policy: no policy {name!r}; {nearest_name_hint(name, POLICIES)}")
    return POLICIES[name](job, history)
