"""What planners share that look at fleets one by one: the best one so far, and what to answer with or without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.incumbents import FleetJudge, JudgedFleet
from optplan.progress import Stopwatch

#: A gap that any fleet closes.
_ANY_GAP = 1e9


class FleetSearch:
    """The best fleet seen that keeps the limits."""

    def __init__(self, instance: SriftInstance, stopwatch: Stopwatch) -> None:
        self.instance = instance
        self.stopwatch = stopwatch
        self.best: JudgedFleet | None = None
        #: Fleets judged so far.
        self.judged = 0
        self._judge = FleetJudge(instance)
        self._longest_s = 0.0

    @property
    def objective(self) -> float | None:
        """The best fleet's; None before there is one."""
        return None if self.best is None else self.best.objective

    def judge(self, groups: tuple[VmGroup, ...]) -> JudgedFleet:
        """Return what a fleet takes and costs, and count it."""
        self.judged += 1
        return self._judge.judge(groups)

    def offer(self, judged: JudgedFleet) -> None:
        """Keep a fleet that reaches the batch if it is better than the best one and keeps the limits."""
        if judged.keeps_limits and judged.objective < (math.inf if self.best is None else self.best.objective):
            self.best = judged

    def look_at(
        self, fleets: Iterable[tuple[VmGroup, ...]], wanted: Callable[[tuple[VmGroup, ...]], bool] | None = None
    ) -> bool:
        """Judge the wanted ones of fleets that reach the batch; return False when time has run out before the last one.

        The clock is looked at before each fleet: where less is left than judging two has taken so far, it is over.
        """
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
    """Answer where a planner has found nothing: infeasible where nobody can, otherwise unknown, with a warning.

    Whether there is a fleet at all is asked of the exact search, within what is left of the time.
    """
    from optplan.formulations.srift.exact.best_first import solve_best_first  # which only then is needed

    if not request.stopwatch.expired:
        known = solve_best_first(instance, replace(request, gap=_ANY_GAP))
        if known.status is Status.INFEASIBLE:
            return replace(known, counters=counters or {})
    return Answer(Status.UNKNOWN, termination, counters=counters or {}, warnings=(message,))
