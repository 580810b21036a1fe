"""A deadline and a budget at once: what is least within one of them has to keep the other, too.

The optimum within one limit keeps the other wherever any plan keeps both. So nothing new is searched for; new is the
proof that no plan keeps both, and which of the two to relax, by how much (:data:`BOTH`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from pydantic import JsonValue

from optplan.contracts.result import (
    MEETING,
    Answer,
    Hopeless,
    Infeasibility,
    LagrangianCertificate,
    Relaxation,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.formulations.rubberband.data.instance import BOTH, BUDGET, DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.chains import state_chains
from optplan.formulations.rubberband.exact.held_paths import solve_one_limit
from optplan.solvers.limits import LIMIT_TOLERANCE, write_apart, write_up
from optplan.solvers.paths.held import find_least
from optplan.solvers.paths.search import Effort

#: Of the limits.
UNITS = {DEADLINE: "s", BUDGET: "usd"}

_Answer = Answer[RubberBandSolution]
_Solver = Callable[[RubberBandInstance, SolveRequest], _Answer]


def keep_both(solve: _Solver) -> _Solver:
    """Let a solver that knows one limit keep a ceiling of its objective, too."""

    @wraps(solve)
    def within_both(instance: RubberBandInstance, request: SolveRequest) -> _Answer:
        if instance.ceiling is None:
            return solve(instance, request)
        instance.limit_as_given(instance.limit_name)  # raises where the ceiling is alone: that asks for another problem
        answer = solve(instance.without_ceiling(), request)
        if answer.status is Status.INFEASIBLE:
            return _refuse(instance, answer, request)
        if answer.objective is None or _keeps_ceiling(instance, answer.objective):
            return _with_ceiling(instance, answer)
        # To the last digit: whether the ceiling is kept may depend on it.
        best = solve_one_limit(instance.without_ceiling(), replace(request, gap=0.0))
        if best.bound is not None and not _keeps_ceiling(instance, best.bound):
            return _refuse(instance, best, request)
        amount, unit = instance.limit_as_given(instance.ceiling_name)
        warning = (
            f"the plan found needs {answer.objective:,.6g} {instance.objective_unit}, "
            f"and the {instance.ceiling_name} is {amount:,.6g} {unit}"
        )
        if best.objective is not None and _keeps_ceiling(instance, best.objective):
            warning += "; other plans keep it"
        warnings = (*answer.warnings, warning)
        unknown = replace(answer, status=Status.UNKNOWN, solution=None, objective=None, warnings=warnings)
        return _with_ceiling(instance, unknown)

    return within_both


solve_held_paths = keep_both(solve_one_limit)


def _keeps_ceiling(instance: RubberBandInstance, objective: float) -> bool:
    return instance.ceiling is None or objective <= instance.ceiling * (1.0 + LIMIT_TOLERANCE)


def _with_ceiling(instance: RubberBandInstance, answer: _Answer) -> _Answer:
    """Name the ceiling in the proof, where it weighs nothing, and say what it is worth: nothing, while it is kept."""
    nothing = {instance.ceiling_name: 0.0}
    certificates = tuple(
        one if isinstance(one, TreeCertificate) else one.replace(multipliers=dict(one.multipliers) | nothing)
        for one in answer.certificates
    )
    prices = {limit: _link(price, limit, nothing) for limit, price in answer.shadow_prices.items()}
    weighed = next((one for one in certificates if isinstance(one, LagrangianCertificate)), None)
    if prices and weighed is not None:
        prices[instance.ceiling_name] = _price_ceiling(instance, weighed)
    return replace(answer, certificates=certificates, shadow_prices=prices)


def _link(price: ShadowPrice, limit: str, nothing: dict[str, float]) -> ShadowPrice:
    """Say at which multipliers of both limits the ends of a price were found, or by which nothing less is feasible."""
    ends = {"less_multipliers": 1.0 if price.less is None else price.less, "more_multipliers": price.more}
    return price.replace(**{name: {limit: end} | nothing for name, end in ends.items()})


def _price_ceiling(instance: RubberBandInstance, weighed: LagrangianCertificate) -> ShadowPrice:
    """Return the price of a ceiling that is kept; where even mixed plans have no room below it, less is infeasible."""
    has_room = weighed.bound < (instance.ceiling or 0.0) * (1.0 - MEETING)
    multipliers = dict(weighed.multipliers)
    return ShadowPrice(
        less=0.0 if has_room else None,
        more=0.0,
        unit=instance.price_unit(instance.ceiling_name),
        less_multipliers=multipliers if has_room else multipliers | {instance.ceiling_name: 1.0},
        more_multipliers=multipliers,
    )


def _refuse(instance: RubberBandInstance, best: _Answer, request: SolveRequest) -> _Answer:
    """Say that no plan keeps both limits, and what either would have to be; ``best`` is that without the ceiling."""
    ceiling, traded = instance.ceiling_name, instance.limit_name
    exchanged = solve_one_limit(instance.exchanged().without_ceiling(), replace(request, gap=0.0))
    found = [_look_at(instance, ceiling, best, request), _look_at(instance, traded, exchanged, request)]
    if not any(found):
        warning = "no plan keeps both limits, as far as was looked; there was no time to prove what would"
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(warning,))
    helps = tuple(one for one in found if isinstance(one, Relaxation))
    hopeless = tuple(one for one in found if isinstance(one, Hopeless))
    reason = _say_why(instance, best, {one.limit: one.least_feasible for one in helps})
    if len(hopeless) > 1:
        reason += _say_what_both_need(instance, [best, exchanged], request)
    certificate = next(one.certificate for one in found if one is not None)
    claim = Infeasibility(
        reason=reason,
        relaxations=helps,
        hopeless=hopeless,
        certificate=None if certificate is None else certificate.replace(limit="", bound=None),
    )
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)


def _look_at(
    instance: RubberBandInstance, limit: str, answer: _Answer, request: SolveRequest
) -> Relaxation | Hopeless | None:
    """Say how much of a limit plans need that keep the other, or that none does; None where time ran out."""
    if answer.infeasibility is not None:
        (other,) = answer.infeasibility.relaxations
        content: dict[str, JsonValue] = {
            "limit": other.limit,
            "multiplier": 0.0,
            "allowance": _count_charges(instance, other),
        }
        certificate = TreeCertificate(rule=BOTH, limit=limit, content=content)
        return Hopeless(limit=limit, certificate=certificate if request.certify else None)
    if answer.bound is None or answer.status is not Status.OPTIMAL:
        return None
    certificate = TreeCertificate(rule=BOTH, bound=answer.bound, limit=limit, content=_describe_proof(limit, answer))
    return instance.relax(
        limit, answer.bound, enough=answer.objective, certificate=certificate if request.certify else None
    )


def _count_charges(instance: RubberBandInstance, needed: Relaxation) -> float:
    """Return by how much minimum charges raise the least cost of any plan; they raise no time."""
    if needed.limit != BUDGET or not instance.has_minimum_charges:
        return 0.0
    plain = [find_least(chain.graph.exchanged(), effort=Effort()) for chain in state_chains(instance)]
    return max(0.0, needed.least_feasible - math.fsum(one.least for one in plain))


def _say_why(instance: RubberBandInstance, best: _Answer, helps: dict[str, float]) -> str:
    """Say in a sentence what a plan needs of the ceiling, or of the other limit, and which amounts would do."""
    ceiling, traded, given = instance.ceiling_name, instance.limit_name, instance.limits
    if ceiling in helps:
        least = helps[ceiling]
        reason = (
            f"within the {traded} of {given[traded]:,.6g} {UNITS[traded]} a plan needs "
            f"{write_apart(least, given[ceiling])} {UNITS[ceiling]} at least; "
            f"the {ceiling} is {write_apart(given[ceiling], least)} {UNITS[ceiling]}"
        )
    else:
        reason = best.infeasibility.reason if best.infeasibility is not None else f"no plan keeps the {traded}"
    if traded in helps:
        wanted, within = write_apart(helps[traded], given[traded]), f"{given[ceiling]:,.6g} {UNITS[ceiling]}"
        return f"{reason}; within {within} a plan needs {wanted} {UNITS[traded]}"
    amount = f"{given[ceiling]:,.6g} {UNITS[ceiling]}"
    return f"{reason}; and whatever the {traded}, no plan keeps the {ceiling} of {amount}"


def _say_what_both_need(instance: RubberBandInstance, found: list[_Answer], request: SolveRequest) -> str:
    """Say for the least amount of either limit which amount of the other would do with it; nothing out of time."""
    needed = [one for answer in found if answer.infeasibility is not None for one in answer.infeasibility.relaxations]
    least, said = {one.limit: one.least_feasible for one in needed}, []
    for asked in (instance.without_ceiling(), instance.exchanged().without_ceiling()):
        limit, other = asked.limit_name, asked.ceiling_name
        amount = least[limit]
        field = {"deadline_s": amount} if limit == DEADLINE else {"budget": f"{amount!r}usd"}
        best = solve_one_limit(asked.replace(**field), request)
        if best.objective is not None:
            pair = ((limit, amount), (other, best.objective))
            wishes = (f"a {name} of {write_up(each, instance.limits[name])} {UNITS[name]}" for name, each in pair)
            said.append(f"{' and '.join(wishes)} would do")
    return "".join(f"; {one}" for one in said)


def _describe_proof(limit: str, answer: _Answer) -> dict[str, JsonValue]:
    """Write down what shows that plans need so much of a limit: the content of :data:`BOTH`."""
    content: dict[str, JsonValue] = {"limit": limit, "multiplier": 0.0, "allowance": 0.0}
    for one in answer.certificates:
        match one:
            case TreeCertificate():
                content |= dict(one.content)
            case LagrangianCertificate():
                content["multiplier"] = sum(one.multipliers.values())
                content["allowance"] = max(0.0, (answer.bound or 0.0) - one.bound)
    return content
