"""VMs on demand from the start to the end: what a deadline costs without spot."""

from __future__ import annotations

from optplan.lab.spot.market import ON_DEMAND
from optplan.lab.spot.replaying import Situation


class OnDemand:
    """On demand all the time."""

    name = "on-demand"

    def choose(self, situation: Situation) -> int:
        """Return ``ON_DEMAND``, whatever the situation."""
        del situation
        return ON_DEMAND
