"""Quotas, and types that cost to leave, on the engine of linked paths.

A class is a layered graph as in :mod:`optplan.formulations.boa.exact.layered_paths`; its nodes are pairs of GPU type
and width, a switch costs by the type left, and every quota is a limit of its own beside the budget. The bound is a
maximum over one multiplier per limit.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Termination,
    TreeCertificate,
)
from optplan.contracts.result import status_of
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_steps, list_amounts
from optplan.formulations.boa.exact.description import in_order
from optplan.formulations.boa.exact.feasibility import clear_mixture, explain_shortfall, state_runs
from optplan.formulations.boa.exact.paths import certify_listing, price_of, write_columns, write_mixture
from optplan.formulations.boa.exact.trees import explain_division, relax_limit, write_runs
from optplan.solvers.paths import closing, families, linked_dual, switching
from optplan.solvers.paths.search import Effort, OutOfEffortError


@in_order
def solve_linked_paths(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve exactly with any limits and changes: whole widths, and real ones of tables.

    With a Lagrangian certificate, and an enumerated one or a tree where the bound of a pure plan rests on it;
    one-sided shadow prices, of the mixed problem, of every limit.
    """
    costs, limits = cost_steps(instance), list_amounts(instance)
    family, effort = switching.LinkedGraphs.from_costs(costs, limits), Effort(request.stopwatch)
    if not instance.is_mixed:
        closed = closing.solve_pure(
            family, gap=request.gap, effort=effort, runs=lambda: state_runs(instance, costs, limits)
        )
        if isinstance(closed, linked_dual.LinkedShortfall):
            return explain_shortfall(instance, family, closed, lambda limit: relax_limit(instance, limit, request))
        if math.isinf(closed.bound):
            return explain_division(instance, closed, request)
        return _answer_pure(instance, request, family, closed)
    found = linked_dual.maximise_bound(family, effort=effort)
    if isinstance(found, linked_dual.LinkedShortfall):
        return explain_shortfall(instance, family, found)
    return _answer_mixed(instance, request, family, found)


def certify(instance: BoaInstance, found: linked_dual.LinkedBound) -> LagrangianCertificate:
    """Write a bound as a certificate: about the limits as given, and not those that were kept."""
    multipliers = dict(zip(instance.limit_names, found.multipliers.tolist(), strict=True))
    given = np.array(list(instance.whole_limits.values()))
    return LagrangianCertificate(
        multipliers=multipliers, bound=found.bound + float(found.multipliers @ (found.limits - given))
    )


def _price_limits(
    instance: BoaInstance, request: SolveRequest, family: families.PathFamily, found: linked_dual.LinkedBound
) -> tuple[dict[str, ShadowPrice], Termination]:
    """Find the one-sided prices of all limits for which time is left, or that HiGHS can tell; say how it ended."""
    prices, effort, ended = dict[str, ShadowPrice](), Effort(request.stopwatch), Termination.COMPLETED
    try:
        for position, limit in enumerate(instance.limit_names):
            prices[limit] = find_price(instance, family, found, position, effort)
    except OutOfEffortError:
        ended = Termination.WORK_LIMIT
    return prices, Termination.TIME_LIMIT if request.stopwatch.expired else ended


def find_price(
    instance: BoaInstance, family: families.PathFamily, found: linked_dual.LinkedBound, position: int, effort: Effort
) -> ShadowPrice:
    """Find the one-sided shadow prices of the limit at a position; an OutOfEffortError when time ran out."""
    ends = linked_dual.find_price_range(family, found, position, effort=effort)
    return write_price(instance, instance.limit_names[position], ends)


def write_price(instance: BoaInstance, limit: str, ends: linked_dual.PriceRange) -> ShadowPrice:
    """Write a shadow price; with several limits with the multipliers by which its ends are checked."""
    price = price_of(instance, ends.less, ends.more, limit)
    if len(instance.limit_names) == 1:
        return price
    named = [
        dict(zip(instance.limit_names, each.tolist(), strict=True))
        for each in (ends.less_multipliers, ends.more_multipliers)
    ]
    if not instance.limits[limit]:  # there is nothing less than nothing
        return price.replace(less=None, more_multipliers=named[1])
    return price.replace(less_multipliers=named[0], more_multipliers=named[1])


def _answer_mixed(
    instance: BoaInstance, request: SolveRequest, family: switching.LinkedGraphs, found: linked_dual.LinkedBound
) -> Answer[BoaSolution]:
    """Answer with the mixed plan that attains the bound."""
    mixture, certificate = found.mixture and clear_mixture(instance, found.mixture), certify(instance, found)
    objective = None if mixture is None else mixture.value
    prices, ended = _price_limits(instance, request, family, found)
    return Answer(
        status=status_of(objective, certificate.bound, request.gap),
        termination=ended,
        solution=None if mixture is None else write_mixture(instance, mixture),
        objective=objective,
        bound=certificate.bound if objective is None else min(certificate.bound, objective),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices=prices,
        counters={"passes": float(found.passes)},
    )


def _answer_pure(
    instance: BoaInstance, request: SolveRequest, family: switching.LinkedGraphs, closed: closing.LinkedSolution
) -> Answer[BoaSolution]:
    """Answer with the best plan of one path per class, as far as the gap was closed."""
    certificates: list[LagrangianCertificate | EnumeratedCertificate | TreeCertificate]
    lagrangian = certify(instance, closed.lagrangian)
    certificates, bound, proof = [lagrangian], lagrangian.bound, BoundProof.LAGRANGIAN
    if closed.exhaustion is not None:
        bound, proof = closed.bound, BoundProof.ENUMERATED
        certificates.append(certify_listing(instance, closed.exhaustion, bound))
    if closed.exhaustion is None and closed.part is not None and closed.lagrangian.bound < closed.bound:
        # Branch and price went beyond what multipliers of the whole prove.
        tree = write_runs(closed.part, closed.bound, None if closed.proven else bound) if request.certify else None
        bound, proof = closed.bound, BoundProof.SEARCHED
        if tree is not None and tree.bound is not None:
            bound, proof = tree.bound, BoundProof.TREE
        certificates += [] if tree is None else [tree]
    objective = None if closed.paths is None else closed.paths.total_value
    prices, ended = _price_limits(instance, request, family, closed.lagrangian)
    searched = Termination.after(closed.stopped_by)
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=ended if searched is Termination.COMPLETED else searched,
        solution=None if closed.paths is None else write_columns(instance, closed.paths.payload),
        objective=objective,
        bound=bound if objective is None else min(bound, objective),
        bound_proof=proof,
        certificates=tuple(certificates),
        shadow_prices=prices,
        counters={
            "passes": float(closed.passes),
            "labels": float(closed.labels),
            "pairs": float(closed.pairs),
            "branches": float(closed.branches),
        },
    )
