"""The frontier with quotas, or types that cost to leave: pieces whose multipliers are the same, found once.

The optimum of mixed plans as a function of the budget is convex for fixed quotas, too, and with whole widths piecewise
linear. Between two budgets it is a line where the multipliers that are best at one are best at the other; where they
are not, the two lines meet at a budget in between, which is solved next, starting from the paths of both. So all
breakpoints are found exactly, and every query is a look-up that carries its own proof. Beyond a number of pieces
queries are solved. The recursion is that of Eisner and Severance (Journal of the ACM 23, 1976).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from optplan.contracts import Frontier, FrontierPoint, LagrangianCertificate
from optplan.errors import EngineError, InfeasibleError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import cost_steps, list_amounts
from optplan.formulations.boa.exact.feasibility import (
    clear_mixture,
    explain_shortfall,
    least_budget,
    too_fast,
    too_little,
)
from optplan.formulations.boa.exact.linked_limits import certify, find_price, write_price
from optplan.formulations.boa.exact.paths import write_mixture
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths import families, linked_dual, switching
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.units import Amount

#: Points that the frontier is drawn from where its pieces are not known; queries between them are solved.
_POINTS = 60
#: A budget that is no object, as a multiple of the least.
_AMPLE = 1e6
#: Budgets that are solved to find all pieces, and the relative error at which a line meets the optimum.
_MOST_PIECES = 3_000
_STRAIGHT = 1e-10
#: Relative difference at which a wanted objective counts as reached.
_REACHED = 1e-12


def _find_meeting(left: linked_dual.LinkedBound, right: linked_dual.LinkedBound) -> float | None:
    """Return the budget at which the lines of two multipliers meet; None where one of them is best at both ends."""
    first, last = float(left.limits[0]), float(right.limits[0])
    more, less = float(left.multipliers[0]), float(right.multipliers[0])
    rounding = _STRAIGHT * (left.bound + more * last)
    if left.bound - more * (last - first) >= right.bound - rounding:
        return None
    if right.bound + less * (last - first) >= left.bound - rounding or more <= less:
        return None
    meeting = (left.bound - right.bound + more * first - less * last) / (more - less)
    inside = first * (1.0 + _REACHED) < meeting < last * (1.0 - _REACHED)
    return meeting if inside else None


class _Pieces:
    """The lines between breakpoints, in order: ``budgets`` and ``objectives`` (N,) of these."""

    def __init__(self, instance: BoaInstance, points: list[linked_dual.LinkedBound]) -> None:
        self.instance = instance
        self.budgets = np.array([float(point.limits[0]) for point in points])
        self.objectives = np.array([point.bound for point in points])
        self._lines = [self._choose(*ends) for ends in pairwise(points)]

    @staticmethod
    def _choose(left: linked_dual.LinkedBound, right: linked_dual.LinkedBound) -> linked_dual.LinkedBound:
        """Return the end whose multipliers are best at the other, too."""
        width = float(right.limits[0] - left.limits[0])
        missed = right.bound - (left.bound - float(left.multipliers[0]) * width)
        return left if missed <= left.bound - (right.bound + float(right.multipliers[0]) * width) else right

    def look_up(self, budget: float) -> FrontierPoint | None:
        """Return the point at a budget; None at or beyond the ends, and where nothing more is gained."""
        place = int(np.searchsorted(self.budgets, budget))
        if not 0 < place < self.budgets.size:
            return None
        near = int(np.abs(self.budgets[place - 1 : place + 1] - budget).argmin()) + place - 1
        less = more = self._lines[place - 1]
        if abs(self.budgets[near] - budget) <= _REACHED * budget:
            if not 0 < near < self.budgets.size - 1:
                return None
            less, more = self._lines[near - 1], self._lines[near]
        prices = linked_dual.PriceRange(
            float(less.multipliers[0]), float(more.multipliers[0]), less.multipliers, more.multipliers
        )
        if not prices.more > 0.0:
            return None
        limits = more.limits.copy()
        limits[0] = budget
        bound = more.bound - float(more.multipliers[0]) * (budget - float(more.limits[0]))
        names = self.instance.limit_names
        return FrontierPoint(
            budget=budget,
            objective=bound,
            shadow_price=write_price(self.instance, names[0], prices),
            certificate=LagrangianCertificate(
                multipliers=dict(zip(names, more.multipliers.tolist(), strict=True)), bound=bound
            ),
        )


class Ends(NamedTuple):
    """The least budget of a frontier, the most that is of use, and the objective there."""

    least: float
    most: float
    fastest_s: float

    @property
    def has_length(self) -> bool:
        """Whether more than the least budget is of any use."""
        return self.most > self.least * (1.0 + _REACHED)

    def draw(self, value_at: Callable[[float], float], stopwatch: Stopwatch) -> tuple[FloatArray, FloatArray]:
        """Return budgets from end to end that are solved in time, both ends among them, and their objectives."""
        budgets = np.geomspace(self.least, self.most, _POINTS) if self.has_length else np.array([self.least])
        known = {float(end): value_at(float(end)) for end in budgets[[0, -1]]}
        for budget in budgets[1:-1].tolist():
            if stopwatch.expired:
                break
            known[budget] = value_at(budget)
        return np.array(sorted(known)), np.array([known[budget] for budget in sorted(known)])

    def find_budget(
        self,
        objective_s: float,
        points: tuple[FloatArray, FloatArray],
        tangent_at: Callable[[float], tuple[float, float]],
    ) -> float:
        """Return the least budget with which an objective is reached: Newton's method.

        ``points`` are budgets and objectives that are known, and ``tangent_at`` returns the objective at a budget, and
        what it loses per unit more.
        """
        if objective_s < self.fastest_s * (1.0 - LIMIT_TOLERANCE):
            raise InfeasibleError(too_fast(self.fastest_s, objective_s))
        # The last of the known points that is not quick enough is the nearest start.
        slow = np.flatnonzero(points[1] >= objective_s)
        budget = float(points[0][slow[-1]]) if slow.size else self.least
        while True:
            value, slope = tangent_at(budget)
            excess = value - objective_s
            # A convex line lies above its tangents, so a step never goes too far.
            step = excess / slope if slope > 0.0 else 0.0
            if excess <= _REACHED * objective_s or budget + step <= budget * (1.0 + _REACHED):
                return budget
            budget += step


class _Line:
    """The frontier of one problem: its ends, the points known, its pieces where all are, and what is asked of it."""

    def __init__(self, instance: BoaInstance) -> None:
        self.instance = instance.replace(budget=None)
        self._others = list_amounts(self.at_budget(1.0))[1:]
        # Budgets differ in one limit: what the graphs are is stated once.
        self._graphs = switching.LinkedGraphs.from_costs(cost_steps(self.instance))
        self.solve = lru_cache(maxsize=1024)(self._solve)
        self.ends = self._find_ends()
        self.pieces: _Pieces | None = None

    def draw(self, stopwatch: Stopwatch) -> tuple[FloatArray, FloatArray]:
        """Return breakpoints, and their objectives, all of them if time allows; points where they are too many."""
        traced = None
        if self.ends.has_length:
            traced = self._trace(self.locate(self.ends.least)[0], self.locate(self.ends.most)[0], stopwatch)
        if traced is None:
            return self.ends.draw(lambda budget: self.locate(budget)[1].value, stopwatch)
        points, is_whole = traced
        pieces = _Pieces(self.at_budget(self.ends.least), points)
        self.pieces = pieces if is_whole else None
        return pieces.budgets, pieces.objectives

    def family(self, budget: float) -> switching.LinkedGraphs:
        """Return the graphs with a budget beside the other limits."""
        return replace(self._graphs, limits=np.array([budget, *self._others]))

    def _solve(self, budget: float) -> linked_dual.LinkedBound | linked_dual.LinkedShortfall:
        return linked_dual.maximise_bound(self.family(budget))

    def _trace(
        self, low: linked_dual.LinkedBound, high: linked_dual.LinkedBound, stopwatch: Stopwatch
    ) -> tuple[list[linked_dual.LinkedBound], bool] | None:
        """Return the bounds at breakpoints, and whether at all of them by the end of the time; None where too many."""
        points, waiting = [low], [high]
        while waiting:
            if stopwatch.expired:
                return points + waiting[::-1], False
            left, right = points[-1], waiting[-1]
            near = [(each.mixture.graph, each.mixture.columns) for each in (left, right) if each.mixture is not None]
            budget = _find_meeting(left, right)
            if budget is None:
                points.append(waiting.pop())
                continue
            # The mixture of the lesser budget keeps the greater one.
            found = linked_dual.maximise_bound(self.family(budget), known=near, feasible=left.mixture is not None)
            if isinstance(found, linked_dual.LinkedShortfall) or len(points) + len(waiting) > _MOST_PIECES:
                return None
            waiting.append(found)
        return points, True

    def at_budget(self, budget: float) -> BoaInstance:
        """Return the instance with a budget, in its own unit of budgets."""
        return self.instance.replace(budget=Amount(budget, self.instance.budget_unit))

    def _find_least(self) -> float:
        """Return the least budget with which quotas and due dates can be kept; InfeasibleError where none helps."""
        total, _ = least_budget(self.instance)
        family = self.family(0.5 * total)
        shortfall = self.solve(0.5 * total)
        if not isinstance(shortfall, linked_dual.LinkedShortfall):
            return 0.5 * total
        relaxation = linked_dual.find_relaxations(family, shortfall)[0]
        if np.isinf(relaxation.least):
            ample, reason = _AMPLE * total, "the limits beside the budget cannot be kept"
            shortfall = self.solve(ample)
            if isinstance(shortfall, linked_dual.LinkedShortfall):
                answer = explain_shortfall(self.at_budget(ample), self.family(ample), shortfall)
                reason = answer.infeasibility.reason if answer.infeasibility else reason
            raise InfeasibleError(reason)
        return relaxation.least

    def _find_ends(self) -> Ends:
        """Find the least budget, the most that is of use, and the objective there."""
        least = self._find_least()
        ample = self.solve(_AMPLE * least)
        if isinstance(ample, linked_dual.LinkedShortfall) or ample.mixture is None:
            raise InfeasibleError(too_little(self.instance, least, _AMPLE * least))
        return Ends(least, max(least, float(ample.mixture.consumption[0])), ample.mixture.value)

    def locate(self, budget: float) -> tuple[linked_dual.LinkedBound, families.Mixture]:
        """Return the bound at a budget, and the mixture that attains it."""
        found = self.solve(max(budget, self.ends.least) if budget >= self.ends.least * (1.0 - _REACHED) else budget)
        if isinstance(found, linked_dual.LinkedShortfall):
            raise InfeasibleError(too_little(self.instance, self.ends.least, budget))
        if found.mixture is None:
            raise EngineError(f"HiGHS could not tell whether a budget of {budget:.6g} can be kept")
        return found, clear_mixture(self.at_budget(float(found.limits[0])), found.mixture)

    def at(self, budget: float) -> FrontierPoint:
        """Return the point at a budget."""
        known = None if self.pieces is None else self.pieces.look_up(budget)
        if known is not None:
            return known
        found, mixture = self.locate(budget)
        asked = self.at_budget(float(found.limits[0]))
        try:
            price = find_price(asked, self.family(float(found.limits[0])), found, 0, Effort())
        except OutOfEffortError:
            raise EngineError(f"HiGHS could not tell what a budget of {budget:.6g} is worth") from None
        return FrontierPoint(
            budget=budget if mixture.consumption[0] >= budget * (1.0 - _REACHED) else float(mixture.consumption[0]),
            objective=min(mixture.value, found.bound) if found.bound > 0 else mixture.value,
            shadow_price=price,
            certificate=certify(asked, found),
        )

    def touch(self, budget: float) -> tuple[float, float]:
        """Return the objective at a budget, and what it loses per unit more."""
        known = None if self.pieces is None else self.pieces.look_up(budget)
        if known is not None:
            return known.objective, known.shadow_price.more
        found, mixture = self.locate(budget)
        return mixture.value, float(found.multipliers[0])


def find_ends(instance: BoaInstance) -> Ends:
    """Find the ends of the frontier of mixed plans; those of real widths, which are at whole ones, too."""
    return _Line(instance).ends


def build_linked_frontier(instance: BoaInstance, stopwatch: Stopwatch) -> Frontier:
    """Compute the frontier of mixed plans; queries between its points are look-ups, or solved where they are too many.

    Of any problem but closed forms; budget and policy are ignored. Points that are not known when the stopwatch has
    expired are left out.
    """
    start, line = time.perf_counter(), _Line(instance)
    budgets, objectives = points = line.draw(stopwatch)
    return Frontier(
        **instance.origin(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=budgets,
        objectives=objectives,
        at=line.at,
        budget_for=lambda objective_s: line.at(line.ends.find_budget(objective_s, points, line.touch)),
        solution_at=lambda budget: write_mixture(instance, line.locate(budget)[1]),
        exact_between=line.pieces is not None,
        solve_seconds=time.perf_counter() - start,
    )
