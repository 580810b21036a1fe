"""What the tests of SEER share: an instance by its fields, and the paper's example."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.formulations.seer.data.instance import SeerInstance

MakeInstance = Callable[..., SeerInstance]


@pytest.fixture(scope="session")
def make_instance(make_seer: MakeInstance) -> MakeInstance:
    """Return the maker of SEER's instances."""
    return make_seer


@pytest.fixture(scope="session")
def example(make_instance: MakeInstance) -> SeerInstance:
    """Return the example of section 3.4: 10 minutes, 80 GPU-minutes, eta = nu = 2."""
    return make_instance()
