"""Pollux: in every round, the division of the cluster's GPUs that is best by Pollux' fitness, and what it believes.

As in the simulators published with Pollux and with Sia: rounds of 60 s; a job may hold at most twice the GPUs that it
has been seen to run on, one at first, and 64 in all. The division is the one of
:func:`~optplan.lab.cluster.pollux.dividing.divide`. The cluster is of fixed size, or of as many nodes as keep its
efficiency near a target. How fast a job is, in its present epoch, is known or learned.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021. The autoscaling is
its section 4.3, with the band of "BOA Constrictor", section 6.1: a target efficiency c has the band c - d to c + d with
d = min(0.3 c, 0.3 (1 - c)); one of two numbers, around their mean, is that of the simulator published with Pollux.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence

import numpy as np

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import ROUND_S, Application, Job, Places, Sight, Spread, consolidate, spread_of
from optplan.lab.cluster.pollux.dividing import divide, share_gpus, trace
from optplan.lab.cluster.pollux.fitness import Prospect, Round, restart_factor
from optplan.lab.fields import Knowledge
from optplan.schema import FloatArray

#: The most GPUs of a job, as in the simulators published with Pollux and Sia.
MOST_GPUS = 64


# Beliefs about a job are speeds (2, K + 1) on 0 to K GPUs, of one node of any size and of several, in any unit; zero is
# that it cannot run.


class Truth:
    """What is true, on as few nodes as possible; where that is several, one node is not believed to be faster."""

    def __init__(self, gpus_per_node: int) -> None:
        self._gpus_per_node = gpus_per_node
        self._known: dict[Application, FloatArray] = {}

    def watch(self, job: Job) -> None:
        """Nothing is new."""

    def look_up(self, job: Job) -> FloatArray:
        """Look the present epoch up."""
        if job.truth not in self._known:
            self._known[job.truth] = self._derive(job.truth)
        return self._known[job.truth][:, job.epochs_done]

    def _derive(self, truth: Application) -> FloatArray:
        """Return the speeds of every epoch, (2, epochs, K + 1)."""
        speeds = np.zeros((2, truth.num_epochs, truth.largest_width(MOST_GPUS) + 1))
        for gpus in range(1, speeds.shape[2]):
            speeds[:, :, gpus] = _speeds(truth, consolidate(gpus, self._gpus_per_node))
            if 1 < gpus <= self._gpus_per_node:
                speeds[1, :, gpus] = _speeds(truth, (gpus - gpus // 2, gpus // 2))
        return speeds


class Learned:
    """What each job has learned: the model fitted to the spreads that it has run on, and linear speedups before."""

    # The model is a line in GPUs on one node and on several: a job remembers the fewest and the most GPUs of either, at
    # all local batches that were measured there. A job that learns by itself is believed instead.

    def __init__(self, gpus_per_node: int) -> None:
        self._gpus_per_node = gpus_per_node
        self._seen: dict[Job, frozenset[Spread]] = {}
        self._runs: dict[Application, FloatArray] = {}

    def watch(self, job: Job) -> None:
        """Remember how its GPUs are spread."""
        is_alone = job.gpus <= self._gpus_per_node
        spread = spread_of(job.places) if is_alone else consolidate(job.gpus, self._gpus_per_node)
        seen = self._seen.get(job, frozenset())
        alike = sorted({spread, *(one for one in seen if (len(one) > 1) is (len(spread) > 1))}, key=sum)
        others = {one for one in seen if (len(one) > 1) is not (len(spread) > 1)}
        self._seen[job] = frozenset({alike[0], alike[-1], *others})

    def look_up(self, job: Job) -> FloatArray:
        """Return what the model says; widths on which a job can truly not run are known to it."""
        truth = job.truth
        if job.agent is not None:
            return job.agent.believe(MOST_GPUS)
        fit_speeds = getattr(truth, "fit_speeds", None)
        if fit_speeds is None:
            raise UsageError(f"knowledge: nothing can be learned about {job.application}; choose {Knowledge.TRUTH}")
        speeds: FloatArray = fit_speeds(self._seen.get(job, frozenset()), MOST_GPUS)[:, job.epochs_done]
        if truth not in self._runs:
            self._runs[truth] = np.array([not gpus or truth.runs_on(gpus) for gpus in range(speeds.shape[1])], float)
        return speeds * self._runs[truth]


def _speeds(truth: Application, spread: Spread) -> FloatArray | float:
    """Return the speed of every epoch, in epochs per second; 0 where it cannot run."""
    times_s = truth.epoch_times_s(spread)
    return 0.0 if times_s is None else 1.0 / np.maximum(times_s, np.finfo(float).tiny)


#: At age 0 a start would be worth nothing, and nobody would start while nothing else happens: it is worth this.
_LEAST_FACTOR = 1e-9


class Pollux:
    """Divide all GPUs by Pollux' fitness; of its ``rounds``, so many are ``proven`` to be the best."""

    name, interval_s = "pollux", ROUND_S

    def __init__(self, knowledge: Knowledge = Knowledge.TRUTH) -> None:
        self._knowledge = knowledge
        self.rounds = self.proven = 0
        self._beliefs: Truth | Learned | None = None
        self._widest: dict[Job, int] = {}

    def need(self, job: Job) -> int:
        """Return the least number of GPUs on which it runs; 1 where there is none."""
        return job.truth.least_width or 1

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
            believe = Truth if self._knowledge is Knowledge.TRUTH else Learned
            self._beliefs = believe(sight.gpus_per_node)
        for job in sight.jobs:
            self._widest.setdefault(job, 0)
            if job.gpus and job.goes_on_s < sight.now_s:
                self._widest[job] = max(self._widest[job], job.gpus)
                self._beliefs.watch(job)

    def _look_up(self, job: Job) -> FloatArray:
        """Return what is believed about a job in its present epoch."""
        assert self._beliefs is not None
        return self._beliefs.look_up(job)

    def _claim(self, jobs: Sequence[Job], sight: Sight, gpus: int) -> Sequence[Prospect]:
        """State what each job would make of some of so many GPUs."""
        fair, nodes = math.ceil(gpus / len(jobs)), set(sight.nodes)
        claims = []
        for job in jobs:
            speeds = self._look_up(job)
            most = min(max(2 * self._widest[job], self.need(job)), speeds.shape[1] - 1)
            base = speed_on(speeds[0], fair)
            factor = max(restart_factor(sight.now_s - job.submitted_s, job.rescales), _LEAST_FACTOR)
            held = job.places if all(node in nodes for node, _ in job.places) else ()
            within, across = speeds[:, : most + 1] / base
            claims.append(Prospect(held, within, across, factor, sight.gpus_per_node))
        return claims


