"""Plans of every formulation: their totals follow from their segments alone, files and exports read back as written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from optplan.contracts import Plan
from optplan.execution.exports.folder import export, exporters
from optplan.execution.exports.request import CannotExpressError
from optplan.instances.files import read_instance, read_plan, write_json
from optplan.instances.library import GENERATED, build_named, names
from optplan.solving import build_plan, solve

#: What the judges call the totals that plans recompute.
_MEASURES = {"time_s": ("time_s", "expected_s"), "cost_usd": ("cost_usd", "expected_usd")}
_SCHEMAS = Path(__file__).parent
_TEMPLATES: dict[str, dict[str, Any]] = {
    "kubernetes": {"image": "train:1", "claim": "shared", "queue": "team", "elastic": True},
    "trainjob": {"image": "train:1", "claim": "shared"},
    "skypilot": {"bucket": "s3://runs", "infra": "aws/us-east-1"},
}


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
@pytest.mark.parametrize("name", names())
def test_plans_are_whole_and_every_exporter_takes_or_refuses_them(name: str, tmp_path: Path) -> None:
    """For every instance of the library: totals, the plan's file, and each target's files."""
    instance = build_named(name) if name in GENERATED else read_instance(name)
    plan = build_plan(instance, solve(instance, gap=1e-2))
    compared = 0
    for total, value in plan.totals().items():
        for measure in _MEASURES.get(total, (total,)):
            if measure in plan.expected:
                assert value == pytest.approx(plan.expected[measure], rel=1e-9), total
                compared += 1
    assert compared >= 2 - plan.formulation.startswith("seer")
    write_json(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    for target in exporters():
        _check_export(plan, target)


def _check_export(plan: Plan, target: str) -> None:
    """Require that a target takes the plan in valid files, always the same, or says what it cannot express."""

    def write() -> dict[str, str]:
        return export(plan, target, command="train --gpus {gpus} {trial}", template=_TEMPLATES.get(target, {}))

    try:
        files = write()
    except CannotExpressError as error:
        assert str(error).startswith("cannot express: "), str(error)  # noqa: PT017 - some targets take the plan
        assert target != "slurm"
        return
    assert write() == files
    assert plan.plan_id in files["export.json"]
    for path, text in files.items():
        if path.endswith((".sh", ".sbatch")) and not path.startswith("steps/"):
            _check_script(text)
        if path.endswith(".yaml"):
            for document in yaml.safe_load_all(text):
                _check_manifest(document)


@cache
def _check_script(text: str) -> None:
    """Have the shell read a script; most are the same for every plan, and each is read once."""
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@cache
def _load_schema(kind: str) -> jsonschema.protocols.Validator:
    """Return what checks manifests of a kind, by a schema that is itself checked here, once."""
    schema = json.loads((_SCHEMAS / f"{kind.lower()}.json").read_text(encoding="utf-8"))
    checker = jsonschema.validators.validator_for(schema)
    checker.check_schema(schema)
    return checker(schema)


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    kind = manifest.get("kind")
    if kind == "Job":
        kubernetes_validate.validate(manifest, "1.37", strict=True)
    elif kind in {"JobSet", "TrainJob"}:
        _load_schema(kind).validate(manifest)
        for group in manifest["spec"].get("replicatedJobs", []):
            job = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "x"},
                "spec": group["template"]["spec"],
            }
            kubernetes_validate.validate(job, "1.37", strict=True)
    else:
        fields = {"name", "workdir", "num_nodes", "resources", "file_mounts", "setup", "run", "envs"}
        assert set(manifest) <= fields
