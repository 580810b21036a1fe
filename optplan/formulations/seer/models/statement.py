r"""SEER's formulation sheet, and its mixed-integer program in Pyomo.

A search for hyperparameters eliminates trials round by round. Rounds and brackets are those that SEER's algorithms make
of a deadline and a budget; decided is how many trials each bracket trains, at least as many as published, so that the
budget buys the most training.

Sets
----
``BRACKETS``
    Brackets i = 1, 2, ... by increasing GPUs (families ``gpus`` and ``rounds``).
``ROUNDS``
    Rounds k = 1, ..., K.
``ROWS[i]``
    Numbers of trials that bracket i may train, r = 0, 1, ...: 0 is the published row, each other one comes of a larger
    size x by ``floor(x / eta^(k-1))`` (families ``trials`` and ``halving``). Those that the budget, or the cluster,
    cannot pay with the published rows of the other brackets are not listed.

Parameters
----------
``P[i]``
    GPUs of a trial of bracket i.
``trials[i, r, k]``
    Trials of row r in round k.
``t[k]``
    Minutes of training in round k: ``t_1 eta^(k-1)``.
``w``
    Minutes without training at the start of every round but the first (``resize_s``, / 60).
``B``, ``G``
    Budget in GPU-minutes (``budget``), and GPUs that may be held at once (``most_gpus_held``), where there is a limit.
``g``
    GPUs of a node, where the budget counts whole nodes (``gpus_per_node``, ``budget_counts``).

Variables
---------
``x[i, r]``
    Whether bracket i trains row r, 0 or 1.
``nodes[k]``
    Nodes paid in round k, a whole number; only where the budget counts them.

Expressions
-----------
``n[i, k]``
    Trials of bracket i in round k: ``sum_r trials[i,r,k] x[i,r]``.
``gpus[k]``
    GPUs held in round k: ``sum_i P[i] n[i,k]``.
``training_gpu_min``, ``spent_gpu_min``
    ``sum_k t[k] gpus[k]``, and what the budget counts: ``sum_k (t[k] + w [k > 1]) gpus[k]``, or with g nodes
    ``sum_k (t[k] + w [k > 1]) g nodes[k]``.

Objective
---------
Most ``training_gpu_min``. Ties, which SEER breaks by the last round and then by trials, are left to the engine.

Constraint families, by the names that the evaluator and its messages use
-------------------------------------------------------------------------
``halving[i]``
    One row of each bracket: ``sum_r x[i,r] == 1``.
``budget``
    ``spent_gpu_min <= B``.
``nodes_filled[k]``
    ``g nodes[k] >= gpus[k]``: a round needs the nodes that its GPUs fill, rounded up. Where sizes and node divide one
    another that is how many it needs; elsewhere trials may not fit so closely, and the model is a relaxation.
``cluster``
    ``gpus[1] <= G``; later rounds hold less.
``deadline``, ``round-length``, ``last-round``
    Hold for every choice: rounds are as published.

Deviations and errata: those of :mod:`optplan.formulations.seer.data.brackets`. The objective ``quality`` is an
expectation over sampled learning curves, which no linear model states.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyomo.environ as pyo

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError, InfeasibleError, UnsupportedError
from optplan.formulations.seer.data.instance import Objective, SeerInstance, SeerSolution
from optplan.formulations.seer.exact.answers import answer_with, infeasible_answer
from optplan.formulations.seer.exact.rows import SpendProblem, is_within, list_rows
from optplan.formulations.seer.exact.spending import TIE
from optplan.formulations.seer.laws.rounds import divide_evenly
from optplan.solvers.layered_graphs import refuse_to_enumerate
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs.program import Scaling
from optplan.solvers.programs.statement import CP_SAT, Statement, are_whole, run_engine


def state_model(instance: SeerInstance) -> Statement:
    """State an instance in the terms of this module's sheet; ``quality``, and too many rows, are refused."""
    if instance.objective is Objective.QUALITY:
        message = "the objective 'quality' is sampled, and no linear model states it; set objective to 'spend'"
        raise UnsupportedError(message)
    published = instance.brackets
    if published is None:
        raise InfeasibleError("not even one trial of the shortest round fits; optplan.solve says which limit would do")
    problem = list_rows(instance, published)
    if not problem.complete:
        raise UnsupportedError("the budget pays more rows of trials than can be listed; raise least_round_min")
    return state_rows(instance, problem)


