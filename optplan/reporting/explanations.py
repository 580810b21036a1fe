"""The report's words for somebody who has read no paper: the question, the proof, the assumptions, the glossary."""

from __future__ import annotations

from dataclasses import dataclass

from optplan.contracts import BoundProof, ExhaustiveCertificate, LagrangianCertificate, Result, Solution
from optplan.formulations.boa.data import BUDGET, BoaInstance, Policy, Problem
from optplan.formulations.boa.job_classes import JobClass
from optplan.reporting.breakdown import load_gpus
from optplan.reporting.phrases import (
    PROBLEM_WORDS,
    PROOF_WORDS,
    count_gpus,
    describe_budget,
    format_seconds,
    format_small_duration,
    name_objective,
    price_words,
)
from optplan.schema import IntArray
from optplan.speedup import Speedup, TableSpeedup
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Allowed widths up to which a list names them all.
_MOST_WIDTHS = 8

_POLICY_WORDS = {
    Policy.PURE: "pure: all jobs of a class get the same widths",
    Policy.MIXED: "mixed: stated shares of a class's jobs may get different widths",
}

_FORMULA_WORDS = {"amdahl": "Amdahl's law", "power": "a power law", "goodput": "the goodput model"}


@dataclass(frozen=True)
class Term:
    """A term and what is to be said about it."""

    name: str
    text: str


@dataclass(frozen=True)
class ClassData:
    """What is given about one class, in words."""

    name: str
    jobs_per_hour: str
    epochs: str
    size: str
    speedup: str
    widths: str
    pause: str
    weight: str


def state_question(instance: BoaInstance, result: Result[Solution]) -> list[Term]:
    """State what was asked.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        For the gap that was asked for.
    """
    mixed = instance.problem is Problem.CONTINUOUS or instance.policy is Policy.MIXED
    return [
        Term("Wanted", f"the least {name_objective(instance)}, over all jobs"),
        Term("Limit", describe_budget(instance)),
        Term("Decided", PROBLEM_WORDS[instance.problem]),
        Term("Kind of plan", _POLICY_WORDS[Policy.MIXED if mixed else Policy.PURE]),
        Term(
            "Load",
            f"{count_gpus(load_gpus(instance))} would be busy on average if every job kept to one width, "
            "the one at which its size was measured",
        ),
        Term("Precision asked for", f"a gap of at most {100 * result.gap_target:g} %"),
    ]


def describe_classes(instance: BoaInstance) -> list[ClassData]:
    """Put the data of every class in words, in the instance's order."""
    return [_describe_class(instance, name, job_class) for name, job_class in instance.classes.items()]


def _describe_class(instance: BoaInstance, name: str, job_class: JobClass) -> ClassData:
    forms = {_describe_speedup(curve) for curve in job_class.speedup.values()}
    return ClassData(
        name=name,
        jobs_per_hour=f"{job_class.arrival_rate_per_hour:.3g}",
        epochs=f"{job_class.num_epochs:,}",
        size=format_duration(job_class.size_gpu_hours * SECONDS_PER_HOUR)
        + (f" on {job_class.reference_width} GPUs" if job_class.reference_width > 1 else ""),
        speedup=", ".join(sorted(forms)),
        widths=describe_widths(instance.allowed_widths(name)) if len(instance.gpu_types) == 1 else "by GPU type",
        pause=format_duration(job_class.rescale_s) if job_class.rescale_s else "none",
        weight=f"{job_class.weight:g}",
    )


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


