"""BOA on general engines: the problems with whole widths as budgeted paths in HiGHS, CP-SAT and enumeration.

A class is a layered graph: layers are epochs, nodes are widths, each on a GPU type, and entering a node is a change of
either (Lemma 4.8; the problem without rescaling has the same graphs with free changes). The budget and the quotas are
the limits that the graphs share. These engines are the independent checks of the
exact ones and the answer to "what does a general solver make of it"; no decomposition is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from optplan.contracts.result import Answer, BoundProof, SolveRequest
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.exact.answers import answer_from_paths, state_paths
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible
from optplan.solvers import cpsat, enumeration, milp
from optplan.solvers.budgeted_paths import OUT_OF_TIME, BudgetedPaths, PathsOutcome


@without_barred
def solve_highs(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve as a mixed-integer program, or for mixed plans as a linear program, in HiGHS.

    The bound of a pure plan is HiGHS's word; that of a mixed plan is re-derived from HiGHS's multipliers.

    Raises
    ------
    EngineError
        When HiGHS fails.
    """
    relaxed = instance.policy is Policy.MIXED
    return _solve(instance, request, lambda p: milp.solve_milp(p, request, relaxed=relaxed), BoundProof.ENGINE)


@without_barred
def solve_cp_sat(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve in CP-SAT with costs rounded to integers; see :mod:`optplan.solvers.cpsat` for what that means.

    The bound is CP-SAT's word, for the real problem.

    Raises
    ------
    EngineError
        When CP-SAT fails.
    """
    return _solve(instance, request, lambda p: cpsat.solve_cp_sat(p, request), BoundProof.ENGINE)


@without_barred
def solve_enumeration(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve by looking at every pure plan.

    Optimal; the bound is the objective. The time limit counts only before the plans are looked at.

    Raises
    ------
    UnsupportedError
        When there are too many plans.
    """
    return _solve(instance, request, lambda p: enumeration.enumerate_choices(p, request), BoundProof.SEARCHED)


def write_model(instance: BoaInstance, *, form: Literal["lp", "mps"] = "lp") -> str:
    """Write the mixed-integer program (for mixed plans the linear program) as text for other engines.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget.
    form
        Format of the text: CPLEX LP or free MPS.

    Returns
    -------
    str
        Objective in seconds of mean completion time, limits in their units (time-average GPUs, US dollars per hour).
        Columns are named ``x.<class>.<epoch>.<width>`` and ``enter.<class>.<epoch>.<width>``, with several GPU types
        ``<type>.<width>`` in place of the width; see :mod:`optplan.solvers.path_program`.
    """
    return milp.write_model(state_paths(instance), form=form, relaxed=instance.policy is Policy.MIXED)


def _solve(
    instance: BoaInstance,
    request: SolveRequest,
    engine: Callable[[BudgetedPaths], PathsOutcome],
    proof: BoundProof,
) -> Answer[BoaSolution]:
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    problem = state_paths(instance)
    outcome = OUT_OF_TIME if request.stopwatch.expired else engine(problem)
    return answer_from_paths(instance, request, problem, outcome, proof)
