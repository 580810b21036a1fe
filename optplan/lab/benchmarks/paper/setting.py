"""What is run: data, folders, and how large the evaluation is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from optplan.errors import UsageError
from optplan.lab.benchmarks.paper.plans import GPU, Planned, Planner
from optplan.lab.benchmarks.paper.traces import FILTERED, Trace, filter_trace
from optplan.lab.cluster.cells import Cell, Checksums


@dataclass(frozen=True)
class Scope:
    """How large the evaluation is.

    Budgets are of newTrace, filterTrace, the 85 jobs of figure 4, the Philly traces, newTrace's other samples, and BOA
    that calculates widths again as it goes. Fixed clusters have ``nodes`` of 4 GPUs. Where jobs learn their speeds
    (``learning_nodes``, ``learning_targets``) a replay takes minutes, nearly all of them for fits. ``others`` counts
    newTrace's and Philly's traces beside the first, ``seeds`` those of each C^2 of bursts in ``variations``;
    ``searched`` adds Pollux with the search as published; ``jobs`` are the first of each trace, None for all.
    """

    budgets_gpus: tuple[float, ...] = (98, 100, 105, 110, 115, 120, 125, 130, 140, 150, 160, 180, 200, 230, 260, 300)
    filtered_gpus: tuple[float, ...] = (65, 70, 75, 80, 85, 90, 100, 110, 120, 140, 160, 200)
    few_gpus: tuple[float, ...] = (18, 20, 22, 25, 28, 30, 35, 40, 45, 50, 55, 60, 70, 80, 100, 120)
    philly_gpus: tuple[float, ...] = (100, 110, 120, 130, 140, 160, 180, 200, 240)
    elsewhere_gpus: tuple[float, ...] = (100, 105, 110, 120, 130, 140, 160, 180, 200, 240)
    online_gpus: tuple[float, ...] = (110, 130, 160, 200)
    widths: tuple[int, ...] = (4, 6, 8, 10, 12, 14, 16, 20, 24, 32)
    nodes: tuple[int, ...] = (24, 28, 32, 40, 48)
    targets: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    learning_nodes: tuple[int, ...] = (24, 28, 32)
    learning_targets: tuple[float, ...] = (0.5, 0.7, 0.9)
    others: int = 4
    variations: tuple[float, ...] = (1.0, 2.65, 5.0, 10.0, 20.0, 30.0)
    seeds: tuple[int, ...] = (1, 2, 3)
    max_width: int = 64
    searched: str = "pollux-nsga2"
    jobs: int | None = None


#: Enough to see that everything runs.
QUICK = Scope(
    budgets_gpus=(4, 6, 10),
    filtered_gpus=(3, 5, 8),
    few_gpus=(5, 8, 14),
    philly_gpus=(20, 30, 50),
    elsewhere_gpus=(4, 6, 10),
    online_gpus=(6,),
    widths=(2, 4),
    nodes=(2, 3),
    targets=(0.5,),
    learning_nodes=(2,),
    learning_targets=(0.5,),
    others=1,
    variations=(1.0, 10.0),
    seeds=(1,),
    max_width=16,
    searched="pollux-nsga2:4x4",
    jobs=12,
)


@dataclass
class Setting:
    """Where everything is: public data, and a folder of cells, plans, sub-traces, of which nothing runs again."""

    data: Path
    folder: Path
    scope: Scope = field(default_factory=Scope)

    def __post_init__(self) -> None:
        if not (self.data / "sia" / "traces").is_dir():
            raise UsageError(f"data: no folder sia/traces in {self.data}; give the folder of the public data")
        self.profiles = self.data / "sia" / "traces"
        self.planner = Planner(self.profiles, self.folder / "plans", self.scope.max_width)
        self.checksums = Checksums()

    @property
    def cells_folder(self) -> Path:
        """Where what was simulated is."""
        return self.folder / "cells"

    def newtrace(self, number: int = 1) -> Trace:
        """Return one of newTrace's five samples, each 48 h."""
        return self._cut(f"newtrace-{number}", f"sia/workloads/newtrace/workload-{number}.csv", 48.0)

    def philly(self, number: int = 1) -> Trace:
        """Return one of Philly's four samples, each 8 h."""
        return self._cut(f"philly-{number}", f"sia/workloads/philly/workload-{number}.csv", 8.0)

    def filtertrace(self) -> Trace:
        """Return filterTrace: the jobs of newTrace of three applications (section 6.3)."""
        return filter_trace(self.newtrace(), "filtertrace", self._traces, applications=FILTERED)

    def few_jobs(self) -> Trace:
        """Return the 85 jobs of figure 4: those of the same applications in Pollux' workload-1 (section 6.1)."""
        whole = Trace("workload-1", self.data / "adaptdl" / "workloads" / "workload-1.csv", 8.0)
        return filter_trace(whole, "workload-1-of-85", self._traces, applications=FILTERED, most=self.scope.jobs)

    def cell(self, trace: Trace, policy: str | Planned, **parameters: int | float | str) -> Cell:
        """Return what simulates a trace under a policy, with Sia's slowdowns."""
        name = str(policy.path) if isinstance(policy, Planned) else policy
        known = {"workload": str(trace.path), "profiles": str(self.profiles), "gpu": GPU, "slowdown": True}
        return Cell.parse(known | {"policy": name} | parameters)

    @property
    def _traces(self) -> Path:
        return self.folder / "traces"

    def _cut(self, name: str, path: str, span_h: float) -> Trace:
        whole = Trace(name, self.data / path, span_h)
        return whole if self.scope.jobs is None else filter_trace(whole, name, self._traces, most=self.scope.jobs)