def explain_proof(instance: BoaInstance, result: Result[Solution]) -> list[str]:
    """Explain, step by step, what the result's bound rests on.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        Its result, of any status.

    Returns
    -------
    list of str
        Sentences in order. Source of the argument: weak duality; design of the certificates in ``optplan.contracts``.
    """
    if result.infeasibility is not None:
        return [
            "For each class, take the widths that use the fewest GPUs on average, starts included.",
            "Add the classes up: the sum is the least that any plan uses, and it exceeds the budget.",
        ]
    if result.bound is None:
        return ["This solver gives no bound, so there is no proof to check; the plan itself can be checked."]
    certificate = max(result.certificates, key=lambda c: c.bound, default=None)
    if certificate is None:
        engine = f"{result.engine} {result.engine_version}".strip()
        return [f"The bound of {format_duration(result.bound)} {PROOF_WORDS[result.bound_proof]} ({engine})."]
    price_s = certificate.multipliers[BUDGET]
    steps = [
        f"Put a price on GPUs: {format_small_duration(price_s)} of {name_objective(instance)} for each GPU in use on "
        "average.",
        "Under that price the classes no longer compete, and the best widths of each one are a shortest path through "
        "its epochs.",
        *(_explain_dual(instance, c) for c in result.certificates if isinstance(c, LagrangianCertificate)),
    ]
    if isinstance(certificate, ExhaustiveCertificate):
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


def _explain_dual(instance: BoaInstance, certificate: LagrangianCertificate) -> str:
    budget, bound_s = instance.budget_amount(), certificate.bound
    paid_s = certificate.multipliers[BUDGET] * budget
    return (
        f"Completion time and price together come to at least {format_duration(bound_s + paid_s)}. A plan that keeps "
        f"to {count_gpus(budget)} pays at most {format_duration(paid_s)} of that. So its {name_objective(instance)} is "
        f"at least {format_duration(bound_s)}, whatever its widths, mixtures included."
    )


def _explain_enumeration(certificate: ExhaustiveCertificate) -> str:
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
    if any(gpu_type.price_usd_per_hour for gpu_type in instance.gpu_types.values()):
        lines.append("Money: the price of a GPU for an hour stays as stated; a month has 730 hours.")
    return lines


def list_glossary() -> list[Term]:
    """Explain the words that the report uses, in the order in which a reader meets them."""
    return [
        Term("GPUs on average", "The number of GPUs in use, averaged over a long time. The bill follows from it."),
        Term("Completion time", "From a job's arrival to its end. Its mean over all jobs is what the plan minimises."),
        Term("Class", "Jobs that are alike: one application, its speedups, its rate of arrival."),
        Term("Epoch", "A part of a job during which its speedup stays the same. Epochs are numbered from 1."),
        Term("Width", "The number of GPUs on which a job runs."),
        Term("Speedup", "How many times as fast a job runs at a width as at the width where its size was measured."),
        Term("Rescaling", "Starting a job or changing its width; the job makes no progress meanwhile."),
        Term(
            "Pure, mixed",
            "In a pure plan all jobs of a class get the same widths; in a mixed one, stated shares of "
            "them get different ones.",
        ),
        Term("Bound", "A number that no plan can be below. It is computed without assuming anything about the plan."),
        Term(
            "Gap", "How much lower than the plan the best possible may be: the distance to the bound, as a percentage."
        ),
        Term("Certificate", "The few numbers from which anybody can derive the bound again, without the solver."),
        Term("Frontier", "The best possible completion time for every budget."),
    ]


def state_provenance(instance: BoaInstance, result: Result[Solution]) -> list[Term]:
    """State where the figures come from and what would reproduce them."""
    engine = f"{result.engine} {result.engine_version}".strip()
    terms = [Term("Instance", instance.name)]
    if instance.description:
        terms.append(Term("Description", instance.description))
    terms += [Term(_make_title(kind), text) for kind, text in instance.source.items()]
    terms += [Term(f"Price of {name}", price_words(gpu_type)) for name, gpu_type in instance.gpu_types.items()]
    terms += [
        Term("Hash of the instance", result.instance_hash),
        Term("Solver", f"{result.solver} (engine: {engine}; seed {result.seed})"),
        Term("Made with", f"optplan {result.optplan_version}"),
        Term(
            "Time",
            f"{format_seconds(result.solve_seconds)} to solve, "
            + (f"{format_seconds(result.verify_seconds)} to verify" if result.verify_seconds else "not yet verified"),
        ),
    ]
    return terms


def _make_title(name: str) -> str:
    """Make a field's name a title: ``arrival_rates`` is ``Arrival rates``."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]
