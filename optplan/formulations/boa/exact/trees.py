"""What branch and price proves: certificates of the rule ``boa-runs``; limits that no pure plan keeps.

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

from optplan.contracts import Answer, Infeasibility, Relaxation, SolveRequest, Status, Termination, TreeCertificate
from optplan.contracts.result import Hopeless
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_steps, list_amounts
from optplan.formulations.boa.exact.feasibility import (
    PROBLEM_WORDS,
    count_as_given,
    name_others,
    say_wishes,
    state_runs,
)
from optplan.formulations.boa.exact.paths import write_columns
from optplan.schema import FloatArray
from optplan.solvers.limits import most_within
from optplan.solvers.paths import closing, run_problem, switching
from optplan.solvers.paths.linked_dual import LinkedShortfall
from optplan.solvers.paths.search import Effort

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
