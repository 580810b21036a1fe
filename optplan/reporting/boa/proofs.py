"""The report's words about proofs: what a bound rests on, why there is no plan, and how to check either."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts import BoundProof, EnumeratedCertificate, Infeasibility, LagrangianCertificate, Result, Solution
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance
from optplan.reporting.boa.budgets import say_amount
from optplan.reporting.boa.phrases import name_objective
from optplan.reporting.phrases import PROOF_WORDS, count_gpus, format_small_duration, join_words
from optplan.units import BudgetUnit, format_duration


def explain_proof(instance: BoaInstance, result: Result[Solution]) -> list[str]:
    """Explain, step by step, what the result's bound rests on.

    Source of the argument: weak duality; design of the certificates in ``optplan.contracts``.
    """
    if result.infeasibility is not None:
        return _explain_infeasibility(instance, result.infeasibility)
    if result.bound is None:
        return ["This solver gives no bound, so there is no proof to check; the plan itself can be checked."]
    certificate = max((c for c in result.certificates if c.multipliers), key=lambda c: c.bound or 0.0, default=None)
    if certificate is None:
        engine = f"{result.engine} {result.engine_version}".strip()
        return [f"The bound of {format_duration(result.bound)} {PROOF_WORDS[result.bound_proof]} ({engine})."]
    prices = _write_prices(instance, certificate.multipliers)
    that = "that price" if len(prices) == 1 else "these prices"
    steps = [
        f"Put a price on {'money' if instance.budget_unit is BudgetUnit.USD_PER_HOUR else 'GPUs'}: "
        f"{join_words([f'{price} of {name_objective(instance)} for each {what}' for what, price in prices])}.",
        f"Under {that} the classes no longer compete, and the best widths of each one are a shortest path through "
        "its epochs.",
        *(_explain_dual(instance, c) for c in result.certificates if isinstance(c, LagrangianCertificate)),
    ]
    if isinstance(certificate, EnumeratedCertificate):
        steps.append(_explain_enumeration(certificate))
    if result.bound_proof is BoundProof.ENGINE:
        steps.append(f"The reported bound, {format_duration(result.bound)}, {PROOF_WORDS[BoundProof.ENGINE]}.")
    return steps


def explain_check(result: Result[Solution]) -> str:
    """Say what the command that verifies the result does."""
    if result.solution is None:
        return (
            "This command checks what the result states, by code that shares nothing with the solver, and names what "
            "it has to take on trust:"
        )
    return (
        "Nobody has to trust the solver. This command computes everything again from the decisions, and the bound from "
        "its certificate where it has one, by code that shares nothing with the solver:"
    )


def _write_prices(instance: BoaInstance, multipliers: Mapping[str, float]) -> list[tuple[str, str]]:
    """Write what a certificate charges for what: the budget, and the other limits that it charges for."""
    unit = "GPU in use on average" if instance.budget_unit is BudgetUnit.GPU else "dollar an hour"
    charged = [limit for limit, price in multipliers.items() if limit == BUDGET or price > 0]
    return [
        (
            unit if limit == BUDGET else _name_charged(limit),
            format_small_duration(multipliers[limit]),
        )
        for limit in charged
    ]


def _name_charged(limit: str) -> str:
    if limit.startswith(DUE):
        return f"second of {limit.removeprefix(DUE)}'s mean completion time"
    if limit.startswith(FLOOR):
        return f"GPU fewer than {limit.removeprefix(FLOOR)} could run on"
    return f"{limit.removeprefix(QUOTA)} in use on average"


def _explain_infeasibility(instance: BoaInstance, infeasibility: Infeasibility) -> list[str]:
    """Explain why the least use of all classes together proves that there is no plan."""
    weights = {limit: weight for limit, weight in infeasibility.multipliers.items() if weight > 0}
    if not instance.further_limits or set(weights) == {BUDGET}:
        uses = "use the fewest GPUs on average" if instance.budget_unit is BudgetUnit.GPU else "cost the least"
        return [
            f"For each class, take the widths that {uses}, starts included.",
            "Add the classes up: the sum is the least that any plan uses, and it exceeds the budget.",
        ]
    unit = "GPU" if instance.budget_unit is BudgetUnit.GPU else "dollar an hour"
    weighed = [
        f"each {unit} of the budget by {weight:.4g}"
        if limit == BUDGET
        else f"each {_name_charged(limit).removesuffix(' in use on average')} by {weight:.4g}"
        for limit, weight in weights.items()
    ]
    return [
        f"Weigh what plans use: {join_words(weighed)}.",
        "For each class, take the GPU types and widths with the least weighted use, starts included.",
        "Add the classes up: the sum is the least that any plan uses, and it exceeds the limits weighed in the same "
        "way.",
    ]


def _explain_dual(instance: BoaInstance, certificate: LagrangianCertificate) -> str:
    bound_s = certificate.bound
    paid_s = sum(certificate.multipliers[limit] * amount for limit, amount in instance.limits.items())
    kept = "all limits" if instance.further_limits else _write_budget(instance)
    return (
        f"Completion time and price together come to at least {format_duration(bound_s + paid_s)}. A plan that keeps "
        f"to {kept} pays at most {format_duration(paid_s)} of that. So its {name_objective(instance)} is "
        f"at least {format_duration(bound_s)}, whatever its widths, mixtures included."
    )


def _write_budget(instance: BoaInstance) -> str:
    amount = instance.budget_amount()
    return count_gpus(amount) if instance.budget_unit is BudgetUnit.GPU else say_amount(instance, amount)


def _explain_enumeration(certificate: EnumeratedCertificate) -> str:
    found = (
        "None of them keeps to the budget"
        if certificate.optimum is None
        else f"The best of them that keeps to the budget has {format_duration(certificate.optimum)}"
    )
    return (
        "Every plan without mixtures whose total of time and price lies within "
        f"{format_small_duration(certificate.allowance)} of the least was looked at. {found}; no other one can be "
        f"better than {format_duration(certificate.bound)}."
    )
