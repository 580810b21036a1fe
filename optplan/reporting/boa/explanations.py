"""The report's words for somebody who has read no paper: the question, the proof, the assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from optplan.contracts import BoundProof, EnumeratedCertificate, Infeasibility, LagrangianCertificate, Result, Solution
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, Policy, Problem
from optplan.reporting.boa import phrases
from optplan.reporting.boa.breakdown import has_types, load_gpus
from optplan.reporting.boa.demand import list_extras
from optplan.reporting.phrases import (
    NOTHING,
    PROOF_WORDS,
    count_gpus,
    format_gpus,
    format_small_duration,
    join_words,
)
from optplan.speedup import Speedup, TableSpeedup
from optplan.units import SECONDS_PER_HOUR, BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.formulations.boa.data.job_classes import JobClass
    from optplan.schema import IntArray

#: Allowed widths up to which a list names them all.
_MOST_WIDTHS = 8

_POLICY_WORDS = {
    Policy.PURE: "pure: all jobs of a class get the same widths",
    Policy.MIXED: "mixed: stated shares of a class's jobs may get different widths",
}

_FORMULA_WORDS = {"amdahl": "Amdahl's law", "power": "a power law", "goodput": "the goodput model"}


def state_question(instance: BoaInstance) -> list[tuple[str, str]]:
    """State what is asked: what is to be least, within which limits, by which plans, and for how much work."""
    limits = NOTHING if instance.budget is None else phrases.describe_limits(instance)
    return [
        ("wanted", f"the least {phrases.name_objective(instance)}, over all jobs"),
        ("limits" if instance.budget is not None and instance.further_limits else "budget", limits),
        *list_extras(instance),
        ("problem", f"{instance.problem.value}: {phrases.PROBLEM_WORDS[instance.problem]}"),
        ("policy", _POLICY_WORDS[Policy.MIXED if instance.is_mixed else Policy.PURE]),
        ("load", count_gpus(load_gpus(instance)) + (", where sizes were measured" if has_types(instance) else "")),
    ]


def describe_class(instance: BoaInstance, name: str) -> tuple[str, ...]:
    """Put in words what is given of a class: name, arrivals, epochs, size, speedup, widths, pauses and weight."""
    job_class = instance.classes[name]
    options = instance.options(name)
    widths = {t: describe_widths(options.widths[options.of_type(t)]) for t in options.gpu_types}
    pauses = {t: format_duration(s) if (s := job_class.rescale_s_of(t)) else "none" for t in job_class.speedup}
    measured = f" on {job_class.reference_width} GPUs" if job_class.reference_width > 1 else ""
    return (
        name,
        f"{job_class.arrival_rate_per_hour:.3g}",
        f"{job_class.num_epochs:,}",
        format_duration(job_class.size_gpu_hours * SECONDS_PER_HOUR) + measured,
        _merge_types({t: _describe_speedup(job_class.speedup[t]) for t in widths}),
        _merge_types(widths, always=has_types(instance)),
        _merge_types(pauses) + _describe_changes(job_class),
        f"{job_class.weight:g}",
    )


def _merge_types(words: Mapping[str, str], *, always: bool = False) -> str:
    """Write what is said by GPU type, once where it is the same for all: ``t4: 1 to 64; a100: 1 to 16``."""
    if len(set(words.values())) == 1 and not always:
        return next(iter(words.values()))
    types: dict[str, list[str]] = {}
    for gpu_type, said in words.items():
        types.setdefault(said, []).append(gpu_type)
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in types.items())


def _describe_changes(job_class: JobClass) -> str:
    """Say what a change of the GPU type adds to the pause, if anything."""
    others = [s for entered in job_class.type_change_s_from.values() for s in entered.values()]
    least, most = min([job_class.type_change_s, *others]), max([job_class.type_change_s, *others])
    if most == 0.0 or len(job_class.speedup) == 1:
        return ""
    span = format_duration(most) if least == most else f"up to {format_duration(most)}"
    return f" (+ {span} to another type)"


def _describe_speedup(curve: Speedup) -> str:
    """Say what a speedup is, and of a table with provenance where its numbers come from."""
    if not isinstance(curve, TableSpeedup):
        return _FORMULA_WORDS[curve.form]
    origins = dict.fromkeys(curve.provenance or ())
    return f"a table ({', '.join(origins)})" if origins else "a table"


def describe_widths(widths: IntArray) -> str:
    """Write allowed widths (K,): ``1 to 64``, ``1, 2, 4, 8`` or ``1 to 128 (20 of them)``."""
    least, largest = int(widths[0]), int(widths[-1])
    if widths.size <= _MOST_WIDTHS and widths.size != largest - least + 1:
        return ", ".join(str(width) for width in widths.tolist())
    if widths.size == 1:
        return str(least)
    everyone = widths.size == largest - least + 1
    return f"{least} to {largest}" if everyone else f"{least} to {largest} ({widths.size} of them)"


def list_assumptions(instance: BoaInstance) -> list[str]:
    """List what the figures take for granted."""
    lines = [
        "Jobs of each class arrive at a steady long-run rate. Bursts are allowed; a rate that drifts for good is not.",
        "GPUs are rented and given back as jobs need them, and every job gets its GPUs at once. The budget holds on "
        "average over time; at single moments more or fewer GPUs are in use.",
        "Only means matter: no statement is made about single jobs or about the slowest of them.",
        "The size of a job is the time that it takes on one GPU (or on the width stated), and the speedups are those "
        "given, the same for all jobs of a class.",
    ]
    if instance.problem is Problem.RESCALING:
        lines.append(
            "A start and every change of width stop the job for the class's pause, whatever the widths; it holds its "
            "new GPUs meanwhile and pays for them."
        )
    else:
        lines.append("Starts and changes of width take no time and cost nothing.")
    if instance.problem is Problem.CONTINUOUS:
        lines.append(
            "A width that is no whole number stands for shares of the jobs at the two whole widths next to it; tables "
            "of speedups are read on their hull."
        )
    lines += _list_type_assumptions(instance)
    if any(gpu_type.price_usd_per_hour for gpu_type in instance.gpu_types.values()):
        lines.append("Money: the price of a GPU for an hour stays as stated; a month has 730 hours.")
    return lines


def _list_type_assumptions(instance: BoaInstance) -> list[str]:
    """List what is taken for granted about GPU types, quotas and interruptions."""
    lines = []
    if has_types(instance):
        lines.append(
            "A job holds GPUs of one type at a time. The size of a job is the time on the GPU to which the speedups of "
            "all types are relative; a class runs only on the types for which it has a speedup."
        )
    if any(instance.options(name).changes_cost for name in instance.classes):
        lines.append("A change of the GPU type pauses the job for longer than a change of width, as stated.")
    if instance.quotas:
        lines.append("Quotas hold on average over time, as the budget does.")
    if instance.due_s:
        lines.append("Due dates hold for the mean over the jobs of a class, not for every one of them.")
    if instance.floors:
        lines.append("Floors count the GPUs on which jobs of a class run, on average over time; pauses do not count.")
    if any(gpu_type.spot is not None for gpu_type in instance.gpu_types.values()):
        lines.append(
            "Spot GPUs are interrupted at a steady rate, each one independently of the others; an interruption stops "
            "the whole job, undoes the stated work on average, and can come during a billed restart, too."
        )
    return lines


def state_sources(instance: BoaInstance) -> list[tuple[str, str]]:
    """State where prices come from, and what else is given of GPU types."""
    facts = [(f"price of {name}", phrases.price_words(gpu_type)) for name, gpu_type in instance.gpu_types.items()]
    for name, gpu_type in instance.gpu_types.items():
        if gpu_type.quota_gpus is not None:
            facts.append((f"quota of {name}", f"{format_gpus(gpu_type.quota_gpus)} on average"))
        if gpu_type.start_s:
            said = f"{format_duration(gpu_type.start_s)}, outside of budget and times"
            facts.append((f"start of {name} nodes", said))
        if (spot := gpu_type.spot) is not None:
            said = (
                f"{spot.interruptions_per_gpu_hour:g} per GPU and hour; a restart takes "
                f"{format_duration(spot.restart_s)} ({'billed' if spot.restart_billed else 'not billed'}) and "
                f"{format_duration(spot.lost_work_s)} of work are lost"
            )
            facts.append((f"interruptions of {name}", said))
    return facts


def explain_proof(instance: BoaInstance, result: Result[Solution]) -> list[str]:
    """Explain, step by step, what the result's bound rests on (weak duality)."""
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
        f"{join_words([f'{price} of {phrases.name_objective(instance)} for each {what}' for what, price in prices])}.",
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
    what = (
        "checks what the result states" if result.solution is None else "computes everything again from the decisions"
    )
    return (
        f"Nobody has to trust the solver. This command {what}, and the bound from its certificate where it has one, by "
        "code that shares nothing with the solver. It ends with exit code 0 when everything holds, and names what does "
        "not, and what it takes on trust."
    )


