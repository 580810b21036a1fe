"""What a fleet takes and costs, for solvers that look at many, and what planners share that look at fleets one by one.

The evaluator judges one fleet on its own. Here what fleets have in common is computed once, which makes the next one
about as quick as its simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Objective, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.data.solution import count_vms
from optplan.formulations.srift.laws.interruptions import expect_training, interruption_rate_per_s
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.progress import Stopwatch
from optplan.solvers.limits import LIMIT_TOLERANCE

#: By which share a limit may be exceeded: the solvers' side of what the evaluator allows.
TOLERANCE = LIMIT_TOLERANCE


@dataclass(frozen=True, slots=True)
class JudgedFleet:
    """A fleet with its time and cost; whether it reaches the batch is not looked at."""

    groups: tuple[VmGroup, ...]
    #: As the evaluator defines them; infinite where a run with interruptions never ends.
    time_s: float
    cost_usd: float
    objective: float  # the one of the two that is made least
    #: By how much each of the instance's limits is exceeded, relative to it; zero where it is kept.
    excess: tuple[float, ...]

    @property
    def keeps_limits(self) -> bool:
        """Whether no limit is exceeded."""
        return not any(self.excess)


class FleetJudge:
    """Predicts time and cost of an instance's fleets, by a model that may have looked at some already."""

    def __init__(self, instance: SriftInstance, model: IterationModel | None = None) -> None:
        self.instance = instance
        self._model = IterationModel(instance) if model is None else model
        self._price_usd_per_s = {name: vm.price_usd_per_s for name, vm in instance.types.items()}

    def judge(self, groups: tuple[VmGroup, ...]) -> JudgedFleet:
        """Return what a fleet takes and costs."""
        instance = self.instance
        training_s = billed_s = instance.iterations * self._model.predict(groups).total_s
        if instance.interruptions is not None:
            rate_per_s = interruption_rate_per_s(instance, groups)
            training_s, billed_s = map(float, expect_training(training_s, rate_per_s, instance.interruptions))
        launch_s = instance.launch_s if self._launches(groups) else 0.0
        time_s = launch_s + training_s
        billed_s += launch_s if instance.launch_billed else 0.0
        cost_usd = billed_s * sum(group.count * self._price_usd_per_s[group.type] for group in groups)
        used = {DEADLINE: time_s, BUDGET: cost_usd}
        excess = tuple(
            used[limit] / most - 1.0 if used[limit] > most * (1.0 + TOLERANCE) else 0.0
            for limit, most in instance.limits.items()
        )
        objective = cost_usd if instance.objective is Objective.COST else time_s
        return JudgedFleet(groups, time_s, cost_usd, objective, excess)

    def _launches(self, groups: tuple[VmGroup, ...]) -> bool:
        """Whether the fleet has more VMs of any type than are running."""
        types = self.instance.types
        return any(count > types[name].running for name, count in count_vms(groups).items())


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