def state_rows(instance: SeerInstance, problem: SpendProblem) -> Statement:
    """State the choice of listed rows."""
    m = pyo.ConcreteModel(name=instance.name)
    _add_data(m, problem, instance.resize_min)
    _add_choices(m)
    held = problem.gpus_per_node is None
    # By rounding the published rows may take more than the budget; they keep it all the same.
    least_gpu_min = sum(float(each.spent_gpu_min[0]) for each in problem.brackets) if held else 0.0
    if held:
        m.spent_gpu_min = pyo.Expression(expr=pyo.quicksum(m.minutes[k] * m.gpus[k] for k in m.ROUNDS))
    else:
        m.g = pyo.Param(initialize=problem.gpus_per_node)
        most_gpus = sum(each.gpus * each.trials.max(axis=0) for each in problem.brackets)
        most = np.ceil(most_gpus / problem.gpus_per_node).astype(int).tolist()
        m.nodes = pyo.Var(m.ROUNDS, domain=pyo.Integers, bounds=lambda _, k: (0, most[k - 1]))
        m.nodes_filled = pyo.Constraint(m.ROUNDS, rule=lambda m, k: m.g * m.nodes[k] >= m.gpus[k])
        m.spent_gpu_min = pyo.Expression(expr=pyo.quicksum(m.minutes[k] * m.g * m.nodes[k] for k in m.ROUNDS))
    m.budget = pyo.Constraint(expr=m.spent_gpu_min <= max(problem.budget_gpu_min, least_gpu_min))
    rows = {id(m.budget): problem.budget_gpu_min}
    if math.isfinite(problem.cluster_gpus):
        m.G = pyo.Param(initialize=problem.cluster_gpus)
        m.cluster = pyo.Constraint(expr=m.gpus[1] <= m.G)
        rows[id(m.cluster)] = problem.cluster_gpus
    m.most = pyo.Objective(expr=m.training_gpu_min, sense=pyo.maximize)
    evenly = problem.gpus_per_node is None or divide_evenly(
        problem.gpus_per_node, [each.gpus for each in problem.brackets]
    )
    leaves_out = "" if evenly else "how trials that do not divide a node share nodes"
    scaling = Scaling(rows=rows, slack=0.5 * LIMIT_TOLERANCE)
    return Statement(native=m, read=lambda: _read(m, problem), choices=(m.x,), scaling=scaling, leaves_out=leaves_out)


def _add_data(m: Any, problem: SpendProblem, resize_min: float) -> None:  # noqa: ANN401 - Pyomo has no types
    brackets = dict(enumerate(problem.brackets, start=1))
    m.BRACKETS = pyo.Set(initialize=list(brackets))
    m.ROUNDS = pyo.Set(initialize=range(1, problem.rounds + 1))
    m.ROWS = pyo.Set(m.BRACKETS, initialize={i: range(each.size) for i, each in brackets.items()})
    m.P = pyo.Param(m.BRACKETS, initialize={i: each.gpus for i, each in brackets.items()})
    trials = {
        (i, r, k): number
        for i, each in brackets.items()
        for r, row in enumerate(each.trials.tolist())
        for k, number in enumerate(row, start=1)
    }
    m.trials = pyo.Param(list(trials), initialize=trials)
    m.t = pyo.Param(m.ROUNDS, initialize=dict(zip(m.ROUNDS, problem.minutes[1].tolist(), strict=True)))
    m.w = pyo.Param(initialize=resize_min)
    m.minutes = pyo.Param(m.ROUNDS, initialize=dict(zip(m.ROUNDS, problem.minutes[0].tolist(), strict=True)))
    m.B = pyo.Param(initialize=problem.budget_gpu_min)


