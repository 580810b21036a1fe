"""The type of frontiers: budgets to look up, and a certificate for every point."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from optplan.contracts import Frontier, FrontierPoint, LagrangianCertificate, ShadowPrice, Solution
from optplan.errors import DataError, UsageError
from optplan.instances.library import build_named
from optplan.solving import frontier


def point_at(budget: float) -> FrontierPoint:
    """Return a point of the line objective = 10 - 2 * budget; by duality 10 is the value at multiplier 2."""
    return FrontierPoint(
        budget=budget,
        objective=10.0 - 2.0 * budget,
        shadow_price=ShadowPrice(less=2.0, more=2.0, unit="s per GPU"),
        certificate=LagrangianCertificate(multipliers={"budget": 2.0}, bound=10.0 - 2.0 * budget),
    )


def test_points_are_the_breakpoints_with_their_certificates() -> None:
    """One for each breakpoint, in their order."""
    frontier = Frontier(
        formulation="boa",
        instance_name="line",
        instance_hash="0" * 64,
        budget_unit="gpu",
        objective_unit="s",
        budgets=np.array([1.0, 2.0, 4.0]),
        objectives=np.array([8.0, 6.0, 2.0]),
        at=point_at,
        budget_for=lambda objective: point_at((10.0 - objective) / 2.0),
        solution_at=lambda _: Solution(),
        exact_between=True,
    )
    assert [point.objective for point in frontier.points()] == frontier.objectives.tolist()
    assert frontier.budget_for(6.0).budget == 2.0
    with pytest.raises(AttributeError, match="cannot assign"):
        frontier.solve_seconds = 1.0  # type: ignore[misc]


def test_points_survive_json() -> None:
    """Also at the near end, where nothing less is feasible."""
    first = point_at(1.0).replace(shadow_price=ShadowPrice(less=None, more=2.0, unit="s per GPU"))
    assert FrontierPoint.parse(first.to_json_data()) == first


def test_points_are_finite() -> None:
    """An infinite price is written as None, not as infinity."""
    with pytest.raises(DataError, match="less: got inf; input should be a finite number"):
        ShadowPrice(less=float("inf"), more=0.0, unit="s per GPU")


@pytest.mark.parametrize("problem", ["rescaling", "continuous"])
def test_a_frontier_can_be_pickled(problem: str) -> None:
    """Points and queries are the same afterwards, also after another time; the functions inside need not go along."""
    made = frontier(build_named("boa-two-classes").replace(problem=problem))
    budget = float(made.budgets.mean())
    wanted_s = made.at(budget).objective
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(made))))
    assert again.budgets.tolist() == made.budgets.tolist()
    assert (again.instance_hash, again.exact_between, again.solve_seconds) == (
        made.instance_hash,
        made.exact_between,
        made.solve_seconds,
    )
    assert again.at(budget) == made.at(budget)
    assert again.budget_for(wanted_s) == made.budget_for(wanted_s)
    assert again.solution_at(budget) == made.solution_at(budget)
    assert again.points() == made.points()


def test_a_frontier_of_unknown_origin_says_that_it_cannot_be_pickled() -> None:
    """Its queries are functions that nobody can find again."""
    made = frontier(build_named("boa-two-classes"))
    with pytest.raises(UsageError, match=r"does not know its origin.*optplan\.frontier"):
        pickle.dumps(replace(made, origin=None))
