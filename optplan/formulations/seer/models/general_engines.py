"""Spending the budget on general engines: CP-SAT, and looking at every choice. The independent checks of the exact one.

For CP-SAT a bracket is one row out of its list (a literal for each), amounts are whole multiples of a unit: t_1 where
everything is a multiple of it, else the budget over 2^40, and then its bound is widened by what rounding can hide. Ties
are broken by solving again with what was reached as a constraint.
"""

from __future__ import annotations

import itertools
import math
from importlib.metadata import version
from typing import Any

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Termination
from optplan.errors import UnsupportedError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with
from optplan.formulations.seer.exact.feasibility import infeasible_answer
from optplan.formulations.seer.exact.rows import SpendProblem, list_rows
from optplan.formulations.seer.exact.spending import TIE
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.engine_process import Report
from optplan.solvers.programs.cpsat import call_with_cp_sat, new_solver, solve_watched

#: Most choices that enumeration looks at.
MOST_CHOICES = 300_000
#: Units that a budget is divided into where amounts are no multiples of t_1.
_RESOLUTION = 2.0**40
#: What CP-SAT has found: a row of each bracket, the bound, how it ended, and how much was done.
_Spent = tuple[tuple[int, ...], float, Termination, dict[str, float]]
#: Units that the GPUs of a cluster are counted in; one of them, and one for each bracket, is a rounding error.
_HELD = 2**40


