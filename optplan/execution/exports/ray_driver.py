"""Ray: a driver script, with a trainable around an ordinary Tuner that follows the plan, with a command around our run.

Ray enforces nothing of a plan's limits by itself; both scripts keep its hard limits while they follow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from optplan.execution.exports.commands import value_names
from optplan.execution.exports.folder import read_script
from optplan.execution.exports.request import ExportRequest, Template
from optplan.execution.exports.steps import CannotExpressError
from optplan.schema import ByName

_TRAINABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class RayTemplate(Template):
    """What is merged into a driver script.

    ``address`` ``auto`` is the cluster that the script is started in; ``per_gpu`` is what Ray reserves for one GPU of
    the plan; all nodes see ``storage_path``, where Ray Tune keeps results and checkpoints.
    """

    address: Annotated[str, Field(min_length=1)] = "auto"
    per_gpu: ByName[float] = Field(default_factory=lambda: {"CPU": 1.0, "GPU": 1.0})
    storage_path: str | None = None


def write_files(request: ExportRequest) -> Mapping[str, str]:
    """Return the driver script, and the script that submits it; ``module:Trainable`` is a trainable of Ray Tune."""
    template = request.template_as(RayTemplate)
    if request.kind == "stream":
        raise CannotExpressError("cannot express: a stream's jobs arrive one by one; use --to slurm or kubernetes")
    if _TRAINABLE.fullmatch(request.command):
        if request.kind != "search":
            raise CannotExpressError("cannot express: Ray Tune follows searches; give a command line for a fleet")
        driver = _write_tuner(request, template)
    else:
        driver = _write_run(request, template)
    lines = ["#!/usr/bin/env bash", "# Follows the plan on the Ray cluster.", "set -euo pipefail"]
    lines += ['cd -- "$(dirname -- "${BASH_SOURCE[0]}")"', *template.setup.splitlines(), "exec python drive.py", ""]
    return {"drive.py": driver, "submit.sh": "\n".join(lines)}


def _write_tuner(request: ExportRequest, template: RayTemplate) -> str:
    module, _, name = request.command.partition(":")
    return read_script("ray-tuner.txt").format(
        plan_id=request.plan.plan_id,
        workdir=request.workdir,
        module=module,
        name=name,
        address=template.address,
        environment=dict(template.env),
        configurations=[dict(each) for each in request.configurations],
        names=value_names(request),
        per_gpu=dict(template.per_gpu),
        metric=request.metric,
        mode=request.mode.value,
        storage=template.storage_path,
        retries=request.options.retries,
    )


def _write_run(request: ExportRequest, template: RayTemplate) -> str:
    options: dict[str, Any] = {
        "command": request.command,
        "executor": "ray",
        "address": template.address,
        "metric": request.metric,
        "mode": request.mode.value,
        "retries": request.options.retries,
        "launcher": request.options.launcher,
    }
    space = [dict(each) for each in request.configurations] or None
    return read_script("ray-run.txt").format(
        plan_id=request.plan.plan_id,
        workdir=request.workdir,
        environment=dict(template.env),
        space=space,
        options=options,
    )
