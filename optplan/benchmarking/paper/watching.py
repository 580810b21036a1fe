"""A replay that is watched: GPUs over time, efficiency over time, and how long each decision takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optplan.instances.files import format_json, write_text
from optplan.instances.plain_data import read_data
from optplan.instances.sia import read_workload
from optplan.simulation.cluster.cells import Cell, Checksums
from optplan.simulation.cluster.jobs import Job, consolidate, spread_of
from optplan.simulation.cluster.policies.naming import make_policy
from optplan.simulation.cluster.policy import Policy, Sight, SizingPolicy, Wish
from optplan.simulation.cluster.profiled_jobs import make_jobs
from optplan.simulation.cluster.replaying import replay
from optplan.units import SECONDS_PER_HOUR

#: Points of a line over time.
_POINTS = 600
#: Raised whenever what is kept changes.
_REVISION = 1


class Watched:
    """A policy, watched.

    Parameters
    ----------
    policy
        What it does.
    gpus_per_node
        GPUs of one node.
    """

    def __init__(self, policy: Policy, gpus_per_node: int) -> None:
        self._policy, self._gpus_per_node = policy, gpus_per_node
        self.name, self.interval_s = policy.name, policy.interval_s
        self.took_s: list[float] = []
        self.speedups: list[tuple[float, float]] = []

    def need(self, job: Job) -> int:
        """As the policy."""
        return self._policy.need(job)

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        """As the policy; notes what it took, and the speedups of all jobs from then on."""
        begun = time.perf_counter()
        wishes = self._policy.allocate(sight)
        self.took_s.append(time.perf_counter() - begun)
        total = sum(self._speedup(job, wishes.get(job, job.places)) for job in sight.jobs)
        self.speedups.append((sight.now_s, total))
        return wishes

    def _speedup(self, job: Job, wish: Wish) -> float:
        """Return how much faster than on one GPU a job runs on what it is to hold, its pauses aside."""
        spread = consolidate(wish, self._gpus_per_node) if isinstance(wish, int) else spread_of(wish)
        if not spread:
            return 0.0
        one = job.truth.epoch_times_s((1,))
        now = job.truth.epoch_times_s(spread)
        if one is None or now is None:
            return float(sum(spread))
        return float(one[job.epochs_done] / now[job.epochs_done])


class WatchedSizing(Watched):
    """A policy that also chooses nodes, watched."""

    def __init__(self, policy: SizingPolicy, gpus_per_node: int) -> None:
        super().__init__(policy, gpus_per_node)
        self._sizing = policy

    def choose_nodes(self, sight: Sight) -> int:
        """As the policy; counts as a part of the next decision."""
        begun = time.perf_counter()
        nodes = self._sizing.choose_nodes(sight)
        self.took_s.append(time.perf_counter() - begun)
        return nodes


def watch(cell: Cell, folder: Path, checksums: Checksums) -> dict[str, Any]:
    """Replay a cell and watch it; what was watched before is read.

    Returns
    -------
    dict
        ``summary``; ``hours``, ``used``, ``rented`` (GPUs) and ``efficiency`` over time, thinned; its averages over the
        time while nodes are rented, ``efficiency_by_time``, and over their GPU-hours, ``efficiency_by_gpu``;
        ``decisions``, ``decision_mean_s``, ``decision_most_s``; ``releases``: nodes given back.
    """
    path = folder / f"watched-{_REVISION}-{cell.digest(checksums)[:16]}.json"
    if path.is_file():
        known: dict[str, Any] = read_data(path)
        return known
    policy = make_policy(cell.policy)
    jobs, gpus_per_node = make_jobs(read_workload(cell.workload), cell.profiles, cell.gpu, slowdown=cell.slowdown)
    if isinstance(policy, SizingPolicy):
        watched: Watched = WatchedSizing(policy, gpus_per_node)
    else:
        watched = Watched(policy, gpus_per_node)
    outcome = replay(jobs, watched, gpus_per_node=gpus_per_node, nodes=cell.nodes, start_s=cell.node_start_s)
    times = outcome.times_s
    rented = outcome.nodes_rented * gpus_per_node
    asked = np.array([at for at, _ in watched.speedups])
    speedups = np.array([total for _, total in watched.speedups])
    # The last decision at or before each time; after the last one nobody runs.
    at = np.searchsorted(asked, times, side="right") - 1
    running = np.where((at >= 0) & (outcome.gpus_used > 0), speedups[np.maximum(at, 0)], 0.0)
    efficiency = np.divide(running, rented, out=np.zeros(times.size), where=rented > 0)
    lasts = np.diff(times, append=times[-1])
    thin = np.unique(np.linspace(0, times.size - 1, _POINTS).astype(int))
    data = {
        "summary": outcome.summarise(),
        "hours": (times[thin] / SECONDS_PER_HOUR).round(4).tolist(),
        "used": outcome.gpus_used[thin].tolist(),
        "rented": rented[thin].tolist(),
        "efficiency": efficiency[thin].round(4).tolist(),
        "efficiency_by_time": float((efficiency * lasts)[rented > 0].sum() / lasts[rented > 0].sum()),
        "efficiency_by_gpu": float((running * lasts).sum() / (rented * lasts).sum()),
        "decisions": len(watched.took_s),
        "decision_mean_s": float(np.mean(watched.took_s)),
        "decision_most_s": float(np.max(watched.took_s)),
        "releases": int(-np.minimum(np.diff(outcome.nodes_rented), 0).sum()),
    }
    write_text(format_json(data) + "\n", path, overwrite=True)
    return data
