"""Limits that mixed plans keep and pure ones do not: said with proof, and with the least change of each that helps.

Multipliers prove nothing here, because they cannot tell a plan from a mixture. The proof is a division of all pure
plans into parts of which none keeps the limits; and for each limit by itself, with that limit dropped, a division into
parts of which none takes less of it than the best plan found.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optplan.contracts import Answer, Infeasibility, Relaxation, SolveRequest, Status, Termination
from optplan.contracts.result import Hopeless
from optplan.formulations.boa.data.instance import FLOOR, BoaInstance, BoaSolution
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import PROBLEM_WORDS, name_others, say_wishes
from optplan.formulations.boa.exact.trees import write_tree
from optplan.solvers.paths import branching, closing, solutions, switching
from optplan.solvers.paths.bounds import LinkedShortfall
from optplan.solvers.paths.effort import Effort

#: Relative gap at which the least of a limit counts as found.
_GAP = 1e-9


def explain_division(
    instance: BoaInstance, family: switching.LinkedGraphs, found: solutions.LinkedSolution | None, request: SolveRequest
) -> Answer[BoaSolution]:
    """Say why no pure plan keeps the limits although mixed ones do, and what change of one limit would help.

    Parameters
    ----------
    instance
        The problem, policy pure, with a budget and quotas or due dates.
    found
        The search that excluded all plans; None where another engine says so, which is taken on trust.
    request
        For the time that is left; limits for which it is too short are not spoken of.

    Returns
    -------
    Answer
        With status INFEASIBLE.
    """
    certificate = None
    if found is not None and found.region is not None and request.certify:
        certificate = write_tree(instance, family, found.region, None, trails=found.trails)
    changes = [relax_limit(instance, limit, request) for limit in instance.limit_names]
    relaxations = [change for change in changes if isinstance(change, Relaxation)]
    return Answer(
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        infeasibility=Infeasibility(
            reason=say_indivisible(instance, relaxations),
            relaxations=tuple(relaxations),
            hopeless=tuple(change for change in changes if isinstance(change, Hopeless)),
            certificate=certificate,
        ),
        counters={} if found is None else {"passes": float(found.passes), "branches": float(found.branches)},
    )


def say_indivisible(instance: BoaInstance, relaxations: list[Relaxation]) -> str:
    """Say that mixed plans keep the limits and pure ones do not, and which limits, raised alone, would do."""
    reason = (
        f"{PROBLEM_WORDS[instance.problem]} has no plan with one row per class that keeps the budget and "
        f"{name_others(instance)}, although mixed plans do (policy mixed)"
    )
    return f"{reason}; {say_wishes(relaxations)}" if relaxations else reason


def relax_limit(instance: BoaInstance, limit: str, request: SolveRequest) -> Relaxation | Hopeless | None:
    """Find the least value of a limit with which a pure plan keeps the others; None when there is no time for that."""
    family = _turn(instance, limit)
    found = closing.solve_pure(family, gap=_GAP, effort=Effort(request.stopwatch))
    if isinstance(found, LinkedShortfall):
        others = [other for other in instance.limit_names if other != limit]
        named = dict(zip(others, found.multipliers.tolist(), strict=True))
        return Hopeless(limit=limit, multipliers={name: named.get(name, 0.0) for name in instance.limit_names})
    if not found.proven:
        return None
    if math.isinf(found.bound):
        tree = None if found.region is None else write_tree(instance, family, found.region, None, limit)
        return Hopeless(limit=limit, certificate=tree if request.certify else None)
    region = found.region
    if region is None:
        weights = found.lagrangian.multipliers if found.exhaustion is None else found.exhaustion.multipliers
        region = branching.Region(np.append(1.0, weights), listed=found.exhaustion is not None)
    given, amount = instance.limit_as_given(limit)[0], instance.limits[limit]
    least = found.bound * (given / amount if amount else 1.0)
    least = instance.count_limit(limit, found.bound) if limit.startswith(FLOOR) else least
    certificate = write_tree(instance, family, region, found.bound, limit) if request.certify else None
    return instance.relax(limit, least, certificate=certificate)


def _turn(instance: BoaInstance, limit: str) -> switching.LinkedGraphs:
    """State the problem of the least consumption of one limit that keeps the others."""
    names = list(instance.limit_names)
    dropped = names.index(limit)
    others = [number for number in range(len(names)) if number != dropped]
    turned = [
        replace(
            steps,
            limits=tuple(names[number] for number in others),
            run_value=steps.run_consumption[dropped],
            run_consumption=steps.run_consumption[others],
            enter_value=steps.enter_consumption[dropped],
            enter_consumption=steps.enter_consumption[others],
        )
        for steps in cost_steps(instance)
    ]
    return switching.LinkedGraphs.from_costs(turned, np.array(list(instance.limits.values()))[others])
