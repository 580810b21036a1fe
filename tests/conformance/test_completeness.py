"""Every formulation is whole: types, judge, page, golden instance, an exact solver and its paper's heuristic."""

from __future__ import annotations

from pathlib import Path

import pytest

import optplan.formulations
from optplan.contracts import (
    BoundProof,
    Frontier,
    Instance,
    ParetoFrontier,
    Plan,
    Result,
    Sensitivity,
    Solution,
    Status,
)
from optplan.contracts.registry import REQUIRED_PARTS, Formulation, SolverEntry
from optplan.contracts.result import CERTIFIED
from optplan.errors import UnsupportedError
from optplan.formulations import formulation_named, formulation_of, formulations
from optplan.instances.library import GENERATED, build_named, names
from optplan.schema import FrozenModel
from optplan.solving import build_plan, choose_solver, frontier, pareto, solve

DOCS = Path(__file__).resolve().parents[2] / "docs"

FORMULATIONS = list(formulations().values())
ENTRIES = [(formulation, entry) for formulation in FORMULATIONS for entry in formulation.solvers]

every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: f.name)


def golden(formulation: Formulation) -> Instance:
    """Return the first instance of the library that belongs to the formulation."""
    instances = (build_named(name) for name in names() if name not in GENERATED)
    return next(instance for instance in instances if formulation_of(instance) is formulation)


def test_formulations_are_the_folders() -> None:
    """A formulation is registered by its folder's FORMULATION, under the folder's name."""
    folder = Path(optplan.formulations.__file__).parent
    texts = {path.parent.name: path.read_text(encoding="utf-8") for path in folder.glob("*/__init__.py")}
    assert set(formulations()) == {name for name, text in texts.items() if "\nFORMULATION = " in text}
    for name in formulations():
        assert formulation_named(name).name == name


@every_formulation
def test_types_are_records_with_a_version(formulation: Formulation) -> None:
    """Instances name formulation and version, which is how a reader finds the class and refuses others."""
    parts: list[tuple[str, type[FrozenModel]]] = [
        ("instance_type", Instance),
        ("solution_type", Solution),
        ("plan_type", Plan),
    ]
    if formulation.declares("sensitivity_type"):
        parts.append(("sensitivity_type", Sensitivity))
    for part, base in parts:
        record = getattr(formulation, part)
        assert isinstance(record, type)
        assert issubclass(record, base)
        assert issubclass(record, FrozenModel)
    fields = formulation.instance_type.model_fields
    assert fields["formulation"].default == formulation.name
    assert fields["version"].default >= 1
    assert issubclass(formulation.result_type(), Result)


#: What a formulation may have, besides what every one has.
OPTIONAL_PARTS = (
    "dual_bound",
    "path_costs",
    "least_within",
    "least_consumption",
    "build_frontier",
    "build_pareto",
    "explain",
    "analyse_sensitivity",
    "estimate_errors",
    "bench_instances",
)


@every_formulation
@pytest.mark.parametrize("part", [*REQUIRED_PARTS, *OPTIONAL_PARTS])
def test_parts_are_there(formulation: Formulation, part: str) -> None:
    """A judge and a plan always; the other parts are code, or are said not to be there."""
    assert formulation.title
    assert formulation.reference
    if part in REQUIRED_PARTS or formulation.declares(part):
        assert callable(getattr(formulation, part))
    else:
        with pytest.raises(UnsupportedError, match=f"formulation '{formulation.name}' has no "):
            getattr(formulation, part)


@every_formulation
def test_certificates_can_be_checked(formulation: Formulation) -> None:
    """A Lagrangian bound needs a judge that re-derives it, and one that closes gaps enumerates within an allowance."""
    given = frozenset().union(*(entry.proofs for entry in formulation.solvers))
    judged = {
        BoundProof.LAGRANGIAN: ("dual_bound",),
        BoundProof.ENUMERATED: ("path_costs", "least_within"),
        BoundProof.TREE: ("check_tree",),
    }
    for proof, parts in judged.items():
        declared = [getattr(formulation, part) for part in parts if formulation.declares(part)]
        assert proof not in given or declared
    assert formulation.proofs(golden(formulation)) <= CERTIFIED


@every_formulation
def test_there_is_a_page(formulation: Formulation) -> None:
    """The formulation's sheet, which names every constraint family as messages do."""
    page = DOCS / f"{formulation.name}.md"
    assert page.is_file(), f"docs/{formulation.name}.md is missing"
    text = page.read_text(encoding="utf-8")
    instance = golden(formulation)
    solution = solve(instance).solution
    families = {check.family for check in formulation.evaluate(instance, solution).checks}
    for word in sorted(families):
        assert f"`{word}`" in text, f"docs/{formulation.name}.md does not name the constraint family {word}"


@every_formulation
def test_there_is_a_golden_instance(formulation: Formulation) -> None:
    """In the library, solved with a proof, with a plan and a frontier: of mixed plans, or of plans."""
    instance = golden(formulation)
    result = solve(instance)
    assert result.status is Status.OPTIMAL
    assert result.bound_proof in CERTIFIED | {BoundProof.SEARCHED}
    assert isinstance(build_plan(instance, result), Plan)
    assert formulation.declares("build_frontier") or formulation.declares("build_pareto")
    if formulation.declares("build_frontier"):
        assert isinstance(frontier(instance), Frontier)
    if formulation.declares("build_pareto"):
        assert isinstance(pareto(instance), ParetoFrontier)
    assert choose_solver(instance).exact


@every_formulation
def test_there_are_an_exact_solver_and_the_paper_s_heuristic(formulation: Formulation) -> None:
    """And a general engine as the second opinion; a choice from a table has no paper, and nothing for an engine."""
    solvers = formulation.solvers
    assert any(entry.exact and not entry.needs for entry in solvers)
    if formulation.name == "throughputs":
        return
    assert any(entry.exact and BoundProof.ENGINE in entry.proofs for entry in solvers)
    assert any("published" in entry.name and not entry.exact for entry in solvers)
    assert len({entry.name for entry in solvers}) == len(solvers)


@pytest.mark.parametrize(("formulation", "entry"), ENTRIES, ids=lambda part: part.name)
def test_solvers_are_declared_as_they_are(formulation: Formulation, entry: SolverEntry) -> None:
    """Its code is there, an exact solver has a proof and a heuristic need not; the tables have a line to print."""
    assert entry.summary
    assert entry.problems
    assert entry.policies
    assert entry.proofs or not entry.exact
    assert BoundProof.NONE not in entry.proofs
    assert formulation.solver(entry.name) is entry
    if not entry.available():
        pytest.skip(f"solver {entry.name} of {formulation.name}: package {entry.needs} is not installed")
    assert callable(entry.load())
