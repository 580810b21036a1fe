"""The mixed-integer program handed to HiGHS through Pyomo, and what HiGHS says, read back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.exact.answers import answer_from_paths, state_paths
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, raise_to_least
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import OUT_OF_TIME, BudgetedPaths, PathsOutcome
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.flows import Flow, choice_of_flows
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.standard_output import standard_output_aside

#: Nodes of all layers from which on a model is built and solved in a process of its own.
_MANY_CELLS = 2_000

#: Absolute feasibility tolerance of HiGHS on the scaled rows; with the model's slack it is the evaluator's on limits.
_ENGINE_TOLERANCE = 5e-10

#: HiGHS stops a little before the gap that was asked for, so that rounding does not leave it a little after.
_GAP_SHARE = 0.999

#: Pyomo captures the output of the whole process while HiGHS runs; two threads doing so at once wait for each other.
_ENGINE_LOCK = threading.Lock()

#: What each termination condition of Pyomo means; every other one is a failure.
_ENDINGS = {
    "convergenceCriteriaSatisfied": (Status.OPTIMAL, Termination.COMPLETED),
    "provenInfeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    # Costs are not negative, so the problem is not unbounded.
    "infeasibleOrUnbounded": (Status.INFEASIBLE, Termination.COMPLETED),
    "maxTimeLimit": (Status.UNKNOWN, Termination.TIME_LIMIT),
    "iterationLimit": (Status.UNKNOWN, Termination.WORK_LIMIT),
}


@without_barred
def solve_pyomo(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the Pyomo model with HiGHS.

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
    request.stopwatch.emit("pyomo")
    outcome = call_bounded(
        run_pyomo,
        (instance, problem, request.gap, request.seed),
        request.stopwatch,
        is_large=sum(graph.run_value.size for graph in problem.graphs) >= _MANY_CELLS,
        otherwise=OUT_OF_TIME,
    )
    return answer_from_paths(instance, request, problem, outcome, BoundProof.ENGINE)


def run_pyomo(
    instance: BoaInstance,
    problem: BudgetedPaths,
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    report: Report[PathsOutcome] | None = None,
) -> PathsOutcome:
    """Build the model and solve it in this process; through Pyomo, HiGHS reports nothing before the end.

    Parameters
    ----------
    instance, problem, gap, seed, stopwatch
        What :func:`solve_pyomo` is asked, and the same stated as paths.
    report
        Nobody's.
    """
    del report
    try:
        model = build_pyomo_model(raise_to_least(instance), stopwatch=stopwatch)
    except OutOfEffortError:
        return OUT_OF_TIME
    request = SolveRequest(gap=gap, seed=seed, stopwatch=stopwatch)
    return OUT_OF_TIME if stopwatch.expired else _run(model, instance, problem, request)


def _run(
    model: Any,  # noqa: ANN401 - Pyomo has no types
    instance: BoaInstance,
    problem: BudgetedPaths,
    request: SolveRequest,
) -> PathsOutcome:
    """Hand the model to HiGHS through Pyomo and read what it says."""
    from pyomo.contrib.solver.solvers.highs import Highs

    mixed = instance.policy is Policy.MIXED
    engine = Highs()
    with _ENGINE_LOCK, standard_output_aside():  # the time that is left is asked for inside: waiting counts
        results = engine.solve(
            model,
            load_solutions=False,
            raise_exception_on_nonoptimal_result=False,
            time_limit=request.stopwatch.remaining_s,
            rel_gap=request.gap * _GAP_SHARE,
            abs_gap=0.0,
            solver_options={
                # As in the module milp: in the rows of rescaling presolve finds next to nothing and is slow.
                "presolve": "off" if instance.problem is Problem.RESCALING else "choose",
                "parallel": "off",
                "random_seed": request.seed % 2**31,
                "mip_feasibility_tolerance": _ENGINE_TOLERANCE,
                "primal_feasibility_tolerance": _ENGINE_TOLERANCE,
                "dual_feasibility_tolerance": _ENGINE_TOLERANCE,
            },
        )
    name = results.termination_condition.name
    if name not in _ENDINGS:
        raise EngineError(f"HiGHS, called by Pyomo, ended with {name}, which has no meaning for this problem")
    status, termination = _ENDINGS[name]
    choice = multipliers = None
    # An interrupted linear program leaves values that need not be feasible; an interrupted search leaves an incumbent.
    if results.incumbent_objective is not None and (status is Status.OPTIMAL or not mixed):
        results.solution_loader.load_vars()
        choice = choice_of_flows(problem, _read_flows(model, instance), mixed=mixed)
        status = Status.FEASIBLE if status is Status.UNKNOWN and choice is not None else status
    if mixed and status is Status.OPTIMAL:
        multipliers = _read_multipliers(model, instance, results.solution_loader.get_duals())
    bound = results.objective_bound
    return PathsOutcome(
        status=status,
        termination=termination,
        choice=choice,
        bound=float(bound * model.scale_s.value) if bound is not None and np.isfinite(bound) else None,
        multipliers=multipliers,
        engine="HiGHS through Pyomo",
        engine_version=".".join(str(part) for part in engine.version()),
    )


def _read_multipliers(
    model: Any,  # noqa: ANN401 - Pyomo has no types
    instance: BoaInstance,
    duals: Mapping[Any, float],
) -> FloatArray:
    """Read the dual values (L,) of the limits, in seconds per unit; zero for quotas of types that no class can use."""
    rows = {BUDGET: model.budget} | {f"{QUOTA}{h}": model.quota[h] for h in model.quota}
    rows |= {f"{DUE}{i}": model.due[i] for i in model.due}
    rows |= {f"{FLOOR}{i}": model.floor[i] for i in model.floor}
    signs = {limit: 1.0 if limit.startswith(FLOOR) else -1.0 for limit in rows}
    return np.array(
        [
            max(0.0, signs[limit] * float(duals[rows[limit]])) * float(model.scale_s.value / model.scale_limit[limit])
            if limit in rows
            else 0.0
            for limit in instance.limit_names
        ]
    )


def _read_flows(model: Any, instance: BoaInstance) -> list[Flow]:  # noqa: ANN401 - Pyomo has no types
    """Read x class by class, and y and u where they are."""
    m, flows = model, []
    typed = {i for i, *_ in m.KEPT}
    for i in instance.classes:
        types = [h for h in m.TYPES if len(m.WIDTHS[i, h])]
        pairs = [(h, k) for h in types for k in m.WIDTHS[i, h]]
        at = np.array([[m.x[i, j, h, k].value for h, k in pairs] for j in m.EPOCHS[i]])
        if i not in typed:
            flows.append(Flow.of_shares(at))
            continue
        later = [j for j in m.EPOCHS[i] if j > 1]
        stay = np.array([[m.u[i, j, h, k].value for h, k in pairs] for j in later])
        enter = np.array([[[m.y[i, j, g, h, k].value for h, k in pairs] for g in types] for j in later])
        flows.append(Flow(at, stay, enter, np.array([types.index(h) for h, _ in pairs])))
    return flows
