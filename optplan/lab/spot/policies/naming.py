"""Policies by name."""

from __future__ import annotations

from optplan.errors import UsageError, nearest_name_hint
from optplan.lab.spot.market import SpotJob, SpotMarket
from optplan.lab.spot.policies.cant_be_late import Greedy, OnDemand, UniformProgress
from optplan.lab.spot.policies.planned import Planned
from optplan.lab.spot.replaying import SpotPolicy

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
