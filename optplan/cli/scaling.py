"""``optplan frontier --limit vms``: throughput and cost-efficiency of a training job by type and number of VMs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Shown
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError

if TYPE_CHECKING:
    from optplan.contracts import Instance
    from optplan.formulations.srift.study.scaling import ScalingStudy
    from optplan.reporting.pages import Page

#: What ``--limit`` calls the size of a fleet, by what :func:`study_scaling` calls it.
SIZES = {"vms": "vms", "gpus": "worlds"}


def show_scaling(
    instances: Sequence[Instance],
    outputs: Outputs,
    *,
    limit: str,
    sizes: Sequence[int] | None,
    scaling: Sequence[str],
    batch: int | None,
) -> int:
    """Predict how training jobs scale on fleets of one type of VM each; print and write it, return the exit code."""
    # ``limit`` is one of :data:`SIZES`, of which the paper's numbers are taken unless given; ``batch`` are samples of
    # each GPU in weak scaling, the most that fit unless given.
    from optplan.formulations.srift.study.scaling import ScalingMode, study_scaling
    from optplan.reporting.srift.words import require_job

    modes = [mode for mode in ScalingMode if mode.value in (scaling or list(ScalingMode))]
    if batch is not None and ScalingMode.WEAK not in modes:
        raise UsageError("--batch: strong scaling shares the global batch; leave it out, or ask for --scaling weak")
    studies = []
    for job in map(require_job, instances):
        for mode in modes:
            batches = dict.fromkeys(job.types, batch) if batch is not None and mode is ScalingMode.WEAK else None
            given: dict[str, Any] = {SIZES[limit]: sizes}
            studies.append(study_scaling(job, mode, batches=batches, **given))
    outputs.deliver(_write_data(studies), lambda: _list_parts(studies))
    _save(outputs, studies)
    return outputs.exit_code(0)


def _list_parts(studies: list[ScalingStudy]) -> list[Shown]:
    """List what a terminal shows of each study: a table, and what cannot be."""
    from optplan.reporting.srift.scaling_views import list_points, say_left_out, say_study
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = []
    for study in studies:
        parts += [plain_text(say_study(study), "bold"), "", list_points(study), ""]
        parts += [plain_text(f"left out: {text}") for text in say_left_out(study)]
        parts.append("")
    return parts[:-1]


def _write_data(studies: list[ScalingStudy]) -> dict[str, Any]:
    from optplan.formulations.srift.study.scaling import ScalingMode, average_efficiency

    weak = [study for study in studies if study.mode is ScalingMode.WEAK]
    return {
        "studies": [study.to_json_data() for study in studies],
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
