"""The rules of Wu et al. (*Can't Be Late*, NSDI 2024), as printed, and what a deadline costs without spot.

The paper has one zone, no training that a loss undoes, and no grid. Of several zones the cheapest that is available is
taken (SkyPilot's managed jobs choose by price among the places that have capacity, too); the safety net is wider by the
most training that a loss undoes, and by a step, within which nothing can be decided.
"""

from __future__ import annotations

from optplan.lab.spot.market import IDLE, ON_DEMAND
from optplan.lab.spot.replaying import Situation


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
