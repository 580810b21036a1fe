"""What solvers declare, and how they refuse what they do not take."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from optplan.contracts import BoundProof, Description, Instance
from optplan.contracts.parts import load
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations import formulation_named

INSTANCE = Instance()
PLAIN = Description("whole", "pure", 1)
ENTRY = SolverEntry(
    name="tiny",
    target="json:dumps",
    summary="for tests",
    proofs=frozenset({BoundProof.SEARCHED}),
    problems=frozenset({"whole", "rescaling"}),
    policies=frozenset({"pure"}),
    max_cells=60,
)
FORMULATION = Formulation(
    name="toy",
    title="Toy",
    reference="none",
    instance_type="json:JSONDecoder",
    solution_type="json:JSONDecoder",
    plan_type="json:JSONDecoder",
    evaluate="json:dumps",
    proofs="json:dumps",
    dual_bound="json:dumps",
    path_costs="json:dumps",
    least_consumption="json:dumps",
    describe="json:dumps",
    build_plan="json:dumps",
    build_frontier="json:dumps",
    explain="json:dumps",
    analyse_sensitivity="json:dumps",
    estimate_errors="json:JSONDecoder",
    sensitivity_type="json:JSONDecoder",
    solvers=(ENTRY, replace(ENTRY, name="other")),
)


def test_a_solver_takes_what_it_declares() -> None:
    """Problem, policy and size all fit; the size may be the largest one."""
    assert ENTRY.refusal(INSTANCE, Description("whole", "pure", 60)) is None
    assert replace(ENTRY, max_cells=None).refusal(INSTANCE, Description("whole", "pure", 10**9)) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            ("continuous", "pure", 1),
            "solver 'tiny' does not solve the 'continuous' problem; it solves rescaling, whole",
        ),
        (("whole", "mixed", 1), "solver 'tiny' makes no 'mixed' plans; it makes pure"),
        (("whole", "pure", 61), r"solver 'tiny' takes at most 60 choices \(this instance has 61\)"),
    ],
)
def test_a_refusal_says_what_the_solver_takes(asked: tuple[str, str, int], message: str) -> None:
    """The first reason, in words."""
    refusal = ENTRY.refusal(INSTANCE, Description(*asked))
    assert refusal is not None
    with pytest.raises(UsageError, match=message):
        raise UsageError(refusal)


def test_what_an_instance_needs_must_be_declared() -> None:
    """A solver that says nothing of quotas takes no instance with quotas; one that can do more takes the plain ones."""
    able = replace(ENTRY, features=frozenset({"quotas", "gpu-types"}))
    assert able.refusal(INSTANCE, Description("whole", "pure", 1)) is None
    assert able.refusal(INSTANCE, Description("whole", "pure", 1, frozenset({"quotas"}))) is None
    needed = Description("whole", "pure", 1, frozenset({"type-changes", "quotas"}))
    assert able.refusal(INSTANCE, needed) == "solver 'tiny' cannot handle type-changes"
    assert ENTRY.refusal(INSTANCE, needed) == "solver 'tiny' cannot handle quotas, type-changes"


def test_a_missing_package_is_a_refusal() -> None:
    """Looked for without being imported; packages that are there are no obstacle."""
    entry = replace(ENTRY, needs="no_such_package_anywhere")
    assert not entry.available()
    assert entry.refusal(INSTANCE, PLAIN) == (
        "solver 'tiny' needs the package 'no_such_package_anywhere', which is not installed"
    )
    extra = str(replace(entry, extra="toy").refusal(INSTANCE, PLAIN))
    assert extra.endswith('which is not installed; run: pip install "optplan[toy]"')
    assert replace(ENTRY, needs="numpy").refusal(INSTANCE, PLAIN) is None


def test_solvers_are_found_by_name() -> None:
    """An unknown name gets the nearest one, or all of them."""
    assert FORMULATION.solver("other").name == "other"
    with pytest.raises(UsageError, match=r"no solver 'tinny' for toy; did you mean 'tiny'\?"):
        FORMULATION.solver("tinny")
    with pytest.raises(UsageError, match="no solver 'x' for toy; known: tiny, other"):
        FORMULATION.solver("x")


def test_parts_are_loaded_on_use() -> None:
    """A declaration is a name; nothing is imported before it is read, and what is not there says so."""
    assert FORMULATION.describe([1]) == "[1]"  # type: ignore[comparison-overlap]
    assert load("math:sqrt")(4.0) == 2.0
    assert FORMULATION.declares("evaluate")
    assert not FORMULATION.declares("build_pareto")
    with pytest.raises(UnsupportedError, match="formulation 'toy' has no frontier of plans"):
        _ = FORMULATION.build_pareto


def test_a_formulation_has_what_every_one_has() -> None:
    """A judge, a plan, records: a declaration without them is refused at once."""
    with pytest.raises(UsageError, match=r"formulation 'bare' declares no instance_type, .*, proofs"):
        Formulation(name="bare", title="", reference="", solvers=())


def test_more_solvers_come_last() -> None:
    """So that ``auto`` stays what it was; the parts stay, too."""
    more = FORMULATION.with_solvers(replace(ENTRY, name="more"))
    assert [entry.name for entry in more.solvers] == ["tiny", "other", "more"]
    assert more.evaluate is FORMULATION.evaluate


def refuse(instance: Instance) -> str:
    """Stand for what is said beside a solver."""
    return "not today" if instance.name == "unnamed" else ""


def test_what_a_solver_supports_is_said_beside_it() -> None:
    """Asked last, of instances that fit all that is declared."""
    picky = replace(ENTRY, supports="json:dumps")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("json.dumps", refuse)
        assert picky.refusal(INSTANCE, PLAIN) == "not today"
        assert picky.refusal(Instance(name="fine"), PLAIN) is None
        assert "at most 60" in str(picky.refusal(INSTANCE, Description("whole", "pure", 61)))


def test_the_class_of_results_is_made_once() -> None:
    """It outlives its results: making it anew would take a good part of a small solve."""
    kept = weakref.ref(formulation_named("boa").result_type())
    gc.collect()
    assert kept() is formulation_named("boa").result_type()