def _add_choices(m: Any) -> None:  # noqa: ANN401 - Pyomo has no types
    m.x = pyo.Var([(i, r) for i in m.BRACKETS for r in m.ROWS[i]], domain=pyo.Binary)
    m.halving = pyo.Constraint(m.BRACKETS, rule=lambda m, i: pyo.quicksum(m.x[i, r] for r in m.ROWS[i]) == 1)
    m.n = pyo.Expression(
        m.BRACKETS,
        m.ROUNDS,
        rule=lambda m, i, k: pyo.quicksum(m.trials[i, r, k] * m.x[i, r] for r in m.ROWS[i]),
    )
    m.gpus = pyo.Expression(m.ROUNDS, rule=lambda m, k: pyo.quicksum(m.P[i] * m.n[i, k] for i in m.BRACKETS))
    m.training_gpu_min = pyo.Expression(expr=pyo.quicksum(m.t[k] * m.gpus[k] for k in m.ROUNDS))


def _read(m: Any, problem: SpendProblem) -> SeerSolution | None:  # noqa: ANN401 - Pyomo has no types
    if not are_whole((m.x,)):
        return None
    rows = (max(m.ROWS[i], key=lambda r: m.x[i, r].value) for i in m.BRACKETS)
    return problem.write(tuple(rows))


#: Most choices that enumeration looks at.
MOST_CHOICES = 300_000


def solve_cp_sat(instance: SeerInstance, request: SolveRequest) -> Answer[SeerSolution]:
    """Spend the budget with CP-SAT, one worker, on whole numbers; the bound is CP-SAT's word."""
    published = instance.brackets
    if published is None:
        return infeasible_answer(instance)
    problem = list_rows(instance, published)
    statement = state_rows(instance, problem)
    m, solution = statement.native, problem.write((0,) * len(problem.brackets))
    bound, termination = math.inf, Termination.COMPLETED
    counters: Counter[str] = Counter()
    every = SolveRequest(gap=0.0, seed=request.seed, stopwatch=request.stopwatch)
    m.ties = pyo.ConstraintList()
    for amounts, tie in _list_goals(problem):
        goal = pyo.quicksum(amounts[i - 1][r] * m.x[i, r] for i, r in m.x)
        m.most.set_value(goal)
        outcome = run_engine(m, CP_SAT, every, statement.scaling)
        counters.update(outcome.counters)
        if outcome.status is Status.INFEASIBLE:
            raise EngineError("CP-SAT finds no choice of trials within the limits, although the published one is")
        if math.isinf(bound) and outcome.bound is not None:
            bound = outcome.bound
        if outcome.values is not None:
            solution = _read(m, problem) or solution
        if outcome.status is not Status.OPTIMAL:
            termination = Termination.TIME_LIMIT
            break
        m.ties.add(goal >= pyo.value(goal) - tie)
    if not problem.complete:
        bound, termination = instance.budget_gpu_min, Termination.WORK_LIMIT
    return answer_with(
        instance,
        request,
        solution,
        bound=bound,
        proof=BoundProof.ENGINE,
        termination=termination,
        counters=dict(counters),
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _list_goals(problem: SpendProblem) -> Iterator[tuple[list[list[float]], float]]:
    """List what is maximised, one after another among ties, by bracket and row; and what counts as a tie."""
    brackets, tie = problem.brackets, TIE * problem.budget_gpu_min
    yield [each.training_gpu_min.tolist() for each in brackets], tie
    yield [each.last_round_gpu_min.tolist() for each in brackets], tie
    yield [each.trials[:, 0].tolist() for each in brackets], 0.0
    for widest in reversed(range(1, len(brackets))):
        yield [[row * (place == widest) for row in range(each.size)] for place, each in enumerate(brackets)], 0.0


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
    every = itertools.product(*(range(each.size) for each in problem.brackets))
    left = [rows for rows in every if is_within(problem.use(rows), problem.kept) or not any(rows)]
    for amounts, tie in _list_goals(problem):
        sums = [sum(each[row] for each, row in zip(amounts, rows, strict=True)) for rows in left]
        most = max(sums) - tie
        left = [rows for rows, amount in zip(left, sums, strict=True) if amount >= most]
    return left[0]
