"""The plans that are replayed: made on one trace's rates, each in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from optplan.contracts import Status
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.instances.files import write_json
from optplan.lab.benchmarks.paper.traces import Trace
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_choices import Timing
from optplan.solving import solve
from optplan.units import Amount, BudgetUnit

#: Solvers whose plans are compared, by what the page calls them.
SOLVERS = {
    "BOA, exact widths": "layered-paths",
    "BOA, Algorithm 1": "published-algorithm1",
    "best single width per class": "fixed-width",
}
GPU = "aws"


@dataclass(frozen=True)
class Planned:
    """The file of a plan, the budget it was asked to keep, what it predicts, and the seconds that finding it took."""

    path: Path
    budget_gpus: float
    mean_jct_s: float
    gpus: float
    solve_s: float


@dataclass
class Planner:
    """Makes plans, and keeps their instances."""

    profiles: Path
    folder: Path
    max_width: int
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
        instance = self._build(trace, budget_gpus, timing)
        result = solve(instance, solver=solver)
        if result.status is Status.INFEASIBLE or result.solution is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{trace.name}-{timing.value}-{solver}-{budget_gpus:g}.json"
        write_json(build_plan(instance, result), path, overwrite=True)
        measures = result.measures
        return Planned(path, budget_gpus, measures["mean_jct_s"], measures["gpus"], result.solve_seconds)

    def write_instance(self, trace: Trace, budget_gpus: float) -> Path:
        """Write the instance of a trace's rates with a budget, and return its file."""
        path = self.folder / f"{trace.name}-{budget_gpus:g}.json"
        write_json(self._build(trace, budget_gpus, Timing.TABLES), path, overwrite=True)
        return path

    def _build(self, trace: Trace, budget_gpus: float, timing: Timing) -> BoaInstance:
        key = (trace.name, timing)
        if key not in self._instances:
            self._instances[key] = build_sia_instance(
                trace.path,
                self.profiles,
                GPU,
                max_width=self.max_width,
                timing=timing,
                slowdown=True,
                span_h=trace.span_h,
            )
        return self._instances[key].replace(budget=Amount(float(budget_gpus), BudgetUnit.GPU))