def speed_on(speeds: FloatArray, gpus: int) -> float:
    """Return the speed on a number of GPUs; where it does not run on them, on fewer, or else on the least."""
    runs = np.flatnonzero(speeds)
    if not runs.size:
        return 1.0
    return float(speeds[runs[max(int(np.searchsorted(runs, gpus, side="right")) - 1, 0)]])


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
    fix = "give an efficiency between 0 and 1, such as 0.5, or a band, such as 0.35:0.65"
    raise UsageError(f"policy: target: got {text!r}; {fix}")


class PolluxAutoscaled(Pollux):
    """Divide all GPUs by Pollux' fitness, on the number of nodes whose efficiency is closest to a target."""

    # Efficiency is the sum of speedups over one GPU by the GPUs of the cluster; bisection, as more nodes are used
    # worse.

    def __init__(self, target: str, knowledge: Knowledge = Knowledge.TRUTH) -> None:
        super().__init__(knowledge)
        self.name = f"pollux-autoscaled:{target}"
        self._low, self._target, self._high = read_band(target)

    def choose_nodes(self, sight: Sight) -> int:
        """Return the number of nodes: the present one, unless its efficiency is outside the band."""
        if not sight.jobs:
            return 1
        self._watch(sight)
        jobs, now = list(sight.jobs), int(sight.gpus) // sight.gpus_per_node
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
            alone = speed_on(speeds[0], 1) / self.need(job)
            total += float(speeds[0 if nodes <= 1 else 1, count]) / alone
        return total / gpus
