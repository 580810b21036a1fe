"""Limits that are kept with a probability: the plain problem at other limits, each plan judged by its distribution.

These are chance constraints (Charnes and Cooper, Management Science 6, 1959), met by bisection on the plain limit.
The plans looked at are optimal for the means, at amounts of the limit that is traded against the objective: first some
between the least amount and what the best of all plans takes, then by bisection between the best of these that keeps
the limits often enough and its neighbour that does not. Where none does, more are looked at around the likeliest. That
no other plan is better does not follow. What does is a bound: whatever keeps the limits often enough has a mean within
somewhat greater ones (:mod:`optplan.formulations.rubberband.laws.confidence`), of which the plain problem has a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from optplan.contracts.result import (
    Answer,
    BoundProof,
    Infeasibility,
    Relaxation,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
    status_of,
)
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.both_limits import UNITS, solve_held_paths
from optplan.formulations.rubberband.exact.bracket_choice import find_leanest
from optplan.formulations.rubberband.exact.chains import state_chains, write_solution
from optplan.formulations.rubberband.exact.costs import find_chance
from optplan.formulations.rubberband.exact.held_paths import solve_chain
from optplan.formulations.rubberband.laws.confidence import share_of_limit
from optplan.progress import OutOfTime
from optplan.solvers.limits import write_apart
from optplan.solvers.paths.held import HeldShortfall
from optplan.solvers.paths.search import OutOfEffortError

#: Amounts of the limit that are looked at first, and around the likeliest; how often, and halvings after that.
_AMOUNTS, _ROUNDS, _HALVINGS = 17, 3, 24
#: By how much less of the limit asks for the next plan.
_LESS = 1e-7
#: By how much a plan's probability may fall short of the confidence: half of what the judge allows.
_SHORT_OF = 0.5e-6

_Answer = Answer[RubberBandSolution]
#: What is known where durations vary too much.
_NOTHING = _Answer(Status.UNKNOWN, Termination.COMPLETED)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A plan: its objective, what it takes of the traded limit in the mean, how likely it keeps all limits."""

    solution: RubberBandSolution
    objective: float
    used: float
    chance: float


def solve_with_confidence(instance: RubberBandInstance, request: SolveRequest) -> _Answer:
    """Find a good plan that keeps the limits with the confidence; the plain optimum where nothing varies."""
    if not instance.is_random:
        return solve_held_paths(instance, request)
    instance.limit_as_given(instance.limit_name)  # raises where there is none
    try:
        share = share_of_limit(instance, request.stopwatch.require)
        bound = solve_held_paths(instance.of_means(share), request) if share > 0.0 else _NOTHING
        if bound.infeasibility is not None:
            return _refuse(instance, bound.infeasibility, share)
        if bound.solution is not None and find_chance(instance, bound.solution) >= _least_chance(instance):
            return replace(bound, shadow_prices={})
        search = _Search(instance, request)
    except (OutOfTime, OutOfEffortError):
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    stopped = False
    try:
        search.run()
    except OutOfEffortError:
        stopped = True
    return _conclude(instance, search, bound, request, stopped=stopped)


