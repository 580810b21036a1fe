"""Why each class gets the GPUs that it gets: the neighbours of every choice, alone and re-solved.

For each run of epochs with the same GPUs: the next narrower and the next wider width, and each other GPU type. What a
neighbour changes when everything else stays is computed by the evaluator; what it costs to force it is the difference
between two optima: that with the choice forced, for all jobs of the class, and everything else decided anew, and that
with nothing forced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.explanation import Alternative, Direction, ExplainedChoice, Explanation
from optplan.contracts.judgement import Evaluation
from optplan.contracts.result import MEETING, Result, Status
from optplan.errors import UnsupportedError, UsageError, nearest_name_hint
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.data.options import Options
from optplan.formulations.boa.exact.costs import cost_steps, list_amounts
from optplan.formulations.boa.exact.feasibility import state_runs
from optplan.formulations.boa.exact.paths import PathsAnswer, solve_costs, write_columns
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.study.ranges import find_range
from optplan.progress import Listener, Stopwatch
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.closing import follow_plan
from optplan.solvers.paths.families import NodeArray
from optplan.solvers.paths.run_problem import RunProblem
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.switching import LinkedGraphs


class ForcedPlans:
    """The best pure plans with options forbidden: branch and price under one mask after another, laid out once."""

    # ``graphs`` add up what the search finds; ``unit`` is a value of the size of a plan's. Paths of earlier
    # plans are the first columns; all columns that a search makes would slow the next one down.

    def __init__(
        self, instance: BoaInstance, problem: RunProblem, graphs: LinkedGraphs, unit: float, gap: float
    ) -> None:
        self._instance, self._problem, self._graphs = instance, problem, graphs
        self._unit, self._gap = unit, gap
        self._closed = np.array(problem.graphs.closed)
        self._known: list[NodeArray] = []

    @classmethod
    def state(cls, instance: BoaInstance, unit: float, gap: float) -> ForcedPlans | None:
        """State the problem; None where pure plans within several limits are not what is asked for, or it is large."""
        costs, amounts = cost_steps(instance), list_amounts(instance)
        if instance.policy is not Policy.PURE or (amounts.size == 1 and all(each.num_groups == 1 for each in costs)):
            return None
        problem = state_runs(instance, costs, amounts)
        return None if problem is None else cls(instance, problem, LinkedGraphs.from_costs(costs, amounts), unit, gap)

    def solve(self, name: str, kept: NDArray[np.bool_], stopwatch: Stopwatch) -> PathsAnswer | None:
        """Find the best plan in which a class holds only some options (E, K); None where provably none does."""
        graph, options = list(self._instance.classes).index(name), kept.shape[1]
        closed = np.asarray(self._problem.graphs.closed)
        closed[:] = self._closed
        rows = slice(int(self._problem.starts[graph]), int(self._problem.starts[graph + 1]))
        closed[rows, :options] |= ~kept
        search = BranchAndPrice(self._problem, self._unit, self._gap, Effort(stopwatch), known=self._known)
        stopped = False
        try:
            search.run(TUNING.most_parts)
        except OutOfEffortError:
            stopped = True
        bound = max(0.0, search.bound)
        if search.plan is None:  # only a search that ran to its end proves that there is no plan
            return PathsAnswer(None, None, bound) if stopped or not math.isinf(bound) else None
        self._known.append(search.plan)
        paths = follow_plan(self._graphs, search.plan)
        value = paths.total_value
        # What is cut off at the plan's value is cut off a few roundings below it.
        bound = value if value <= bound * (1.0 + 4.0 * ROUNDING) else bound
        return PathsAnswer(write_columns(self._instance, paths.payload), value, bound)


#: By class, which options (E, K) its jobs may hold in which epochs; classes that are not named keep all.
_Kept = Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True)
class _Place:
    """A run of epochs (from ``first`` to before ``end``) of a branch in which a class holds one option."""

    name: str
    number: int
    branch: Branch
    first: int
    end: int
    column: int


@dataclass(frozen=True)
class _Forced:
    """The best objective of a forced choice and its bound, as of :class:`~optplan.contracts.Alternative`."""

    objective: float | None
    bound: float | None


def explain(
    instance: BoaInstance,
    result: Result[BoaSolution],
    *,
    only: tuple[str, ...] = (),
    time_limit_s: float | None = None,
    on_event: Listener | None = None,
) -> Explanation:
    """Explain the widths of a result; changes of the budget are in ``instance.budget_unit``.

    Where the result is not optimal, the problem is solved anew: forcing is compared with the best plan.
    ``time_limit_s`` is for each re-solve; what is not proven by then has a bound below its objective.
    """
    if result.solution is None or result.objective is None:
        raise UsageError(f"there is no solution to explain (status {result.status})")
    if instance.problem is Problem.CONTINUOUS:
        raise UnsupportedError(
            "in the continuous problem every width has the same marginal rate, the shadow price, and nothing is chosen "
            "between neighbours; explain a result of the problem whole or rescaling"
        )
    if without := instance.bound_by_law:
        raise UnsupportedError(
            f"explanations are of instances without {without} only: the changed plans would not keep it; leave it out"
        )
    for name in only:
        if name not in instance.classes:
            message = f"no class {name!r} in {instance.name!r}; {nearest_name_hint(name, list(instance.classes))}"
            raise UsageError(message)
    watch = Stopwatch(None, on_event)
    judged = evaluate(instance, result.solution)
    places = [place for place in _list_places(instance, result.solution) if not only or place.name in only]
    forcing = _Forcing(instance, result.gap_target, time_limit_s)
    forcing.find_best(result)
    choices = []
    for number, place in enumerate(places, start=1):
        choices.append(_explain_place(instance, result.solution, judged, place, forcing))
        watch.emit("explain", fraction=number / len(places))
    best = forcing.best
    known = result.range if result.range is not None or instance.floors else find_range(instance, result)
    return Explanation(
        **instance.origin(),
        solver=result.solver,
        objective=result.objective,
        objective_unit=result.objective_unit,
        best_objective=best.objective,
        best_bound=best.bound,
        budget_unit=instance.budget_unit.value,
        multipliers=result.certificates[0].multipliers if result.certificates else {},
        choices=tuple(forcing.settle(choice) for choice in choices),
        measurements=known.measurements if known is not None else (),
        seconds=watch.elapsed_s,
    )


class _Forcing:
    """Re-solves with one choice forced; the same question is asked of the engine once."""

    def __init__(self, instance: BoaInstance, gap: float, time_limit_s: float | None) -> None:
        self._instance = instance
        self._gap = gap
        self._time_limit_s = time_limit_s
        self._costs = cost_steps(instance)
        #: The least objective found so far, forced or not, and its bound.
        self.best = _Forced(None, None)
        self._known: dict[tuple[str, bytes], _Forced] = {}
        self._plans: ForcedPlans | None = None

    def find_best(self, result: Result[BoaSolution]) -> None:
        """Find the best plan with nothing forced: that of an optimal result, or solved anew."""
        assert result.objective is not None
        self._plans = ForcedPlans.state(self._instance, result.objective or 1.0, self._gap)
        if result.status is Status.OPTIMAL:
            self.best = _Forced(result.objective, result.bound)
            return
        found = self._solve({})
        self.best = _Forced(
            min(value for value in (result.objective, found.objective) if value is not None),
            max((bound for bound in (result.bound, found.bound) if bound is not None), default=None),
        )

    def force(self, name: str, kept: _Kept, alternative: Alternative) -> Alternative:
        """Return the alternative with the best objective, and its bound, when it is forced."""
        key = (name, kept[name].tobytes())
        if key not in self._known:
            self._known[key] = self._solve(kept)
            self._note(self._known[key])
        forced = self._known[key]
        return alternative.replace(forced_objective=forced.objective, forced_bound=forced.bound)

    def settle(self, choice: ExplainedChoice) -> ExplainedChoice:
        """Return the choice with the costs of its alternatives, once the best plan is known for good."""
        settled = []
        for one in choice.alternatives:
            objective, bound, cost = one.forced_objective, one.forced_bound, None
            if bound is not None and self.best.bound is not None:
                # Forcing only takes plans away, so what bounds all of them bounds those that are left.
                bound = max(bound, self.best.bound)
                bound = bound if objective is None else min(bound, objective)
            if objective is not None and self.best.objective is not None:
                cost = objective - self.best.objective
                cost = 0.0 if abs(cost) <= self._tell_apart(self.best.objective) else cost
            settled.append(one.replace(forced_bound=bound, forced_cost=cost))
        return choice.replace(alternatives=tuple(settled))

    def _note(self, forced: _Forced) -> None:
        """Take over a forced plan that is better than the best one known: it is a plan of the problem, too."""
        best = self.best.objective
        if forced.objective is not None and best is not None and forced.objective < best - self._tell_apart(best):
            self.best = _Forced(forced.objective, self.best.bound)

    def _tell_apart(self, objective: float) -> float:
        """Return the least difference from an objective that is not for want of searching on."""
        return max(self._gap, MEETING) * objective

    def _solve(self, kept: _Kept) -> _Forced:
        """Find the best plan whose classes hold only what they may."""
        watch = Stopwatch(self._time_limit_s)
        if self._plans is not None and kept:
            ((name, options),) = kept.items()
            found = self._plans.solve(name, options, watch)
            return _Forced(None, None) if found is None else _Forced(found.objective, found.bound)
        costs = [
            replace(graph, run_value=np.where(kept[graph.name], graph.run_value, np.inf))
            if graph.name in kept
            else graph
            for graph in self._costs
        ]
        found = solve_costs(self._instance, costs, gap=self._gap, stopwatch=watch)
        return _Forced(None, None) if found is None else _Forced(found.objective, found.bound)


def label_option(instance: BoaInstance, options: Options, column: int) -> str:
    """Name an option as users speak of it: ``8 GPUs``, or ``8 a100`` where there are several types."""
    width = int(options.widths[column])
    if len(instance.gpu_types) == 1:
        return "1 GPU" if width == 1 else f"{width} GPUs"
    return f"{width} {options.gpu_types[options.group[column]]}"


def _list_places(instance: BoaInstance, solution: BoaSolution) -> Iterator[_Place]:
    for name in instance.classes:
        options = instance.options(name)
        for number, branch in enumerate(solution.branches[name], start=1):
            held = options.find(branch.gpu_types, branch.widths)
            firsts = np.flatnonzero(np.concatenate(([True], np.diff(held) != 0)))
            ends = np.append(firsts[1:], held.size)
            for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
                yield _Place(name, number, branch, first, end, int(held[first]))


def _explain_place(
    instance: BoaInstance, solution: BoaSolution, judged: Evaluation, place: _Place, forcing: _Forcing
) -> ExplainedChoice:
    options = instance.options(place.name)
    alternatives = []
    own = options.of_type(options.gpu_types[options.group[place.column]])
    for direction, column in ((Direction.NARROWER, place.column - 1), (Direction.WIDER, place.column + 1)):
        if own.start <= column < own.stop:
            alone = _change_alone(instance, solution, judged, place, direction, column)
            alternatives.append(forcing.force(place.name, _keep(instance, place, slice(column, column + 1)), alone))
    for gpu_type in options.gpu_types:
        pairs = options.of_type(gpu_type)
        if pairs != own:
            other = Alternative(direction=Direction.OTHER_TYPE, label=f"any {gpu_type}")
            alternatives.append(forcing.force(place.name, _keep(instance, place, pairs), other))
    if _hold_several(solution.branches[place.name]):
        one = slice(place.column, place.column + 1)
        throughout = Alternative(
            direction=Direction.ONE_WIDTH, label=f"{label_option(instance, options, place.column)}, always"
        )
        alternatives.append(forcing.force(place.name, _keep(instance, place, one, throughout=True), throughout))
    return ExplainedChoice(
        subject=place.name,
        branch=place.number,
        share=place.branch.fraction,
        first=place.first + 1,
        last=place.end,
        label=label_option(instance, options, place.column),
        alternatives=tuple(alternatives),
    )


def _hold_several(branches: tuple[Branch, ...]) -> bool:
    """Whether the jobs of a class do not all hold the same all the time."""
    widths = {width for branch in branches for width in branch.widths.tolist()}
    return len(widths) > 1 or len({gpu_type for branch in branches for gpu_type in branch.gpu_types or ()}) > 1


def _change_alone(
    instance: BoaInstance,
    solution: BoaSolution,
    judged: Evaluation,
    place: _Place,
    direction: Direction,
    column: int,
) -> Alternative:
    options = instance.options(place.name)
    widths = place.branch.widths.copy()
    widths[place.first : place.end] = options.widths[column]
    branches = list(solution.branches[place.name])
    branches[place.number - 1] = place.branch.replace(widths=widths)
    changed = evaluate(instance, BoaSolution(branches={**solution.branches, place.name: tuple(branches)}))
    return Alternative(
        direction=direction,
        label=label_option(instance, options, column),
        objective_change=changed.objective - judged.objective,
        budget_change=changed.consumption[BUDGET] - judged.consumption[BUDGET],
    )


def _keep(instance: BoaInstance, place: _Place, columns: slice, *, throughout: bool = False) -> _Kept:
    """Allow a class only some options in the place's epochs (throughout: in all)."""
    options, epochs = instance.options(place.name), instance.classes[place.name].num_epochs
    kept = np.ones((epochs, options.widths.size), dtype=np.bool_)
    forced = slice(0, epochs) if throughout else slice(place.first, place.end)
    kept[forced] = False
    kept[forced, columns] = True
    return {place.name: kept}
