"""The library: every instance loads, and every record in its manifest is solved and verified again."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from optplan.contracts import BoundProof, Instance, Result, Solution, Status
from optplan.errors import DataError, UsageError
from optplan.formulations import formulation_of
from optplan.instances import library
from optplan.instances.changes import apply_changes, parse_change
from optplan.instances.library import (
    FIELDS,
    GENERATED,
    SIZES,
    ask_as_recorded,
    build_named,
    manifest,
    name_record,
    names,
    read_proof,
)
from optplan.solving import choose_solver
from optplan.verification import verify

Answer = Callable[[Instance], Result[Solution]]

NAMED = list(manifest())
RECORDS = [(name, record) for name in NAMED for record in manifest()[name].get("best", [])]


def test_the_manifest_lists_the_files_and_nothing_else() -> None:
    """No file without a record, no record without a file or a base that has one."""
    stored = {path.name.removesuffix(".json") for path in files(library).iterdir() if path.name.endswith(".json")}
    assert stored == {name for name in NAMED if "base" not in manifest()[name]}
    assert stored >= {facts["base"] for facts in manifest().values() if "base" in facts}
    assert names() == [*NAMED, *GENERATED]
    assert NAMED


@pytest.mark.parametrize("name", names())
def test_every_instance_loads(name: str, solve_once: Answer) -> None:
    """Under its own name, described, with the origin of its figures and a budget that is feasible."""
    instance = build_named(name)
    assert instance.description
    assert instance.source
    if name not in GENERATED:
        assert instance.name == name
        assert manifest()[name]["origin"]
        assert manifest()[name]["licence"]
    assert solve_once(instance).status is (Status.OPTIMAL if choose_solver(instance).exact else Status.FEASIBLE)


@pytest.mark.parametrize("name", [name for name in NAMED if "base" in manifest()[name]])
def test_instances_without_a_file_are_another_one_with_changes(name: str) -> None:
    """All of its data but what the changes say, which its source names."""
    facts = manifest()[name]
    base, own = build_named(facts["base"]), build_named(name)
    assert own.source["changes"] == "; ".join(facts["changes"])
    assert own.description == facts["description"] != base.description
    changed = apply_changes(base, [parse_change(text) for text in facts["changes"]])
    assert changed != base
    assert changed.replace(name=own.name, description=own.description) == own


@pytest.mark.parametrize("name", NAMED)
def test_every_instance_has_a_record_at_its_own_limit(name: str) -> None:
    """What is best known of the instance as it stands in its file."""
    instance = build_named(name)
    assert instance in [ask_as_recorded(instance, record) for record in manifest()[name]["best"]]


@pytest.mark.parametrize(("name", "record"), RECORDS, ids=[name_record(*each) for each in RECORDS])
def test_every_record_is_reached_and_proven_again(name: str, record: dict[str, Any], solve_once: Answer) -> None:
    """Solved at that limit: objective and bound are the recorded ones to a relative 1e-9, and the judge agrees.

    What is sampled has no bound, and is reached to a percent.
    """
    datetime.date.fromisoformat(record["date"])
    instance = ask_as_recorded(build_named(name), record)
    limits = record.keys() - FIELDS
    assert limits <= instance.limits.keys()
    assert limits or not instance.limits
    formulation = formulation_of(instance)
    described = formulation.describe(instance)
    assert (described.problem, described.policy) == (record["problem"], record["policy"])
    assert record["solver"] in {entry.name for entry in formulation.solvers}
    result = solve_once(instance)
    kind = BoundProof(record["proof"])
    assert result.bound_proof is kind
    if kind is BoundProof.NONE:  # sampled: another machine's last digits may lead to another plan, hardly a worse one
        assert "bound" not in record
        assert result.objective == pytest.approx(record["objective"], rel=1e-2)
    else:
        assert record["bound"] <= record["objective"] * (1 + 1e-9)
        assert result.objective == pytest.approx(record["objective"], rel=1e-9)
        assert result.bound == pytest.approx(record["bound"], rel=1e-9)
    assert verify(instance, result).ok
    proof = read_proof(record["proof_file"])
    assert (proof.objective, proof.bound) == (record["objective"], record.get("bound"))
    assert verify(instance, proof).ok


def test_every_proof_belongs_to_a_record() -> None:
    """No file of a proof that nothing names, and none that two values share."""
    stored = sorted(path.name for path in files(library).joinpath("proofs").iterdir())
    assert stored == sorted(record["proof_file"] for _, record in RECORDS)


def test_unknown_proofs_are_named() -> None:
    """As a file that the library does not have."""
    with pytest.raises(DataError, match=r"proof_file: no file 'none\.json' among the library's proofs"):
        read_proof("none.json")


def test_unknown_names_get_the_nearest_one() -> None:
    """As everywhere."""
    with pytest.raises(
        DataError, match=r"no instance named 'boa-one-tables' in the library; did you mean 'boa-one-table'"
    ):
        build_named("boa-one-tables")


def test_sizes_are_for_generated_instances() -> None:
    """Nothing is silently dropped."""
    assert len(build_named("random-boa", classes=2, epochs=1, widths=2, seed=9).to_json_data()["classes"]) == 2
    with pytest.raises(
        UsageError, match=r"classes: instance 'boa-one-table' has no such size; only generated ones have"
    ):
        build_named("boa-one-table", classes=2)
    with pytest.raises(
        UsageError, match=f"jobs: instance 'random-boa' has no such size; generated ones have {', '.join(SIZES)}"
    ):
        build_named("random-boa", jobs=2)
