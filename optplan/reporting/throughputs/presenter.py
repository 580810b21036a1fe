"""What a terminal and a page show of jobs with measured speeds."""

from __future__ import annotations

from optplan.contracts import Result, Solution
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.reporting.pages import Card, Definitions, Section
from optplan.reporting.phrases import format_amount, format_cost
from optplan.reporting.presentation import Presenter
from optplan.reporting.sections import tell_relaxations
from optplan.reporting.srift.words import format_count, format_relaxation, write_relaxation
from optplan.reporting.tables import Column, Table, numbers
from optplan.reporting.throughputs.words import require_choice, require_job, say_answer, say_how_good
from optplan.units import SECONDS_PER_HOUR, format_duration

_CHECK = "verify trusts no solver: it looks at every choice itself, and computes speeds, times and costs again."


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


def _list_cards(_: ThroughputsInstance, result: Result[Solution]) -> list[Card]:
    measures = result.measures
    return [
        Card("time", format_duration(measures["time_s"])),
        Card("cost", format_cost(measures["cost_usd"])),
        Card("samples a second", format_count(measures["samples_per_s"])),
    ]


PRESENTER = Presenter(
    require_job,
    facts=_list_facts,
    given=lambda job: [_list_speeds(job)],
    answer=say_answer,
    how_good=say_how_good,
    help=format_relaxation,
    decided=lambda job, result: [_list_choice(job, result)],
    cards=_list_cards,
    relaxed=lambda job, result: tell_relaxations(result, write_relaxation, say_answer(job, result)),
    plan=lambda job, result, _: [Section("plan", "The choice", [_list_choice(job, result)])],
    question=lambda job: [Definitions(_list_facts(job)), _list_speeds(job)],
    check=lambda _: _CHECK,
)