def solve_cp_sat(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget with CP-SAT.

    The bound is CP-SAT's word. Ties are broken as long as the time lasts. One worker, so the same request gives the
    same answer.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model or fails.
    """
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    problem = list_rows(instance, published)
    request.stopwatch.emit("cp-sat", bound=instance.budget_gpu_min)
    published_rows = (0,) * len(problem.brackets)
    nothing_yet: _Spent = (published_rows, math.inf, Termination.TIME_LIMIT, {"solves": 0.0, "branches": 0.0})
    found = call_with_cp_sat(_spend, (problem, request.seed), request.stopwatch) or nothing_yet
    rows, bound, termination, counters = found
    if not problem.complete:
        bound, termination = instance.budget_gpu_min, Termination.WORK_LIMIT
    return answer_with(
        instance,
        request,
        problem.write(rows),
        bound=bound,
        proof=BoundProof.ENGINE,
        termination=termination,
        counters=counters,
        engine=("CP-SAT", version("ortools")),
    )


def _spend(problem: SpendProblem, seed: int, stopwatch: Stopwatch, report: Report[_Spent] | None = None) -> _Spent:
    """Maximise what is trained, then what breaks ties, with CP-SAT in this process."""
    run = _Run(problem, SolveRequest(seed=seed, stopwatch=stopwatch))
    termination = run.maximise(run.training)
    rows, bound = run.rows, run.bound()
    scaled = True
    for amounts, is_scaled in run.tie_breakers() if termination is Termination.COMPLETED else ():
        if report is not None:
            report((rows, bound, Termination.TIME_LIMIT, run.counters()))
        run.keep(scaled=scaled)
        scaled = is_scaled
        if run.maximise(amounts) is not Termination.COMPLETED:
            termination = Termination.TIME_LIMIT
            break
        rows = run.rows
    return rows, bound, termination, run.counters()


class _Run:
    """One model, maximised again and again."""

    def __init__(self, problem: SpendProblem, request: SolveRequest) -> None:
        from ortools.sat.python import cp_model

        self.problem = problem
        self.request = request
        self.rows = (0,) * len(problem.brackets)
        self.solves = self.branches = 0
        self.unit = _find_unit(problem)
        brackets = problem.brackets
        self.training = self._scale([each.training_gpu_min for each in brackets])
        self.model = cp_model.CpModel()
        self.literals = [[self.model.new_bool_var("") for _ in range(each.size)] for each in brackets]
        self._all = [literal for row in self.literals for literal in row]
        for row in self.literals:
            self.model.add_exactly_one(row)
            self.model.add_hint(row[0], 1)
        most = math.floor(problem.most_gpu_min / self.unit)
        if problem.gpus_per_node is None:
            spent = self._scale([each.spent_gpu_min for each in brackets])
            self.model.add(cp_model.LinearExpr.weighted_sum(self._all, spent) <= max(most, self._published(spent)))
        else:
            self._pay_nodes(problem.gpus_per_node, most)
        if math.isfinite(problem.cluster_gpus):
            held = [round(gpus / problem.cluster_gpus * _HELD) for each in brackets for gpus in each.held_gpus.tolist()]
            self.model.add(cp_model.LinearExpr.weighted_sum(self._all, held) <= _HELD + len(brackets))
        self._objective: Any = None
        self._reached = 0
        self._bound = math.inf

    def _pay_nodes(self, per_node: int, most: int) -> None:
        """Let as many nodes be paid in each round as its GPUs fill: sizes and node divide one another in a row."""
        from ortools.sat.python import cp_model

        brackets = self.problem.brackets
        round_units = self._scale([per_node * self.problem.round_minutes])
        paid = []
        for number, units in enumerate(round_units):
            gpus = [int(round(each.gpus) * n) for each in brackets for n in each.trials[:, number].tolist()]
            nodes = self.model.new_int_var(0, -(-sum(gpus) // per_node), "")
            self.model.add(per_node * nodes >= cp_model.LinearExpr.weighted_sum(self._all, gpus))
            paid.append(units * nodes)
        self.model.add(sum(paid) <= most)

    def maximise(self, amounts: list[int]) -> Termination:
        """Maximise a sum of amounts, one for each row of each bracket; the best rows so far are kept."""
        from ortools.sat.python import cp_model

        self._objective = cp_model.LinearExpr.weighted_sum(self._all, amounts)
        self.model.maximize(self._objective)
        solver = new_solver(self.request.seed)
        name = solve_watched(solver, self.model, self.request.stopwatch, is_feasible=True)
        self.solves += 1
        self.branches += solver.num_branches
        # Before the search has begun, CP-SAT's bound is zero, whatever the problem.
        self._bound = math.inf if name == "UNKNOWN" else solver.best_objective_bound
        if name != "UNKNOWN":
            self.rows = tuple(
                next(number for number, literal in enumerate(row) if solver.boolean_value(literal))
                for row in self.literals
            )
            self._reached = round(solver.objective_value)
        return Termination.COMPLETED if name == "OPTIMAL" else Termination.TIME_LIMIT

    def keep(self, *, scaled: bool) -> None:
        """Let what was reached last be a constraint; ties of rounded amounts differ by a unit for each bracket."""
        slack = 2 * len(self.literals) if scaled and self.unit != self.problem.round_min else 0
        self.model.add(self._objective >= self._reached - slack)

    def counters(self) -> dict[str, float]:
        """Return how much was done."""
        return {"solves": float(self.solves), "branches": float(self.branches)}

    def bound(self) -> float:
        """Return the bound of the objective maximised last, in GPU-minutes, widened by what rounding can hide."""
        hidden = 0 if self.unit == self.problem.round_min else len(self.literals)
        return (round(self._bound) + hidden) * self.unit if math.isfinite(self._bound) else math.inf

    def tie_breakers(self) -> list[tuple[list[int], bool]]:
        """List what is maximised among ties, in that order, and whether it is in units."""
        brackets = self.problem.brackets
        last = self._scale([each.last_round_gpu_min for each in brackets])
        trials = [int(number) for each in brackets for number in each.trials[:, 0]]
        widest = [
            [row if number == wanted else 0 for number, each in enumerate(brackets) for row in range(each.size)]
            for wanted in reversed(range(1, len(brackets)))
        ]
        return [(last, True), *((amounts, False) for amounts in (trials, *widest))]

    def _scale(self, amounts: list[FloatArray]) -> list[int]:
        # What is a multiple of the unit up to rounding is that multiple; anything else is rounded down.
        units: IntArray = np.floor(np.concatenate(amounts) / self.unit * (1.0 + TIE)).astype(np.int64)
        return [int(number) for number in units]

    def _published(self, amounts: list[int]) -> int:
        starts = itertools.accumulate((each.size for each in self.problem.brackets[:-1]), initial=0)
        return sum(amounts[start] for start in starts)


def solve_enumeration(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget by looking at every choice of rows.

    Optimal, ties included; the bound is the objective. The work is limited by :data:`MOST_CHOICES`, not by time.

    Raises
    ------
    UnsupportedError
        When there are too many choices.
    """
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    problem = list_rows(instance, published)
    choices = math.prod(each.size for each in problem.brackets)
    if choices > MOST_CHOICES or not problem.complete:
        raise UnsupportedError(
            f"enumeration looks at {MOST_CHOICES:,} choices at most and this problem has {choices:.3g}; "
            "choose a solver that does not look at each of them"
        )
    rows = _best_of_all(problem)
    return answer_with(
        instance, request, problem.write(rows), bound=problem.training_of(rows), counters={"choices": float(choices)}
    )


def _best_of_all(problem: SpendProblem) -> tuple[int, ...]:
    """Look at every choice of rows, in plain Python."""
    tie, widest_first = TIE * problem.budget_gpu_min, problem.brackets[::-1]
    sums: list[tuple[float, float, int, tuple[int, ...]]] = []
    for rows in itertools.product(*(range(each.size) for each in widest_first)):
        pairs = list(zip(widest_first, rows, strict=True))
        fits = problem.paid_gpu_min(rows[::-1]) <= problem.most_gpu_min
        fits &= sum(each.held_gpus[row] for each, row in pairs) <= problem.most_gpus
        if fits or not any(rows):
            training = sum(float(each.training_gpu_min[row]) for each, row in pairs)
            last = sum(float(each.last_round_gpu_min[row]) for each, row in pairs)
            sums.append((training, last, sum(int(each.trials[row, 0]) for each, row in pairs), rows))
    for place in (0, 1):
        most = max(float(each[place]) for each in sums)  # type: ignore[arg-type]
        sums = [each for each in sums if float(each[place]) >= most - tie]  # type: ignore[arg-type]
    return max(sums, key=lambda each: each[2:])[3][::-1]


def _find_unit(problem: SpendProblem) -> float:
    """Return t_1 where all amounts are whole multiples of it, else a small part of the budget."""
    spent = [each.spent_gpu_min for each in problem.brackets]
    if problem.gpus_per_node is not None:
        spent = [problem.gpus_per_node * problem.round_minutes]
    amounts = np.concatenate([*spent, *(each.training_gpu_min for each in problem.brackets)])
    multiples = amounts / problem.round_min
    whole: IntArray = np.round(multiples).astype(np.int64)
    exact = bool((np.abs(multiples - whole) <= TIE * np.maximum(whole, 1)).all())
    return problem.round_min if exact else problem.budget_gpu_min / _RESOLUTION
