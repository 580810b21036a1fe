"""``optplan frontier LOG_OR_INSTANCE --by gpus``: how many GPUs an own cluster needs."""

from __future__ import annotations

from typing import Any

import click

from optplan.cli.amending import amendments_but
from optplan.cli.commands import command
from optplan.cli.console import Progress
from optplan.cli.options import Kind, named, option, parse_numbers
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.lab.cli.job_sources import JobSource, log_or_instance
from optplan.schema import LARGEST_COUNT


def _parse_nodes(text: str, *, what: str) -> tuple[int, ...]:
    """Read numbers of nodes: between commas, as in ``4,8``, or all from a first to a last one, ``2..12``."""
    first, dots, last = text.partition("..")
    if not dots:
        return parse_numbers(text, what=what)
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) <= LARGEST_COUNT):
        fix = f"a first and a last number of nodes, to {LARGEST_COUNT:,}, are needed, as in 2..12"
        raise UsageError(f"{what}: got {text!r}; {fix}")
    return tuple(range(int(first), int(last) + 1))


@command(
    "gpus",
    short_help="Show how many own GPUs jobs need.",
    examples=(
        "optplan frontier sacct.txt --by gpus --from sacct --class-pattern '^[a-z]+' --gpus-per-node 4 --nodes 2..12",
        "optplan frontier jobs.csv --by gpus --instance mine.json --nodes 4,6,8,12 --report size.html",
        "optplan frontier boa-newtrace-tables --by gpus --jobs 960 --gpus-per-node 4 --nodes 30,34,39,48 --json",
    ),
    renamed=named("nodes", "gpus_per_node"),
    writes={"output": "all of it as JSON", "report": "Write an HTML report."},
)
@log_or_instance
@amendments_but("budget", "deadline", "policy")
def size_cluster(
    source: JobSource,
    *,
    by: str = option(type=click.Choice(["gpus"]), required=True, help="What varies: the GPUs of an own cluster."),
    nodes: tuple[int, ...] = option(
        type=Kind("N..N", _parse_nodes), required=True, help="Numbers of nodes, as in 2..12 or 4,8,16."
    ),
    gpus_per_node: int | None = option(
        type=click.IntRange(min=1), metavar="N", help="GPUs of a node, where the instance does not say it."
    ),
    bound: bool = option(
        is_flag=True, help="Add what no scheduler can beat, by prices over time; it takes seconds for each size."
    ),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show what own clusters of several sizes make of the jobs of LOG_OR_INSTANCE, under the best policy found.

    Every figure is of a replay of the jobs on whole nodes: under the price that fits, and under plans of the frontier
    whose jobs queue by their arrival, by what they have attained, or by what is left of them. The least mean and the
    least P95 take different budgets as a rule, so both are shown; beside them what no scheduler can beat, and what the
    log's own cluster did. The knee is the size at which GPUs times mean completion time are least.
    """
    from optplan.lab.audits.auditing import bound_by_capacity
    from optplan.lab.sizing import size
    from optplan.lab.sizing_page import build_sizing_page, list_sizes, say_sizing
    from optplan.reporting.sections import share_load, warn_of_untried

    del by

    def find_bound(*asked: Any) -> float:  # noqa: ANN401 - as bound_by_capacity takes it
        return bound_by_capacity(*asked, coarse=True).mean_jct_s

    with Progress("reading the jobs"):
        instance, trace = source.read(changes)
    if trace is None:
        raise UsageError("--jobs, --span: how many jobs of the instance come? Give one of them, or a log")
    with Progress("replaying") as progress:
        found = size(
            instance,
            trace,
            nodes,
            gpus_per_node=gpus_per_node,
            bound=find_bound if bound else None,
            on_event=progress.listen,
        )

    data = {"evidence": share_load(instance), **found.to_json_data()}
    outputs.deliver(data, lambda: [*warn_of_untried(instance), say_sizing(found), "", list_sizes(found)])
    outputs.save_page("--report", lambda: build_sizing_page(found, warn_of_untried(instance)))
    return outputs.exit_code(0)
