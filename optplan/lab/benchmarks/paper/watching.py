"""A replay that is watched: how long each decision takes, and how many nodes are given back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from optplan.instances.files import format_json, write_text
from optplan.instances.plain_data import read_data
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.policy import Sight
from optplan.lab.cluster.replaying import replay
from optplan.lab.sweeps import Cell, Checksums

Decided = TypeVar("Decided")

#: Raised whenever what is kept changes.
_REVISION = 2


def watch(cell: Cell, folder: Path, checksums: Checksums, *, begin: bool = True) -> dict[str, Any] | None:
    """Replay a cell and watch it, unless nothing is to be begun; what was watched before is read.

    Returns ``decisions``, ``decision_mean_s``, ``decision_most_s`` (processor time), and ``releases``, nodes given
    back.
    """
    path = folder / f"watched-{_REVISION}-{cell.digest(checksums)[:16]}.json"
    if path.is_file():
        known: dict[str, Any] = read_data(path)
        return known
    if not begin:
        return None
    policy = make_policy(cell.policy)
    jobs, gpus_per_node = cell.make_jobs()
    took_s: list[float] = []
    for name in ("choose_nodes", "allocate"):
        if hasattr(policy, name):
            setattr(policy, name, _time(getattr(policy, name), took_s))
    outcome = replay(jobs, policy, gpus_per_node=gpus_per_node, nodes=cell.nodes, start_s=cell.node_start_s)
    data = {
        "decisions": len(took_s),
        "decision_mean_s": float(np.mean(took_s)),
        "decision_most_s": float(np.max(took_s)),
        "releases": int(-np.minimum(np.diff(outcome.nodes_rented), 0).sum()),
    }
    write_text(format_json(data) + "\n", path, overwrite=True)
    return data


def _time(decide: Callable[[Sight], Decided], took_s: list[float]) -> Callable[[Sight], Decided]:
    """Return the same decision, which notes the processor time that it takes."""

    def decide_and_note(sight: Sight) -> Decided:
        begun = time.process_time()
        decided = decide(sight)
        took_s.append(time.process_time() - begun)
        return decided

    return decide_and_note
