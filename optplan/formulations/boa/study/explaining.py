"""Why each class gets the GPUs that it gets: the neighbours of every choice, alone and re-solved.

For each run of epochs with the same GPUs: the next narrower and the next wider width, and each other GPU type. What a
neighbour changes when everything else stays is computed by the evaluator; what it costs to force it is the difference
between two optima: that with the choice forced, for all jobs of the class, and everything else decided anew, and that
with nothing forced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from optplan.contracts.explanation import Alternative, Direction, ExplainedChoice, Explanation
from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import MEETING, Result, Status
from optplan.errors import UnsupportedError, UsageError, nearest_name_hint
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.data.options import Options
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.paths import solve_costs
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.study.ranges import find_range
from optplan.progress import Listener, Stopwatch


def explain(
    instance: BoaInstance,
    result: Result[BoaSolution],
    only: tuple[str, ...],
    time_limit_s: float | None,
    on_event: Listener | None,
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
    listed = [choice for choice in _list_choices(instance, result.solution) if not only or choice.subject in only]
    forcing, choices = _Forcing(instance, result, time_limit_s), []
    for number, choice in enumerate(listed, start=1):
        choices.append(choice.replace(alternatives=tuple(forcing.list_alternatives(choice))))
        watch.emit("explain", fraction=number / len(listed))
    known = result.range if result.range is not None or instance.floors else find_range(instance, result)
    return Explanation(
        **instance.origin(),
        solver=result.solver,
        objective=result.objective,
        objective_unit=result.objective_unit,
        best_objective=forcing.objective,
        best_bound=forcing.bound,
        budget_unit=instance.budget_unit.value,
        multipliers=result.certificates[0].multipliers if result.certificates else {},
        choices=tuple(forcing.settle(choice) for choice in choices),
        measurements=known.measurements if known is not None else (),
        seconds=watch.elapsed_s,
    )


class _Forcing:
    """Re-solves with one choice forced; the same question is asked of the engine once."""

    def __init__(self, instance: BoaInstance, result: Result[BoaSolution], time_limit_s: float | None) -> None:
        assert result.solution is not None
        assert result.objective is not None
        self._instance, self._solution = instance, result.solution
        self._judged = evaluate(instance, result.solution)
        self._gap, self._time_limit_s = result.gap_target, time_limit_s
        self._costs = cost_steps(instance)
        #: objective, bound: Of the best plan found so far, forced or not: an optimal result's own, or solved anew.
        self.objective, self.bound = result.objective, result.bound
        if result.status is not Status.OPTIMAL:
            objective, bound = self._solve(self._costs)
            self.objective = self.objective if objective is None else min(self.objective, objective)
            self.bound = max((value for value in (self.bound, bound) if value is not None), default=None)
        self._known: dict[tuple[str, bytes], tuple[float | None, float | None]] = {}

    def list_alternatives(self, choice: ExplainedChoice) -> Iterator[Alternative]:
        """Yield the alternatives of a choice, each forced."""
        name, options = choice.subject, self._instance.options(choice.subject)
        columns = [options.find(each.gpu_types, each.widths) for each in self._solution.branches[name]]
        epochs, column = slice(choice.first - 1, choice.last), int(columns[choice.branch - 1][choice.first - 1])
        own = options.of_type(options.gpu_types[options.group[column]])
        for direction, other in ((Direction.NARROWER, column - 1), (Direction.WIDER, column + 1)):
            if own.start <= other < own.stop:
                alone = Alternative(
                    direction=direction,
                    label=label_option(self._instance, options, other),
                    **self._change_alone(choice, int(options.widths[other])),
                )
                yield self._force(name, epochs, slice(other, other + 1), alone)
        for gpu_type in options.gpu_types:
            if options.of_type(gpu_type) != own:
                any_width = Alternative(direction=Direction.OTHER_TYPE, label=f"any {gpu_type}")
                yield self._force(name, epochs, options.of_type(gpu_type), any_width)
        if np.unique(np.concatenate(columns)).size > 1:
            throughout = Alternative(direction=Direction.ONE_WIDTH, label=f"{choice.label}, always")
            yield self._force(name, slice(None), slice(column, column + 1), throughout)

    def settle(self, choice: ExplainedChoice) -> ExplainedChoice:
        """Return the choice with the costs of its alternatives, once the best plan is known for good."""
        settled = []
        for one in choice.alternatives:
            objective, bound, cost = one.forced_objective, one.forced_bound, None
            if bound is not None and self.bound is not None:
                # Forcing only takes plans away, so what bounds all of them bounds those that are left.
                bound = max(bound, self.bound)
                bound = bound if objective is None else min(bound, objective)
            if objective is not None:
                cost = objective - self.objective
                cost = 0.0 if abs(cost) <= self._tell_apart(self.objective) else cost
            settled.append(one.replace(forced_bound=bound, forced_cost=cost))
        return choice.replace(alternatives=tuple(settled))

    def _change_alone(self, choice: ExplainedChoice, width: int) -> dict[str, float]:
        """Return what another width changes when everything else stays."""
        branches = list(self._solution.branches[choice.subject])
        branch = branches[choice.branch - 1]
        widths = branch.widths.copy()
        widths[choice.first - 1 : choice.last] = width
        branches[choice.branch - 1] = branch.replace(widths=widths)
        solution = BoaSolution(branches={**self._solution.branches, choice.subject: tuple(branches)})
        changed = evaluate(self._instance, solution)
        return {
            "objective_change": changed.objective - self._judged.objective,
            "budget_change": changed.consumption[BUDGET] - self._judged.consumption[BUDGET],
        }

    def _force(self, name: str, epochs: slice, columns: slice, alternative: Alternative) -> Alternative:
        """Return the alternative with the best objective, and its bound, of a class held to some options for a time."""
        kept = np.ones((self._instance.classes[name].num_epochs, self._instance.options(name).widths.size), np.bool_)
        kept[epochs] = False
        kept[epochs, columns] = True
        key = (name, kept.tobytes())
        if key not in self._known:
            self._known[key] = self._solve(
                [
                    replace(each, run_value=np.where(kept, each.run_value, np.inf)) if each.name == name else each
                    for each in self._costs
                ]
            )
        objective, bound = self._known[key]
        # A forced plan is a plan of the problem, too, and may be better than the best one known.
        if objective is not None and objective < self.objective - self._tell_apart(self.objective):
            self.objective = objective
        return alternative.replace(forced_objective=objective, forced_bound=bound)

    def _tell_apart(self, objective: float) -> float:
        """Return the least difference from an objective that is not for want of searching on."""
        return max(self._gap, MEETING) * objective

    def _solve(self, costs: Sequence[PathCosts]) -> tuple[float | None, float | None]:
        found = solve_costs(self._instance, costs, gap=self._gap, stopwatch=Stopwatch(self._time_limit_s))
        return (None, None) if found is None else (found.objective, found.bound)


def label_option(instance: BoaInstance, options: Options, column: int) -> str:
    """Name an option as users speak of it: ``8 GPUs``, or ``8 a100`` where there are several types."""
    width = int(options.widths[column])
    if len(instance.gpu_types) == 1:
        return "1 GPU" if width == 1 else f"{width} GPUs"
    return f"{width} {options.gpu_types[options.group[column]]}"


def _list_choices(instance: BoaInstance, solution: BoaSolution) -> Iterator[ExplainedChoice]:
    """Yield each run of epochs of a branch in which a class holds one option, still without alternatives."""
    for name in instance.classes:
        options = instance.options(name)
        for number, branch in enumerate(solution.branches[name], start=1):
            held = options.find(branch.gpu_types, branch.widths)
            cuts = [0, *(np.flatnonzero(np.diff(held)) + 1).tolist(), held.size]
            for first, end in pairwise(cuts):
                yield ExplainedChoice(
                    subject=name,
                    branch=number,
                    share=branch.fraction,
                    first=first + 1,
                    last=end,
                    label=label_option(instance, options, int(held[first])),
                    alternatives=(),
                )
