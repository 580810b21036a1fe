"""What one more VM is worth is the difference between two optima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.contracts.result import Result, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.exact.best_first import solve_best_first
from optplan.formulations.srift.study.pareto import value_of_one_more


def solve(instance: SriftInstance) -> Result[SriftSolution]:
    """Return the result of the exact solver."""
    answer = solve_best_first(instance, SolveRequest(gap=0.0))
    fields: dict[str, Any] = {"objective": answer.objective, "bound": answer.bound, "solution": answer.solution}
    return Result[SriftSolution](
        formulation="srift",
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver="best-first",
        engine="optplan",
        engine_version="0",
        optplan_version="0",
        status=answer.status,
        termination=Termination.COMPLETED,
        objective_unit=instance.objective_unit,
        gap_target=0.0,
        bound_proof=answer.bound_proof,
        infeasibility=answer.infeasibility,
        **fields,
    )


def test_case_3_wants_more_p3(golden: Callable[[str], SriftInstance]) -> None:
    """All VMs are in use: a fifth p3 saves 0.247 usd of 2.739, a ninth g3 a quarter of a cent, a ninth g4dn nothing."""
    instance = golden("case3")
    values = {value.type: value for value in value_of_one_more(instance, solve(instance))}
    assert all(value.used == value.available and value.proven for value in values.values())
    assert values["p3.8xlarge"].saving == pytest.approx(0.24685, abs=1e-4)
    assert values["g3.8xlarge"].saving == pytest.approx(0.00254, abs=1e-4)
    assert values["g4dn.8xlarge"].saving == 0.0


def test_savings_are_differences_of_optima(draw_instance: Callable[[int], SriftInstance]) -> None:
    """For random problems, also where one more VM makes the first fleet possible."""
    first, saved = 0, 0
    for seed in range(60):
        instance = draw_instance(seed)
        result = solve(instance)
        for value in value_of_one_more(instance, result):
            vm = instance.types[value.type]
            more = instance.replace(types={**instance.types, value.type: vm.replace(available=value.available + 1)})
            best = solve_best_first(more, SolveRequest(gap=0.0))
            if best.objective is None:
                assert value.objective is None
                continue
            assert value.objective == pytest.approx(best.objective, rel=1e-9)
            if result.objective is None:
                assert result.status is Status.INFEASIBLE
                assert value.saving is None
                first += 1
            else:
                assert value.saving == pytest.approx(result.objective - best.objective, abs=1e-9 * result.objective)
                saved += bool(value.saving)
    assert first > 2
    assert saved > 2


def test_only_some_types_within_a_time(golden: Callable[[str], SriftInstance]) -> None:
    """Types can be chosen; without time nothing is proven, and nothing better is claimed."""
    instance = golden("case3")
    (value,) = value_of_one_more(instance, solve(instance), only=("p3.8xlarge",), time_limit_s=1e-9)
    assert value.type == "p3.8xlarge"
    assert not value.proven
    assert value.saving == 0.0
