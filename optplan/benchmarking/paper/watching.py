"""A replay that is watched: how long each decision takes, and how many nodes are given back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optplan.instances.files import format_json, write_text
from optplan.instances.plain_data import read_data
from optplan.simulation.cluster.cells import Cell, Checksums
from optplan.simulation.cluster.jobs import Job
from optplan.simulation.cluster.policies.naming import make_policy
from optplan.simulation.cluster.policy import Policy, Sight, SizingPolicy, Wish
from optplan.simulation.cluster.replaying import replay

#: Raised whenever what is kept changes.
_REVISION = 2


class Watched:
    """A policy, watched.

    Parameters
    ----------
    policy
        What it does.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name, self.interval_s = policy.name, policy.interval_s
        self.took_s: list[float] = []

    def need(self, job: Job) -> int:
        """As the policy."""
        return self._policy.need(job)

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        """As the policy; notes the processor time that it took."""
        begun = time.process_time()
        wishes = self._policy.allocate(sight)
        self.took_s.append(time.process_time() - begun)
        return wishes


class WatchedSizing(Watched):
    """A policy that also chooses nodes, watched."""

    def __init__(self, policy: SizingPolicy) -> None:
        super().__init__(policy)
        self._sizing = policy

    def choose_nodes(self, sight: Sight) -> int:
        """As the policy; a decision of its own."""
        begun = time.process_time()
        nodes = self._sizing.choose_nodes(sight)
        self.took_s.append(time.process_time() - begun)
        return nodes


def watch(cell: Cell, folder: Path, checksums: Checksums, *, begin: bool = True) -> dict[str, Any] | None:
    """Replay a cell and watch it, unless nothing is to be begun; what was watched before is read.

    Returns
    -------
    dict, optional
        ``decisions``, ``decision_mean_s``, ``decision_most_s`` (processor time), and ``releases``: nodes given back.
    """
    path = folder / f"watched-{_REVISION}-{cell.digest(checksums)[:16]}.json"
    if path.is_file():
        known: dict[str, Any] = read_data(path)
        return known
    if not begin:
        return None
    policy = make_policy(cell.policy)
    jobs, gpus_per_node = cell.make_jobs()
    watched = WatchedSizing(policy) if isinstance(policy, SizingPolicy) else Watched(policy)
    outcome = replay(jobs, watched, gpus_per_node=gpus_per_node, nodes=cell.nodes, start_s=cell.node_start_s)
    data = {
        "decisions": len(watched.took_s),
        "decision_mean_s": float(np.mean(watched.took_s)),
        "decision_most_s": float(np.max(watched.took_s)),
        "releases": int(-np.minimum(np.diff(outcome.nodes_rented), 0).sum()),
    }
    write_text(format_json(data) + "\n", path, overwrite=True)
    return data
