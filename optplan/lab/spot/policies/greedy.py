"""Greedy with a safety net, as Wu et al. print it (*Can't Be Late*, NSDI 2024, section 4).

* Exploitation: on spot, stay until it is taken away.
* Idle: take spot VMs whenever there are any, else wait.
* Safety net: idle with R(t) < C(t) + 2 d, go on demand and stay until the end. R is the time until the deadline, C the
  training still to do, d the time of a restart: one d is for a spot VM that is lost before it trains, the other for the
  start on demand.

The paper has one zone, no training that a loss undoes, and no grid. Of several zones the cheapest that is available is
taken (SkyPilot's managed jobs choose by price among the places that have capacity, too); the net is wider by the most
training that a loss undoes, and by a step, within which nothing can be decided.
"""

from __future__ import annotations

from optplan.lab.spot.market import ON_DEMAND
from optplan.lab.spot.replaying import Situation


def needs_net(situation: Situation) -> bool:
    """Tell whether a job that holds no spot VM has to be on demand until its end."""
    job = situation.job
    return situation.slack < 2 * job.restart + (job.checkpoint - 1) + 1


class Greedy:
    """Spot whenever there is any; on demand when the deadline leaves no choice."""

    name = "greedy"

    def choose(self, situation: Situation) -> int:
        """Return the place by the rules of the module."""
        if situation.held >= 0:
            return situation.held
        return ON_DEMAND if needs_net(situation) else situation.cheapest_spot
