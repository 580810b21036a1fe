"""The exact solver: budgeted paths over instances held.

Expected times and costs add up over stages, so that a plan is a path and a limit a budget; minimum charges come on top
and are handled by bounding. With several clusters side by side each has a graph of its own.
"""

from __future__ import annotations

from optplan.contracts.result import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    status_of,
)
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.chains import Chain, state_chains, write_solution
from optplan.formulations.rubberband.exact.feasibility import explain_shortfall, price_limit
from optplan.formulations.rubberband.exact.side_by_side import solve_side_by_side
from optplan.formulations.rubberband.exact.stage_options import count_options
from optplan.solvers.paths.held import HeldShortfall, HeldSolution, solve_held
from optplan.solvers.paths.held_labels import exchange_charges
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.single import find_multiplier_range

#: Allocations that are evaluated in no time, so that without time there is a plan, too.
_FEW_OPTIONS = 4096


def solve_one_limit(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Find the cheapest plan within the deadline, or the fastest within the budget, with proof.

    Parameters
    ----------
    instance
        Without a confidence, with its limit and no ceiling of the objective.

    Returns
    -------
    Answer
        With a Lagrangian certificate, and an enumerated one where the bound rests on it; one-sided shadow prices of the
        convexified problem without minimum charges. Infeasible: with the fastest possible time (the least cost) and
        what it is made of. Unknown: when time runs out before what stages take is known.
    """
    limit = instance.limits[instance.limit_name]
    try:
        chains = state_chains(instance, request.stopwatch if count_options(instance) > _FEW_OPTIONS else None)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    if instance.objective is Objective.TIME and len(chains) > 1:
        return solve_side_by_side(instance, chains, limit, request)
    found = []
    for chain in chains:
        one = solve_chain(instance, chain, limit, request)
        if isinstance(one, HeldShortfall):
            return explain_shortfall(instance, chains, request)
        found.append(one)
    return _answer(instance, chains, found, request)


def solve_chain(
    instance: RubberBandInstance, chain: Chain, limit: float, request: SolveRequest
) -> HeldSolution | HeldShortfall:
    """Find the best path of one bracket within a limit on time or, where the time is the objective, on cost.

    Parameters
    ----------
    instance
        For its objective.
    limit
        Seconds, or US dollars.
    """
    effort = Effort(request.stopwatch)
    if instance.objective is Objective.COST:
        return solve_held(chain.graph, limit, gap=request.gap, effort=effort, charges=chain.charges)
    charges = exchange_charges(chain.charges)
    return solve_held(chain.graph.exchanged(), limit, gap=request.gap, effort=effort, charges=charges)


def _answer(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldSolution], request: SolveRequest
) -> Answer[RubberBandSolution]:
    """Add the brackets up: their values, bounds and prices."""
    paths = [one.options for one in found if one.options is not None]
    complete = len(paths) == len(found)
    value, bound = sum(one.value for one in found), sum(one.bound for one in found)
    certificates, proof = _certify(instance, found)
    stopped = {one.stopped_by for one in found if one.stopped_by is not None}
    return Answer(
        status=status_of(value if complete else None, bound, request.gap),
        termination=Termination.after("time" if "time" in stopped else next(iter(stopped), None)),
        solution=write_solution(chains, paths) if complete else None,
        objective=value if complete else None,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices=_price(instance, chains, found, request),
        counters={
            "passes": float(sum(one.passes for one in found)),
            "labels": float(sum(one.labels for one in found)),
        },
    )


def _certify(
    instance: RubberBandInstance, found: list[HeldSolution]
) -> tuple[tuple[LagrangianCertificate | EnumeratedCertificate, ...], BoundProof]:
    """Return what the bounds rest on; the multipliers of clusters side by side add up to that of the deadline."""
    multipliers = {instance.limit_name: sum(one.lagrangian.multiplier for one in found)}
    dual = sum(one.lagrangian.bound for one in found)
    lagrangian = LagrangianCertificate(multipliers=multipliers, bound=dual)
    if all(one.exhaustion is None for one in found):
        return (lagrangian,), BoundProof.LAGRANGIAN
    bound = sum(one.bound for one in found)
    optimum = None
    # Without an enumeration, a bracket's bound is attained when its value meets it.
    if all(one.value == one.bound for one in found):
        optimum = sum(one.value for one in found)
    enumerated = EnumeratedCertificate(
        multipliers=multipliers, allowance=max(0.0, bound - dual), optimum=optimum, bound=bound
    )
    return (lagrangian, enumerated), BoundProof.ENUMERATED


def _price(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldSolution], request: SolveRequest
) -> dict[str, ShadowPrice]:
    """Return the slopes of the convexified trade-off on both sides of the limit; nothing when time runs out."""
    less = more = 0.0
    for chain, one in zip(chains, found, strict=True):
        if not one.lagrangian.attained:
            return {}
        graph = chain.graph if instance.objective is Objective.COST else chain.graph.exchanged()
        try:
            prices = find_multiplier_range(graph, one.lagrangian, effort=Effort(request.stopwatch))
        except OutOfEffortError:
            return {}
        less, more = less + prices[0], more + prices[1]
    return {instance.limit_name: price_limit(instance, less, more)}
