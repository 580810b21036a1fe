"""What the tests of SEER share: an instance by its fields, and the paper's example."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.formulations.seer.data.instance import SeerInstance

MakeInstance = Callable[..., SeerInstance]


@pytest.fixture(scope="session")
def make_instance() -> MakeInstance:
    """Return a maker of instances: the paper's example (section 3.4) with some fields changed."""

    def make(**fields: object) -> SeerInstance:
        example = {"formulation": "seer", "deadline_min": 10, "budget": "80gpu-min", "eta": 2, "resize_s": 0}
        return SeerInstance.parse(example | fields)

    return make


@pytest.fixture(scope="session")
def example(make_instance: MakeInstance) -> SeerInstance:
    """Return the example of section 3.4: 10 minutes, 80 GPU-minutes, eta = nu = 2."""
    return make_instance()
