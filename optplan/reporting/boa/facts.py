"""What is said of BOA's instances and results, by name, on a terminal."""

from __future__ import annotations

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.breakdown import has_types, load_gpus
from optplan.reporting.boa.budgets import UNIT_WORTHS, cost_usd_per_hour, say_worth
from optplan.reporting.boa.demand import list_extras
from optplan.reporting.boa.explanations import describe_type
from optplan.reporting.boa.phrases import PROBLEM_WORDS, describe_budget, name_objective, price_words, shadow_price
from optplan.reporting.phrases import NOTHING, count_gpus, format_gpus, format_share, format_usd
from optplan.reporting.sections import list_origin, list_status
from optplan.units import HOURS_PER_MONTH, format_duration


def list_facts(instance: BoaInstance) -> list[tuple[str, str]]:
    """List what an instance asks for."""
    types = instance.gpu_types.items()
    return [
        ("instance", instance.name),
        ("formulation", "boa"),
        *([("description", instance.description)] if instance.description else []),
        ("problem", f"{instance.problem.value}: {PROBLEM_WORDS[instance.problem]}"),
        ("policy", instance.policy.value),
        ("budget", describe_budget(instance) if instance.budget is not None else NOTHING),
        *list_extras(instance),
        ("load", count_gpus(load_gpus(instance)) + (", where sizes were measured" if has_types(instance) else "")),
        *((f"price of {name}", price_words(gpu_type)) for name, gpu_type in types),
        *(fact for name, gpu_type in types for fact in describe_type(name, gpu_type)),
        *((f"source: {kind}", text) for kind, text in instance.source.items()),
        ("hash", instance.content_hash()),
    ]


def list_result_facts(instance: BoaInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    """List what a result says."""
    measures, objective = result.measures, result.objective
    facts = list_status(result)
    if objective is not None:
        rescaling = f" ({format_gpus(measures['gpus_rescaling'])} of them rescaling)"
        facts.append((name_objective(instance), f"{format_duration(objective)} ({objective:.6g} s)"))
        facts.append(("GPUs on average", f"{format_gpus(measures['gpus'])}{rescaling}"))
        usd = cost_usd_per_hour(instance, result)
        if usd is not None:
            facts.append(("cost a month", format_usd(usd * HOURS_PER_MONTH)))
        facts.append(
            (
                "pauses a job",
                f"{measures['rescales_per_job']:.3g}, of these {measures['width_changes_per_job']:.3g} "
                "changes of width",
            )
        )
    if result.bound is not None:
        gap = "" if result.gap is None else f", gap {format_share(result.gap)}"
        proof = result.bound_proof.value
        facts.append(("bound", f"{format_duration(result.bound)} ({result.bound:.6g} s{gap}; {proof})"))
    price = shadow_price(instance, result, None)
    if price is not None and objective is not None:
        facts.append((UNIT_WORTHS[instance.budget_unit], say_worth(instance, price)))
    return facts + list_origin(result)
