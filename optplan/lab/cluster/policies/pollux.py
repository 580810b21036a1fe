"""Pollux on a cluster of fixed size: in every round, the division of its GPUs that is best by Pollux' fitness.

As in the simulators published with Pollux and with Sia: rounds of 60 s; a job may hold at most twice the GPUs that it
has been seen to run on, one at first, and 64 in all. The division is the one of
:func:`~optplan.lab.cluster.pollux.dividing.divide`, where these draw a hundred divisions at random and change
them a hundred times (NSGA-II).

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from optplan.lab.cluster.jobs import Application, Job, Places
from optplan.lab.cluster.policy import ROUND_S, Sight
from optplan.lab.cluster.pollux.beliefs import BELIEFS, MOST_GPUS, Beliefs, Knowledge, Speeds
from optplan.lab.cluster.pollux.dividing import divide
from optplan.lab.cluster.pollux.fitness import Prospect, Round, restart_factor
from optplan.schema import FloatArray

#: At age 0 a start would be worth nothing, and nobody would start while nothing else happens: it is worth this.
_LEAST_FACTOR = 1e-9


class Pollux:
    """Divide all GPUs by Pollux' fitness; of its ``rounds``, so many are ``proven`` to be the best."""

    name, interval_s = "pollux", ROUND_S

    def __init__(self, knowledge: Knowledge = Knowledge.TRUTH) -> None:
        self._knowledge = knowledge
        self.rounds = self.proven = 0
        self._beliefs: Beliefs | None = None
        self._widest: dict[Job, int] = {}
        self._least: dict[Application, int] = {}

    def need(self, job: Job) -> int:
        """Return the least number of GPUs on which it runs; 1 where there is none."""
        if job.truth not in self._least:
            widths = range(1, MOST_GPUS + 1)
            self._least[job.truth] = next((gpus for gpus in widths if job.truth.largest_width(gpus) == gpus), 1)
        return self._least[job.truth]

    def allocate(self, sight: Sight) -> Mapping[Job, Places]:
        """Divide; those who have had least come first where nothing else decides."""
        sight.require_fixed(self.name, "divides")
        if not sight.jobs:
            return {}
        self._watch(sight)
        jobs = sorted(sight.jobs, key=lambda job: (job.attained_gpu_s(sight.now_s), job.submitted_s, job.name))
        gpus = len(sight.nodes) * sight.gpus_per_node
        task = Round(self._claim(jobs, sight, gpus), sight.nodes, sight.gpus_per_node)
        return dict(zip(jobs, self._search(jobs, task), strict=True))

    def _search(self, jobs: Sequence[Job], task: Round) -> Sequence[Places]:
        """Search for the best division; ``jobs`` are those of the claims."""
        del jobs
        division = divide(task)
        self.rounds += 1
        self.proven += division.is_optimal
        return division.places

    def _watch(self, sight: Sight) -> None:
        """Remember the most GPUs on which each job has been seen to run, and what else that teaches."""
        if self._beliefs is None:
            self._beliefs = BELIEFS[self._knowledge](sight.gpus_per_node)
        for job in sight.jobs:
            self._widest.setdefault(job, 0)
            if job.gpus and job.goes_on_s < sight.now_s:
                self._widest[job] = max(self._widest[job], job.gpus)
                self._beliefs.watch(job)

    def _look_up(self, job: Job) -> Speeds:
        """Return what is believed about a job in its present epoch."""
        assert self._beliefs is not None
        return self._beliefs.look_up(job)

    def _claim(self, jobs: Sequence[Job], sight: Sight, gpus: int) -> Sequence[Prospect]:
        """State what each job would make of some of so many GPUs."""
        fair, nodes = math.ceil(gpus / len(jobs)), set(sight.nodes)
        claims = []
        for job in jobs:
            speeds = self._look_up(job)
            most = min(max(2 * self._widest[job], self.need(job)), speeds.within.size - 1)
            base = speed_on(speeds.within, fair)
            factor = max(restart_factor(sight.now_s - job.submitted_s, job.rescales), _LEAST_FACTOR)
            held = job.places if all(node in nodes for node, _ in job.places) else ()
            within, across = speeds.within[: most + 1] / base, speeds.across[: most + 1] / base
            claims.append(Prospect(held, within, across, factor, sight.gpus_per_node))
        return claims


def speed_on(speeds: FloatArray, gpus: int) -> float:
    """Return the speed on a number of GPUs; where it does not run on them, on fewer, or else on the least."""
    runs = np.flatnonzero(speeds)
    if not runs.size:
        return 1.0
    return float(speeds[runs[max(int(np.searchsorted(runs, gpus, side="right")) - 1, 0)]])
