"""``optplan show``, ``list`` and ``schema``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from optplan.formulations import formulations
from optplan.instances.files import read_instance
from optplan.instances.library import names
from optplan.instances.parsing import parse_instance
from optplan.units import Amount, BudgetUnit

if TYPE_CHECKING:
    from tests.conftest import Runner


def test_show_summarises(run: Runner) -> None:
    """What is asked, and each class's data."""
    told = run("show", "boa-two-classes")
    assert (told.code, told.err) == (0, "")
    for part in ("boa-two-classes", "rescaling", "10 GPUs on average", "vision", "speech"):
        assert part in told.out


def test_show_json_is_the_instance(run: Runner) -> None:
    """--json prints what read_instance reads, with the changes asked for; the schema accepts it."""
    told = run("show", "boa-two-classes", "--budget", "12gpu", "--policy", "mixed", "--json")
    assert told.code == 0
    expected = read_instance("boa-two-classes").replace(budget=Amount(12.0, BudgetUnit.GPU), policy="mixed")
    assert parse_instance(told.data) == expected
    jsonschema.validate(told.data, run("schema", "instance").data)


def test_show_writes_the_instance(run: Runner, tmp_path: Path) -> None:
    """-o writes a file that is the same instance; a second time it is refused."""
    path = tmp_path / "mine.json"
    told = run("show", "boa-two-classes", "-o", path)
    assert (told.code, told.out, told.err) == (0, "", f"wrote {path}\n")
    assert read_instance(path) == read_instance("boa-two-classes")
    assert run("show", "boa-two-classes", "-o", path).code == 1


def test_generated_instances_take_sizes(run: Runner) -> None:
    """Classes, epochs, widths and seed shape a generated instance; the same seed gives the same one."""
    sizes = ("--classes", "2", "--epochs", "3", "--widths", "5", "--seed", "4")
    first, second = (run("show", "random-boa", *sizes, "--json") for _ in range(2))
    assert first.code == 0
    assert first.out == second.out
    job_classes = first.data["classes"]
    assert len(job_classes) == 2
    assert {len(job["epoch_size_gpu_hours"]) for job in job_classes.values()} == {3}
    assert run("show", "random-boa", *sizes[:-1], "5", "--json").out != first.out


def test_sizes_of_other_instances_are_refused(run: Runner) -> None:
    """A size that would do nothing is an error, and so is a size of zero."""
    told = run("show", "boa-two-classes", "--epochs", "3")
    assert (told.code, told.out) == (2, "")
    assert "--epochs: boa-two-classes is not generated, so its size is fixed; generated are: random-boa" in told.err
    told = run("show", "random-boa", "--classes", "0")
    assert told.code == 2
    assert "classes: got 0; at least 1 is needed" in told.err


def test_models_for_other_engines(run: Runner, tmp_path: Path) -> None:
    """--model prints or writes the mixed-integer model; pure plans have integer columns, mixed ones do not."""
    text = run("show", "boa-one-table", "--model", "lp").out
    # Width 2 uses 1.25 GPUs for 2250 s.
    assert "+2250 x_job_1_v100_2_" in text
    assert "+1.25 x_job_1_v100_2_" in text
    assert "budget" in text
    assert "x_job_1_v100_2_" in text[text.index("bin") :]
    path = tmp_path / "model.mps"
    told = run("show", "boa-one-table", "--model", "mps", "--policy", "mixed", "-o", path)
    assert (told.code, told.out, told.err) == (0, "", f"wrote {path}\n")
    written = path.read_text(encoding="utf-8")
    assert "ROWS" in written
    assert "INTORG" not in written


@pytest.mark.parametrize(
    "name", ["rubberband-two-stages", "seer-paper-example", "srift-case1", "throughputs-resnet50-gavel"]
)
def test_models_of_every_formulation_are_written(name: str, run: Runner) -> None:
    """Every formulation's model is linear, Srift's a relaxation, and its columns have the sheet's names."""
    told = run("show", name, "--model", "lp")
    assert told.code == 0
    assert " x_" in told.out


