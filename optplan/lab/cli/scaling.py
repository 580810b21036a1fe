"""``optplan frontier INSTANCE ... --limit vms``: how training jobs scale on fleets of one type of VM each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from optplan.cli.amending import amend, amendments
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Shown
from optplan.cli.frontiers import read_each
from optplan.cli.options import INSTANCES, NUMBERS, option
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.lab.scaling import ScalingStudy

#: What ``--limit`` calls the size of a fleet.
_SIZES = ("vms", "gpus")
#: What the command takes of the options that change an instance, and its own.
_TAKEN = ("limit", "sizes", "scaling", "batch", "set", "output", "plot", "report")


def _show_scaling(
    instance_names: tuple[str, ...] = INSTANCES,
    *,
    limit: str = option(type=click.Choice(_SIZES), required=True, help="What varies: VMs, or their GPUs."),
    sizes: tuple[int, ...] | None = option(type=NUMBERS, help="How many, as in 1,2,4; 1,2,4,8,16,32 VMs by default."),
    scaling: tuple[str, ...] = option(
        multiple=True,
        type=click.Choice(["weak", "strong"]),
        help="Every GPU keeps its batch (weak), or all share the global one. Both by default.",
    ),
    batch: int | None = option(
        type=click.IntRange(min=1),
        metavar="N",
        help="Of weak scaling: samples of each GPU; the largest that fit by default.",
    ),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Show throughput, and samples for a dollar, of srift's training jobs on each number of each type of VM.

    Limits and availability play no part. Cost-efficiency of several jobs is averaged in the figure, as in the paper's
    section 3.
    """
    from optplan.lab.scaling import PAPER_SIZES, ScalingMode, study_scaling
    from optplan.lab.scaling_page import build_scaling_page
    from optplan.reporting.srift.words import require_job

    refuse_but(*_TAKEN, why=f"has no meaning with --limit {limit}")
    jobs = [amend(instance, changes) for instance in read_each(instance_names).values()]
    modes = [mode for mode in ScalingMode if mode.value in (scaling or list(ScalingMode))]
    if batch is not None and ScalingMode.WEAK not in modes:
        raise UsageError("--batch: strong scaling shares the global batch; leave it out, or ask for --scaling weak")
    studies = []
    for job in map(require_job, jobs):
        for mode in modes:
            own = batch if mode is ScalingMode.WEAK else None
            studies.append(study_scaling(job, mode, sizes or PAPER_SIZES, in_gpus=limit == "gpus", batch=own))
    outputs.deliver(_write_data(studies), lambda: _list_parts(studies))
    outputs.save_text("--plot", lambda _: _write_charts(studies))
    outputs.save_page("--report", lambda: build_scaling_page(studies))
    return outputs.exit_code(0)


by_vms, by_gpus = (
    command(
        name,
        short_help="Show what every number of VMs buys.",
        examples=(f"optplan frontier srift-case3 srift-interruption --limit {name} --sizes 1,2,4,8 --scaling weak",),
        writes={
            "output": "the studies as JSON",
            "plot": "Write a figure as HTML.",
            "report": "Write an HTML report.",
        },
    )(amendments(_show_scaling))
    for name in _SIZES
)


def _list_parts(studies: list[ScalingStudy]) -> list[Shown]:
    """List what a terminal shows of each study: a table, and what cannot be."""
    from optplan.lab.scaling_page import list_points, say_left_out, say_study
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = []
    for study in studies:
        parts += [plain_text(say_study(study), "bold"), "", list_points(study), ""]
        parts += [plain_text(f"left out: {text}") for text in say_left_out(study)]
        parts.append("")
    return parts[:-1]


def _write_data(studies: list[ScalingStudy]) -> dict[str, Any]:
    from optplan.lab.scaling import ScalingMode, average_efficiency

    weak = [study for study in studies if study.mode is ScalingMode.WEAK]
    return {
        "studies": [study.to_json_data() for study in studies],
        "average_efficiency": [one.to_json_data() for one in average_efficiency(weak)] if weak else [],
    }


def _write_charts(studies: list[ScalingStudy]) -> str:
    from optplan.lab.scaling_page import list_charts
    from optplan.reporting.reports import build_figures

    charts = list_charts(studies)
    if not charts:
        raise UsageError("--plot: there is nothing to draw, since no fleet can be; see what was left out")
    networks = ", ".join(dict.fromkeys(study.network for study in studies))
    return build_figures(networks, f"How {networks} scales with the number of VMs", charts)
