"""Policies of a job on spot VMs of several zones: published rules, our plan, and the hindsight optimum.

The rules are those of Wu et al. (*Can't Be Late*, NSDI 2024), as printed. The paper has one zone, no training that a
loss undoes, and no grid. Of several zones the cheapest that is available is taken (SkyPilot's managed jobs choose by
price among the places that have capacity, too); the safety net is wider by the most training that a loss undoes, and by
a step, within which nothing can be decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import UsageError, nearest_name_hint
from optplan.lab.spot.market import IDLE, ON_DEMAND, SpotJob, SpotMarket
from optplan.lab.spot.recursion import tabulate
from optplan.lab.spot.replaying import Situation, SpotPolicy
from optplan.schema import FloatArray


class OnDemand:
    """On demand all the time."""

    name = "on-demand"

    def choose(self, situation: Situation) -> int:
        """Return ``ON_DEMAND``, whatever the situation."""
        del situation
        return ON_DEMAND


def needs_net(situation: Situation) -> bool:
    """Tell whether a job that holds no spot VM has to be on demand until its end."""
    job = situation.job
    return situation.slack < 2 * job.restart + (job.checkpoint - 1) + 1


class Greedy:
    """Spot whenever there is any; on demand when the deadline leaves no choice (section 4).

    * Exploitation: on spot, stay until it is taken away.
    * Idle: take spot VMs whenever there are any, else wait.
    * Safety net: idle with R(t) < C(t) + 2 d, go on demand and stay until the end. R is the time until the deadline, C
      the training still to do, d the time of a restart: one d is for a spot VM that is lost before it trains, the other
      for the start on demand.
    """

    name = "greedy"

    def choose(self, situation: Situation) -> int:
        """Return the place by these rules."""
        if situation.held >= 0:
            return situation.held
        return ON_DEMAND if needs_net(situation) else situation.cheapest_spot


class UniformProgress:
    """Spot where there is any; on demand to keep up with uniform progress (section 5.2.2).

    Progress is expected to be uniform: ep(t) = t C(0) / R(0), where C(0) is the training and R(0) the time that the
    deadline allows; cp(t) is the training done.

    * Uniform progress: idle with cp(t) < ep(t), go on demand and stay to catch up.
    * Taking risks: switch to spot whenever there is any, even when behind; stay until it is taken away.
    * Hysteresis: on demand, stay until cp(t) >= ep(t + 2 d); then spot if there is any, else idle.
    * Safety net: as of :class:`Greedy`.
    """

    name = "uniform-progress"

    def choose(self, situation: Situation) -> int:
        """Return the place by these rules."""
        job, spot = situation.job, situation.cheapest_spot
        if situation.held >= 0:
            return situation.held
        if needs_net(situation):
            return ON_DEMAND
        if situation.held == ON_DEMAND:
            return spot if self._lead(situation, situation.step + 2 * job.restart) >= 0 else ON_DEMAND
        if spot != IDLE:
            return spot
        return ON_DEMAND if self._lead(situation, situation.step) < 0 else IDLE

    @staticmethod
    def _lead(situation: Situation, step: int) -> int:
        """Return how far the training done is ahead of that expected by a step, times the deadline: whole numbers."""
        job = situation.job
        return (job.work - situation.left) * job.deadline - step * job.work


class Hindsight:
    """The least cost at which a job could have kept its deadline, had the market been known beforehand.

    It is exact on the grid of the market: the same steps, restarts, checkpoints and prices as every replay, so that no
    policy costs less. Wu et al. (section 5.3) call it omniscient and state it as an integer program for one zone at one
    price; the dynamic program needs no solver, and takes any number of zones, with prices that change.
    """

    name = "hindsight"

    def __init__(self, job: SpotJob, market: SpotMarket) -> None:
        """Look at the whole market."""
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
    """Does what costs least on average if zones come and go at the hazard rates of ``history``, a market that is over.

    Each zone is a Markov chain of two states, with spot VMs and without, independent of the others. The table says, for
    each time left, work left, place, work at risk and availability of all zones, what costs least on average at mean
    prices. A state from which the deadline might be missed costs infinitely much, and no hazard is estimated as zero,
    so the plan never risks the deadline: it needs no safety net. What is assumed about zones can be wrong; then the
    plan costs more, and still keeps the deadline.
    """

    name = "planned"

    def __init__(self, job: SpotJob, history: SpotMarket) -> None:
        """Estimate, and plan."""
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


#: Those that see nothing of the future.
POLICIES = ("on-demand", "greedy", "uniform-progress", "planned")


def make_policy(name: str, job: SpotJob, history: SpotMarket) -> SpotPolicy:
    """Return a policy; ``history`` is a market that is over, for those that learn from one."""
    match name:
        case "on-demand":
            return OnDemand()
        case "greedy":
            return Greedy()
        case "uniform-progress":
            return UniformProgress()
        case "planned":
            return Planned(job, history)
    raise UsageError(f"policy: no policy {name!r}; {nearest_name_hint(name, POLICIES)}")
