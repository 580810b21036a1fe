"""What a terminal and a page show of jobs with measured speeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optplan.contracts import Instance, Result, Solution
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.reporting.pages import Card, Definitions, Page, Section
from optplan.reporting.phrases import format_amount, format_cost, format_objective
from optplan.reporting.plain import compare_results
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import (
    build_answer_page,
    list_knowledge,
    present_answer,
    tell_background,
    tell_relaxations,
)
from optplan.reporting.srift.words import format_count, format_relaxation, write_relaxation
from optplan.reporting.tables import Column, Shown, Table, fact_table, numbers
from optplan.reporting.throughputs.words import require_choice, require_job, say_answer, say_how_good
from optplan.units import SECONDS_PER_HOUR, format_duration

_CHECK = "verify trusts no solver: it looks at every choice itself, and computes speeds, times and costs again."


def present_instance(instance: Instance) -> list[Shown]:
    """Say what an instance asks for, and what was measured."""
    job = require_job(instance)
    return [fact_table(_list_facts(job)), "", _list_speeds(job)]


def present_result(instance: Instance, result: Result[Solution]) -> list[Shown]:
    """Say what was found, how good it is, and what else was measured of that setup."""
    job = require_job(instance)
    facts = list_knowledge(result, partial(format_objective, job), format_relaxation)
    tables = [_list_choice(job, result)] if result.solution is not None else []
    return present_answer(result, say_answer(job, result), say_how_good(job, result), facts, *tables)


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[Shown]:
    """Set the results of several solvers side by side, ours first."""
    return [compare_results(require_job(instance), results)]


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result: the choice, its rivals, what was measured, how to check it."""
    beside.require_only_plans("measured speeds")
    job, sections = require_job(instance), list[Section]()
    if result.infeasibility is not None:
        sections.append(tell_relaxations(result, write_relaxation, say_answer(job, result)))
    if result.solution is not None:
        sections.append(Section("plan", "The choice", [_list_choice(job, result)]))
    if beside.rivals:
        sections.append(Section("solvers", "Other solvers", [compare_results(job, [result, *beside.rivals])]))
    sections += tell_background(job, result, beside, [Definitions(_list_facts(job)), _list_speeds(job)], _CHECK)
    cards = []
    if result.solution is not None:
        measures = result.measures
        cards = [
            Card("time", format_duration(measures["time_s"])),
            Card("cost", format_cost(measures["cost_usd"])),
            Card("samples a second", format_count(measures["samples_per_s"])),
        ]
    answer, how_good = say_answer(job, result), say_how_good(job, result)
    return build_answer_page(job, result, answer=answer, how_good=how_good, cards=cards, sections=sections)


def _list_facts(job: ThroughputsInstance) -> list[tuple[str, str]]:
    facts = [("description", job.description)] if job.description else []
    facts += [("job", f"{format_count(job.samples)} samples"), ("least", job.objective.value)]
    facts += [(limit, format_amount(limit, amount)) for limit, amount in job.limits.items()]
    between = "interpolated" if job.interpolate else "not considered"
    return [*facts, ("between measured numbers", between), ("hash", job.content_hash())]


def _list_speeds(job: ThroughputsInstance) -> Table:
    """List what was measured, a row for each number of VMs."""
    columns = (Column("VM"), Column("configuration"), *numbers("VMs", "GPUs", "samples a second", "samples a dollar"))
    rows = []
    for (name, configuration), table in job.tables.items():
        vm = job.types[name]
        for vms, speed in table.items():
            per_usd = speed * SECONDS_PER_HOUR / (vms * vm.price_usd_per_hour)
            counts = f"{vms:,}", f"{vms * vm.gpus:,}"
            rows.append((name, configuration, *counts, format_count(speed), format_count(per_usd)))
    return Table("What was measured", columns, rows, num_keys=3)


def _list_choice(job: ThroughputsInstance, result: Result[Solution]) -> Table:
    choice, measures = require_choice(result.solution), result.measures
    columns = (Column("VM"), Column("configuration"), *numbers("VMs", "GPUs", "samples a second", "time", "cost"))
    row = (
        choice.type,
        choice.configuration,
        f"{choice.vms:,}",
        f"{choice.vms * job.types[choice.type].gpus:,}",
        f"{format_count(measures['samples_per_s'])}{' (interpolated)' if measures['is_interpolated'] else ''}",
        format_duration(measures["time_s"]),
        format_cost(measures["cost_usd"]),
    )
    return Table("The choice", columns, [row])
