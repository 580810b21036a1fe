"""Our policy: planned with hazard rates, by dynamic programming.

Each zone is a Markov chain of two states, with spot VMs and without, whose hazard rates (from one to the other, per
step) are estimated on earlier traces; zones are independent. The table says, for each time left, work left, place, work
at risk and availability of all zones, what costs least on average. A state from which the deadline might be missed
costs infinitely much, and no hazard is estimated as zero, so the plan never risks the deadline: it needs no safety net.
What is assumed about zones can be wrong; then the plan costs more, and still keeps the deadline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import UsageError
from optplan.lab.spot.market import SpotJob, SpotMarket
from optplan.lab.spot.recursion import tabulate
from optplan.lab.spot.replaying import Situation
from optplan.schema import FloatArray

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
    """Does what costs least on average if zones come and go at the rates that were estimated.

    Rates and mean prices are those of ``history``, a market that is over.
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
