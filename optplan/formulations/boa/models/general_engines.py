"""BOA on general engines: the declarative model in HiGHS and CP-SAT, and looking at every plan.

These are the independent checks of the exact solvers and the answer to "what does a general solver make of it"; no
decomposition is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, raise_to_least
from optplan.formulations.boa.models.engine_answers import Found, answer_from
from optplan.formulations.boa.models.flows import mix_strands
from optplan.formulations.boa.models.mixed_integer import build_pyomo_model, scale_model
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.enumeration import enumerate_choices
from optplan.solvers.limits import most_within
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.programs import cpsat, highs
from optplan.solvers.programs.program import ProgramOutcome, ReadModel, Scaling, read_program

#: Nodes of all layers from which on a model is built and solved in a process of its own.
_MANY_CELLS = 2_000


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
    return _solve_model(instance, request, in_cp_sat=False)


def solve_cp_sat(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the declarative model with CP-SAT; see :mod:`optplan.solvers.programs.cpsat` for what rounding costs.

    The bound is CP-SAT's word, for the real problem.

    Raises
    ------
    EngineError
        When CP-SAT fails.
    """
    return _solve_model(instance, request, in_cp_sat=True)


def _solve_model(instance: BoaInstance, request: SolveRequest, *, in_cp_sat: bool) -> Answer[BoaSolution]:
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    request.stopwatch.emit("cp-sat" if in_cp_sat else "highs")
    task = (instance, in_cp_sat, request.gap, request.seed)
    found = _know_nothing(in_cp_sat)
    if in_cp_sat:
        found = cpsat.call_with_cp_sat(run_model, task, request.stopwatch) or found
    elif not request.stopwatch.expired:
        cells = sum(graph.run_value.size for graph in cost_steps(instance))
        is_large = cells >= _MANY_CELLS
        found = call_bounded(run_model, task, request.stopwatch, is_large=is_large, otherwise=found)
    return answer_from(instance, request, found, BoundProof.ENGINE)


def _know_nothing(in_cp_sat: bool) -> Found:  # noqa: FBT001 - as everywhere here
    """Return what is known when time runs out before an engine has the model."""
    return Found((cpsat if in_cp_sat else highs).nothing_yet())


def run_model(
    instance: BoaInstance,
    in_cp_sat: bool,  # noqa: FBT001 - called by position, also from another process
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    report: Report[Found] | None = None,
) -> Found:
    """State the model and solve it in this process.

    Parameters
    ----------
    instance, gap, seed, stopwatch
        What the solver is asked.
    in_cp_sat
        Whether CP-SAT is the engine, and not HiGHS.
    report
        Called with better incumbents and bounds as the engine finds them; None where nobody listens.
    """
    try:
        model = build_pyomo_model(raise_to_least(instance), stopwatch=stopwatch)
    except OutOfEffortError:
        return _know_nothing(in_cp_sat)
    if stopwatch.expired:
        return _know_nothing(in_cp_sat)
    scaling = scale_model(model, instance)
    scaling = scaling.without_scales() if in_cp_sat else scaling
    reading = _Reading(instance, model, read_program(model, scaling, names=False), scaling)
    tell = None if report is None else lambda outcome: report(reading.translate(outcome))
    program = reading.read.program
    if in_cp_sat:
        # The shares of changes are whole numbers where those of jobs are.
        program = replace(program, integral=np.ones_like(program.integral))
        outcome = cpsat.run_cp_sat(program, gap, seed, cpsat.DEFAULT_RESOLUTION, stopwatch, tell)
    else:
        # In the rows of rescaling presolve finds next to nothing, takes minutes on large models and looks at no clock.
        presolve = instance.problem is not Problem.RESCALING
        outcome = highs.run_highs(program, gap, seed, presolve, stopwatch, tell)
    return reading.translate(outcome)


class _Reading:
    """From what an engine says of the program to what it says of plans."""

    def __init__(self, instance: BoaInstance, model: Any, read: ReadModel, scaling: Scaling) -> None:  # noqa: ANN401 - Pyomo has no types
        self.instance, self.model, self.read, self.scaling = instance, model, read, scaling

    def translate(self, outcome: ProgramOutcome) -> Found:
        """Return what was found in seconds, with the plan that the values stand for."""
        from optplan.formulations.boa.models.statement import read_choice  # Pyomo, which is not to be loaded twice

        choice = None
        if outcome.values is not None:
            self.read.load(outcome.values)
            choice = read_choice(self.model, self.instance)
        bound = None if outcome.bound is None else outcome.bound * self.scaling.objective
        multipliers = None if outcome.duals is None else self._read_multipliers(outcome.duals)
        return Found(replace(outcome, values=None, duals=None, bound=bound), choice, multipliers)

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


def solve_enumeration(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve by looking at every pure plan.

    Optimal; the bound is the objective. The time limit counts only before the plans are looked at.

    Raises
    ------
    UnsupportedError
        When there are too many plans.
    """
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    found = Found(ProgramOutcome(Status.UNKNOWN, Termination.TIME_LIMIT, engine="optplan"))
    if not request.stopwatch.expired:
        request.stopwatch.emit("enumeration")
        costs, limits = list(cost_steps(instance)), raise_to_least(instance).limits
        paths, count = enumerate_choices(costs, most_within(np.array(list(limits.values()))))
        choice = None if paths is None else [[(1.0, columns.tolist())] for columns in paths]
        outcome = ProgramOutcome(
            Status.INFEASIBLE if choice is None else Status.OPTIMAL,
            Termination.COMPLETED,
            bound=None if choice is None else mix_strands(costs, choice).value,
            counters={"choices": float(count)},
            engine="optplan",
        )
        found = Found(outcome, choice)
    return answer_from(instance, request, found, BoundProof.SEARCHED)
