"""The paper's fleet."""

from __future__ import annotations

import pytest

from optplan import build_plan, solve
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.planning import SriftPlan
from optplan.instances.files import read_instance


@pytest.fixture(scope="session")
def paper_plan() -> SriftPlan:
    """Return the plan of section 5.4: ResNet50 for 400 iterations within 500 s, on two p3.8xlarge."""
    instance = read_instance("srift-interruption", SriftInstance)
    return build_plan(instance, solve(instance))
