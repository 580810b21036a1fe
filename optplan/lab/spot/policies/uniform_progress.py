"""Uniform progress, as Wu et al. print it (*Can't Be Late*, NSDI 2024, section 5.2.2).

Progress is expected to be uniform: ep(t) = t C(0) / R(0), where C(0) is the training and R(0) the time that the
deadline allows; cp(t) is the training done.

* Uniform progress: idle with cp(t) < ep(t), go on demand and stay to catch up.
* Taking risks: switch to spot whenever there is any, even when behind; stay until it is taken away.
* Hysteresis: on demand, stay until cp(t) >= ep(t + 2 d); then spot if there is any, else idle.
* Safety net: as of :mod:`optplan.lab.spot.policies.greedy`, which also says what several zones change.
"""

from __future__ import annotations

from optplan.lab.spot.market import IDLE, ON_DEMAND
from optplan.lab.spot.policies.greedy import needs_net
from optplan.lab.spot.replaying import Situation


class UniformProgress:
    """Spot where there is any; on demand to keep up with uniform progress."""

    name = "uniform-progress"

    def choose(self, situation: Situation) -> int:
        """Return the place by the rules of the module."""
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
