"""Quotas, and types that cost to leave, on the engine of linked paths.

A class is a layered graph as in :mod:`optplan.formulations.boa.exact.layered_paths`; its nodes are pairs of GPU type
and width, a switch costs by the type left, and every quota is a limit of its own beside the budget. The bound is a
maximum over one multiplier per limit.

What branch and price proves: certificates of the rule ``boa-runs``; limits that no pure plan keeps.

What stands in certificates is in :mod:`optplan.formulations.boa.judge.runs`, which checks them without sight of this.

Multipliers do not prove that only mixed plans keep limits, because they cannot tell a plan from a mixture. The proof is
a division of all pure plans into parts of which none keeps the limits; and for each limit by itself, with that limit
dropped, a division into parts of which none takes less of it than the best plan found.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from pydantic import JsonValue

from optplan.contracts import (
    Answer,
    BoundProof,
    EnumeratedCertificate,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.contracts.result import Hopeless, status_of
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_steps, in_order, list_amounts
from optplan.formulations.boa.exact.feasibility import (
    PROBLEM_WORDS,
    clear_mixture,
    count_as_given,
    explain_shortfall,
    name_others,
    say_wishes,
    state_runs,
)
from optplan.formulations.boa.exact.paths import certify_listing, price_of, write_columns, write_mixture
from optplan.schema import FloatArray
from optplan.solvers.limits import most_within
from optplan.solvers.paths import closing, families, linked_dual, run_problem, switching
from optplan.solvers.paths.linked_dual import LinkedShortfall
from optplan.solvers.paths.search import Effort, OutOfEffortError

#: Characters of a certificate; a search that needs more goes without.
_MOST_CHARACTERS = 1_000_000
#: Shares of what a division has gained that are given up in turn until it is small enough.
_SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7)


def write_runs(
    root: run_problem.Part, bound: float | None, least: float | None = None, limit: str = ""
) -> TreeCertificate | None:
    """Write a division by branch and price as a certificate of the rule ``boa-runs``; None beyond a megabyte.

    No plan within the limits is better than ``bound``; None where none keeps them. Where all that was divided is too
    much, a bound above ``least`` will do. Values are the consumption of ``limit``, or of an empty one the objective.
    """
    if bound is None or least is None:
        return _write_parts(root, bound, limit)
    tries = (_write_parts(root, bound - share * (bound - least), limit) for share in _SHARES)
    return next((tree for tree in tries if tree is not None), None)


def _write_parts(root: run_problem.Part, bound: float | None, limit: str) -> TreeCertificate | None:
    """Write a division, no further than parts have a lesser bound of their own; None when that would be too large."""
    rows: dict[tuple[float, ...], int] = {}
    tree: list[JsonValue] = []

    def number(weights: FloatArray) -> int:
        """Return the number of some weights, with class, type and charge of each run that is charged."""
        kinds, size = root.charged
        row = weights[:size].tolist()
        for place in np.flatnonzero(weights[size:]).tolist():
            row += [*divmod(place, kinds), float(weights[size + place])]
        return rows.setdefault(tuple(row), len(rows))

    waiting = [root]
    while waiting:
        part = waiting.pop()
        for weights in part.fixes:
            tree += [1, number(weights)]
        if part.split is None or part.sides is None or part.bound >= (math.inf if bound is None else bound):
            tree += [0, number(part.weights)]
            continue
        graph, layer, first, behind = part.split
        tree += [3, graph, first, behind] if layer < 0 else [2, *part.split]
        waiting.extend(reversed(part.sides))
    content: dict[str, JsonValue] = {"weights": [list(row) for row in rows], "tree": tree}
    if len(json.dumps(content, separators=(",", ":"))) > _MOST_CHARACTERS:
        return None
    return TreeCertificate(rule="boa-runs", bound=bound, limit=limit, content=content)


#: Relative gap at which the least of a limit counts as found, and parts that may be looked at to find it.
_GAP, _MOST_PARTS = 1e-9, 1_000


def explain_division(
    instance: BoaInstance, found: closing.LinkedSolution | None, request: SolveRequest
) -> Answer[BoaSolution]:
    """Say why no pure plan keeps the limits although mixed ones do, and what change of one limit would help.

    ``found`` is the search that excluded all plans; None where another engine says so, which is taken on trust. Limits
    for which the time left is too short are not spoken of.
    """
    certificate = None
    if found is not None and found.part is not None and request.certify:
        certificate = write_runs(found.part, None)
    changes = [relax_limit(instance, limit, request) for limit in instance.limit_names]
    relaxations = [change for change in changes if isinstance(change, Relaxation)]
    reason = (
        f"{PROBLEM_WORDS[instance.problem]} has no plan with one row per class that keeps the budget and "
        f"{name_others(instance)}, although mixed plans do (policy mixed)"
    )
    claim = Infeasibility(
        reason=f"{reason}; {say_wishes(relaxations)}" if relaxations else reason,
        relaxations=tuple(relaxations),
        hopeless=tuple(change for change in changes if isinstance(change, Hopeless)),
        certificate=certificate,
    )
    counters = {} if found is None else {"passes": float(found.passes), "branches": float(found.branches)}
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim, counters=counters)


def relax_limit(instance: BoaInstance, limit: str, request: SolveRequest) -> Relaxation | Hopeless | None:
    """Find the least of a limit with which a pure plan keeps the others, as far as is known; None if nothing is."""
    costs = [each.turned(limit) for each in cost_steps(instance)]
    amounts = list_amounts(instance)[np.array(instance.limit_names) != limit]
    found = closing.solve_pure(
        switching.LinkedGraphs.from_costs(costs, amounts),
        gap=_GAP,
        effort=Effort(request.stopwatch),
        runs=lambda: state_runs(instance, costs, amounts),
        enumerate_first=False,
        most_parts=_MOST_PARTS,
    )
    if isinstance(found, LinkedShortfall):
        others = [other for other in instance.limit_names if other != limit]
        named = dict(zip(others, found.multipliers.tolist(), strict=True))
        return Hopeless(limit=limit, multipliers={name: named.get(name, 0.0) for name in instance.limit_names})
    if math.isinf(found.bound) and found.proven:
        tree = None if found.part is None else write_runs(found.part, None, limit=limit)
        return Hopeless(limit=limit, certificate=tree if request.certify else None)
    bound = found.bound
    if bound <= most_within(instance.limits[limit]):
        return None  # the search ended before it came to what is too low
    root = found.part or run_problem.Part(bound, np.append(1.0, found.lagrangian.multipliers))
    certificate = write_runs(root, bound, limit=limit) if request.certify else None
    enough: dict[str, Any] = {}
    if found.paths is not None:
        plan = write_columns(instance, found.paths.payload)
        enough = {"enough": count_as_given(instance, limit, found.paths.total_value), "solution": plan.to_json_data()}
    least = count_as_given(instance, limit, bound)
    return instance.relax(limit, least, certificate=certificate, **enough)


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
