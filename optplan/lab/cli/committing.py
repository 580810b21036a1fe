"""``optplan frontier LOG_OR_INSTANCE --by commitments``: how many GPUs to commit, alone and with the widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.amending import amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.options import TIME, option
from optplan.cli.outputs import Outputs
from optplan.lab.cli.job_sources import JobSource, log_or_instance

if TYPE_CHECKING:
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.lab.billing import BilledPlan
    from optplan.reporting.tables import Table


@command(
    "commitments",
    short_help="How many GPUs to commit, and what that saves.",
    examples=(
        "optplan frontier boa-newtrace --by commitments --budget 130gpu "
        "--set 'gpu_types.t4.commitments={1-year: {discount: 0.45}}'",
        "optplan frontier jobs.csv --by commitments --instance mine.yaml --budget 130gpu",
    ),
    writes={"output": "the bills as JSON"},
)
@log_or_instance
@amendments_but("deadline")
def compare_bills(
    source: JobSource,
    *,
    by: str = option(type=click.Choice(["commitments"]), required=True, help="What varies: how GPUs are committed."),
    time_limit: float | None = option(type=TIME, help="Of each solve."),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Say how many GPUs to commit, and what that saves of the bill, by the law of demand and on jobs that came.

    LOG_OR_INSTANCE is an instance whose GPU types have commitments, a log (--from) or jobs table (--instance), or jobs
    drawn at the instance's rates (--jobs or --span). Rules for the widths that are best on demand stand beside widths
    and numbers that are chosen together.
    """
    del by
    from optplan.lab.billing import compare_commitments

    with Progress("reading the jobs"):
        instance, trace = source.read(changes)
    with Progress("committing"):
        found = compare_commitments(instance, trace, time_limit_s=time_limit)
    data = [each.to_json_data() for each in found]
    alone = [] if len(found) > 1 else ["", "Without commitments no plan was found whose bill keeps the budget."]
    return outputs.deliver(data, lambda: [_list_bills(instance, found), *alone])


def _list_bills(instance: BoaInstance, plans: Sequence[BilledPlan]) -> Table:
    """List ways to commit GPUs: what is committed, what is saved of the bill on demand, and how long jobs take."""
    from optplan.reporting.phrases import format_gpus, format_share
    from optplan.reporting.tables import Column, Table, numbers
    from optplan.units import BudgetUnit, format_duration

    on_trace = any(plan.trace is not None for plan in plans)
    columns = [Column("committed"), *numbers("GPUs", "bill", "saved", "jobs take")]
    columns += numbers("bill on the jobs", "saved", "jobs take") if on_trace else ()
    rows = []
    for plan in plans:
        own = [gpus for name, gpus in plan.law.committed.items() if instance.gpu_types[name].commitments]
        billed = [plan.law, *([] if plan.trace is None else [plan.trace])]
        cells = [(format_gpus(b.bill), format_share(b.saved), format_duration(b.mean_jct_s)) for b in billed]
        rows.append([plan.name, " + ".join(map(format_gpus, own)), *(cell for each in cells for cell in each)])
    unit = "GPUs on demand" if instance.budget_unit is BudgetUnit.GPU else "US dollars an hour"
    return Table(f"Ways to commit; bills in {unit}", columns, rows)
