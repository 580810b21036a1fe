"""``optplan scaling``: throughput and cost-efficiency of a training job by type and number of VMs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.amending import amendments_but, read_amended
from optplan.cli.commands import Command
from optplan.cli.console import Shown
from optplan.cli.options import Kind, instances_argument
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.formulations.srift.study.scaling import ScalingStudy
    from optplan.reporting.pages import Page


def _parse_sizes(text: str, *, what: str) -> list[int]:
    """Read whole numbers from 1 on with commas between them."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        message = f"{what}: got {text!r}; whole numbers from 1 on with commas between them are needed"
        raise UsageError(f"{message}, as in 1,2,4,8")
    return sizes


_SIZES = Kind("N,N,...", _parse_sizes)


@click.command(
    cls=Command,
    short_help="See how a training job scales, by type and number of VMs.",
    examples=(
        "optplan scaling srift-case3",
        "optplan scaling srift-case3 srift-interruption --weak --vms 1,2,4,8,16 --plot efficiency.html",
        "optplan scaling srift-interruption --strong --set global_batch=2048 --report scaling.html",
    ),
    writes={"output": "the studies as JSON", "plot": "Write the charts as HTML.", "report": "Write an HTML report."},
)
@instances_argument
@amendments_but("budget", "deadline", "problem", "policy")
@click.option("--weak", is_flag=True, help="Every GPU keeps its batch (figure 2 of the paper). Without --strong, only.")
@click.option("--strong", is_flag=True, help="The global batch is shared equally (figure 3). Without --weak, only.")
@click.option("--vms", type=_SIZES, help="Numbers of VMs; 1,2,4,8,16,32 by default.")
@click.option("--worlds", type=_SIZES, help="World sizes instead: GPUs of all VMs.")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of weak scaling: samples of each GPU; the largest that fit by default.",
)
def scaling(
    instance_names: tuple[str, ...],
    *,
    weak: bool,
    strong: bool,
    vms: list[int] | None,
    worlds: list[int] | None,
    batch: int | None,
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Predict how the training jobs of INSTANCES scale on fleets of one type of VM each.

    For each type and number of VMs: the time of an iteration, samples a second, samples for a dollar, and that relative
    to the best. Limits and availability play no part. What the paper concludes from its own study (section 3) is held
    against what is found. Cost-efficiency of several jobs is averaged in the figure, as in the paper.
    """
    from optplan.formulations.srift.study.scaling import ScalingMode, study_scaling
    from optplan.reporting.srift.words import require_job

    if batch is not None and strong and not weak:
        raise UsageError("--batch: strong scaling shares the global batch; leave it out, or ask for --weak")
    chosen = {ScalingMode.WEAK: weak, ScalingMode.STRONG: strong}
    modes = [mode for mode in ScalingMode if chosen[mode] or not (weak or strong)]
    studies = []
    for name in instance_names:
        job = require_job(read_amended(name, changes))
        for mode in modes:
            batches = dict.fromkeys(job.types, batch) if batch is not None and mode is ScalingMode.WEAK else None
            studies.append(study_scaling(job, mode, vms=vms, worlds=worlds, batches=batches))
    outputs.deliver(_write_data(studies), lambda: _list_parts(studies))
    _save(outputs, studies)
    return outputs.exit_code(0)


def _list_parts(studies: list[ScalingStudy]) -> list[Shown]:
    """List what a terminal shows of each study: a table, what cannot be, and the paper's conclusions."""
    from optplan.formulations.srift.study.scaling import hold_conclusions
    from optplan.reporting.srift.scaling_views import list_points, say_finding, say_left_out, say_study
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = []
    for study in studies:
        parts += [plain_text(say_study(study), "bold"), "", list_points(study), ""]
        parts += [plain_text(f"left out: {text}") for text in say_left_out(study)]
        parts += [plain_text(say_finding(finding)) for finding in hold_conclusions(study)]
        parts.append("")
    return parts[:-1]


def _write_data(studies: list[ScalingStudy]) -> dict[str, Any]:
    from optplan.formulations.srift.study.scaling import ScalingMode, average_efficiency, hold_conclusions

    weak = [study for study in studies if study.mode is ScalingMode.WEAK]
    return {
        "studies": [
            {**study.to_json_data(), "findings": [finding.to_json_data() for finding in hold_conclusions(study)]}
            for study in studies
        ],
        "average_efficiency": [one.to_json_data() for one in average_efficiency(weak)] if weak else [],
    }


def _save(outputs: Outputs, studies: list[ScalingStudy]) -> None:
    """Write the files that were asked for."""

    def write_charts(_: Path) -> str:
        from optplan.reporting.drawing import build_figures
        from optplan.reporting.srift.scaling_views import list_charts

        charts = list_charts(studies)
        if not charts:
            raise UsageError("--plot: there is nothing to draw, since no fleet can be; see what was left out")
        networks = ", ".join(dict.fromkeys(study.network for study in studies))
        return build_figures(networks, f"How {networks} scales with the number of VMs", charts)

    def build_page() -> Page:
        from optplan.reporting.srift.scaling_views import build_scaling_page

        return build_scaling_page(studies)

    outputs.save_text("--plot", write_charts)
    outputs.save_page("--report", build_page)
