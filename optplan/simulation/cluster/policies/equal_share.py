"""Equal share: the GPUs of a cluster of fixed size, divided evenly among the jobs that are there, round by round."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.errors import UsageError
from optplan.simulation.cluster.jobs import Job
from optplan.simulation.cluster.policies.rounds import ROUND_S
from optplan.simulation.cluster.policy import Sight


class EqualShare:
    """Divide all GPUs evenly.

    What does not come out even goes one GPU each to those who came first; with more jobs than GPUs, these hold one and
    the others wait. A job that cannot run on its share holds the most below it on which it can.

    Parameters
    ----------
    interval_s
        Length of a round, seconds.
    """

    name = "equal-share"

    def __init__(self, interval_s: float = ROUND_S) -> None:
        self.interval_s = interval_s

    def need(self, job: Job) -> int:
        """Return 1: whatever the share is, it is not less."""
        return max(1, job.truth.largest_width(1))

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Divide."""
        if sight.gpus == float("inf"):
            raise UsageError("equal-share: divides a cluster of fixed size; give its number of nodes (--nodes)")
        each, rest = divmod(int(sight.gpus), len(sight.jobs) or 1)
        return {job: job.truth.largest_width(each + (place < rest)) for place, job in enumerate(sight.jobs)}