def test_models_that_are_no_mixed_integer_program(run: Runner) -> None:
    """The continuous problem has none, and a model's text is no JSON."""
    told = run("show", "boa-one-table", "--problem", "continuous", "--model", "lp")
    assert (told.code, told.out) == (2, "")
    assert "the problem 'continuous' is stated in CVXPY" in told.err
    told = run("show", "boa-one-table", "--model", "lp", "--json")
    assert (told.code, told.out) == (2, "")
    assert "--model writes a model's text, which is not JSON; leave out --json or --model" in told.error["message"]


def test_show_refuses_unknown_names(run: Runner) -> None:
    """The nearest name is offered."""
    told = run("show", "boa-newtracs")
    assert (told.code, told.out) == (1, "")
    assert "no instance named 'boa-newtracs' in the library; did you mean 'boa-newtrace'?" in told.err


def test_list_names_everything_registered(run: Runner) -> None:
    """Without a kind, all of them; every name of the registry and of the library is there."""
    told = run("list")
    assert (told.code, told.err) == (0, "")
    solvers = [entry.name for formulation in formulations().values() for entry in formulation.solvers]
    for name in (*names(), *solvers, *formulations()):
        assert name in told.out


def test_list_as_json(run: Runner) -> None:
    """--json has a list for each kind, and only the kind asked for."""
    every = run("list", "--json").data
    assert list(every)[:3] == ["instances", "solvers", "formulations"]
    assert [record["name"] for record in every["instances"]] == names()
    solvers = run("list", "solvers", "--json").data
    assert solvers == {"solvers": every["solvers"]}
    exact = next(record for record in solvers["solvers"] if record["name"] == "layered-paths")
    assert exact["problems"] == ["continuous", "rescaling", "whole"]
    assert exact["proofs"] == ["enumerated", "lagrangian", "searched", "tree"]
    assert exact["needs"] is None
    assert exact["missing"] is None


def test_list_says_what_is_not_installed(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver without its package is listed with what it needs."""
    monkeypatch.setattr("optplan.contracts.registry.find_spec", lambda name: None if name == "ortools" else object())
    records = {record["name"]: record for record in run("list", "solvers", "--json").data["solvers"]}
    assert records["cp-sat"]["missing"] == "ortools"
    assert records["highs"]["missing"] is None
    assert "missing" in run("list", "solvers").out


def test_list_refuses_other_kinds(run: Runner) -> None:
    """The kinds are named."""
    told = run("list", "solver")
    assert (told.code, told.out) == (2, "")
    assert "KIND: no list 'solver'; did you mean 'solvers'" in told.err


@pytest.mark.parametrize("record", ["instance", "result", "plan"])
def test_schemas_are_schemas(run: Runner, record: str) -> None:
    """Each one is a valid JSON Schema of an object that names its fields."""
    told = run("schema", record)
    assert (told.code, told.err) == (0, "")
    jsonschema.Draft202012Validator.check_schema(told.data)
    described = told.data.get("oneOf") or [told.data]
    for each in described:
        fields = told.data["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        assert "formulation" in fields["properties"]
    assert run("schema", record, "--json").out == told.out


def test_one_schema_describes_every_plan(run: Runner, tmp_path: Path) -> None:
    """The field ``formulation`` says which fields a plan has besides the common ones; a misspelt one is refused."""
    schema = run("schema", "plan").data
    assert set(schema["discriminator"]["mapping"]) == {"boa", "rubberband", "seer", "srift", "throughputs"}
    for name in ("boa-two-epochs", "rubberband-two-stages", "seer-paper-example", "srift-case3"):
        assert run("solve", name, "--plan", tmp_path / f"{name}.json").code == 0
        plan = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.validate(plan, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(plan | {"formulation": "seer" if plan["formulation"] == "boa" else "boa"}, schema)


def test_schema_of_an_unknown_formulation(run: Runner) -> None:
    """The nearest name is offered."""
    told = run("schema", "--formulation", "bao")
    assert (told.code, told.out) == (2, "")
    assert "--formulation: no formulation 'bao'; did you mean 'boa'?" in told.err
