"""What is run: data, traces, plans on their rates, and how large the evaluation is.

Sub-traces and traces that arrive in bursts are written as CSV files in the format of the Sia artifact, outside the
repository.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from optplan.contracts import Status
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.instances.files import write_json, write_text
from optplan.lab.sweeps import Cell, take_checksum
from optplan.lab.traces.sia import Timing
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.schema import FloatArray
from optplan.solving import solve
from optplan.units import Amount, BudgetUnit

#: The three smaller applications, of which filterTrace and the 85 jobs of figure 4 consist (sections 6.1, 6.3).
FILTERED = ("bert", "cifar10", "deepspeech2")
#: Jobs in a cycle of a high and a low rate, on average; with 20 C^2 can go up to 41 (see :func:`make_bursts`), and
#: newTrace's cycles are an hour long.
CYCLE_JOBS = 20.0


@dataclass(frozen=True)
class Trace:
    """A CSV file of jobs, and the hours over which they arrive, the divisor of averages."""

    name: str
    path: Path
    span_h: float


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of a trace."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_trace(name: str, rows: Sequence[Mapping[str, object]], folder: Path, span_h: float) -> Trace:
    """Write a trace into a folder, replacing what is there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(text.getvalue(), folder / f"{name}.csv", overwrite=True)
    return Trace(name, folder / f"{name}.csv", span_h)


def filter_trace(
    trace: Trace, name: str, folder: Path, *, applications: Collection[str] | None = None, most: int | None = None
) -> Trace:
    """Make the sub-trace of some applications, or of the first jobs."""
    rows = [row for row in read_rows(trace.path) if applications is None or row["application"] in applications]
    return write_trace(name, rows[:most], folder, trace.span_h)


def make_bursts(trace: Trace, variation: float, seed: int, folder: Path) -> Trace:
    """Make a trace of the same jobs in the same order, at the same mean rate, that arrive in bursts (figure 9).

    Jobs arrive at a high rate or not at all: an interrupted Poisson process, whose interarrival times have
    C^2 = 1 + 2 n (1 - p)^2 where n jobs arrive in a cycle on average and a share p of the time is on. Cycles
    stay as long as they are, so that larger C^2 are shorter and more intense bursts. The last arrival is scaled to that
    of the trace.
    """
    rows = read_rows(trace.path)
    on_share = 1.0 - np.sqrt((variation - 1.0) / (2.0 * CYCLE_JOBS))
    cycle_h = CYCLE_JOBS * trace.span_h / len(rows)
    generator = np.random.default_rng(seed)
    arrivals: list[float] = []
    now_h, rate = 0.0, len(rows) / trace.span_h / on_share
    while len(arrivals) < len(rows):
        ends_h = now_h + generator.exponential(on_share * cycle_h) if on_share < 1.0 else np.inf
        while len(arrivals) < len(rows):
            now_h += generator.exponential(1.0 / rate)
            if now_h >= ends_h:
                break
            arrivals.append(now_h)
        if on_share < 1.0:
            now_h = ends_h + generator.exponential((1.0 - on_share) * cycle_h)
    times_s = np.array(arrivals) * (float(rows[-1]["time"]) / arrivals[-1])
    changed = [row | {"time": f"{time_s:.2f}"} for row, time_s in zip(rows, times_s.tolist(), strict=True)]
    return write_trace(f"bursts-{variation:g}-seed{seed}", changed, folder, trace.span_h)


def read_arrivals(trace: Trace) -> FloatArray:
    """Return the seconds at which jobs arrive, (jobs,)."""
    return np.array([float(row["time"]) for row in read_rows(trace.path)])


def measure_variation(trace: Trace) -> float:
    """Return C^2: the variance of the interarrival times over their squared mean."""
    between = np.diff(np.concatenate([[0.0], read_arrivals(trace)]))
    return float(between.var() / between.mean() ** 2)


#: Solvers whose plans are compared, by what the page calls them.
SOLVERS = {"BOA, exact widths": "layered-paths", "BOA, Algorithm 1": "published-algorithm1"}
EXACT, PUBLISHED = SOLVERS
POLLUX, AUTOSCALED = "Pollux", "Pollux with autoscaling"
GPU = "aws"


@dataclass(frozen=True)
class Planned:
    """The file of a plan."""

    path: Path


