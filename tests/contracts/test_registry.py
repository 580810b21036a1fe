"""What solvers declare, and how they refuse what they do not take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optplan.contracts import BoundProof
from optplan.contracts.registry import Formulation, SolverEntry, load
from optplan.errors import UsageError

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
    assert ENTRY.refusal("whole", "pure", 60) is None
    assert replace(ENTRY, max_cells=None).refusal("whole", "pure", 10**9) is None


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
    refusal = ENTRY.refusal(*asked)
    assert refusal is not None
    with pytest.raises(UsageError, match=message):
        raise UsageError(refusal)


def test_what_an_instance_needs_must_be_declared() -> None:
    """A solver that says nothing of quotas takes no instance with quotas; one that can do more takes the plain ones."""
    able = replace(ENTRY, features=frozenset({"quotas", "gpu-types"}))
    assert able.refusal("whole", "pure", 1) is None
    assert able.refusal("whole", "pure", 1, frozenset({"quotas"})) is None
    needed = frozenset({"type-changes", "quotas"})
    assert able.refusal("whole", "pure", 1, needed) == "solver 'tiny' cannot handle type-changes"
    assert ENTRY.refusal("whole", "pure", 1, needed) == "solver 'tiny' cannot handle quotas, type-changes"


def test_a_missing_package_is_a_refusal() -> None:
    """Looked for without being imported; packages that are there are no obstacle."""
    entry = replace(ENTRY, needs="no_such_package_anywhere")
    assert not entry.available()
    assert entry.refusal("whole", "pure", 1) == (
        "solver 'tiny' needs the package 'no_such_package_anywhere', which is not installed"
    )
    assert replace(ENTRY, needs="numpy").refusal("whole", "pure", 1) is None


def test_solvers_are_found_by_name() -> None:
    """An unknown name gets the nearest one, or all of them."""
    assert FORMULATION.solver("other").name == "other"
    with pytest.raises(UsageError, match=r"no solver 'tinny' for toy; did you mean 'tiny'\?"):
        FORMULATION.solver("tinny")
    with pytest.raises(UsageError, match="no solver 'x' for toy; known: tiny, other"):
        FORMULATION.solver("x")


def test_targets_are_loaded_on_use() -> None:
    """A declaration is a name; nothing is imported before it is called."""
    assert load("math:sqrt")(4.0) == 2.0
    assert FORMULATION.loaded("evaluate")([1]) == "[1]"
