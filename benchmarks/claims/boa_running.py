"""Running cells in pieces that are kept; curves of what they reach; their efficiency; replays that are watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from claims.boa_setting import Setting
from optplan.instances.files import format_json, write_text
from optplan.instances.plain_data import read_data
from optplan.lab.cluster.jobs import Sight
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.lab.sweeps import Cell, run
from optplan.progress import Event, Listener

Decided = TypeVar("Decided")
_Name = TypeVar("_Name")


@dataclass(frozen=True)
class Point:
    """One replay of what ``label`` says: what was held and rented, completion times, the most GPUs at once."""

    label: str
    gpu_hours: float
    node_gpu_hours: float
    mean_s: float
    p95_s: float
    most_gpus: int


@dataclass(frozen=True)
class Curve:
    """A policy's replays on one trace, at least one, by what they used."""

    name: str
    points: Sequence[Point]

    def at(self, hours: float, what: str = "mean_s", use: str = "node_gpu_hours") -> float | None:
        """Return a figure at so many GPU-hours: the least that the policy reaches with as many or fewer.

        Between two points both completion times and hours follow a line of powers; None where all points need more.
        """
        ordered = sorted((getattr(point, use), getattr(point, what)) for point in self.points)
        hours_of = np.array([one for one, _ in ordered])
        values = np.minimum.accumulate(np.array([value for _, value in ordered]))
        if not hours_of.size or hours < hours_of[0] * (1 - 1e-9):
            return None
        return float(np.exp(np.interp(np.log(hours), np.log(hours_of), np.log(values))))

    def hours_for(self, seconds: float) -> float | None:
        """Return the GPU-hours for a mean completion time; None where the policy does not reach it."""
        ordered = sorted((point.node_gpu_hours, point.mean_s) for point in self.points)
        values = np.minimum.accumulate(np.array([value for _, value in ordered]))
        if not values.size or seconds < values[-1] or seconds > values[0]:
            return None
        hours_of = np.array([one for one, _ in ordered])
        return float(np.exp(np.interp(-np.log(seconds), -np.log(values), np.log(hours_of))))

    def nearest(self, hours: float) -> Point:
        """Return the point whose GPU-hours are nearest, as a factor."""
        return min(self.points, key=lambda point: abs(np.log(point.node_gpu_hours / hours)))


def compare(curve: Curve, rival: Curve, what: str = "mean_s", use: str = "node_gpu_hours") -> list[tuple[Point, float]]:
    """Return by which factor each point of a rival is above the curve at the same GPU-hours.

    Points at which the curve has none as cheap are left out, and those that a cheaper one of the rival's beats: nobody
    would choose them.
    """
    found = []
    for point in rival.points:
        hours, value = getattr(point, use), getattr(point, what)
        own, best = curve.at(hours, what, use), rival.at(hours, what, use)
        if own is not None and best is not None and value <= best * (1 + 1e-9):
            found.append((point, value / own))
    return found


#: Cells between two messages.
_AT_ONCE = 2


@dataclass
class Runner:
    """Runs cells that are not in the folder yet, one after the other."""

    setting: Setting
    on_event: Listener | None = None
    #: What was run or read, by digest.
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    _start: float = field(default_factory=time.perf_counter)

    def run(self, what: str, cells: Mapping[_Name, Cell]) -> dict[_Name, dict[str, Any]]:
        """Run cells, for a part of the page; return what came of each."""
        waiting = []
        for cell in cells.values():
            digest = cell.digest(self.setting.checksums)
            path = next(self.setting.cells_folder.glob(f"*-{digest[:12]}.json"), None)
            if path is not None:
                self.done[digest] = read_data(path)
            elif digest not in self.done:
                waiting.append(cell)
        while waiting:
            some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            for told in run(some, self.setting.cells_folder, 1):
                self.done[told["digest"]] = told
            if self.on_event is not None:
                self.on_event(Event(f"{what}: {len(waiting)} cells to come", time.perf_counter() - self._start))
        return {name: self.done[cell.digest(self.setting.checksums)] for name, cell in cells.items()}


def average_efficiency(cell: Mapping[str, Any]) -> tuple[float, float]:
    """Return the efficiency of rented GPUs, averaged over the time in which there are any, and over their GPU-hours.

    It is the work on the fewest GPUs over the GPU-time rented.
    """
    told = cell["over_time"]
    rented, used = np.array(told["gpus_rented"]), np.array(told["gpus_used"])
    work = np.array([each or 0.0 for each in told["efficiency"]]) * used
    there = rented > 0
    return float((work[there] / rented[there]).mean()), float(work[there].sum() / rented.sum())


#: Raised whenever what is kept changes.
_REVISION = 3


def watch(cell: Cell, folder: Path, checksums: Callable[[str], str]) -> dict[str, Any]:
    """Replay a cell and watch it; what was watched before is read.

    Returns ``decisions``, ``decision_mean_s`` and ``decision_most_s`` (processor time).
    """
    path = folder / f"watched-{_REVISION}-{cell.digest(checksums)[:16]}.json"
    return keep(path, lambda: _watch(cell))


def keep(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a file has, which is made where it is not there yet."""
    if not path.is_file():
        write_text(format_json(make()) + "\n", path, overwrite=True)
    told: dict[str, Any] = read_data(path)
    return told


def _watch(cell: Cell) -> dict[str, Any]:
    policy = make_policy(cell.policy)
    jobs, gpus_per_node, start_s = cell.make_jobs()
    took_s: list[float] = []
    for name in ("choose_nodes", "allocate"):
        if hasattr(policy, name):
            setattr(policy, name, _time(getattr(policy, name), took_s))
    replay(jobs, policy, gpus_per_node=gpus_per_node, nodes=cell.nodes, start_s=start_s)
    return {
        "decisions": len(took_s),
        "decision_mean_s": float(np.mean(took_s)),
        "decision_most_s": float(np.max(took_s)),
    }


def _time(decide: Callable[[Sight], Decided], took_s: list[float]) -> Callable[[Sight], Decided]:
    """Return the same decision, which notes the processor time that it takes."""

    def decide_and_note(sight: Sight) -> Decided:
        begun = time.process_time()
        decided = decide(sight)
        took_s.append(time.process_time() - begun)
        return decided

    return decide_and_note
