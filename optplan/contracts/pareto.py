"""What every amount of a limit buys, plan by plan, where plans cannot be mixed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from optplan.contracts.instance import Instance, Sense, Solution
from optplan.schema import ByName, FrozenModel


class ParetoPoint(FrozenModel):
    """A plan to which no other is better in both the limit and the objective.

    Parameters
    ----------
    limit
        How much of the limit the plan takes.
    objective
        What it reaches.
    bound
        What no plan that takes as much can pass; None where nothing is proven.
    low, high
        Ends of the 95 % confidence interval of an objective that is sampled.
    measures
        What the evaluator found besides; names carry units.
    solution
        The decisions.
    """

    limit: float
    objective: float
    bound: float | None = None
    low: float | None = None
    high: float | None = None
    measures: ByName[float] = Field(default_factory=dict)
    solution: SerializeAsAny[Solution]


class ParetoFrontier(FrozenModel):
    """The whole trade-off between a limit and the objective, as the plans on it.

    Parameters
    ----------
    version
        Version of the schema.
    formulation, instance_name, instance_hash
        Whose frontier it is.
    limit_name, limit_unit, objective_unit, sense
        What the axes are.
    points
        By increasing limit; each is better than all before it.
    exact
        Whether every plan that is better somewhere is among the points.
    solve_seconds
        Wall time of making it.
    """

    version: Literal[1] = 1
    formulation: str
    instance_name: str
    instance_hash: str
    limit_name: str
    limit_unit: str
    objective_unit: str
    sense: Sense = Sense.MINIMISE
    points: tuple[ParetoPoint, ...]
    exact: bool
    solve_seconds: Annotated[float, Field(ge=0)] = 0.0

    @classmethod
    def of(
        cls, instance: Instance, limit: tuple[str, str], points: Iterable[ParetoPoint], *, exact: bool, seconds: float
    ) -> ParetoFrontier:
        """Make the frontier of an instance by a limit, given with its unit; points that are no better are left out."""
        sign = 1 if instance.sense is Sense.MINIMISE else -1
        kept: list[ParetoPoint] = []
        for point in sorted(points, key=lambda each: (each.limit, sign * each.objective)):
            if not kept or (sign * point.objective < sign * kept[-1].objective and point.limit > kept[-1].limit):
                kept.append(point)
        return cls(
            **instance.origin(),
            limit_name=limit[0],
            limit_unit=limit[1],
            objective_unit=instance.objective_unit,
            sense=instance.sense,
            points=tuple(kept),
            exact=exact,
            solve_seconds=seconds,
        )
