"""Pollux with goodput autoscaling: a cluster of as many nodes as keep its efficiency near a target.

The efficiency is the sum of the jobs' speedups over one GPU, divided by the GPUs of the cluster. In every round in
which it is outside a band, the number of nodes becomes the one at which the best division's efficiency is closest to
the target, without regard to where GPUs are; it is found by bisection, since more nodes are used less efficiently. Then
all GPUs are divided as :class:`~optplan.lab.cluster.policies.pollux.Pollux` does.

"BOA Constrictor", section 6.1: a target efficiency c has the band c - d to c + d with d = min(0.3 c, 0.3 (1 - c)).
Qiao et al., OSDI 2021, section 4.3; a band of two numbers around their mean is that of the simulator published with it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.pollux import Pollux, speed_on
from optplan.lab.cluster.policy import Sight
from optplan.lab.cluster.pollux.beliefs import Knowledge
from optplan.lab.cluster.pollux.dividing import share_gpus, trace

#: Half of the band, as a share of the target and of what is above it.
_HALF_BAND = 0.3


def read_band(text: str) -> tuple[float, float, float]:
    """Read a target efficiency, ``0.5``, or a band, ``0.35:0.65``: the least, the target and the largest one."""
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and 0.0 < numbers[0] < 1.0:
        target = numbers[0]
        half = _HALF_BAND * min(target, 1.0 - target)
        return target - half, target, target + half
    if len(numbers) == 2 and 0.0 < numbers[0] < numbers[1] < 1.0:
        return numbers[0], sum(numbers) / 2.0, numbers[1]
    message = f"target: got {text!r}; give an efficiency between 0 and 1, such as 0.5, or a band, such as 0.35:0.65"
    raise UsageError(message)


class PolluxAutoscaled(Pollux):
    """Divide all GPUs by Pollux' fitness, of as many nodes as suit a target efficiency."""

    def __init__(self, target: str, knowledge: Knowledge = Knowledge.TRUTH) -> None:
        super().__init__(knowledge)
        self.name = f"pollux-autoscaled:{target}"
        self._low, self._target, self._high = read_band(target)

    def choose_nodes(self, sight: Sight) -> int:
        """Return the number of nodes: the present one, unless its efficiency is outside the band."""
        if not sight.jobs:
            return 1
        self._watch(sight)
        jobs, now = list(sight.jobs), len(sight.nodes)
        held = [(job.gpus, len(job.places)) for job in jobs]
        if self._low <= self._measure(jobs, held, now * sight.gpus_per_node) <= self._high:
            return now
        return self._search_nodes(jobs, sight)

    def _search_nodes(self, jobs: Sequence[Job], sight: Sight) -> int:
        """Return the number of nodes whose efficiency is closest to the target."""
        size = sight.gpus_per_node
        most = max(sum(claim.most_gpus for claim in self._claim(jobs, sight, size)) // size, 1)
        found: dict[int, float] = {}

        def miss(nodes: int) -> float:
            if nodes not in found:
                claims = self._claim(jobs, sight, nodes * size)
                _, shared = share_gpus(claims, nodes * size)
                counts = trace(claims, shared, nodes * size)
                held = [(count, 1 if count <= size else 2) for count in counts]
                found[nodes] = self._measure(jobs, held, nodes * size) - self._target
            return found[nodes]

        few = bisect.bisect_right(range(1, most + 1), 0.0, key=lambda nodes: -miss(nodes))
        return min((max(few, 1), min(few + 1, most)), key=lambda nodes: abs(miss(nodes)))

    def _measure(self, jobs: Sequence[Job], held: Sequence[tuple[int, int]], gpus: int) -> float:
        """Return the efficiency of a cluster on which jobs hold numbers of GPUs on numbers of nodes."""
        total = 0.0
        for job, (count, nodes) in zip(jobs, held, strict=True):
            speeds = self._look_up(job)
            alone = speed_on(speeds.within, 1) / self.need(job)
            total += float((speeds.within if nodes <= 1 else speeds.across)[count]) / alone
        return total / gpus
