"""BOA on general engines: the problems with whole widths as budgeted paths in CP-SAT and enumeration.

A class is a layered graph: layers are epochs, nodes are widths, each on a GPU type, and entering a node is a change of
either (Lemma 4.8; the problem without rescaling has the same graphs with free changes). The budget and the quotas are
the limits that the graphs share. These engines are the independent checks of the
exact ones and the answer to "what does a general solver make of it"; no decomposition is used.
"""

from __future__ import annotations

from collections.abc import Callable

from optplan.contracts.result import Answer, BoundProof, SolveRequest
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.answers import answer_from_paths, state_paths
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible
from optplan.solvers import cpsat, enumeration
from optplan.solvers.budgeted_paths import OUT_OF_TIME, BudgetedPaths, PathsOutcome


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