def _write_prices(instance: BoaInstance, multipliers: Mapping[str, float]) -> list[tuple[str, str]]:
    """Write what a certificate charges for what: the budget, and the other limits that it charges for."""
    unit = "GPU in use on average" if instance.budget_unit is BudgetUnit.GPU else "dollar an hour"
    return [
        (unit if limit == BUDGET else _name_charged(limit), format_small_duration(price))
        for limit, price in multipliers.items()
        if limit == BUDGET or price > 0
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
    unit = phrases.BUDGET_WORDS[instance.budget_unit].one
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
    amount = instance.budget_amount()
    in_gpus = instance.budget_unit is BudgetUnit.GPU
    budget = count_gpus(amount) if in_gpus else phrases.say_amount(instance, amount)
    kept = "all limits" if instance.further_limits else budget
    return (
        f"Completion time and price together come to at least {format_duration(bound_s + paid_s)}. A plan that keeps "
        f"to {kept} pays at most {format_duration(paid_s)} of that. So its {phrases.name_objective(instance)} is "
        f"at least {format_duration(bound_s)}, whatever its widths{'' if instance.floors else ', mixtures included'}."
    )


def _explain_enumeration(certificate: EnumeratedCertificate) -> str:
    found = (
        "None of them keeps to the budget"
        if certificate.optimum is None
        else f"The best of them that keeps to the budget has {format_duration(certificate.optimum)}"
    )
    shared = join_words(certificate.divided)
    apart = f", or excluded with others that share its widths of {shared}" if shared else ""
    return (
        "Every plan without mixtures whose total of time and price lies within "
        f"{format_small_duration(certificate.allowance)} of the least was looked at{apart}. "
        f"{found}; no other one can be better than {format_duration(certificate.bound)}."
    )
