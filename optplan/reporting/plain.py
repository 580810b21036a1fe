"""What is shown of a formulation without a presenter of its own: what every instance and every result has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optplan.contracts import Instance, Relaxation, Result, Solution
from optplan.formulations import formulation_of
from optplan.reporting.pages import Card, Definitions, Page, Section
from optplan.reporting.phrases import capitalise
from optplan.reporting.presenters import Beside, plan_words_of
from optplan.reporting.sections import (
    build_answer_page,
    compare_objectives,
    list_knowledge,
    present_answer,
    say_bound,
    tell_background,
    tell_relaxations,
)
from optplan.reporting.tables import Column, Shown, Table, fact_table, numbers

_CHECK = "verify trusts no solver: it computes the objective and every limit again, from the solution alone."
#: Characters of a plan's name at most.
_LONGEST_NAME = 60


def present_instance(instance: Instance) -> list[Shown]:
    """Say what an instance is and what it is limited by."""
    return [fact_table(list_facts(instance))]


def present_result(instance: Instance, result: Result[Solution]) -> list[Shown]:
    """Say what was found, how good it is, and what was measured of it."""
    facts = list_knowledge(result, partial(format_objective, instance), lambda one: _write_relaxation(one)[1])
    tables = [list_decisions(result)] if result.solution is not None else []
    return present_answer(result, say_answer(instance, result), say_how_good(instance, result), facts, *tables)


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[Shown]:
    """Set the results of several solvers side by side, ours first."""
    return [compare_results(instance, results)]


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Write a plan as its data, cut where that is long."""
    text = ", ".join(f"{name}={value}" for name, value in solution.to_json_data().items())
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def name_objective(instance: Instance) -> str:  # noqa: ARG001 - what words are asked with
    """Name the objective, of which no more is known than its unit."""
    return "objective"


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of a limit with its unit."""
    unit = instance.limit_as_given(limit)[1] if limit in instance.limits else ""
    return f"{amount:,.6g} {unit}".strip()


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return f"{objective:,.6g} {instance.objective_unit}"


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result: its measures, its rivals, what was asked, how to check it."""
    beside.require_only_plans(f"formulation {formulation_of(instance).name!r}")
    sections = []
    if result.infeasibility is not None:
        said = f"{capitalise(result.infeasibility.reason)}."
        sections.append(tell_relaxations(result, _write_relaxation, said))
    if result.solution is not None:
        sections.append(Section("plan", "The plan", [list_decisions(result)]))
    if beside.rivals:
        sections.append(Section("solvers", "Other solvers", [compare_results(instance, [result, *beside.rivals])]))
    sections += tell_background(instance, result, beside, [Definitions(list_facts(instance))], _CHECK)
    cards = [] if result.objective is None else [Card("objective", format_objective(instance, result.objective))]
    return build_answer_page(
        instance,
        result,
        answer=say_answer(instance, result),
        how_good=say_how_good(instance, result),
        cards=cards,
        sections=sections,
    )


def list_facts(instance: Instance) -> list[tuple[str, str]]:
    """List what an instance says of itself, by name."""
    facts = [("instance", instance.name), ("formulation", formulation_of(instance).title)]
    facts += [("description", instance.description)] if instance.description else []
    for limit in instance.limits:
        amount, unit = instance.limit_as_given(limit)
        facts.append((limit, f"{amount:,.6g} {unit}"))
    return [*facts, ("hash", instance.content_hash())]


def list_decisions(result: Result[Solution]) -> Table:
    """List what a plan decides, and what was measured of it."""
    decided = {} if result.solution is None else result.solution.to_json_data()
    rows = [(name.replace("_", " "), str(value)) for name, value in decided.items()]
    rows += [(name.replace("_", " "), f"{value:,.6g}") for name, value in result.measures.items()]
    return Table("What the plan decides, and what was measured of it", (Column("what"), Column("value")), rows)


def compare_results(instance: Instance, results: Sequence[Result[Solution]]) -> Table:
    """Set results side by side; the first is what the others are compared with."""
    words = plan_words_of(instance)

    def write(result: Result[Solution], difference: str) -> tuple[str, str]:
        found = result.status.value if result.objective is None else words.format_objective(instance, result.objective)
        return found, difference

    return compare_objectives(results, numbers("objective", "difference"), write)


def say_answer(instance: Instance, result: Result[Solution]) -> str:
    """Say the answer in a sentence."""
    if result.infeasibility is not None:
        return f"No plan is possible: {result.infeasibility.reason}."
    if result.objective is None:
        return f"No plan was found (stopped: {result.termination.value})."
    return f"The best plan found has {format_objective(instance, result.objective)}."


def say_how_good(instance: Instance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.infeasibility is not None:
        return "No plan keeps all limits."
    return say_bound(result, partial(format_objective, instance))


def _write_relaxation(one: Relaxation) -> tuple[str, str]:
    return f"{one.given:,.6g} {one.unit}", one.describe(lambda amount: f"{amount:,.6g} {one.unit}")
