"""Spending the budget on general engines: CP-SAT, and looking at every choice. The independent checks of the exact one.

CP-SAT solves the declarative model. Ties are broken by solving again with what was reached as a constraint.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with, infeasible_answer
from optplan.formulations.seer.exact.rows import SpendProblem, list_rows
from optplan.formulations.seer.exact.spending import TIE
from optplan.formulations.seer.models.statement import state_rows
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import refuse_to_enumerate
from optplan.solvers.programs import cpsat
from optplan.solvers.programs.program import read_program

#: Most choices that enumeration looks at.
MOST_CHOICES = 300_000


def solve_cp_sat(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget with CP-SAT, one worker, on whole numbers; the bound is CP-SAT's word."""
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    problem = list_rows(instance, published)
    statement = state_rows(instance, problem)
    read = read_program(statement.native, statement.scaling.without_scales(), names=False)
    program, rows, x = read.program, (0,) * len(problem.brackets), statement.native.x
    bound, termination = math.inf, Termination.COMPLETED
    counters: Counter[str] = Counter()
    every = SolveRequest(gap=0.0, seed=request.seed, stopwatch=request.stopwatch)
    for amounts, tie in _list_goals(problem):
        by_choice = {
            id(statement.native.x[i, r]): each[r] for i, each in enumerate(amounts, 1) for r in range(each.size)
        }
        cost = -np.array([by_choice.get(id(variable), 0.0) for variable in read.variables])
        outcome = cpsat.solve_program(replace(program, cost=cost), every)
        counters.update(outcome.counters)
        if outcome.status is Status.INFEASIBLE:
            raise EngineError("CP-SAT finds no choice of trials within the limits, although the published one is")
        if math.isinf(bound):
            bound = math.inf if outcome.bound is None else -outcome.bound
        if outcome.values is not None:
            read.load(outcome.values)
            rows = tuple(max(range(each.size), key=lambda r: x[i, r].value) for i, each in enumerate(amounts, 1))
        if outcome.status is not Status.OPTIMAL:
            termination = Termination.TIME_LIMIT
            break
        program = program.limit(cost, float(cost @ outcome.values) + tie)
    if not problem.complete:
        bound, termination = instance.budget_gpu_min, Termination.WORK_LIMIT
    engine = cpsat.nothing_yet()
    return answer_with(
        instance,
        request,
        problem.write(rows),
        bound=bound,
        proof=BoundProof.ENGINE,
        termination=termination,
        counters=dict(counters),
        engine=(engine.engine, engine.engine_version),
    )


def _list_goals(problem: SpendProblem) -> Iterator[tuple[list[FloatArray], float]]:
    """List what is maximised, one after another among ties, by bracket and row; and what counts as a tie."""
    brackets, tie = problem.brackets, TIE * problem.budget_gpu_min
    yield [each.training_gpu_min for each in brackets], tie
    yield [each.last_round_gpu_min for each in brackets], tie
    yield [each.trials[:, 0].astype(np.float64) for each in brackets], 0.0
    for widest in reversed(range(1, len(brackets))):
        yield [np.arange(each.size, dtype=np.float64) * (place == widest) for place, each in enumerate(brackets)], 0.0


def solve_enumeration(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget by looking at every choice of rows, ties included; up to :data:`MOST_CHOICES`."""
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    problem = list_rows(instance, published)
    choices = math.prod(each.size for each in problem.brackets)
    if choices > MOST_CHOICES or not problem.complete:
        raise refuse_to_enumerate(MOST_CHOICES, choices)
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
