"""The price that fits: all jobs that are there run, on the widths of the lowest price of a GPU at which they fit.

BOA's plan (paper, section 4) puts one price on a GPU-hour, such that GPUs are in use as a budget says on average. On a
cluster of fixed size the price that does so changes with the jobs that are there: it is found anew whenever one arrives
or is over, where nodes are lost or come, and where five minutes pass between. Jobs take the widths of least cost for
what is left of them at that price, so no budget is needed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.cluster.jobs import Job, Sight
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR

#: Seconds after which prices are looked for again, though nobody came or went.
_EVERY_S = 300.0
#: How often a start and a change of width count: who changes for little would change back soon.
_HYSTERESIS = 3.0
#: Prices of a GPU-hour, in hours of a job of weight 1: from one at which jobs hold what takes least GPU-hours to one at
#: which they hold what is fastest; at equal weights the prices are 8 % apart.
_HIGHEST, _LOWEST, _PRICES = 1e3, 1e-5, 240
#: Into so many parts the work of a job is divided at least; where it has as many epochs, these are the parts.
_PARTS = 64


class _Table:
    """What jobs of a class hold at each of P descending prices, by the part (C,) of their work that is next."""

    # ``best`` (C, P) are widths to take, ``stays`` (C, P, K) whether to keep another; ``left`` (C,) what the rest
    # costs.

    def __init__(self, instance: BoaInstance, name: str, widths: Sequence[int], prices: FloatArray) -> None:
        job_class, options = instance.classes[name], instance.options(name)
        kept = np.flatnonzero(np.isin(options.widths, widths))
        self.widths: IntArray = options.widths[kept]
        self.place = {width: place for place, width in enumerate(self.widths.tolist())}
        self.parts = -(-_PARTS // job_class.num_epochs)
        speeds = np.broadcast_to(options.speeds[:, kept], (job_class.num_epochs, kept.size))
        hours: FloatArray = job_class.epoch_size_gpu_hours[:, None] / speeds
        #: By width (K, E + 1) when each epoch of a job ends that holds it.
        self.ends_h: list[list[float]] = np.cumsum(np.vstack([np.zeros(kept.size), hours]), axis=0).T.tolist()
        rate = job_class.weight * options.wall[kept] + prices[:, None] * (options.paid * options.held)[kept]
        enter = _HYSTERESIS * options.pause_h[kept] * rate
        count = self.parts * job_class.num_epochs
        self.best = np.zeros((count, prices.size), dtype=np.int64)
        self.stays = np.zeros((count, prices.size, kept.size), dtype=bool)
        self.left = [0.0] * count
        self._known: dict[tuple[int, int], IntArray] = {}
        rest = np.zeros_like(rate)
        for epoch in range(job_class.num_epochs - 1, -1, -1):
            whole = hours[epoch] * rate
            for part in range(self.parts - 1, -1, -1):
                row = epoch * self.parts + part
                cost = rest + (1.0 - part / self.parts) * whole
                entered = cost + enter
                least = entered.min(axis=1, keepdims=True)
                self.best[row] = self.widths[entered.argmin(axis=1)]
                self.stays[row] = cost <= least
                self.left[row] = float(least[0, 0]) / job_class.weight
            rest = np.minimum(cost, least)

    def demand(self, row: int, held: int) -> IntArray:
        """Return (P,) what a job wants at each price that holds some GPUs, or none."""
        if (row, held) not in self._known:
            place = self.place.get(held)
            best = self.best[row]
            self._known[row, held] = best if place is None else np.where(self.stays[row, :, place], held, best)
        return self._known[row, held]


class PriceThatFits:
    """Let all jobs run on the widths of the lowest price at which they fit, on a cluster of fixed size."""

    # What is left over goes to those who want more at the next lower price; where jobs do not fit at the highest one,
    # those with least left per weight go first. Jobs count as of mean size; one of an unknown class holds one GPU.

    name, interval_s = "price-that-fits", None

    def __init__(self, instance: BoaInstance) -> None:
        self._instance = instance
        self._least = {name: int(instance.allowed_widths(name).min()) for name in instance.classes}
        weights = [job_class.weight for job_class in instance.classes.values()]
        self._prices = np.geomspace(_HIGHEST * max(weights), _LOWEST * min(weights), _PRICES)
        self._tables: dict[str, _Table] = {}
        self._there = 0, 0  # GPUs that could be used, and jobs, when it was last found
        self._next_s = 0.0

    def need(self, job: Job) -> int:
        """Return the least width of its class."""
        return self._least.get(job.application, 1)

    def keeps_until(self, job: Job) -> int:
        """Return the epoch that ends when the price is looked for again, or after that."""
        table = self._tables.get(job.application)
        if table is None:
            return job.truth.num_epochs
        ends_h, done = table.ends_h[table.place[job.gpus]], job.epochs_done
        left_h = (self._next_s - job.trains_from_s) / SECONDS_PER_HOUR / job.size
        return max(bisect_left(ends_h, ends_h[done] + left_h), done + 1)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Find the price, where it is time to."""
        before, now = self._there, (sight.require_fixed(self.name, "divides"), len(sight.jobs))
        came = [job for job in sight.changed if not job.gpus]  # who arrives, or was on a node that is lost
        if not came and now == before and sight.now_s < self._next_s:
            return {}
        self._there, self._next_s, gpus = now, sight.now_s + _EVERY_S, now[0]
        for job in came:
            name = job.application
            if name in self._least and name not in self._tables:
                widths = [
                    k for k in self._instance.allowed_widths(name).tolist() if k <= sight.gpus and job.truth.runs_on(k)
                ]
                self._tables[name] = _Table(self._instance, name, widths, self._prices)
        demands = [self._state(job, sight) for job in sight.jobs]
        return dict(zip(sight.jobs, _divide(demands, gpus), strict=True)) if demands else {}

    def _state(self, job: Job, sight: Sight) -> tuple[float, IntArray]:
        """Return what is left of a job, and its widths at the prices."""
        table = self._tables.get(job.application)
        if table is None:
            return math.inf, np.ones(_PRICES, dtype=np.int64)
        epoch, done = job.epochs_done, 1.0 - job.left
        if job.gpus:
            epoch, ends_s = job.look(sight.now_s)
            ends_h = table.ends_h[table.place[job.gpus]]
            left_h = (ends_s - max(sight.now_s, job.goes_on_s)) / SECONDS_PER_HOUR
            done = 1.0 - left_h / (ends_h[epoch + 1] - ends_h[epoch]) / job.size if job.size else 1.0
        part = min(max(int(done * job.size * table.parts), 0), table.parts - 1)
        row = epoch * table.parts + part
        return table.left[row], table.demand(row, job.gpus)


def _divide(demands: Sequence[tuple[float, IntArray]], gpus: int) -> list[int]:
    """Return what jobs hold that have so much left and want so much at each price, which descend."""
    wanted = np.stack([widths for _, widths in demands])
    fits = np.flatnonzero(wanted.sum(axis=0) <= gpus)
    held = [0] * len(demands)
    if not fits.size:
        for job in sorted(range(len(demands)), key=lambda job: demands[job][0]):
            if wanted[job, 0] <= gpus:
                held[job] = int(wanted[job, 0])
                gpus -= held[job]
        return held
    at = int(fits[-1])
    held[:] = wanted[:, at].tolist()
    free = gpus - sum(held)
    for job, more in enumerate((wanted[:, min(at + 1, wanted.shape[1] - 1)]).tolist()):
        if 0 < more - held[job] <= free:
            free -= more - held[job]
            held[job] = more
    return held
