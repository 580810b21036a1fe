"""The exact solver: budgeted paths over instances held.

Expected times and costs add up over stages, so that a plan is a path and a limit a budget; minimum charges come on top
and are handled by bounding. With several clusters side by side each has a graph of its own.

Within one budget for all of them, the least time within which all can end is sought: the cheapest plan within a time is
the sum of each bracket's cheapest, which no longer time makes dearer. So the least time whose cheapest plan keeps the
budget is found by halving, between the optimum of the convexified problem and the best plan so far; each step is proven
by the brackets' own bounds.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.result import (
    MEETING,
    Answer,
    BoundProof,
    EnumeratedCertificate,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    closes_gap,
    status_of,
)
from optplan.formulations.rubberband.data.instance import BUDGET, Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.bracket_choice import explain_shortfall, find_leanest, price_limit
from optplan.formulations.rubberband.exact.chains import Chain, state_chains, write_solution
from optplan.formulations.rubberband.exact.costs import count_options
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.frontier import build_frontier
from optplan.solvers.paths.held import HeldShortfall, HeldSolution, solve_held
from optplan.solvers.paths.held_labels import exchange_charges
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.single import find_multiplier_range


def solve_side_by_side(
    instance: RubberBandInstance, chains: tuple[Chain, ...], budget_usd: float, request: SolveRequest
) -> Answer[RubberBandSolution]:
    """Find the fastest plan of several clusters within a budget for all of them together."""
    cheapest = [find_leanest(instance, chain, request) for chain in chains]
    if math.fsum(one.least for one in cheapest) > budget_usd * (1.0 + LIMIT_TOLERANCE):
        return explain_shortfall(instance, chains, request)
    least_s, less, more = _solve_convexified(chains, budget_usd)
    search = _Halving(chains, budget_usd, least_s, request)
    if all(one.stopped_by is None for one in cheapest):
        search.take([one.options for one in cheapest if one.options is not None])
    stopped_by = None
    try:
        search.run()
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    multipliers = {BUDGET: more}
    # At this multiplier the dual bound is the convexified optimum itself.
    bound_s = min(search.upper_s, search.lower_s)
    certificates: list[LagrangianCertificate | EnumeratedCertificate] = [
        LagrangianCertificate(multipliers=multipliers, bound=least_s)
    ]
    proof = BoundProof.LAGRANGIAN
    if bound_s > least_s:
        proof = BoundProof.ENUMERATED
        certificates.append(
            EnumeratedCertificate(
                multipliers=multipliers,
                allowance=bound_s - least_s,
                optimum=search.upper_s if bound_s == search.upper_s else None,
                bound=bound_s,
            )
        )
    incumbent = search.paths
    objective_s = None if incumbent is None else search.upper_s
    return Answer(
        status=status_of(objective_s, bound_s, request.gap),
        termination=Termination.COMPLETED if stopped_by is None else Termination.TIME_LIMIT,
        solution=None if incumbent is None else write_solution(chains, incumbent),
        objective=objective_s,
        bound=bound_s,
        bound_proof=proof,
        certificates=tuple(certificates),
        shadow_prices={BUDGET: price_limit(instance, less, more)},
        counters={"steps": float(search.steps)},
    )


def _solve_convexified(chains: tuple[Chain, ...], budget_usd: float) -> tuple[float, float, float]:
    """Find the least time at which the brackets' lower hulls together keep the budget; and the slopes on either side.

    These are the prices of the budget in seconds per US dollar, less of it first.
    """
    hulls = [build_frontier(chain.graph) for chain in chains]
    earliest = max(float(hull.consumption[0]) for hull in hulls)
    times = np.unique(np.concatenate([hull.consumption for hull in hulls]))
    times = np.append(earliest, times[times > earliest])
    usd = np.sum([np.interp(times, hull.consumption, hull.value) for hull in hulls], axis=0)
    if usd[0] <= budget_usd * (1.0 + LIMIT_TOLERANCE):
        # More money gains nothing; less of it costs time only when all of it is needed.
        at_least = usd[0] >= budget_usd * (1.0 - LIMIT_TOLERANCE)
        return earliest, _price_after(times, usd, 0) if at_least else 0.0, 0.0
    place = int(np.argmax(usd <= budget_usd * (1.0 + LIMIT_TOLERANCE)))
    slope = (times[place] - times[place - 1]) / (usd[place - 1] - usd[place])
    time_s = float(times[place] - slope * max(0.0, budget_usd - usd[place]))
    at_end = abs(usd[place] - budget_usd) <= LIMIT_TOLERANCE * budget_usd
    return time_s, _price_after(times, usd, place) if at_end else float(slope), float(slope)


def _price_after(times: FloatArray, usd: FloatArray, place: int) -> float:
    """Return the seconds lost per US dollar less than at a breakpoint; infinite where nothing less is enough."""
    if place + 1 == times.size or usd[place + 1] >= usd[place]:
        return math.inf
    return float((times[place + 1] - times[place]) / (usd[place] - usd[place + 1]))


class _Halving:
    """The search for the least time: no plan is faster than ``lower_s``, the best found takes ``upper_s``."""

    def __init__(self, chains: tuple[Chain, ...], budget_usd: float, lower_s: float, request: SolveRequest) -> None:
        self.chains = chains
        self.budget_usd = budget_usd * (1.0 + LIMIT_TOLERANCE)
        self.lower_s = lower_s
        self.upper_s = math.inf
        self.paths: list[IntArray] | None = None
        self.request = request
        self.steps = 0

    def run(self) -> None:
        while self.upper_s > self.lower_s and not closes_gap(self.upper_s, self.lower_s, self.request.gap):
            if self.request.stopwatch.expired:
                raise OutOfEffortError("time")
            middle = 0.5 * (self.lower_s + self.upper_s)
            # In the middle, then just below the best plan, in turns: often nothing is better.
            self._step(self.upper_s * (1.0 - 0.5 * MEETING) if self.steps % 2 else middle)
            self.request.stopwatch.emit("halving", objective=self.upper_s, bound=self.lower_s)

    def _step(self, within_s: float) -> None:
        """Decide whether the budget is enough for a time."""
        self.steps += 1
        paths: list[IntArray] = []
        bound_usd = 0.0
        # The engine adds its tolerance, which would make the best plan fit just below its own time.
        exactly_s = within_s / (1.0 + LIMIT_TOLERANCE)
        for chain in self.chains:
            effort = Effort(self.request.stopwatch)
            found = solve_held(chain.graph, exactly_s, gap=0.0, effort=effort, charges=chain.charges)
            if isinstance(found, HeldShortfall):
                self._exclude(within_s)
                return
            bound_usd += found.bound
            if found.options is not None:
                paths.append(found.options)
            if found.stopped_by is not None and bound_usd <= self.budget_usd:
                raise OutOfEffortError(found.stopped_by)
        if bound_usd > self.budget_usd:
            self._exclude(within_s)
        else:
            self.take(paths)

    def _exclude(self, within_s: float) -> None:
        self.lower_s = max(self.lower_s, within_s)
        if self.upper_s <= self.lower_s * (1.0 + MEETING):
            self.lower_s = self.upper_s

    def take(self, paths: list[IntArray]) -> None:
        time_s = max(
            float(chain.graph.follow(path[None]).used[0]) for chain, path in zip(self.chains, paths, strict=True)
        )
        if time_s < self.upper_s:
            self.paths, self.upper_s = paths, time_s
        self.lower_s = min(self.lower_s, self.upper_s)


#: Allocations that are evaluated in no time, so that without time there is a plan, too.
_FEW_OPTIONS = 4096


def solve_one_limit(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Find the cheapest plan within the deadline, or the fastest within the budget, with proof; without a ceiling."""
    limit = instance.limits[instance.limit_name]
    try:
        chains = state_chains(instance, request.stopwatch if count_options(instance) > _FEW_OPTIONS else None)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    if instance.objective is Objective.TIME and len(chains) > 1:
        return solve_side_by_side(instance, chains, limit, request)
    found = []
    for chain in chains:
        one = solve_chain(instance, chain, limit, request)
        if isinstance(one, HeldShortfall):
            return explain_shortfall(instance, chains, request)
        found.append(one)
    return _answer(instance, chains, found, request)


