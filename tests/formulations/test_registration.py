"""What other packages register: formulations and solvers, by entry points."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest

from optplan.contracts import BoundProof, registry
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.errors import RegistrationWarning
from optplan.formulations import FORMULATION_GROUP, SOLVER_GROUP, formulations

ANNEALING = SolverEntry(
    name="annealing",
    target="json:dumps",
    summary="for tests",
    proofs=frozenset({BoundProof.LAGRANGIAN}),
    problems=frozenset({"whole"}),
    policies=frozenset({"pure"}),
)


def declare(name: str) -> Formulation:
    """Declare a formulation whose parts nobody loads."""
    parts = ("instance_type", "solution_type", "plan_type", "evaluate", "describe", "build_plan", "proofs")
    named: dict[str, Any] = dict.fromkeys(parts, "json:dumps")
    return Formulation(name=name, title="Outer", reference="none", solvers=(), **named)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Return the entry points of a package outside; a test adds to them."""
    package = ModuleType("outer")
    entries: list[EntryPoint] = []
    vars(package).update(ANNEALING=ANNEALING, OUTER=declare("outer"), BOA=declare("boa"))
    monkeypatch.setitem(sys.modules, "outer", package)
    monkeypatch.setattr(registry, "entry_points", lambda: EntryPoints(entries))
    formulations.cache_clear()
    yield entries
    formulations.cache_clear()


def test_what_is_registered_is_there(registered: list[EntryPoint]) -> None:
    """A formulation comes after the own ones, a solver after those of its formulation."""
    registered += [
        EntryPoint("outer", "outer:OUTER", FORMULATION_GROUP),
        EntryPoint("boa.annealing", "outer:ANNEALING", SOLVER_GROUP),
        EntryPoint("outer.annealing", "outer:ANNEALING", SOLVER_GROUP),
    ]
    with warnings.catch_warnings(action="error"):
        found = formulations()
    assert list(found) == ["boa", "rubberband", "seer", "srift", "throughputs", "outer"]
    assert found["boa"].solvers[-1] is ANNEALING
    assert [entry.name for entry in found["outer"].solvers] == ["annealing"]


@pytest.mark.parametrize(
    ("name", "value", "group", "message"),
    [
        ("boa", "outer:BOA", FORMULATION_GROUP, "its name 'boa' is taken"),
        ("inner", "outer:OUTER", FORMULATION_GROUP, "its name 'outer' is not that of its entry point, 'inner'"),
        ("outer", "outer:ANNEALING", FORMULATION_GROUP, r"it is SolverEntry\(.*, not a Formulation"),
        ("outer", "outer:MISSING", FORMULATION_GROUP, r"it cannot be loaded \(AttributeError"),
        ("outer", "no_such_package:OUTER", FORMULATION_GROUP, r"it cannot be loaded \(ModuleNotFoundError"),
        ("bao.annealing", "outer:ANNEALING", SOLVER_GROUP, "there is no formulation 'bao'"),
        ("boa.cooling", "outer:ANNEALING", SOLVER_GROUP, "its name 'annealing' is taken, or not that of its entry"),
        ("boa.annealing", "outer:OUTER", SOLVER_GROUP, "not a SolverEntry"),
    ],
)
def test_what_cannot_be_taken_is_named_and_left_out(
    name: str, value: str, group: str, message: str, registered: list[EntryPoint]
) -> None:
    """One package's mistake costs nobody else anything."""
    registered.append(EntryPoint(name, value, group))
    with pytest.warns(RegistrationWarning, match=message) as caught:
        found = formulations()
    assert f"another package registers {name!r} in {group} as {value}, which is left out" in str(caught[0].message)
    assert list(found) == ["boa", "rubberband", "seer", "srift", "throughputs"]
    assert "annealing" not in [entry.name for entry in found["boa"].solvers]
