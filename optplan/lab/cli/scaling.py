"""``optplan frontier INSTANCE... --limit vms``: how training jobs scale on fleets of one type of VM each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optplan.cli.console import Shown
from optplan.cli.outputs import Outputs
from optplan.contracts import Instance
from optplan.errors import UsageError
from optplan.lab.scaling import ScalingMode, ScalingStudy, average_efficiency, study_scaling
from optplan.lab.scaling_views import build_scaling_page, list_charts, list_points, say_left_out, say_study
from optplan.reporting.reports import build_figures
from optplan.reporting.srift.words import require_job
from optplan.reporting.tables import plain_text

#: What ``--limit`` calls the size of a fleet, by what :func:`study_scaling` calls it.
_SIZES = {"vms": "vms", "gpus": "worlds"}


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
    # ``limit`` is one of :data:`_SIZES`, of which the paper's numbers are taken unless given; ``batch`` are samples of
    # each GPU in weak scaling, the most that fit unless given.
    modes = [mode for mode in ScalingMode if mode.value in (scaling or list(ScalingMode))]
    if batch is not None and ScalingMode.WEAK not in modes:
        raise UsageError("--batch: strong scaling shares the global batch; leave it out, or ask for --scaling weak")
    studies = []
    for job in map(require_job, instances):
        for mode in modes:
            batches = dict.fromkeys(job.types, batch) if batch is not None and mode is ScalingMode.WEAK else None
            given: dict[str, Any] = {_SIZES[limit]: sizes}
            studies.append(study_scaling(job, mode, batches=batches, **given))
    outputs.deliver(_write_data(studies), lambda: _list_parts(studies))
    _save(outputs, studies)
    return outputs.exit_code(0)


def _list_parts(studies: list[ScalingStudy]) -> list[Shown]:
    """List what a terminal shows of each study: a table, and what cannot be."""
    parts: list[Shown] = []
    for study in studies:
        parts += [plain_text(say_study(study), "bold"), "", list_points(study), ""]
        parts += [plain_text(f"left out: {text}") for text in say_left_out(study)]
        parts.append("")
    return parts[:-1]


def _write_data(studies: list[ScalingStudy]) -> dict[str, Any]:
    weak = [study for study in studies if study.mode is ScalingMode.WEAK]
    return {
        "studies": [study.to_json_data() for study in studies],
        "average_efficiency": [one.to_json_data() for one in average_efficiency(weak)] if weak else [],
    }


def _save(outputs: Outputs, studies: list[ScalingStudy]) -> None:
    def write_charts(_: Path) -> str:
        charts = list_charts(studies)
        if not charts:
            raise UsageError("--plot: there is nothing to draw, since no fleet can be; see what was left out")
        networks = ", ".join(dict.fromkeys(study.network for study in studies))
        return build_figures(networks, f"How {networks} scales with the number of VMs", charts)

    outputs.save_text("--plot", write_charts)
    outputs.save_page("--report", lambda: build_scaling_page(studies))
