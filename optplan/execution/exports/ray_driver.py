"""Ray: a driver script, with a trainable around an ordinary Tuner that follows the plan, with a command around our run.

Ray enforces nothing of a plan's limits by itself; both scripts keep its hard limits while they follow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from optplan.execution.exports.commands import value_names
from optplan.execution.exports.request import ExportRequest, Launcher, Template
from optplan.execution.exports.steps import CannotExpressError, Kind, Outline
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


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the driver script, and the script that submits it; ``module:Trainable`` is a trainable of Ray Tune."""
    template = request.template
    assert isinstance(template, RayTemplate)  # the exporter's entry names it
    if outline.kind is Kind.STREAM:
        raise CannotExpressError("cannot express: a stream's jobs arrive one by one; use --to slurm or kubernetes")
    if _TRAINABLE.fullmatch(request.command):
        if outline.kind is not Kind.SEARCH:
            raise CannotExpressError("cannot express: Ray Tune follows searches; give a command line for a fleet")
        driver = _write_tuner(outline, request, template)
    else:
        driver = _write_run(outline, request, template)
    lines = ["#!/usr/bin/env bash", "# Follows the plan on the Ray cluster.", "set -euo pipefail"]
    lines += ['cd -- "$(dirname -- "${BASH_SOURCE[0]}")"', *template.setup.splitlines(), "exec python drive.py", ""]
    return {"drive.py": driver, "submit.sh": "\n".join(lines)}


def _write_tuner(outline: Outline, request: ExportRequest, template: RayTemplate) -> str:
    module, _, name = request.command.partition(":")
    return _TUNER.format(
        plan_id=outline.plan.plan_id,
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


def _write_run(outline: Outline, request: ExportRequest, template: RayTemplate) -> str:
    options: dict[str, Any] = {
        "command": request.command,
        "executor": "ray",
        "address": template.address,
        "metric": request.metric,
        "mode": request.mode.value,
        "retries": request.options.retries,
        "launcher": "torchrun" if request.options.launcher is Launcher.TORCHRUN else "single",
    }
    space = [dict(each) for each in request.configurations] or None
    return _RUN.format(
        plan_id=outline.plan.plan_id,
        workdir=request.workdir,
        environment=dict(template.env),
        space=space,
        options=options,
    )


_TUNER = '''"""Follows plan {plan_id} in a Tuner of Ray Tune."""

import json
import os
import sys
from pathlib import Path

import ray
from ray import tune
from ray.tune.search import BasicVariantGenerator

import optplan
from optplan.execution.ray_tune import PlanScheduler

HERE = Path(__file__).resolve().parent
WORKDIR = {workdir!r}
CONFIGURATIONS = {configurations!r}

os.chdir(WORKDIR)
sys.path.insert(0, WORKDIR)
from {module} import {name}

os.environ.update({environment!r})
variables = {{"PYTHONPATH": os.pathsep.join(filter(None, [WORKDIR, os.environ.get("PYTHONPATH")])), **{environment!r}}}
ray.init(address={address!r}, runtime_env={{"env_vars": variables}})
scheduler = PlanScheduler(
    optplan.read_plan(HERE / "plan.json"), per_gpu={per_gpu!r}, metric={metric!r}, mode={mode!r}
)
space = {{name: tune.choice([each.get(name) for each in CONFIGURATIONS]) for name in {names!r}}}
tuner = tune.Tuner(
    {name},
    param_space=space,
    tune_config=tune.TuneConfig(
        scheduler=scheduler,
        num_samples=len(CONFIGURATIONS) or scheduler.num_samples,
        search_alg=BasicVariantGenerator(points_to_evaluate=CONFIGURATIONS),
    ),
    run_config=tune.RunConfig(
        storage_path={storage!r}, failure_config=tune.FailureConfig(max_failures={retries})
    ),
)
tuner.fit()
outcome = scheduler.outcome().to_json_data()
(HERE / "outcome.json").write_text(json.dumps(outcome, indent=1) + "\\n")
print(json.dumps(outcome["winner"]))
sys.exit(0 if outcome["winner"] else 1)
'''

_RUN = '''"""Follows plan {plan_id} with optplan's own loop on Ray; started again, it goes on."""

import os
import sys
from pathlib import Path

import optplan
from optplan.execution.running import resume

WORKDIR = {workdir!r}
OPTIONS = {options!r}
SPACE = {space!r}

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    os.chdir(WORKDIR)
    os.environ.update({environment!r})
    if (here / "run").is_dir():
        outcome = resume(here / "run")
    else:
        outcome = optplan.execution.run(optplan.read_plan(here / "plan.json"), space=SPACE, out=here / "run", **OPTIONS)
    print(outcome)
    sys.exit(outcome.code)
'''