@dataclass
class Planner:
    """Makes plans, and keeps their instances."""

    profiles: Path
    folder: Path
    max_width: int
    slowdown: bool = True
    #: What was planned, by trace, name of the solver, budget and timing; None where no plan keeps the budget.
    plans: dict[tuple[str, str, float, Timing], Planned | None] = field(default_factory=dict)
    _instances: dict[tuple[str, Timing], BoaInstance] = field(default_factory=dict)

    def plan(self, trace: Trace, name: str, budget_gpus: float, timing: Timing = Timing.TABLES) -> Planned | None:
        """Plan on a trace's rates, spread over its span, once; None where no plan keeps the budget.

        ``timing`` is ``tables``, the speeds that the replay has, or ``model``, the goodput model fitted to them.
        """
        key = (trace.name, name, budget_gpus, timing)
        if key not in self.plans:
            self.plans[key] = self._solve(trace, SOLVERS[name], budget_gpus, timing)
        return self.plans[key]

    def _solve(self, trace: Trace, solver: str, budget_gpus: float, timing: Timing) -> Planned | None:
        instance = self.build(trace, budget_gpus, timing)
        result = solve(instance, solver=solver)
        if result.status is Status.INFEASIBLE or result.solution is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{trace.name}-{timing.value}-{solver}-{budget_gpus:g}.json"
        write_json(build_plan(instance, result), path, overwrite=True)
        return Planned(path)

    def write_instance(self, trace: Trace, budget_gpus: float, timing: Timing = Timing.TABLES) -> Path:
        """Write the instance of a trace's rates with a budget, and return its file."""
        path = self.folder / f"{trace.name}-{timing.value}-{budget_gpus:g}.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.build(trace, budget_gpus, timing), path, overwrite=True)
        return path

    def build(self, trace: Trace, budget_gpus: float, timing: Timing = Timing.TABLES) -> BoaInstance:
        """Build the instance of a trace's rates with a budget."""
        key = (trace.name, timing)
        if key not in self._instances:
            self._instances[key] = build_sia_instance(
                trace.path,
                self.profiles,
                GPU,
                max_width=self.max_width,
                timing=timing,
                slowdown=self.slowdown,
                span_h=trace.span_h,
            )
        return self._instances[key].replace(budget=Amount(float(budget_gpus), BudgetUnit.GPU))


@dataclass(frozen=True)
class Scope:
    """How large the evaluation is: the widest jobs of plans, and the first jobs of each trace, None for all."""

    max_width: int = 64
    jobs: int | None = None


#: Enough to see that everything runs.
QUICK = Scope(max_width=16, jobs=12)


@dataclass
class Setting:
    """Where everything is: public data, and a folder of cells, plans, sub-traces, of which nothing runs again.

    ``slowdown`` says whether plans and replays have the factor that Sia fitted to its physical cluster.
    """

    data: Path
    folder: Path
    scope: Scope = field(default_factory=Scope)
    slowdown: bool = True

    def __post_init__(self) -> None:
        if not (self.data / "sia" / "traces").is_dir():
            raise UsageError(f"data: no folder sia/traces in {self.data}; give the folder of the public data")
        self.profiles = self.data / "sia" / "traces"
        plans = self.folder / ("plans" if self.slowdown else "plans-without-slowdown")
        self.planner = Planner(self.profiles, plans, self.scope.max_width, self.slowdown)
        self.checksums = cache(take_checksum)

    @property
    def cells_folder(self) -> Path:
        """Where what was simulated is."""
        return self.folder / "cells"

    def newtrace(self, number: int = 1) -> Trace:
        """Return one of newTrace's five samples, each 48 h."""
        return self._cut(f"newtrace-{number}", f"sia/workloads/newtrace/workload-{number}.csv", 48.0)

    def filtertrace(self, number: int = 1) -> Trace:
        """Return filterTrace: the jobs of newTrace of three applications (section 6.3), or of another sample."""
        name = "filtertrace" if number == 1 else f"filtertrace-{number}"
        return filter_trace(self.newtrace(number), name, self._traces, applications=FILTERED)

    def few_jobs(self, number: int = 1) -> Trace:
        """Return the 85 jobs of figure 4: those of the same applications in Pollux' workload-1 (section 6.1).

        Of Pollux' other workloads, as many of the same applications as there are.
        """
        name = f"workload-{number}"
        whole = Trace(name, self.data / "adaptdl" / "workloads" / f"{name}.csv", 8.0)
        name = "workload-1-of-85" if number == 1 else f"{name}-filtered"
        return filter_trace(whole, name, self._traces, applications=FILTERED, most=self.scope.jobs)

    def cell(self, trace: Trace, policy: str | Planned, **parameters: object) -> Cell:
        """Return what simulates a trace under a policy."""
        name = str(policy.path) if isinstance(policy, Planned) else policy
        known = {"workload": str(trace.path), "profiles": str(self.profiles), "gpu": GPU, "slowdown": self.slowdown}
        return Cell.parse(known | {"policy": name} | parameters)

    @property
    def _traces(self) -> Path:
        return self.folder / "traces"

    def _cut(self, name: str, path: str, span_h: float) -> Trace:
        whole = Trace(name, self.data / path, span_h)
        return whole if self.scope.jobs is None else filter_trace(whole, name, self._traces, most=self.scope.jobs)
