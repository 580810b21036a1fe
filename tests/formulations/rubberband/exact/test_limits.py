"""At the limit, a billionth and an ulp beside it: one definition of what keeps it, whoever is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optplan.contracts.result import Status
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.judge.evaluation import evaluate
from optplan.solving import solve
from optplan.verification import verify

ListPlans = Callable[[RubberBandInstance], list[RubberBandSolution]]

SOLVERS = ["held-paths", "enumeration", "highs", "cp-sat"]
#: Factors of a plan's use at which the limit is set; 1e-9 below it is still within the limit.
BESIDE = [1.0, 1 - 1e-12, 1 + 1e-12, 1 - 1e-9, 1 / (1 + 1e-9), 1 - 2e-9, 1 + 1e-9]


def _make(**changes: Any) -> RubberBandInstance:  # noqa: ANN401 - whatever fields a test needs
    fields: dict[str, Any] = {
        "experiment": {"form": "stages", "stages": [{"trials": 3, "iterations": 3}, {"trials": 1, "iterations": 7}]},
        "training": {"seconds_per_iteration": {1: 10.1, 2: 5.7}, "start_s": 0.3},
        "cloud": {
            "gpus_per_instance": 1,
            "price_usd_per_hour": 3.7,
            "minimum_charge_s": 0,
            "provision_s": 5.3,
            "initialise_s": 7.1,
            "most_instances": 3,
        },
    }
    return RubberBandInstance.parse({**fields, **changes})


def _limit(amount: float, *, in_time: bool) -> RubberBandInstance:
    return _make(deadline_s=amount) if in_time else _make(objective="time", budget=f"{amount!r}usd")


@pytest.mark.parametrize("in_time", [True, False], ids=["deadline", "budget"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("factor", [*BESIDE, None], ids=str)
def test_what_is_at_the_limit_keeps_it(
    solver: str, factor: float | None, in_time: bool, list_every_plan: ListPlans
) -> None:
    """At the least use and at that of another plan: no false bound, no false infeasibility, and nobody raises."""
    measures = [evaluate(_make(), plan).measures for plan in list_every_plan(_make())]
    use = np.array([one["expected_s" if in_time else "expected_usd"] for one in measures])
    objective = np.array([one["expected_usd" if in_time else "expected_s"] for one in measures])
    for at in (float(use.min()), float(np.sort(use)[use.size // 3])):
        amount = math.nextafter(at, 0.0) if factor is None else at * factor
        result = solve(_limit(amount, in_time=in_time), solver=solver)
        assert verify(_limit(amount, in_time=in_time), result).nothing_wrong
        sure = objective[use <= amount * (1 + 1e-9) * (1 - 1e-13)].min(initial=math.inf)
        perhaps = objective[use <= amount * (1 + 1e-9) * (1 + 1e-13)].min(initial=math.inf)
        if result.status is Status.INFEASIBLE:
            assert sure == math.inf
            continue
        assert result.bound is not None
        assert result.bound <= sure * (1 + 1e-9)
        assert result.objective is not None
        assert result.objective >= perhaps * (1 - 1e-9)
        if solver in ("held-paths", "enumeration"):
            assert result.status is Status.OPTIMAL
            assert result.objective <= sure * (1 + 1e-9)
