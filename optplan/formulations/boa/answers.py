"""From what general engines say to BOA's answers: solutions, bounds and what they rest on, shadow prices."""

from __future__ import annotations

from optplan.contracts.result import (
    Answer,
    BoundProof,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Status,
    relative_gap,
)
from optplan.errors import EngineError
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.evaluation import BUDGET, dual_bound
from optplan.solvers.budgeted_paths import TOLERANCE, BudgetedPaths, Choice, PathsOutcome

#: Unit of the budget's shadow price.
PRICE_UNIT = "s of mean JCT per GPU"


def certificate_at(instance: BoaInstance, multiplier: float) -> LagrangianCertificate:
    """Return what a multiplier of the budget proves, whoever found the multiplier.

    Parameters
    ----------
    instance
        The problem, with its budget.
    multiplier
        Seconds of mean completion time per GPU, at least zero.
    """
    return LagrangianCertificate(multipliers={BUDGET: multiplier}, bound=dual_bound(instance, {BUDGET: multiplier}))


def status_of(objective: float | None, bound: float | None, request: SolveRequest) -> Status:
    """Return OPTIMAL, FEASIBLE or UNKNOWN by whether there is an objective and how far the bound is from it."""
    if objective is None:
        return Status.UNKNOWN
    gap = relative_gap(objective, bound)
    return Status.OPTIMAL if gap is not None and gap <= request.gap else Status.FEASIBLE


def solution_of(problem: BudgetedPaths, choice: Choice) -> BoaSolution:
    """Write a choice of paths as widths by class."""
    return BoaSolution(
        branches={
            graph.name: tuple(
                Branch(fraction=path.fraction, widths=graph.nodes[path.columns].astype(float)) for path in mixture
            )
            for graph, mixture in zip(problem.graphs, choice, strict=True)
        }
    )


def answer_from_paths(
    instance: BoaInstance, request: SolveRequest, problem: BudgetedPaths, outcome: PathsOutcome, proof: BoundProof
) -> Answer[BoaSolution]:
    """Turn an engine's outcome into an answer.

    Parameters
    ----------
    instance
        The problem; a plan that keeps its budget exists.
    request
        For the gap.
    problem, outcome
        What the engine was given and what it said.
    proof
        What the engine's own bound rests on.

    Returns
    -------
    Answer
        For mixtures the bound is re-derived from the engine's multiplier and carries a certificate. Where the engine
        has neither bound nor multiplier, the bound is that of a budget which is no object (multiplier zero).

    Raises
    ------
    EngineError
        When the engine calls the problem infeasible.
    """
    if outcome.status is Status.INFEASIBLE:
        message = f"{outcome.engine} finds no plan within the budget, although the least budget does not exceed it"
        raise EngineError(message)
    objective, used = problem.totals(outcome.choice) if outcome.choice is not None else (None, 0.0)
    bound = outcome.bound
    certificates: tuple[LagrangianCertificate, ...] = ()
    if outcome.multiplier is not None or bound is None:
        certificate = certificate_at(instance, outcome.multiplier or 0.0)
        bound, proof, certificates = certificate.bound, BoundProof.LAGRANGIAN, (certificate,)
        # Within the tolerance of the budget a plan may lie below the bound; then the two agree.
        bound = bound if objective is None else min(bound, objective)
    elif objective is not None and outcome.status is Status.OPTIMAL and abs(bound - objective) <= TOLERANCE * objective:
        bound = objective  # the engine closed the gap; what is left is rounding on its own scale
    return Answer(
        status=status_of(objective, bound, request),
        termination=outcome.termination,
        solution=solution_of(problem, outcome.choice) if outcome.choice is not None else None,
        objective=objective,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices=_shadow_prices(problem, outcome, used),
        counters=outcome.counters,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _shadow_prices(problem: BudgetedPaths, outcome: PathsOutcome, used: float) -> dict[str, ShadowPrice]:
    """Return the engine's multiplier where it is the slope on both sides: in between two paths, or with budget left."""
    if outcome.multiplier is None or outcome.choice is None:
        return {}
    mixed = any(len(mixture) > 1 for mixture in outcome.choice)
    left = used < problem.budget * (1.0 - TOLERANCE)
    if not (mixed or left):
        return {}
    price = outcome.multiplier if mixed else 0.0
    return {BUDGET: ShadowPrice(less=price, more=price, unit=PRICE_UNIT)}
