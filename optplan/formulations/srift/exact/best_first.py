"""The exact solver: branch and bound over all fleets, best first with plunging, proven by a tree.

Land and Doig ("An automatic method of solving discrete programming problems", Econometrica 28, 1960), each node being
fleets of which some types are decided. When no fleet will do: why, and the nearest deadline, budget or global batch
that some fleet can keep, in words; and what planners share that look at fleets one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from optplan.contracts.result import (
    Answer,
    BoundProof,
    Hopeless,
    Infeasibility,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
    closes_gap,
    relative_gap,
)
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup, write_fleet
from optplan.formulations.srift.exact.goals import FleetJudge, FrontierGoal, JudgedFleet, LeastGoal
from optplan.formulations.srift.exact.reachability import count_missing, find_neighbours, reaches_batch
from optplan.formulations.srift.exact.search import FleetSpace, SearchEnd
from optplan.formulations.srift.exact.trees import say_uncertified, write_tree
from optplan.progress import Stopwatch
from optplan.solvers.limits import Nearest, explain_limits


def explain_shortfall(
    space: FleetSpace, request: SolveRequest, counters: dict[str, float] | None = None
) -> Answer[SriftSolution]:
    """Say why a searched space has no fleet within the limits, and what each limit alone has to be, if in time."""
    instance = space.instance
    stopwatch = request.stopwatch
    certificate, warnings = _certify(space, None, request)
    proven = True
    if not reaches_batch(instance):
        found = _explain_batch(instance, certificate, stopwatch)
        proven = not stopwatch.expired
    elif not instance.limits:
        reason = "no fleet ever ends: interruptions undo the work between two checkpoints again and again"
        found = Infeasibility(reason=reason, relaxations=(), certificate=certificate)
    else:
        sought = [find_nearest(instance, limit, request) for limit in instance.limits]
        nearest = [one for one in sought if one is not None]
        proven, factor = len(nearest) == len(sought), None
        if proven and all(one.least is None for one in nearest):
            factor, proven = _find_factor(instance, stopwatch)
        found = explain_limits(instance, nearest, "fleet", factor=factor, certificate=certificate)
    if not proven:
        warnings += ("time ran out before all that would help was known: give it more time",)
    ended = Status.INFEASIBLE, Termination.COMPLETED
    return Answer(*ended, infeasibility=found, counters=counters or {}, warnings=warnings)


def find_nearest(instance: SriftInstance, limit: str, request: SolveRequest) -> Nearest | None:
    """Find the fleet with the least of what one limit is on, all other limits kept; None where it is not proven."""
    freed = {"deadline_s": None} if limit == DEADLINE else {"budget": None}
    question = instance.replace(objective=Objective.TIME if limit == DEADLINE else Objective.COST, **freed)
    goal, space = LeastGoal(question), FleetSpace(question)
    if space.search(goal, request.stopwatch).termination is not Termination.COMPLETED:
        return None
    certificate = write_tree(space, goal.objective, request.stopwatch, limit=limit) if request.certify else None
    return Nearest(limit, goal.objective, "" if goal.best is None else write_fleet(goal.best.groups), certificate)


def _find_factor(instance: SriftInstance, stopwatch: Stopwatch) -> tuple[float | None, bool]:
    """Return by which factor all limits would have to grow together, and whether that is proven."""
    goal, limits = FrontierGoal(), instance.limits
    end = FleetSpace(instance.replace(deadline_s=None, budget=None)).search(goal, stopwatch)
    if not goal.found or end.termination is not Termination.COMPLETED:
        return None, False
    most_s, most_usd = limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf)
    return min(max(fleet.time_s / most_s, fleet.cost_usd / most_usd) for fleet in goal.fleets), True


def _explain_batch(instance: SriftInstance, certificate: TreeCertificate | None, stopwatch: Stopwatch) -> Infeasibility:
    """Say what is nearest to a global batch that no fleet has, and which VMs are missing."""
    below, above = find_neighbours(instance)
    sides = [str(side) for side in (below, above) if side is not None]
    reason = f"no fleet has a global batch of exactly {instance.global_batch}"
    if above is None and below is not None:
        reason += f": all that is available has {below} at most"
    elif sides:
        reason += f": the nearest {'is' if len(sides) == 1 else 'are'} {' and '.join(sides)}"
    missing = count_missing(instance, stopwatch) if above is None else {}
    if missing:
        reason += f"; {' or '.join(f'{count} more {name}' for name, count in missing.items())} would do"
    # Where no fleet has the batch, no limit matters: it is the same proof with one dropped.
    hopeless = tuple(
        Hopeless(limit=limit, certificate=certificate and certificate.replace(limit=limit)) for limit in instance.limits
    )
    return Infeasibility(reason=reason, relaxations=(), hopeless=hopeless, certificate=certificate)


def solve_best_first(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Find the cheapest, or the fastest, fleet within the limits, with a tree as proof, or with a bound in time."""
    goal, space = LeastGoal(instance), FleetSpace(instance)
    end = space.search(goal, request.stopwatch, gap=request.gap)
    if goal.best is None:
        if end.termination is Termination.COMPLETED:
            return explain_shortfall(space, request, end.counters)
        return Answer(
            status=Status.UNKNOWN,
            termination=end.termination,
            bound=end.bound,
            bound_proof=BoundProof.SEARCHED,
            counters=end.counters,
            warnings=(f"no fleet within the limits was found, and none is excluded; {_say_what_helps(instance, end)}",),
        )
    objective = goal.best.objective
    bound = min(objective, end.bound)
    closed = closes_gap(objective, bound, request.gap)
    certificate, warnings = _certify(space, bound, request) if closed else (None, (_say_open(instance, end, goal),))
    return Answer(
        status=Status.OPTIMAL if closed else Status.FEASIBLE,
        termination=Termination.COMPLETED if closed else end.termination,
        solution=SriftSolution(groups=goal.best.groups),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.TREE if certificate else BoundProof.SEARCHED,
        certificates=(certificate,) if certificate else (),
        counters=end.counters,
        warnings=warnings,
    )


