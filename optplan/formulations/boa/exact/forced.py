"""The best pure plans with options forbidden, one question after another: branch and price, without more around it.

The graphs are laid out once, and a question is a mask. Paths of earlier plans, which often are good ones of later
questions, are the first columns; all columns that a search makes would slow the next one down.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.exact.costs import cost_steps, list_amounts
from optplan.formulations.boa.exact.feasibility import state_runs
from optplan.formulations.boa.exact.paths import PathsAnswer, write_columns
from optplan.progress import Stopwatch
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.closing import follow_plan
from optplan.solvers.paths.families import NodeArray
from optplan.solvers.paths.run_problem import RunProblem
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.switching import LinkedGraphs


class ForcedPlans:
    """Answers to the same problem under one mask after another.

    It is stated as ``problem`` for the search and as ``graphs`` to add up what that finds; ``unit`` is a value of the
    size of a plan's, ``gap`` that at which a search may stop.
    """

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
