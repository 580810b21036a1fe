"""Frontiers judged: every point's decisions and certificate, and what lies between two of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optplan.contracts import Frontier, FrontierPoint
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.library import build_named
from optplan.solving import frontier
from optplan.verification import verify


@pytest.fixture(scope="module")
def instance() -> BoaInstance:
    """Return the textbook problem of two classes."""
    found = build_named("boa-two-classes")
    assert isinstance(found, BoaInstance)
    return found


def amended(line: Frontier, place: int, **changes: object) -> Frontier:
    """Return a frontier that says something else of one of its points."""
    points = line.points()
    points[place] = points[place].replace(**changes)
    by_budget = {point.budget: point for point in points}

    def at(budget: float) -> FrontierPoint:
        return by_budget[budget]

    return replace(line, at=at, budgets=np.array(list(by_budget)), solution_at=line.solution_at)


def test_every_point_and_every_chord_of_a_frontier_holds(instance: BoaInstance) -> None:
    """Decisions reach each point, certificates prove it, and nothing lies below the chords."""
    line = frontier(instance)
    judged = verify(instance, line)
    assert judged.ok
    families = {check.family for check in judged.checks}
    assert {"objective", "certificate", "budget", "shadow-price", "between", "order"} <= families
    between = [check for check in judged.checks if check.family == "between"]
    assert len(between) == len(line.budgets) - 1
    assert max(check.left for check in between) <= 1e-6


def test_what_a_point_claims_is_found_out(instance: BoaInstance) -> None:
    """A better objective, multipliers that prove less than is said or are missing each fail by name."""
    line = frontier(instance)
    point = line.points()[2]
    better = verify(instance, amended(line, 2, objective=point.objective * 0.999))
    assert "objective" in {check.family for check in better.failures}
    assert better.failures[0] == better.checks[0]
    weaker = point.certificate.replace(multipliers={"budget": 0.0})
    found = verify(instance, amended(line, 2, certificate=weaker))
    assert ("certificate", "point 3") in {(check.family, check.index) for check in found.failures}
    bolder = point.certificate.replace(bound=point.objective * 1.001)
    (failed,) = verify(instance, amended(line, 2, certificate=bolder)).failures
    assert failed.message == "the certificate must not claim more than its multipliers prove"
    unnamed = point.certificate.replace(multipliers={})
    found = verify(instance, amended(line, 2, certificate=unnamed))
    assert any(check.message == "multipliers must name exactly budget" for check in found.failures)


def test_what_is_not_exact_between_its_points_is_said_how_far(instance: BoaInstance) -> None:
    """Where a frontier curves between its points, the room that certificates leave below the chord is named."""
    line = replace(frontier(instance), exact_between=False)
    judged = verify(instance, line)
    assert judged.nothing_wrong
    assert judged.never_checked == (
        "between two points plans lie on or below the chord, which mixtures reach: by at most 0.00%",
    )


def test_frontiers_of_others_and_too_little_time_are_named(instance: BoaInstance) -> None:
    """A frontier belongs to one instance; what is not checked in the time is on trust."""
    line = frontier(instance)
    with pytest.raises(
        UsageError, match=r"^the frontier was made for 'boa-two-classes' with hash .*; give the instance"
    ):
        verify(instance.replace(budget="9gpu", name="other"), line)
    judged = verify(instance, line, time_limit_s=1e-9)
    assert judged.nothing_wrong
    assert judged.on_trust[0].startswith("points 1 to ")
