"""What the tests of pages and tables of searches share: the textbook search, its results, and Hyperband."""

from __future__ import annotations

from typing import Any

import pytest

from optplan.contracts import Result, Solution
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.solving import solve

#: Two instances and then one take 100 + 180 s, and cost 2 x 100 + 180 instance-seconds of a tenth of a cent.
SEARCH: dict[str, Any] = {
    "formulation": "rubberband",
    "name": "<img src=x onerror=alert(1)>",
    "description": "Four trials, the best of which goes on.",
    "source": {"figures": "made up"},
    "experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]},
    "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
    "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6, "instance_type": "two-gpus"},
    "deadline_s": 280.0,
}


@pytest.fixture(scope="session")
def search() -> RubberBandInstance:
    """Return the textbook search, under a name that would run if it were not escaped."""
    return RubberBandInstance.parse(SEARCH)


@pytest.fixture(scope="session")
def found(search: RubberBandInstance) -> Result[Solution]:
    """Return its cheapest plan: two instances, then one."""
    return solve(search)


@pytest.fixture(scope="session")
def static(search: RubberBandInstance) -> Result[Solution]:
    """Return its cheapest cluster of constant size: two instances for 100 + 120 s, 44 cents."""
    return solve(search, solver="static")


@pytest.fixture(scope="session")
def infeasible(search: RubberBandInstance) -> Result[Solution]:
    """Return what is said of 2 min: the fastest plan takes 40 + 120 s."""
    return solve(search.replace(deadline_s=120.0))


@pytest.fixture(scope="session")
def side_by_side() -> RubberBandInstance:
    """Return Hyperband of 4 iterations and eta 2 with three clusters: 4, 2, 1 trials; 2, 1; and 3."""
    experiment = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}
    cloud = SEARCH["cloud"] | {"minimum_charge_s": 10.0, "provision_s": 5.0, "initialise_s": 10.0}
    return RubberBandInstance.parse(SEARCH | {"experiment": experiment, "cloud": cloud, "deadline_s": 60.0})
