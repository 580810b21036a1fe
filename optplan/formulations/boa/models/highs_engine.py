"""The mixed-integer program handed to HiGHS as matrices, and what HiGHS says, read back."""

from __future__ import annotations

from typing import Any

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.exact.answers import answer_from_paths, state_paths
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, raise_to_least
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model, scale_model
from optplan.formulations.boa.models.statement import read_flows
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import OUT_OF_TIME, BudgetedPaths, Choice, PathsOutcome
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.flows import choice_of_flows
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.programs import highs
from optplan.solvers.programs.program import ReadModel, Scaling, read_program

#: Nodes of all layers from which on a model is built and solved in a process of its own.
_MANY_CELLS = 2_000


@without_barred
def solve_highs(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the declarative model, for mixed plans a linear program, with HiGHS.

    The bound of a pure plan is HiGHS's word; that of a mixed plan is re-derived from HiGHS's multipliers. When time
    runs out before HiGHS has the model, there is no plan, and the bound is that of limits which are no object.

    Raises
    ------
    UnsupportedError
        When the problem is the continuous one.
    EngineError
        When HiGHS fails.
    """
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    problem = state_paths(instance)
    request.stopwatch.emit("highs")
    outcome = OUT_OF_TIME
    if not request.stopwatch.expired:
        outcome = call_bounded(
            run_model,
            (instance, problem, request.gap, request.seed),
            request.stopwatch,
            is_large=sum(graph.run_value.size for graph in problem.graphs) >= _MANY_CELLS,
            otherwise=OUT_OF_TIME,
        )
    return answer_from_paths(instance, request, problem, outcome, BoundProof.ENGINE)


def run_model(
    instance: BoaInstance,
    problem: BudgetedPaths,
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    report: Report[PathsOutcome] | None = None,
) -> PathsOutcome:
    """State the model and solve it in this process.

    Parameters
    ----------
    instance, problem, gap, seed, stopwatch
        What :func:`solve_highs` is asked, and the same stated as paths.
    report
        Called with better incumbents and bounds as HiGHS finds them; None where nobody listens.
    """
    try:
        model = build_pyomo_model(raise_to_least(instance), stopwatch=stopwatch)
    except OutOfEffortError:
        return OUT_OF_TIME
    if stopwatch.expired:
        return OUT_OF_TIME
    scaling = scale_model(model, instance)
    read = read_program(model, scaling, names=False)
    reading = _Reading(instance, problem, model, read, scaling)
    tell = None if report is None else lambda outcome: report(reading.translate(outcome))
    # In the rows of rescaling presolve finds next to nothing, takes minutes on large models and looks at no clock.
    presolve = instance.problem is not Problem.RESCALING
    return reading.translate(highs.run_highs(read.program, gap, seed, presolve, stopwatch, tell))


class _Reading:
    """From what HiGHS says of the program to what it says of the paths."""

    def __init__(
        self,
        instance: BoaInstance,
        problem: BudgetedPaths,
        model: Any,  # noqa: ANN401 - Pyomo has no types
        read: ReadModel,
        scaling: Scaling,
    ) -> None:
        self.instance, self.problem, self.model, self.read, self.scaling = instance, problem, model, read, scaling
        self.mixed = instance.policy is Policy.MIXED

    def translate(self, outcome: highs.ProgramOutcome) -> PathsOutcome:
        """Return the outcome in seconds, with the plan that its values stand for."""
        choice = None if outcome.values is None else self._choose(outcome.values)
        status = outcome.status
        if status is Status.FEASIBLE and choice is None:
            status = Status.UNKNOWN
        return PathsOutcome(
            status=status,
            termination=outcome.termination,
            choice=choice,
            bound=None if outcome.bound is None else outcome.bound * self.scaling.objective,
            multipliers=None if outcome.duals is None else self._read_multipliers(outcome.duals),
            counters=outcome.counters,
            engine=outcome.engine,
            engine_version=outcome.engine_version,
        )

    def _choose(self, values: FloatArray) -> Choice | None:
        self.read.load(values)
        return choice_of_flows(self.problem, list(read_flows(self.model, self.instance).values()), mixed=self.mixed)

    def _read_multipliers(self, duals: FloatArray) -> FloatArray:
        """Read the dual values (L,) of the limits, in seconds per unit; zero for those that no row states."""
        model = self.model
        rows = {id(constraint): row for row, constraint in enumerate(self.read.constraints)}
        stated = {BUDGET: model.budget}
        for kind, family in ((QUOTA, model.quota), (DUE, model.due), (FLOOR, model.floor)):
            stated |= {f"{kind}{name}": family[name] for name in family}
        multipliers = np.zeros(len(self.instance.limit_names))
        for place, limit in enumerate(self.instance.limit_names):
            row = rows.get(id(stated.get(limit)))
            if row is not None:
                sign = 1.0 if limit.startswith(FLOOR) else -1.0
                scale = self.scaling.objective / self.scaling.rows[id(stated[limit])]
                multipliers[place] = max(0.0, sign * float(duals[row])) * scale
        return multipliers
