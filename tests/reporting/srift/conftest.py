"""What the tests of Srift's pages and tables share: a small job, worked out by hand, and its results."""

from __future__ import annotations

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.solving import solve


@pytest.fixture(scope="session")
def job(two_layers: SriftInstance) -> SriftInstance:
    """Return the job within 2.5 s, under a name that would run if it were not escaped."""
    return two_layers


@pytest.fixture(scope="session")
def mixed() -> SriftSolution:
    """Return the job's best fleet within 2.5 s."""
    return SriftSolution(groups=(VmGroup(type="big", count=1, batch=32), VmGroup(type="small", count=8, batch=4)))


@pytest.fixture(scope="session")
def result(job: SriftInstance) -> Result[Solution]:
    """Return the job's optimum."""
    return solve(job, solver="enumeration")


@pytest.fixture(scope="session")
def rival(job: SriftInstance) -> Result[Solution]:
    """Return what the cost-aware policy makes: 8 small@8, too late."""
    return solve(job, solver="published-cost-aware")
