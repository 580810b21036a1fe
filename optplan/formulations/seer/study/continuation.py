"""A search that has not gone as planned: the rounds that are left, with the time and the GPU-minutes that are left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from optplan.contracts.result import Infeasibility, Relaxation
from optplan.contracts.standing import Continuation, MeasuredTrial, Solver, Standing
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations.seer.data.brackets import paid_gpus
from optplan.formulations.seer.data.instance import BUDGET, DEADLINE, Bracket, Objective, SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import TrialScaling
from optplan.formulations.seer.laws.rounds import Round, list_rounds, sum_spent
from optplan.formulations.seer.planning import SeerPlan, SkewedSegment, write_round
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.units import MINUTES_PER_HOUR, SECONDS_PER_MINUTE, Amount, BudgetUnit, format_duration, round_up_duration

#: How often the least GPUs of a trial are raised by the factor between brackets.
_MOST_RAISES = 12


def continue_plan(instance: SeerInstance, plan: SeerPlan, standing: Standing, solve: Solver) -> Continuation:
    """Plan the rounds that are left, for the trials that would go on, as an instance of its own."""
    # Its deadline is less by the pause with which it begins; rounds are as many as are left and trials can be halved.
    done = next(
        (number for number, each in enumerate(plan.rounds) if each[0].id not in standing.took), len(plan.rounds)
    )
    if not done or done == len(plan.rounds):
        raise UnsupportedError("no round is over, or none is left")
    last = plan.rounds[done - 1]
    alive = sum(min(segment.kept, standing.alive.get(segment.id, 0)) for segment in last)
    if not alive:
        raise UnsupportedError("no trial is left")
    elapsed_min = (standing.now_s - standing.origin_s) / SECONDS_PER_MINUTE
    deadline_min, budget = _find_limits(instance, standing)
    rest = _Rest(instance, plan, done, elapsed_min, standing.limits.get("gpus", math.inf))
    left_gpu_min = budget - _sum_rented(instance, plan, standing, done)
    found = rest.choose(alive, deadline_min - elapsed_min, left_gpu_min, solve)
    if isinstance(found, Infeasibility):
        return Continuation(None, found)
    rounds = rest.list_rounds(found)
    return Continuation(_join(rest, plan, standing, rounds, found))


def _find_limits(instance: SeerInstance, standing: Standing) -> tuple[float, float]:
    """Return the deadline in minutes and the budget in GPU-minutes: the run's own, or else the instance's."""
    deadline_min, budget = instance.deadline_min, instance.budget_gpu_min
    if DEADLINE in standing.limits:
        deadline_min = standing.limits[DEADLINE] / SECONDS_PER_MINUTE
    if BUDGET in standing.limits and instance.price_usd_per_gpu_hour is not None:
        budget = standing.limits[BUDGET] / instance.price_usd_per_gpu_hour * MINUTES_PER_HOUR
    return deadline_min, budget


def _sum_rented(instance: SeerInstance, plan: SeerPlan, standing: Standing, done: int) -> float:
    """Return the GPU-minutes of the rounds that have ended, as the budget counts them."""
    if instance.nodes_paid is None:
        return standing.spent_gpu_hours * MINUTES_PER_HOUR
    lasted_s = (max(standing.took[each.id].seconds for each in segments) for segments in plan.rounds[:done])
    nodes_s = sum(segments[0].nodes * s for segments, s in zip(plan.rounds, lasted_s, strict=False))
    return instance.nodes_paid * nodes_s / SECONDS_PER_MINUTE


class _Rest:
    """What is left of a search after some rounds."""

    def __init__(self, instance: SeerInstance, plan: SeerPlan, done: int, elapsed_min: float, most_gpus: float) -> None:
        self._most_gpus = most_gpus
        self.instance, self.done, self._elapsed_min = instance, done, elapsed_min
        self._left = len(plan.rounds) - done
        self._gpus = sum(segment.members * segment.workers for segment in plan.rounds[done])

    def choose(self, alive: int, left_min: float, left_gpu_min: float, solve: Solver) -> SeerSolution | Infeasibility:
        """Return how the trials that are left spend most of what is left, in as many rounds as can be."""
        eta, pause_min = self.instance.eta, self.instance.resize_min
        rounds = min(self._left, 1 + math.floor(math.log(alive) / math.log(eta) + LIMIT_TOLERANCE))
        training_min = left_min - rounds * pause_min
        first_min = training_min / sum(eta**number for number in range(rounds))
        if first_min < self.instance.least_round_min * (1.0 - LIMIT_TOLERANCE):
            return self._explain(DEADLINE, left_min, self.instance.least_round_min + pause_min)
        best: tuple[int, float, SeerSolution] | None = None
        for raises in range(_MOST_RAISES):
            gpus = float(math.floor(self.instance.least_gpus * self.instance.nu**raises))
            if self.instance.most_gpus is not None and gpus > self.instance.most_gpus:
                break
            least_gpus = paid_gpus(self.instance.nodes_paid, gpus, 1)
            budget = left_gpu_min - pause_min * max(self._gpus, least_gpus)
            if budget < least_gpus * first_min:
                break
            result = solve(
                self.instance.replace(
                    objective=Objective.SPEND,
                    budget_counts=self.instance.counted,
                    deadline_min=training_min + (rounds - 1) * pause_min,
                    budget=Amount(budget, BudgetUnit.GPU_MINUTE),
                    least_round_min=first_min * (1.0 - LIMIT_TOLERANCE),
                    least_gpus=gpus,
                )
            )
            if result.solution is None:
                break
            solution = _trim(result.solution, alive, eta)
            rounds_left = self.list_rounds(solution)
            if max(each.gpus for each in rounds_left) > self._most_gpus:
                continue
            spent = sum_spent(self.instance, rounds_left)
            if spent <= left_gpu_min * (1.0 + LIMIT_TOLERANCE) and (
                best is None or (solution.rounds, spent) > best[:2]
            ):
                best = solution.rounds, spent, solution
        least = paid_gpus(self.instance.nodes_paid, self.instance.least_gpus, 1) * (first_min + pause_min)
        return self._explain(BUDGET, left_gpu_min, least) if best is None else best[2]

    def list_rounds(self, solution: SeerSolution) -> list[Round]:
        """List the rounds that are left, by their numbers and times in the whole search; each begins with a pause."""
        rounds: list[Round] = []
        pause_min = self.instance.resize_min
        for each in list_rounds(self.instance, solution):
            start_min = self._elapsed_min + each.start_min + (pause_min if rounds else 0.0)
            number = self.done + each.number
            rounds.append(dataclasses.replace(each, number=number, start_min=start_min, pause_min=pause_min))
        return rounds

    def _explain(self, limit: str, left: float, needed: float) -> Infeasibility:
        given = self.instance.limits[limit]
        least = given - left + needed
        if limit == DEADLINE:  # as it is shown, so that it does
            least = round_up_duration(least * SECONDS_PER_MINUTE) / SECONDS_PER_MINUTE

        def write(amount: float) -> str:
            return (
                format_duration(max(0.0, amount) * SECONDS_PER_MINUTE) if limit == DEADLINE else f"{amount:.4g} GPU-min"
            )

        what = f"the rest takes at least {write(needed)}, and {write(left)} of the {limit} of {write(given)} are left"
        relaxation = Relaxation(
            limit=limit, given=given, least_feasible=least, unit="min" if limit == DEADLINE else "gpu-min"
        )
        return Infeasibility(reason=f"{what}; a {limit} of {write(least)} would do", relaxations=(relaxation,))


def _trim(solution: SeerSolution, alive: int, eta: float) -> SeerSolution:
    """Leave trials out that there are not, those on the fewest GPUs first."""
    excess = sum(bracket.trials[0] for bracket in solution.brackets) - alive
    brackets = []
    for bracket in solution.brackets:
        first = max(0, bracket.trials[0] - max(0, excess))
        excess -= bracket.trials[0] - first
        trials = tuple(min(n, math.floor(first / eta**k + LIMIT_TOLERANCE)) for k, n in enumerate(bracket.trials))
        brackets.append(Bracket(gpus=bracket.gpus, trials=trials))
    if not any(bracket.trials[-1] for bracket in brackets):  # somebody has to be trained to the end
        widest = max(range(len(brackets)), key=lambda place: (brackets[place].trials[0] > 0, brackets[place].gpus))
        brackets[widest] = Bracket(gpus=brackets[widest].gpus, trials=tuple(max(1, n) for n in brackets[widest].trials))
    return solution.replace(brackets=tuple(bracket for bracket in brackets if any(bracket.trials)))


def _join(rest: _Rest, plan: SeerPlan, standing: Standing, rounds: Sequence[Round], solution: SeerSolution) -> SeerPlan:
    ended = list(_list_ended(plan, standing, rest.done))
    segments, last = ended, [segment for segment in ended if segment.round == rest.done]
    for each in rounds:
        last = write_round(rest.instance, solution, each, last, done=rest.done)
        segments = [*segments, *last]
    spent = standing.spent_gpu_hours * MINUTES_PER_HOUR + sum(each.gpus * each.duration_min for each in rounds)
    expected = {"spent_gpu_min": spent, "duration_min": rounds[-1].stop_min}
    if rest.instance.nodes_paid is not None:
        rented = _sum_rented(rest.instance, plan, standing, rest.done)
        expected["node_gpu_min"] = rented + sum_spent(rest.instance, rounds)
    return plan.replace(
        plan_id="",
        supersedes=plan.plan_id,
        objective=spent if plan.objective_unit == "GPU-min" else plan.objective,
        bound=None,
        segments=tuple(segments),
        expected=expected,
    )


def _list_ended(plan: SeerPlan, standing: Standing, done: int) -> Iterator[SkewedSegment]:
    for segment in (segment for each in plan.rounds[:done] for segment in each):
        took = standing.took[segment.id]
        cost_usd = segment.expected.cost_usd if took.cost_usd is None else took.cost_usd
        times = {"start_s": took.start_s, "seconds": took.seconds, "cost_usd": cost_usd}
        yield segment.replace(expected=segment.expected.replace(**times))


#: Relative differences below it are none.
_SAME = 1e-3


def calibrate(instance: SeerInstance, plan: SeerPlan, standing: Standing) -> tuple[SeerInstance, tuple[str, ...]]:
    """Write the mean pause after the first round, and a prior's scaling, into an instance, as measured."""
    rounds = {segment.id: segment.round for segment in plan.segments}
    again = [trial.start_s for trial in standing.trials if rounds.get(trial.segment, 1) > 1]
    scaling = None if instance.prior is None else _scale(instance.prior.scaling, standing.trials)
    if not again and scaling is None:
        raise UsageError("nothing was measured: no trial has trained in a round after the first")
    said: list[str] = []
    fields: dict[str, Any] = {}
    if again:
        fields["resize_s"] = float(np.mean(again))
        said.append(f"resize_s: {format_duration(fields['resize_s'])}, was {format_duration(instance.resize_s)}")
    if instance.prior is not None and scaling is not None:
        fields["prior"] = instance.prior.replace(scaling=scaling)
        for gpus, speedup in zip(scaling.gpus.tolist(), scaling.speedup.tolist(), strict=True):
            before = instance.prior.scaling.of(gpus)
            if not math.isclose(speedup, before, rel_tol=_SAME):
                said.append(f"prior.scaling on {gpus} GPUs: {speedup:.3g}, was {before:.3g}")
    return instance.replace(**fields), tuple(said)


def _scale(scaling: TrialScaling, trials: Sequence[MeasuredTrial]) -> TrialScaling | None:
    """Put measured speedups where there are any; relative to the narrowest width measured, which stays as it was."""
    by_width: dict[int, list[MeasuredTrial]] = {}
    for trial in trials:
        if trial.iteration_s > 0:
            by_width.setdefault(trial.gpus, []).append(trial)
    if len(by_width) < 2:
        return None
    rates = {
        gpus: sum(t.iterations for t in own) / sum(t.iterations * t.iteration_s for t in own)
        for gpus, own in sorted(by_width.items())
    }
    first = min(rates)
    measured = {gpus: scaling.of(first) * rate / rates[first] for gpus, rate in rates.items()}
    gpus = sorted({1, *map(int, scaling.gpus), *measured})
    speedup = [1.0 if each == 1 else measured.get(each, scaling.of(each)) for each in gpus]
    return TrialScaling(gpus=np.array(gpus), speedup=np.array(speedup))