def solve_chain(
    instance: RubberBandInstance, chain: Chain, limit: float, request: SolveRequest
) -> HeldSolution | HeldShortfall:
    """Find the best path of one bracket within a limit on time or, where the time is the objective, on cost."""
    effort = Effort(request.stopwatch)
    if instance.objective is Objective.COST:
        return solve_held(chain.graph, limit, gap=request.gap, effort=effort, charges=chain.charges)
    charges = exchange_charges(chain.charges)
    return solve_held(chain.graph.exchanged(), limit, gap=request.gap, effort=effort, charges=charges)


def _answer(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldSolution], request: SolveRequest
) -> Answer[RubberBandSolution]:
    paths = [one.options for one in found if one.options is not None]
    complete = len(paths) == len(found)
    value, bound = sum(one.value for one in found), sum(one.bound for one in found)
    certificates, proof = _certify(instance, found)
    stopped = {one.stopped_by for one in found if one.stopped_by is not None}
    return Answer(
        status=status_of(value if complete else None, bound, request.gap),
        termination=Termination.after("time" if "time" in stopped else next(iter(stopped), None)),
        solution=write_solution(chains, paths) if complete else None,
        objective=value if complete else None,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices=_price(instance, chains, found, request),
        counters={
            "passes": float(sum(one.passes for one in found)),
            "labels": float(sum(one.labels for one in found)),
        },
    )


def _certify(
    instance: RubberBandInstance, found: list[HeldSolution]
) -> tuple[tuple[LagrangianCertificate | EnumeratedCertificate, ...], BoundProof]:
    """Return what the bounds rest on; the multipliers of clusters side by side add up to that of the deadline."""
    multipliers = {instance.limit_name: sum(one.lagrangian.multiplier for one in found)}
    dual = sum(one.lagrangian.bound for one in found)
    lagrangian = LagrangianCertificate(multipliers=multipliers, bound=dual)
    if all(one.exhaustion is None for one in found):
        return (lagrangian,), BoundProof.LAGRANGIAN
    bound = sum(one.bound for one in found)
    optimum = None
    # Without an enumeration, a bracket's bound is attained when its value meets it.
    if all(one.value == one.bound for one in found):
        optimum = sum(one.value for one in found)
    enumerated = EnumeratedCertificate(
        multipliers=multipliers, allowance=max(0.0, bound - dual), optimum=optimum, bound=bound
    )
    return (lagrangian, enumerated), BoundProof.ENUMERATED


def _price(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldSolution], request: SolveRequest
) -> dict[str, ShadowPrice]:
    """Return the slopes of the convexified trade-off on both sides of the limit; nothing when time runs out."""
    less = more = 0.0
    for chain, one in zip(chains, found, strict=True):
        if not one.lagrangian.attained:
            return {}
        graph = chain.graph if instance.objective is Objective.COST else chain.graph.exchanged()
        try:
            prices = find_multiplier_range(graph, one.lagrangian, effort=Effort(request.stopwatch))
        except OutOfEffortError:
            return {}
        less, more = less + prices[0], more + prices[1]
    return {instance.limit_name: price_limit(instance, less, more)}
