"""Plans of the library, and runs of them on the virtual clock."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from optplan.contracts import Plan
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve


@functools.cache
def _plan_of(name: str, solver: str = "auto") -> Plan:
    instance = read_instance(name)
    return build_plan(instance, solve(instance, solver=solver, gap=1e-2))


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Return the plan of an instance of the library."""
    return _plan_of
