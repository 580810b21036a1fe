"""The whole trade-off between a limit and the objective: as a look-up of mixed plans, or plan by plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny

from optplan.contracts.faces import Shown, remember
from optplan.contracts.instance import Instance, Sense, Solution
from optplan.contracts.result import LagrangianCertificate, ShadowPrice
from optplan.errors import UsageError
from optplan.progress import Stopwatch
from optplan.schema import ByName, FloatArray, FrozenModel


class FrontierPoint(FrozenModel):
    """One point of a frontier, with its proof."""

    budget: float  #: The limit, in the frontier's budget unit; at the far end the least that the best objective needs.
    objective: float  #: The optimum of the convexified problem there.
    shadow_price: ShadowPrice  #: What a little less and a little more budget would change.
    certificate: LagrangianCertificate  #: Re-derives ``objective`` as a lower bound at this budget.


@dataclass(frozen=True, repr=False)
class Frontier(Shown):
    """Optimum of the convexified problem as a function of the budget; every query is a look-up."""

    #: formulation, instance_name, instance_hash: Whose frontier it is.
    formulation: str
    instance_name: str
    instance_hash: str
    #: budget_unit, objective_unit: Units of the two axes.
    budget_unit: str
    objective_unit: str
    #: budgets, objectives: (N,) Breakpoints: budgets increase, objectives decrease, convex. The objective is linear in
    #: between where ``exact_between`` holds; otherwise it lies on or below the chord and ``at`` solves for it.
    budgets: FloatArray
    objectives: FloatArray
    #: Point for a budget. Raises InfeasibleError when the budget is below the least one.
    at: Callable[[float], FrontierPoint]
    #: Point with the least budget that reaches a wanted objective. Raises InfeasibleError when nothing reaches it.
    budget_for: Callable[[float], FrontierPoint]
    solution_at: Callable[[float], Solution]  #: Decisions for a budget.
    exact_between: bool  #: Whether the frontier is piecewise linear.
    solve_seconds: float = 0.0  #: Wall time of making it.
    #: What it was made by, a function of a module, and of which instance. With that a frontier can be pickled; its
    #: points go along, and the first query after unpickling makes the rest anew.
    origin: tuple[Callable[[Instance, Stopwatch], Frontier], Instance] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Say in one line whose it is, and how many points it has."""
        return f"<Frontier of {self.instance_name}: {len(self.budgets)} points>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the points and the origin, without which there is a UsageError."""
        if self.origin is None:
            raise UsageError("this frontier does not know its origin, so it cannot be pickled; optplan.frontier's can")
        queries = {"at", "budget_for", "solution_at"}
        return _revive, ({each.name: getattr(self, each.name) for each in fields(self) if each.name not in queries},)

    def points(self) -> list[FrontierPoint]:
        """Return every breakpoint with its certificate, from the least budget on."""
        return [self.at(float(budget)) for budget in self.budgets]


def _revive(known: dict[str, Any]) -> Frontier:
    make, instance = known["origin"]
    remade: Callable[[], Frontier] = cache(lambda: make(instance, Stopwatch()))  # when it is first asked
    return Frontier(
        **known,
        at=lambda budget: remade().at(budget),
        budget_for=lambda objective: remade().budget_for(objective),
        solution_at=lambda budget: remade().solution_at(budget),
    )


class ParetoPoint(FrozenModel):
    """A plan to which no other is better in both the limit and the objective."""

    limit: float  #: How much of the limit the plan takes.
    objective: float  #: What it reaches.
    bound: float | None = None  #: What no plan that takes as much can pass; None where nothing is proven.
    #: low, high: Ends of the 95 % confidence interval of an objective that is sampled.
    low: float | None = None
    high: float | None = None
    measures: ByName[float] = Field(default_factory=dict)  #: What the evaluator found besides; names carry units.
    solution: SerializeAsAny[Solution]  #: The decisions.


class ParetoFrontier(Shown, FrozenModel):
    """The whole trade-off between a limit and the objective, as the plans on it."""

    version: Literal[1] = 1  #: Version of the schema.
    #: formulation, instance_name, instance_hash: Whose frontier it is.
    formulation: str
    instance_name: str
    instance_hash: str
    #: limit_name, limit_unit, objective_unit, sense: What the axes are.
    limit_name: str
    limit_unit: str
    objective_unit: str
    sense: Sense = Sense.MINIMISE
    points: tuple[ParetoPoint, ...]  #: By increasing limit; each is better than all before it.
    exact: bool  #: Whether every plan that is better somewhere is among the points.
    solve_seconds: Annotated[float, Field(ge=0)] = 0.0  #: Wall time of making it.

    def __repr__(self) -> str:
        """Say in one line whose it is, and how many plans it has."""
        return f"<ParetoFrontier of {self.instance_name}: {len(self.points)} plans>"

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
        made = cls(
            **instance.origin(),
            limit_name=limit[0],
            limit_unit=limit[1],
            objective_unit=instance.objective_unit,
            sense=instance.sense,
            points=tuple(kept),
            exact=exact,
            solve_seconds=seconds,
        )
        return remember(made, instance)
