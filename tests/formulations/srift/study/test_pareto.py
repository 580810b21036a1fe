"""The trade-off between time and money: no dominated fleet, none missing, whichever of the two is the limit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from optplan.contracts.result import SolveRequest
from optplan.errors import UnsupportedError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.exact.best_first import solve_best_first
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.study.pareto import build_pareto
from optplan.progress import Stopwatch

Golden = Callable[[str], SriftInstance]


def test_every_point_is_the_optimum_at_its_limit(golden: Golden) -> None:
    """5.4: from the fastest to the cheapest fleet, each the cheapest at its own time; the deadline is ignored."""
    instance = golden("interruption")
    found = build_pareto(instance.replace(deadline_s=100.0), SolveRequest())
    assert found.exact
    assert (found.limit_name, found.limit_unit, found.objective_unit) == ("deadline", "s", "usd")
    assert len(found.points) == 4
    for before, after in pairwise(found.points):
        assert before.limit < after.limit
        assert before.objective > after.objective
    for point in found.points:
        assert point.bound == point.objective
        assert isinstance(point.solution, SriftSolution)
        judged = evaluate(instance.replace(deadline_s=point.limit), point.solution)
        assert all(check.holds for check in judged.checks)
        assert judged.objective == pytest.approx(point.objective)
        best = solve_best_first(instance.replace(deadline_s=point.limit), SolveRequest())
        assert best.objective == pytest.approx(point.objective)
    fastest = solve_best_first(instance.replace(objective="time"), SolveRequest())
    assert found.points[0].limit == pytest.approx(fastest.objective)


def test_the_same_fleets_by_budget(golden: Golden) -> None:
    """With time as the objective the limit is the budget, and the points are the same the other way round."""
    instance = golden("interruption")
    by_time = build_pareto(instance, SolveRequest())
    by_money = build_pareto(instance.replace(objective="time"), SolveRequest(limit="budget"))
    assert by_money.limit_name == "budget"
    assert [p.solution for p in by_money.points] == [p.solution for p in reversed(by_time.points)]
    assert [p.limit for p in by_money.points] == [p.objective for p in reversed(by_time.points)]


def test_without_time_there_is_no_proof(golden: Golden) -> None:
    """What was found by then has no bound, and the frontier says that it is not exact."""
    found = build_pareto(golden("interruption"), SolveRequest(stopwatch=Stopwatch(1e-9)))
    assert not found.exact
    assert all(point.bound is None for point in found.points)


def test_a_time_limit_that_suffices_changes_nothing(golden: Golden) -> None:
    """The first sketch is part of the frontier."""
    one, other = (
        build_pareto(golden("interruption"), SolveRequest(stopwatch=Stopwatch(limit))) for limit in (None, 600.0)
    )
    assert one.points == other.points
    assert other.exact


def test_an_unreachable_batch_has_no_points(golden: Golden) -> None:
    """Nothing to trade, and that is exact."""
    found = build_pareto(golden("case1").replace(global_batch=1025), SolveRequest())
    assert found.points == ()
    assert found.exact


def test_the_objective_cannot_be_the_limit(golden: Golden) -> None:
    """Cost by budget says nothing."""
    with pytest.raises(UnsupportedError, match="the frontier of the objective cost is by deadline, not by budget"):
        build_pareto(golden("case2"), SolveRequest(limit="budget"))