class _Search:
    """The best plan so far, and the likeliest."""

    def __init__(self, instance: RubberBandInstance, request: SolveRequest) -> None:
        self.instance = instance
        self.request = request
        self.chains = state_chains(instance, request.stopwatch)
        self.wanted = _least_chance(instance)
        #: What was found at each amount; from what a plan takes to there it is best.
        self.found: list[tuple[float, _Plan]] = []
        self.best: _Plan | None = None
        self.likeliest: _Plan | None = None

    def run(self) -> None:
        """Look at some amounts, then between the two that matter."""
        least = max(find_leanest(self.instance, chain, self.request).least for chain in self.chains)
        cheapest = self._plan(math.inf)
        if cheapest is None or self.best is cheapest:
            return
        plans = {cheapest.used: cheapest}
        low, high = least, cheapest.used
        for _ in range(_ROUNDS):
            for amount in np.geomspace(low, high, _AMOUNTS).tolist():
                plan = self._plan(amount)
                if plan is not None:
                    plans.setdefault(plan.used, plan)
            used = sorted(plans)
            middle = self.best or self.likeliest
            assert middle is not None
            place = used.index(middle.used)
            low, high = used[max(place - 1, 0)], used[min(place + 1, len(used) - 1)]
            if self.best is not None:
                self._bisect(self.best.used, high)
                return

    def _bisect(self, low: float, high: float) -> None:
        """Look between a plan that keeps the limits and one that does not: in the middle, then next to the latter."""
        for turn in range(_HALVINGS):
            amount = high * (1.0 - _LESS) if turn % 2 else 0.5 * (low + high)
            plan = self._plan(amount) if low < amount else None
            if plan is None or (turn % 2 and plan.used <= low):
                return
            if plan.chance >= self.wanted:
                low = amount
            else:
                high = plan.used

    def _plan(self, amount: float) -> _Plan | None:
        """Return the plan that is best within an amount of the traded limit; judge it."""
        known = next((plan for most, plan in self.found if plan.used <= amount <= most), None)
        if known is not None:
            return known
        found = [solve_chain(self.instance, chain, amount, self.request) for chain in self.chains]
        if self.request.stopwatch.expired:
            raise OutOfEffortError("time")
        solved = [one for one in found if not isinstance(one, HeldShortfall) and one.options is not None]
        if len(solved) < len(found):
            return None
        solution = write_solution(self.chains, [one.options for one in solved if one.options is not None])
        plan = _Plan(
            solution,
            objective=math.fsum(one.value for one in solved),
            used=max(one.consumption for one in solved),
            chance=find_chance(self.instance, solution),
        )
        self.found.append((amount, plan))
        if self.likeliest is None or plan.chance > self.likeliest.chance:
            self.likeliest = plan
        if plan.chance >= self.wanted and (self.best is None or plan.objective < self.best.objective):
            self.best = plan
            self.request.stopwatch.emit("bisection", objective=plan.objective)
        return plan


def _conclude(
    instance: RubberBandInstance, search: _Search, bound: _Answer, request: SolveRequest, *, stopped: bool
) -> _Answer:
    best = search.best
    objective = None if best is None else best.objective
    least = bound.bound if objective is None or bound.bound is None else min(bound.bound, objective)
    status = status_of(objective, least, request.gap)
    warnings: tuple[str, ...] = ()
    if objective is None and search.likeliest is not None:
        found = f"the likeliest plan found keeps {_name_limits(instance)} with a probability of "
        asked = f"{search.likeliest.chance:.3g} (asked: {instance.confidence:g})"
        warnings = (f"{found}{asked}; whether another one does better is not known",)
    elif status is Status.FEASIBLE:
        warnings = ("found by bisection among the plans best for the means: that none is better is not proven",)
    return Answer(
        status=status,
        termination=Termination.TIME_LIMIT if stopped else Termination.COMPLETED,
        solution=None if best is None else best.solution,
        objective=objective,
        bound=least,
        bound_proof=bound.bound_proof if least is not None else BoundProof.NONE,
        certificates=bound.certificates,
        counters={"judged": float(len(search.found))},
        warnings=warnings,
    )


def _least_chance(instance: RubberBandInstance) -> float:
    return (instance.confidence or 0.0) - _SHORT_OF


def _name_limits(instance: RubberBandInstance) -> str:
    return " and ".join(f"the {limit} of {amount:,.6g} {UNITS[limit]}" for limit, amount in instance.limits.items())


def _refuse(instance: RubberBandInstance, of_means: Infeasibility, share: float) -> _Answer:
    """Say of the instance what is proven of the means: they need so much of a limit, and runs that share of it."""
    helps = tuple(_scale(instance, one, share) for one in of_means.relaxations)
    reason = f"no plan keeps {_name_limits(instance)} with a probability of {instance.confidence:g}"
    for one in helps:
        reason += f"; a plan needs a {one.limit} of {write_apart(one.least_feasible, one.given)} {one.unit} at least"
    for lost in of_means.hopeless:
        reason += f"; no {lost.limit} is enough"
    claim = of_means.replace(reason=reason, relaxations=helps)
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)


def _scale(instance: RubberBandInstance, one: Relaxation, share: float) -> Relaxation:
    """Return a relaxation of the problem of means as one of the instance; what is enough is not known."""
    certificate = one.certificate
    if isinstance(certificate, TreeCertificate) and certificate.bound is not None:
        certificate = certificate.replace(bound=certificate.bound * share)
    return instance.relax(
        one.limit,
        one.least_feasible * share,
        multipliers=one.multipliers,
        parts={part: amount * share for part, amount in one.parts.items()},
        certificate=certificate,
    )
