"""A search that has not gone as planned: the stages that are left, planned with what is left."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from optplan.contracts.conditions import Promoted
from optplan.contracts.result import Infeasibility, Relaxation, Result
from optplan.contracts.standing import Continuation, Solver, Standing
from optplan.errors import DataError, UnsupportedError
from optplan.formulations.rubberband.data.experiment import Experiment, StagesExperiment
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.judge.evaluation import growth
from optplan.formulations.rubberband.planning import (
    RubberBandPlan,
    SearchStage,
    allocations_of,
    describe_resource,
    experiment_of,
    time_stages,
)
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.units import Amount, BudgetUnit, format_duration

#: Stands for what is left where nothing is: limits are above zero.
_LEAST = 1e-6


def continue_plan(
    instance: RubberBandInstance, plan: RubberBandPlan, standing: Standing, solve: Solver
) -> Continuation:
    """Plan the stages that are left with the time or the money that is left: from nothing held, and with discounts."""
    # Of these plans and the one that was followed, the best counts once they are timed from the instances held.
    if len(instance.brackets) > 1:
        raise UnsupportedError("its brackets run side by side, each as far as it is; only one chain is planned anew")
    done = sum(1 for segment in plan.segments if segment.id in standing.took)
    instance = instance.replace(experiment=experiment_of(instance, plan))
    whole = instance.replace(experiment=_drop_failed(instance, plan, standing, done))
    stages = whole.brackets[0][done:]
    if any(after.trials > before.trials for before, after in pairwise(stages)):
        raise UnsupportedError("another bracket with more trials is still to come")
    rest = _limit_room(whole.replace(experiment=StagesExperiment(stages=stages)), standing)
    going = _Rest(whole, plan, standing, done)
    if instance.asks_for_both and instance.ceiling is not None:
        return _keep_both(going, rest, standing, solve)
    limit, left = _what_is_left(instance, standing, instance.limit_name)
    growth_s, growth_usd = growth(instance, 0, len(_list_held(plan, standing)))
    saved = float(growth_s if instance.objective is Objective.COST else growth_usd)
    chosen = _choose(going, rest.without_ceiling(), left, saved, solve)
    if isinstance(chosen, float):
        return Continuation(
            None, _explain(instance.limit_name, limit, left, chosen, enough=instance.confidence is None)
        )
    # The best plan for the rest keeps a ceiling of the objective if any does.
    if instance.ceiling is not None:
        ceiling, room = _what_is_left(instance, standing, instance.ceiling_name)
        if chosen.objective > ceiling * (1.0 + LIMIT_TOLERANCE):
            needed = chosen.objective - (ceiling - room)
            return Continuation(None, _explain(instance.ceiling_name, ceiling, room, needed))
    return Continuation(chosen)


class _Rest:
    """What is left of a search, and what an allocation of it takes, from the instances that are held."""

    def __init__(self, whole: RubberBandInstance, plan: RubberBandPlan, standing: Standing, done: int) -> None:
        self._whole, self._plan, self._standing, self._done = whole, plan, standing, done
        self.old = allocations_of(plan)[0]

    def build(self, chain: Sequence[StageAllocation], result: Result[Any] | None) -> RubberBandPlan:
        solution = RubberBandSolution(brackets=((*self.old[: self._done], *chain),))
        timed = time_stages(self._whole, solution, 0)
        first, *later = timed[self._done :]
        late_s = self._standing.now_s - first.expected.start_s
        grown = self._grow(first)
        later_s = late_s + grown.expected.seconds - first.expected.seconds
        segments = [*self._ended(first.nodes), _shift(grown, late_s), *(_shift(stage, later_s) for stage in later)]
        time_s, usd = self.measure(segments)
        expected = {
            "expected_s": self._standing.now_s + time_s,
            "expected_usd": (self._standing.spent_usd or 0.0) + usd,
        }
        return self._plan.replace(
            plan_id="",
            supersedes=self._plan.plan_id,
            instance_hash=self._plan.instance_hash if result is None else result.instance_hash,
            solver=self._plan.solver if result is None else result.solver,
            objective=expected["expected_usd" if self._whole.objective is Objective.COST else "expected_s"],
            bound=None,  # of the rest from nothing, and this one goes on from what is held
            resources={name: describe_resource(self._whole) for name in self._plan.resources},
            segments=tuple(segments),
            expected=expected,
        )

    def measure(self, segments: Sequence[SearchStage]) -> tuple[float, float]:
        """Return seconds and US dollars that the stages take which are left, and what is due where they shrink."""
        rest = segments[self._done :]
        usd = sum(each.expected.cost_usd or 0.0 for each in rest) + self._charge(rest[0].nodes)
        return sum(each.expected.seconds for each in rest), usd

    def _charge(self, nodes: int) -> float:
        """Return what instances that are given back now have not used up of their minimum charge."""
        held, cloud = _list_held(self._plan, self._standing), self._whole.cloud
        if not cloud.is_per_instance:
            return 0.0
        short_s = (max(0.0, cloud.minimum_charge_s - paid_s) for paid_s in held[: max(0, len(held) - nodes)])
        return sum(short_s) * cloud.price_usd_per_s

    def _grow(self, first: SearchStage) -> SearchStage:
        """Let the first stage grow from what is held, which may be less than the stage before it had."""
        before = self._plan.segments[self._done - 1].nodes if self._done else 0
        held = min(before, len(_list_held(self._plan, self._standing)))
        was, now = growth(self._whole, before, first.nodes), growth(self._whole, held, first.nodes)
        more_s, more_usd = (float(new - old) for new, old in zip(now, was, strict=True))
        took = first.expected
        times = {name: getattr(took, name) + more_s for name in ("seconds", "pause_s", "launch_s")}
        expected = took.replace(**times, cost_usd=(took.cost_usd or 0.0) + more_usd)
        return first.replace(expected=expected, growth_usd=first.growth_usd + more_usd)

    def _ended(self, nodes: int) -> Iterator[SearchStage]:
        """Yield the stages that have ended as they went; the last one pays for what is given back now."""
        last = self._plan.segments[self._done - 1].id
        for stage in self._plan.segments[: self._done]:
            took = self._standing.took[stage.id]
            cost_usd = stage.expected.cost_usd if took.cost_usd is None else took.cost_usd
            cost_usd = (cost_usd or 0.0) + (self._charge(nodes) if stage.id == last else 0.0)
            times = {"start_s": took.start_s, "seconds": took.seconds, "cost_usd": cost_usd}
            yield stage.replace(expected=stage.expected.replace(**times))


def _list_held(plan: RubberBandPlan, standing: Standing) -> tuple[float, ...]:
    return standing.held.get(plan.segments[0].pool, ())


def _choose(
    rest: _Rest, instance: RubberBandInstance, left: float, saved: float, solve: Solver
) -> RubberBandPlan | float:
    """Return the best plan for the rest that keeps what is left, or else how much of it the rest needs."""
    by_cost, is_sure = instance.objective is Objective.COST, instance.confidence is None
    plans: list[RubberBandPlan] = []
    needed = math.inf
    for amount in [left, left + saved] if is_sure and saved else [left]:
        result = solve(_limit(instance, max(amount, _LEAST)))
        if result.solution is not None:
            plans.append(rest.build(result.solution.brackets[0], result))
        elif result.infeasibility is not None and result.infeasibility.relaxations:
            needed = result.infeasibility.relaxations[0].least_feasible
    if not is_sure and left > 0:  # whether a probability is kept, the solver has judged
        if not plans and needed == math.inf:
            raise _nothing_found(result)
        return plans[0] if plans else needed
    if not plans and needed < math.inf:  # the quickest, or the cheapest: it may do from what is held
        result = solve(_limit(instance, needed * (1.0 + LIMIT_TOLERANCE)))
        plans += [] if result.solution is None else [rest.build(result.solution.brackets[0], result)]
    with contextlib.suppress(DataError):  # fewer trials may not run on as many GPUs
        plans.append(rest.build(rest.old[len(rest.old) - len(instance.brackets[0]) :], None))
    takes = [rest.measure(plan.segments) for plan in plans]
    fitting = [number for number, taken in enumerate(takes) if taken[not by_cost] <= left * (1.0 + LIMIT_TOLERANCE)]
    if fitting:
        return plans[min(fitting, key=lambda number: (takes[number][by_cost], takes[number]))]
    # A run that cannot go on gives back what it holds: it would begin from nothing.
    return needed if needed < math.inf else min((taken[not by_cost] for taken in takes), default=needed)


def _drop_failed(instance: RubberBandInstance, plan: RubberBandPlan, standing: Standing, done: int) -> Experiment:
    """Return the search without the trials that were given up, where those that are left are fewer than planned."""
    stages = instance.brackets[0]
    if not done or done == len(stages) or not isinstance(plan.segments[done].enter, Promoted):
        return instance.experiment
    alive = standing.alive[plan.segments[done - 1].id]
    if not alive:
        raise UnsupportedError("no trial is left")
    if alive >= stages[done].trials:
        return instance.experiment
    rest = (stage.replace(trials=min(stage.trials, alive)) for stage in stages[done:])
    return StagesExperiment(stages=(*stages[:done], *rest))


def _limit_room(instance: RubberBandInstance, standing: Standing) -> RubberBandInstance:
    if "gpus" not in standing.limits:
        return instance
    room = max(1, int(standing.limits["gpus"]) // instance.cloud.gpus_per_instance)
    most = min(room, instance.cloud.most_instances or room)
    return instance.replace(cloud=instance.cloud.replace(most_instances=most))


def _limit(instance: RubberBandInstance, amount: float) -> RubberBandInstance:
    if instance.objective is Objective.COST:
        return instance.replace(deadline_s=amount)
    return instance.replace(budget=Amount(amount, BudgetUnit.USD))


def _keep_both(rest: _Rest, instance: RubberBandInstance, standing: Standing, solve: Solver) -> Continuation:
    """Plan the rest so that what is left of both limits is kept with the confidence: the solver judges that."""
    limits = {name: _what_is_left(instance, standing, name) for name in instance.limits}
    for name, (limit, left) in limits.items():
        if left <= 0.0:
            return Continuation(None, _explain(name, limit, left, 0.0))
    usd = Amount(limits[BUDGET][1], BudgetUnit.USD)
    result = solve(instance.replace(deadline_s=limits[DEADLINE][1], budget=usd))
    if result.solution is not None:
        return Continuation(rest.build(result.solution.brackets[0], result))
    claim = result.infeasibility
    if claim is None:
        raise _nothing_found(result)
    for one in claim.relaxations:
        return Continuation(None, _explain(one.limit, *limits[one.limit], one.least_feasible, enough=False))
    return Continuation(None, claim)


def _nothing_found(result: Result[Any]) -> UnsupportedError:
    return UnsupportedError("; ".join(result.warnings) or f"no plan was found (stopped: {result.termination.value})")


def _what_is_left(instance: RubberBandInstance, standing: Standing, name: str) -> tuple[float, float]:
    limit = standing.limits[name] if name in standing.limits else instance.limits[name]
    return limit, limit - (standing.now_s if name == DEADLINE else standing.spent_usd or 0.0)


def _explain(name: str, limit: float, left: float, needed: float, *, enough: bool = True) -> Infeasibility:
    """Say what the rest needs of a limit, and which limit would do; or may, where so much is not known to be enough."""
    in_time = name == DEADLINE

    def write(amount: float) -> str:
        return format_duration(amount) if in_time else f"${amount:,.2f}"

    what = f"{write(max(left, 0.0))} of the {name} of {write(limit)} are left"
    verb = "takes" if in_time else "costs"
    reason = (
        f"the rest {verb} at least {write(needed)}, and {what}; a {name} of {write(limit - left + needed)} "
        f"{'would' if enough else 'may'} do"
    )
    relaxation = Relaxation(
        limit=name, given=limit, least_feasible=limit - left + needed, unit="s" if in_time else "usd"
    )
    return Infeasibility(reason=reason, relaxations=(relaxation,))


def _shift(stage: SearchStage, seconds: float) -> SearchStage:
    return stage.replace(expected=stage.expected.replace(start_s=stage.expected.start_s + seconds))
