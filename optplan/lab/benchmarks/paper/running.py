"""Running cells: in pieces, so that a run can be stopped after a time, and gathering curves from them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optplan.instances.plain_data import read_data
from optplan.lab.benchmarks.paper.curves import Curve, Point
from optplan.lab.benchmarks.paper.setting import Setting
from optplan.lab.cluster.cells import Cell
from optplan.lab.sweeps import run
from optplan.progress import Event, Listener

#: Cells to each processor between two looks at the clock.
_AT_ONCE = 2


@dataclass
class Runner:
    """Runs cells that are not in the folder yet; none begins after ``limit_s``, nor of policies as in ``without``."""

    setting: Setting
    processes: int = 1
    limit_s: float | None = None
    without: Sequence[str] = ()
    on_event: Listener | None = None
    #: What was run or read, by digest, and what was left.
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: int = 0
    _start: float = field(default_factory=time.perf_counter)

    def is_over(self) -> bool:
        """Whether no more cells are to be begun."""
        return self.limit_s is not None and time.perf_counter() - self._start > self.limit_s

    def run(self, what: str, cells: Iterable[Cell]) -> None:
        """Run cells, for a part of the page."""
        waiting = []
        for cell in cells:
            digest = cell.digest(self.setting.checksums)
            known = self._find(digest)
            if known is not None:
                self.done[digest] = known
            elif cell.policy.startswith(tuple(self.without)):
                self.left += 1
            elif digest not in self.done:
                waiting.append(cell)
        while waiting and not self.is_over():
            some, waiting = waiting[: _AT_ONCE * self.processes], waiting[_AT_ONCE * self.processes :]
            for told in run(some, self.setting.cells_folder, self.processes):
                self.done[told["digest"]] = told
            if self.on_event is not None:
                self.on_event(Event(f"{what}: {len(waiting)} cells to come", time.perf_counter() - self._start))
        self.left += len(waiting)

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """Return what came of a cell; None where it was not run."""
        return self.done.get(cell.digest(self.setting.checksums))

    def curve(self, name: str, cells: Mapping[str, Cell]) -> Curve:
        """Gather a policy's replays, by what was set; those that did not complete every job are left out."""
        points = []
        for label, cell in cells.items():
            told = self.get(cell)
            if told is not None and told["completed"] == told["num_jobs"]:
                points.append(
                    Point(
                        label,
                        told["gpu_hours"],
                        told["node_gpu_hours"],
                        told["mean_jct_s"],
                        told["p95_jct_s"],
                        told["most_gpus"],
                    )
                )
        return Curve(name, points)

    def _find(self, digest: str) -> dict[str, Any] | None:
        for path in self.setting.cells_folder.glob(f"*-{digest[:12]}.json"):
            told: dict[str, Any] = read_data(path)
            return told
        return None


Curves = dict[str, Curve]


def gather(runner: Runner, what: str, groups: Mapping[str, Mapping[str, Cell]]) -> Curves:
    """Run the cells of several policies and return the curves of those that have points."""
    runner.run(what, [cell for cells in groups.values() for cell in cells.values()])
    curves = {name: runner.curve(name, cells) for name, cells in groups.items()}
    return {name: curve for name, curve in curves.items() if curve.points}
