"""``optplan frontier LOG_OR_INSTANCE --by commitments``: how many GPUs to commit, alone and with the widths."""

from __future__ import annotations

from typing import Any

import click

from optplan.cli.amending import amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.options import TIME, option
from optplan.cli.outputs import Outputs
from optplan.lab.cli.job_sources import JobSource, log_or_instance


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
    from optplan.lab.billing import bills_table, compare_commitments

    with Progress("reading the jobs"):
        instance, trace = source.read(changes)
    with Progress("committing"):
        found = compare_commitments(instance, trace, time_limit_s=time_limit)
    data = [each.to_json_data() for each in found]
    alone = [] if len(found) > 1 else ["", "Without commitments no plan was found whose bill keeps the budget."]
    return outputs.deliver(data, lambda: [bills_table(instance, found), *alone])
