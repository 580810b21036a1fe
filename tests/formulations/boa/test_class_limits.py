"""Due dates and floors of classes, against all plans of random tiny instances and general engines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.contracts import Status
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.solving import solve
from optplan.verification import verify

from .class_limits import ENGINES
from .test_due_dates import random_due_dates
from .test_floors import random_floors

Draw = Callable[[int], BoaInstance]
DRAWS = (random_due_dates, random_floors)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 8, 16])
@pytest.mark.parametrize("draw", DRAWS)
def test_all_plans_of_random_instances(draw: Draw, first: int) -> None:
    """Over 24 instances the optimum is the best of all plans, or there is none, and the judge finds no fault."""
    seen = set()
    for seed in range(first, first + 8):
        instance = draw(seed)
        own, listed = solve(instance), solve(instance, solver="enumeration")
        seen.add(own.status)
        assert own.status is listed.status, seed
        assert verify(instance, own).nothing_wrong, seed
        if listed.objective is not None:
            assert own.objective == pytest.approx(listed.objective, rel=1e-9), seed
    assert seen == {Status.OPTIMAL, Status.INFEASIBLE}


@pytest.mark.parametrize("policy", ["pure", "mixed"])
@pytest.mark.parametrize("draw", DRAWS)
def test_general_engines_agree(draw: Draw, policy: str) -> None:
    """HiGHS on paths and the model of the sheet in Pyomo have the same optima over 4 instances."""
    for seed in range(40, 44):
        instance = draw(seed).replace(policy=policy)
        own = solve(instance)
        for solver in ENGINES:
            other = solve(instance, solver=solver)
            assert other.status is own.status, (seed, solver)
            if own.objective is not None:
                assert other.objective == pytest.approx(own.objective, rel=1e-6), (seed, solver)
