"""What is least of the plans that keep a deadline and a budget, both, with a given probability.

Also a budget alone, where the time is least: the deadline is infinite then. The search is
:mod:`optplan.formulations.rubberband.exact.chance.both_search`; here are what it starts with, and what is said where no
plan keeps both often enough: the probability that the likeliest plan reaches, and which limit to relax, by how much.
"""

from __future__ import annotations

import math

from optplan.contracts.result import (
    Answer,
    Hopeless,
    Infeasibility,
    Relaxation,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
)
from optplan.formulations.rubberband.data.rules import BOTH_CHANCE
from optplan.formulations.rubberband.exact.chance.both_search import BothPlan, BothSearch
from optplan.formulations.rubberband.exact.chance.both_steps import BothSteps
from optplan.formulations.rubberband.exact.chance.least_deadlines import find_too_low
from optplan.formulations.rubberband.exact.chance.on_time import conclude, solve_confident_deadline
from optplan.formulations.rubberband.laws.both import both_chance
from optplan.solvers.figures import write_apart
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import Effort, OutOfEffortError

#: Points of the grid in either direction, and numbers that what may follow takes at most.
_POINTS = (64, 48, 32)
_MOST_NUMBERS = 1 << 25
#: Beginnings that may wait.
_MOST_LABELS = 400_000
_MOST_LABELS_OF_LIMITS = 20_000
#: By how much a plan's probability may fall short of the confidence: what the judge allows, too.
_SHORT_OF = 1e-6
#: How often a limit grows until some plan keeps both, and how near the ends of that search come.
_MOST_GROWTHS, _NEAREST = 40, 1e-6
_UNITS = {DEADLINE: "s", BUDGET: "usd"}

_Answer = Answer[RubberBandSolution]


def solve_both_confident(instance: RubberBandInstance, request: SolveRequest) -> _Answer:
    """Find the plan of least objective that keeps the instance's limits, all of them, with its confidence.

    Parameters
    ----------
    instance
        Something in it is random.

    Returns
    -------
    Answer
        The bound has a tree as its certificate: all plans below it keep the limits less often. Infeasible where all
        plans do, with the relaxation of either limit.
    """
    alone = _try_deadline_alone(instance, request)
    if alone is not None:
        return alone
    try:
        case = _Case(instance, request)
        search = case.search(instance.limits)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    found, stopped_by = None, None
    try:
        found = search.find_any()
        if found is None:
            return case.refuse(search)
        request.stopwatch.emit("plans", objective=found.objective, bound=search.bound)
        found = search.find_best(found.objective) or found
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    return case.conclude(search, found, stopped_by)


def _try_deadline_alone(instance: RubberBandInstance, request: SolveRequest) -> _Answer | None:
    """Return the cheapest plan within the deadline alone where it keeps the budget, too, often enough: the usual case.

    None beats it, as fewer plans keep both than the deadline: its proof is one here, too.
    """
    if instance.objective is Objective.TIME:
        return None
    answer = solve_confident_deadline(instance.without_ceiling(), request)
    if answer.status is not Status.OPTIMAL or answer.solution is None:
        return None
    (chain,) = answer.solution.brackets
    limits = (instance.limits[limit] * (1.0 + LIMIT_TOLERANCE) for limit in (DEADLINE, BUDGET))
    chance = both_chance(instance, [one.instances for one in chain], [one.gpus for one in chain], *limits)
    return answer if chance >= (instance.confidence or 0.0) - _SHORT_OF else None


class _Case:
    """An instance with its steps."""

    def __init__(self, instance: RubberBandInstance, request: SolveRequest) -> None:
        self.instance = instance
        self.request = request
        self.steps = BothSteps(instance, Effort(request.stopwatch))

    @property
    def wanted(self) -> float:
        return (self.instance.confidence or 0.0) - _SHORT_OF

    @property
    def points(self) -> int:
        numbers = self.steps.held.size * self.steps.stages * 5
        return next((each for each in _POINTS if numbers * each**2 <= _MOST_NUMBERS), _POINTS[-1])

    def search(self, limits: dict[str, float], *, priced: bool = True) -> BothSearch:
        """Prepare a search within limits; for plans at any objective, with less effort, where that has no price."""
        both = (limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf))
        effort = Effort(self.request.stopwatch, max_labels=_MOST_LABELS if priced else _MOST_LABELS_OF_LIMITS)
        return BothSearch(self.steps, both, self.wanted, self.points, effort, priced=priced)

    def conclude(self, search: BothSearch, found: BothPlan | None, stopped_by: str | None) -> _Answer:
        """Return what is known now."""
        solution, objective = (None, math.inf) if found is None else (found.solution, found.objective)
        certificate = self._certify(bound=min(search.bound, objective))
        counters = {"labels": float(search.effort.labels), "judged": float(search.judged)}
        return conclude(solution, objective, certificate, self.request, stopped_by, counters)

    def _certify(self, limit: str = "", bound: float | None = None) -> TreeCertificate:
        return TreeCertificate(rule=BOTH_CHANCE, limit=limit, bound=bound, content={"points": self.points})

    def refuse(self, search: BothSearch) -> _Answer:
        """Say that no plan keeps all limits often enough, and what would help."""
        limits, certify = self.instance.limits, self.request.certify
        helps: list[Relaxation] = []
        hopeless: list[Hopeless] = []
        for limit in limits:
            least = self._find_least(limit)
            if least == math.inf:
                hopeless.append(Hopeless(limit=limit, certificate=self._certify(limit) if certify else None))
            elif least > limits[limit]:
                certificate = self._certify(limit, least) if certify else None
                helps.append(self.instance.relax(limit, least, certificate=certificate))
        claim = Infeasibility(
            reason=self._say_why(search.likeliest, helps, hopeless),
            relaxations=tuple(helps),
            hopeless=tuple(hopeless),
            certificate=self._certify() if certify else None,
        )
        return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)

    def _say_why(self, likeliest: BothPlan | None, helps: list[Relaxation], hopeless: list[Hopeless]) -> str:
        limits = self.instance.limits
        said = " and ".join(f"the {limit} of {amount:,.6g} {_UNITS[limit]}" for limit, amount in limits.items())
        reason = f"no plan keeps {said} with a probability of {self.instance.confidence:g}"
        if likeliest is not None:
            reason += f"; the likeliest plan found reaches {likeliest.chance:.3g}"
        for one in helps:
            kept = "".join(f"within the {other} " for other in limits if other != one.limit)
            reason += f"; {kept}a plan needs a {one.limit} of {write_apart(one.least_feasible, one.given)} {one.unit}"
        for lost in hopeless:
            kept = " and ".join(f"the {other}" for other in limits if other != lost.limit) or "it"
            reason += f"; whatever the {lost.limit}, no plan keeps {kept} so often"
        return reason

    def _find_least(self, limit: str) -> float:
        """Return an amount of a limit that is too low, near one that may not be; infinity where all are."""

        def decide(amount: float) -> bool:
            return self.search(self.instance.limits | {limit: amount}, priced=False).find_any() is None

        given = self.instance.limits[limit]
        return find_too_low(given, decide, most_growths=_MOST_GROWTHS, nearest=_NEAREST, endless=True)
