"""The hindsight optimum: the least cost at which a job could have kept its deadline, had all been known beforehand.

It is exact on the grid of the market: the same steps, restarts, checkpoints and prices as every replay, so that no
policy costs less. Wu et al. (*Can't Be Late*, NSDI 2024, section 5.3) call it omniscient and state it as an integer
program for one zone at one price; the dynamic program needs no solver, and takes any number of zones, with prices that
change.
"""

from __future__ import annotations

from optplan.lab.spot.market import SpotJob, SpotMarket
from optplan.lab.spot.recursion import tabulate
from optplan.lab.spot.replaying import Situation


class Hindsight:
    """Knows the market that it is replayed on, within which the deadline can be kept."""

    name = "hindsight"

    def __init__(self, job: SpotJob, market: SpotMarket) -> None:
        """Look at the whole market."""
        self._table = tabulate(job, lambda step: market.available[:, step, None], market.price_usd)
        #: Least cost.
        self.cost_usd = float(self._table.value_usd[0])

    def choose(self, situation: Situation) -> int:
        """Return what is best, knowing what comes."""
        return self._table.choose(situation, 0)
