"""``optplan audit``: what any scheduler could have made of the GPU-hours that jobs held."""

from __future__ import annotations

from typing import Any

import click

from optplan.cli.amending import amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.options import BUDGET, TIME, option
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.lab.cli.job_sources import JobSource, log_or_instance
from optplan.units import MINUTES_PER_HOUR, Amount, BudgetUnit

#: Hours of a GPU in each unit.
_HOURS = {BudgetUnit.GPU_HOUR: 1.0, BudgetUnit.GPU_MINUTE: 1.0 / MINUTES_PER_HOUR}


@command(
    short_help="What any scheduler could have made of the GPU-hours held.",
    examples=(
        "optplan audit sacct.txt --from sacct --class-pattern '^[a-z]+' --report audit.html",
        "optplan audit jobs.csv --instance mine.json -o audit.json",
        "optplan verify mine.json audit.json --jobs jobs.csv",
        "optplan audit sacct.txt --from sacct --class-pattern '^[a-z]+' --cluster-gpus 24",
        "optplan audit boa-newtrace --jobs 960 --gpu-hours 5000gpu-h --mean-jct 50min",
    ),
    renamed={"gpu_hours": "--gpu-hours", "mean_jct_s": "--mean-jct"},
    writes={
        "output": "the audit with its certificate as JSON",
        "new_instance": "Write the instance that the log became, which `optplan verify` asks for.",
        "report": "Write an HTML report.",
    },
)
@log_or_instance
@amendments_but("budget", "deadline", "problem", "policy")
def audit(
    source: JobSource,
    *,
    gpu_hours: Amount | None = option(
        type=BUDGET, help="What the jobs held together, as in 4800gpu-h, where the log does not say it of each."
    ),
    mean_jct: float | None = option(type=TIME, help="Their mean completion time, where the log does not say it."),
    cluster_gpus: int | None = option(
        "--cluster-gpus",
        type=click.IntRange(min=1),
        metavar="N",
        help="GPUs of the cluster on which they ran: a bound for every scheduler on so many stands beside the others.",
    ),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Say what no scheduler could have beaten: the least mean completion time with as many GPU-hours, proven.

    LOG_OR_INSTANCE are jobs of a log (--from), of the table that `optplan import log --jobs` wrote (--instance), or
    drawn at the rates of an instance (--jobs or --span). There is a bound for policies that pause jobs as the instance
    says, and one for all; the fewest GPU-hours for the same mean; and, by class, what would close the gap.
    """
    from optplan.lab.audits.auditing import audit as find
    from optplan.lab.audits.page import bound_table, build_audit_page, gap_table, say_audit, say_remedies

    with Progress("reading the jobs"):
        instance, trace = source.read(changes)
    if trace is None:
        raise UsageError("--jobs, --span: how many jobs of the instance are audited? Give one of them, or a log")
    if gpu_hours is not None and gpu_hours.unit not in _HOURS:
        raise UsageError(f"--gpu-hours: got {str(gpu_hours)!r}; GPU-hours are needed, as in 4800gpu-h")
    held = None if gpu_hours is None else gpu_hours.value * _HOURS[gpu_hours.unit]
    with Progress("bounding"):
        found = find(instance, trace, gpu_hours=held, mean_jct_s=mean_jct, gpus=cluster_gpus)

    tables = (part for each in (bound_table(found), gap_table(found)) if each is not None for part in ("", each))
    remedies = (f"to gain: {each}" for each in say_remedies(found))
    assumed = (f"assumed: {each}" for each in found.assumptions)
    outputs.deliver(found, lambda: [say_audit(found), *tables, "", *remedies, *assumed])
    outputs.save_json(instance, "--new-instance")
    outputs.save_page("--report", lambda: build_audit_page(instance, found))
    return outputs.exit_code(0)
