"""Small streams: one class of jobs, what is believed of it, and what is true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.solving import solve


@pytest.fixture(scope="session")
def plan_of() -> Callable[[BoaInstance], BoaPlan]:
    """Return what plans for an instance."""
    return lambda instance: build_plan(instance, solve(instance))
