"""A small result with everything in it, for the tests of the contracts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optplan.contracts import BoundProof, EnumeratedCertificate, LagrangianCertificate, ShadowPrice, Status, Termination
from optplan.formulations.boa.data.instance import BoaSolution, Branch


@pytest.fixture
def fields() -> dict[str, Any]:
    """Return the fields of an optimal result."""
    return {
        "formulation": "boa",
        "instance_name": "tiny",
        "instance_hash": "0" * 64,
        "solver": "layered-paths",
        "engine": "optplan",
        "engine_version": "1",
        "optplan_version": "1",
        "status": Status.OPTIMAL,
        "termination": Termination.COMPLETED,
        "objective": 14580.0,
        "objective_unit": "s",
        "bound": 14580.0,
        "gap_target": 1e-6,
        "bound_proof": BoundProof.ENUMERATED,
        "certificates": (
            LagrangianCertificate(multipliers={"budget": 42877.3}, bound=12264.6),
            EnumeratedCertificate(multipliers={"budget": 42877.3}, allowance=2315.4, optimum=14580.0, bound=14580.0),
            EnumeratedCertificate(multipliers={"budget": 42877.3}, allowance=100.0, optimum=None, bound=12364.6),
        ),
        "solution": BoaSolution(branches={"job": (Branch(widths=np.ones(2)),)}),
        "shadow_prices": {"budget": ShadowPrice(less=None, more=42877.3, unit="s of mean JCT per GPU")},
        "measures": {"mean_jct_s": 14580.0},
        "counters": {"passes": 7.0},
        "warnings": ("one",),
    }


@pytest.fixture
def no_solution(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a result without a solution: status unknown, with a bound."""
    fields |= {"status": Status.UNKNOWN, "solution": None, "objective": None, "measures": {}}
    return fields
