"""BOA on general engines: the declarative model in HiGHS and CP-SAT, and looking at every plan.

These are the independent checks of the exact solvers and the answer to "what does a general solver make of it"; no
decomposition is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optplan.contracts.result import (
    Answer,
    BoundProof,
    LagrangianCertificate,
    SolveRequest,
    Status,
    Termination,
    status_of,
)
from optplan.errors import EngineError
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, raise_to_least
from optplan.formulations.boa.exact.linked_limits import explain_division, solve_linked_paths
from optplan.formulations.boa.exact.paths import certify_bound, write_mixture
from optplan.formulations.boa.models.flows import Strand, mix_strands, mix_within
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import enumerate_choices
from optplan.solvers.limits import LIMIT_TOLERANCE, is_within, most_within
from optplan.solvers.paths.families import Mixture
from optplan.solvers.paths.search import OutOfEffortError
from optplan.solvers.programs import cpsat, highs
from optplan.solvers.programs.program import ProgramOutcome, ReadModel, Scaling, read_program


def solve_highs(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the declarative model with HiGHS; its word bounds pure plans, its multipliers prove mixed ones."""
    return _solve_model(instance, request, in_cp_sat=False)


def solve_cp_sat(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve it with CP-SAT, whose word is the bound; :mod:`optplan.solvers.programs.cpsat` says what rounding costs."""
    return _solve_model(instance, request, in_cp_sat=True)


def _solve_model(instance: BoaInstance, request: SolveRequest, *, in_cp_sat: bool) -> Answer[BoaSolution]:
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    try:
        found = _run_model(instance, request, in_cp_sat=in_cp_sat)
    except OutOfEffortError:
        found = Found((cpsat if in_cp_sat else highs).nothing_yet())
    return answer_from(instance, request, found, BoundProof.ENGINE)


def _run_model(instance: BoaInstance, request: SolveRequest, *, in_cp_sat: bool) -> Found:
    """State the model, solve it, and read off what was found in seconds."""
    # Loaded on use, as Pyomo is: looking at every plan needs none of it.
    from optplan.formulations.boa.models.statement import read_choice, state_model

    statement = state_model(instance, stopwatch=request.stopwatch)
    model, scaling = statement.native, statement.scaling.without_scales() if in_cp_sat else statement.scaling
    read = read_program(model, scaling, names=False)
    if in_cp_sat:
        # The shares of changes are whole numbers where those of jobs are.
        whole = replace(read.program, integral=np.ones_like(read.program.integral))
        outcome = cpsat.solve_program(whole, request)
    else:
        outcome = highs.solve_program(read.program, request, presolve=statement.presolve)
    choice = multipliers = None
    if outcome.values is not None:
        read.load(outcome.values)
        choice = read_choice(model, instance)
    if outcome.duals is not None:
        multipliers = _read_multipliers(instance, model, read, scaling, outcome.duals)
    bound = None if outcome.bound is None else outcome.bound * scaling.objective
    return Found(replace(outcome, values=None, duals=None, bound=bound), choice, multipliers)


def _read_multipliers(
    instance: BoaInstance,
    model: Any,  # noqa: ANN401 - Pyomo has no types
    read: ReadModel,
    scaling: Scaling,
    duals: FloatArray,
) -> FloatArray:
    """Read the dual values (L,) of the limits, in seconds per unit; zero for those that no row states."""
    stated = {id(model.budget): BUDGET}
    for kind, family in ((QUOTA, model.quota), (DUE, model.due), (FLOOR, model.floor)):
        stated |= {id(family[name]): f"{kind}{name}" for name in family}
    multipliers = dict.fromkeys(instance.limit_names, 0.0)
    for row, dual in zip(read.constraints, duals.tolist(), strict=True):
        if (limit := stated.get(id(row))) is not None:
            scale = scaling.objective / scaling.rows[id(row)]
            multipliers[limit] = max(0.0, dual if limit.startswith(FLOOR) else -dual) * scale
    return np.array(list(multipliers.values()))


def solve_enumeration(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve by looking at every pure plan, without a look at the clock; refused where there are too many."""
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


@dataclass(frozen=True, eq=False)
class Found:
    """What an engine found: its outcome in seconds, paths by class, and a linear program's dual values (L,)."""

    outcome: ProgramOutcome
    choice: Sequence[Sequence[Strand]] | None = None
    multipliers: FloatArray | None = None


def answer_from(instance: BoaInstance, request: SolveRequest, found: Found, proof: BoundProof) -> Answer[BoaSolution]:
    """Turn what an engine found into an answer; ``proof`` is what its own bound rests on.

    A plan that keeps the limits exists, mixed ones included. For mixtures the bound is re-derived from the engine's
    multipliers and carries a certificate. Where the engine has neither bound nor multipliers, the bound is that of
    limits which are no object (multipliers zero). With several limits it may be that mixed plans keep them and pure
    ones do not: then the status is INFEASIBLE, with the proof that our own search finds in the time that is left;
    without one the engine's word is taken.
    """
    outcome, multipliers = found.outcome, found.multipliers
    if outcome.status is Status.INFEASIBLE:
        return _exclude_pure(instance, request, outcome.engine)
    plan = _read_plan(raise_to_least(instance), found)
    objective, used = None if plan is None else plan.value, np.array(list(instance.limits.values()))
    used = used if plan is None else plan.consumption
    bound = outcome.bound
    certificates: tuple[LagrangianCertificate, ...] = ()
    if multipliers is not None or bound is None:
        certificate = certify_bound(instance, *(np.zeros(used.size) if multipliers is None else multipliers).tolist())
        bound, proof, certificates = certificate.bound, BoundProof.LAGRANGIAN, (certificate,)
        # Within the tolerance of a limit a plan may lie below the bound; then the two agree.
        bound = bound if objective is None else min(bound, objective)
    elif objective is not None and outcome.status is Status.OPTIMAL:
        # Where the engine has closed the gap, what is left is rounding on its own scale.
        bound = objective if abs(bound - objective) <= LIMIT_TOLERANCE * objective else bound
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=outcome.termination,
        solution=None if plan is None else write_mixture(instance, plan),
        objective=objective,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        counters=outcome.counters,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _read_plan(instance: BoaInstance, found: Found) -> Mixture | None:
    """Return the plan that was found, if any; of mixed ones the best that its paths make."""
    if found.choice is None:
        return None
    costs = cost_steps(instance)
    plan = mix_within(instance, costs, found.choice) if instance.policy is Policy.MIXED else None
    plan = plan or mix_strands(costs, found.choice)
    for (limit, most), amount in zip(instance.limits.items(), plan.consumption.tolist(), strict=True):
        if not is_within(amount, most):
            message = f"returned a plan that takes {amount!r} of a limit ({limit}) of {most!r}"
            raise EngineError(f"{found.outcome.engine} {message}")
    return plan


def _exclude_pure(instance: BoaInstance, request: SolveRequest, engine: str) -> Answer[BoaSolution]:
    """Answer that no pure plan keeps limits which mixed plans keep, as an engine says."""
    if len(instance.limit_names) > 1 and instance.policy is Policy.PURE:
        answer = solve_linked_paths(instance, request)
        if answer.solution is None:
            proven = answer.status is Status.INFEASIBLE
            return replace(answer if proven else explain_division(instance, None, request), engine=engine)
    raise EngineError(f"{engine} finds no plan within the limits, although there is one")