def _certify(
    space: FleetSpace, bound: float | None, request: SolveRequest
) -> tuple[TreeCertificate | None, tuple[str, ...]]:
    """Return the certificate of a bound, or of no fleet, where one is wanted; or a warning where there can be none."""
    certificate = write_tree(space, bound, request.stopwatch) if request.certify else None
    return certificate, (say_uncertified(request),) if request.certify and certificate is None else ()


def _say_open(instance: SriftInstance, end: SearchEnd, goal: LeastGoal) -> str:
    objective = goal.objective or 0.0
    percent = 100.0 * (relative_gap(objective, min(objective, end.bound)) or 0.0)
    return f"fleets that are up to {percent:.2g} % better are not excluded; {_say_what_helps(instance, end)}"


def _say_what_helps(instance: SriftInstance, end: SearchEnd) -> str:
    """Say what would leave less to be looked at, or let more of it be looked at."""
    means = ["more time"] if end.termination is Termination.TIME_LIMIT else []
    means.append("fewer types, or fewer choices of batches")
    if not instance.one_batch_per_type:
        means.append("one batch per type")
    if any(vm.available is None for vm in instance.types.values()):
        means.append("the number of VMs that can be had")
    return f"what would: {'; '.join(means)}"


#: A gap that any fleet closes.
_ANY_GAP = 1e9


class FleetSearch(LeastGoal):
    """The best fleet seen that keeps the limits."""

    def __init__(self, instance: SriftInstance, stopwatch: Stopwatch) -> None:
        super().__init__(instance)
        self.instance = instance
        self.stopwatch = stopwatch
        #: Fleets judged so far.
        self.judged = 0
        self._judge = FleetJudge(instance)
        self._longest_s = 0.0

    def judge(self, groups: tuple[VmGroup, ...]) -> JudgedFleet:
        """Return what a fleet takes and costs, and count it."""
        self.judged += 1
        return self._judge.judge(groups)

    def look_at(
        self, fleets: Iterable[tuple[VmGroup, ...]], wanted: Callable[[tuple[VmGroup, ...]], bool] | None = None
    ) -> bool:
        """Judge the wanted ones of fleets that reach the batch; return False once time for two is no longer left."""
        for groups in fleets:
            before_s = self.stopwatch.elapsed_s
            left_s = self.stopwatch.remaining_s
            if left_s is not None and left_s <= 2.0 * self._longest_s:
                return False
            if wanted is None or wanted(groups):
                self.offer(self.judge(groups))
                self._longest_s = max(self._longest_s, self.stopwatch.elapsed_s - before_s)
        return True

    def answer(
        self, request: SolveRequest, what: str, termination: Termination, *, engine: tuple[str, str] = ("optplan", "")
    ) -> Answer[SriftSolution]:
        """Answer with the best fleet and without a bound; without one, say that there is no such fleet."""
        counters = {"fleets": float(self.judged)}
        if self.best is None:
            return answer_without_fleet(
                self.instance, request, f"no {what} reaches the batch within the limits", termination, counters
            )
        return Answer(
            status=Status.FEASIBLE,
            termination=termination,
            solution=SriftSolution(groups=self.best.groups),
            objective=self.best.objective,
            counters=counters,
            engine=engine[0],
            engine_version=engine[1],
        )


def answer_without_fleet(
    instance: SriftInstance,
    request: SolveRequest,
    message: str,
    termination: Termination = Termination.COMPLETED,
    counters: dict[str, float] | None = None,
) -> Answer[SriftSolution]:
    """Answer where a planner has found nothing: infeasible where the exact search finds no fleet, or unknown."""
    if not request.stopwatch.expired:
        known = solve_best_first(instance, replace(request, gap=_ANY_GAP))
        if known.status is Status.INFEASIBLE:
            return replace(known, counters=counters or {})
    return Answer(Status.UNKNOWN, termination, counters=counters or {}, warnings=(message,))
