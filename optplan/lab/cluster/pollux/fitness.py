r"""Pollux' fitness: how good it is that jobs hold these GPUs of these nodes in the next round.

The fitness is the power mean, with exponent -1, of what each job makes of its GPUs,

.. math:: F = \Big( \frac{1}{J} \sum_j \frac{1}{u_j + \epsilon} \Big)^{-1}, \qquad u_j = \frac{s_j\, r_j}{g},

with s_j the job's speed over that on its fair share of the cluster, g the GPUs of a node, and epsilon 0.001. Where a
job does not keep the very GPUs that it holds it restarts, and then r_j = max(A - R d, 0) / (A + d) for its age A, its
restarts R until now and d = 30 s; else r_j = 1. Speeds depend on the number of GPUs, and on whether they are on one
node or on several. On one node there is at most one job that uses several (interference), a job uses 16 at most, and
no more GPUs than it may.

So 1 / F is a mean over jobs of numbers that depend on what each holds alone: the *costs* here.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, section 4.2;
epsilon, g, the share on one node and the 16 nodes are those of the simulator published with it (petuum/adaptdl, branch
osdi21-artifact, ``simulator/pollux.py``), which the Sia artifact has as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optplan.lab.cluster.jobs import Places
from optplan.schema import FloatArray

#: What is added to each job's speed, so that jobs without GPUs count.
EPSILON = 1e-3
#: Seconds that a restart is taken to last.
RESTART_S = 30.0
#: Nodes that one job uses at most.
MOST_NODES = 16


def restart_factor(age_s: float, restarts: int) -> float:
    """Return what a restart leaves of a job's speed: its training time over its age, one restart later."""
    return max(age_s - restarts * RESTART_S, 0.0) / (age_s + RESTART_S)


@dataclass(frozen=True, eq=False)
class Prospect:
    """What a job makes of 0 to K GPUs (K + 1,), within a node or across, relative to its speed on a fair share."""

    held: Places
    within: FloatArray
    across: FloatArray
    restart_factor: float
    gpus_per_node: int

    @property
    def most_gpus(self) -> int:
        """The most GPUs that it may hold."""
        return self.within.size - 1

    @cached_property
    def held_gpus(self) -> int:
        """GPUs that it holds."""
        return sum(count for _, count in self.held)

    @cached_property
    def held_cost(self) -> float:
        """Its cost where it keeps what it holds; infinite where that is more than it may hold, or nothing."""
        if not 0 < self.held_gpus <= self.most_gpus:
            return np.inf
        speeds = self.within if len(self.held) == 1 else self.across
        return 1.0 / (float(speeds[self.held_gpus]) / self.gpus_per_node + EPSILON)

    @cached_property
    def within_costs(self) -> FloatArray:
        """(K + 1,) Its cost on GPUs of one node that it does not hold; infinite where they do not fit on one."""
        return self._restarted(self.within, self.gpus_per_node)

    @cached_property
    def across_costs(self) -> FloatArray:
        """(K + 1,) Its cost on GPUs of several nodes; infinite for one GPU and where it cannot run."""
        costs = self._restarted(self.across, MOST_NODES * self.gpus_per_node)
        costs[1:2] = np.inf
        return costs

    def _restarted(self, speeds: FloatArray, most: int) -> FloatArray:
        costs = 1.0 / (speeds * (self.restart_factor / self.gpus_per_node) + EPSILON)
        costs[1:][speeds[1:] <= 0.0] = np.inf
        costs[most + 1 :] = np.inf
        return costs

    def cost(self, places: Places) -> float:
        """Return its cost where it holds these GPUs."""
        if sorted(places) == sorted(self.held):
            return self.held_cost if places else 1.0 / EPSILON
        costs = self.within_costs if len(places) <= 1 else self.across_costs
        return float(costs[sum(count for _, count in places)])


@dataclass(frozen=True, eq=False)
class Round:
    """What there is to divide, and among whom, in the order of preference where nothing else decides; nodes ascend."""

    claims: Sequence[Prospect]
    nodes: Sequence[int]
    gpus_per_node: int

    def fitness(self, division: Sequence[Places]) -> float:
        """Return the fitness of a division: what each job holds."""
        costs = sum(claim.cost(places) for claim, places in zip(self.claims, division, strict=True))
        return len(self.claims) / costs
