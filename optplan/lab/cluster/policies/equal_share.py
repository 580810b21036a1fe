"""Equal share: the GPUs of a cluster of fixed size, divided evenly among the jobs that are there, round by round."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policy import ROUND_S, Sight


class EqualShare:
    """Divide all GPUs evenly.

    What does not come out even goes one GPU each to those who came first; with more jobs than GPUs, these hold one and
    the others wait. A job that cannot run on its share holds the most below it on which it can; where there is nothing
    below it, the least on which it can, at the expense of those who came later, or it waits for the next round.
    """

    name, interval_s = "equal-share", ROUND_S

    def need(self, job: Job) -> int:
        """Return the least on which it runs: where the share is less, it gets that."""
        return job.truth.least_width

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Divide what is left among those who are left."""
        left = sight.require_fixed(self.name, "divides")
        held = {}
        for place, job in enumerate(sight.jobs):
            share = -(-left // (len(sight.jobs) - place))
            gpus = job.truth.largest_width(share)
            if not gpus and job.truth.least_width <= left:
                gpus = job.truth.least_width
            held[job] = gpus
            left -= max(share, gpus)
        return held
