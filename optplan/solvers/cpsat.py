"""Budgeted paths in CP-SAT, for small problems: pure choices, all costs rounded to integers.

Rounding is arranged so that both answers are about the real problem:

* *Bound.* Values and consumptions are rounded down and the budgets are not: whatever keeps the real budgets keeps the
  rounded ones, and its rounded value is at most its real value. So the bound of CP-SAT on the rounded problem, scaled
  back, is a bound on the real one. It is weaker than one without rounding would be, by at most one unit of value for
  each term of a path (two per layer).
* *Incumbent.* What CP-SAT returns may exceed a real budget by at most one unit of its consumption per term. A choice
  that does (relative excess above 1e-9) is discarded, and the problem solved once more with consumptions rounded up and
  budgets down: whatever that returns keeps the real budgets. The bound stays that of the first solve.

Each limit has a unit of its own. A unit is ``1 / resolution`` of the budget and of the value, per term, but never so
small that the sum of a constraint's coefficients leaves 64-bit integers. Scales are powers of two, so that scaling
itself does not round. With the default resolution the second solve is not needed.

CP-SAT runs in a process of its own that is kept for the next call (:mod:`optplan.solvers.engine_process`): OR-Tools
brings a HiGHS along, and beside another one either may not load (google/or-tools#5246). It also ends in time where
CP-SAT heeds no limit, as while it presolves a large model, with the best that was reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError, MissingExtraError
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import (
    OUT_OF_TIME,
    BudgetedPaths,
    Choice,
    PathsOutcome,
    WeightedPath,
    least_path,
)
from optplan.solvers.engine_process import OutcomeT, Report, call_elsewhere

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Name of the engine in answers.
_ENGINE = "CP-SAT"
#: Units that each budget and the least value are divided into, for each term of a path.
DEFAULT_RESOLUTION = 2**32
#: Coefficients of one constraint add up to no more than this; CP-SAT wants room within 64-bit integers.
_LARGEST_SUM = 2.0**60
#: A choice exactly at a budget is kept, however its terms were added up.
_BUDGET_SLACK = 5e-10
#: Seconds between looks at the stopwatch while CP-SAT runs.
_LOOK_S = 0.05
#: CP-SAT stops a little before the gap that was asked for, so that scaling back does not leave it a little after.
_GAP_SHARE = 0.999

#: What each final status of CP-SAT means; every other one is a failure.
_ENDINGS = {
    "OPTIMAL": (Status.OPTIMAL, Termination.COMPLETED),
    "FEASIBLE": (Status.FEASIBLE, Termination.TIME_LIMIT),
    "INFEASIBLE": (Status.INFEASIBLE, Termination.COMPLETED),
    "UNKNOWN": (Status.UNKNOWN, Termination.TIME_LIMIT),
}


class _Values(Protocol):
    """What knows the values of literals: a solver that has run, or one that has found a solution."""

    def boolean_value(self, literal: cp_model.LiteralT) -> bool:
        """Return the value of a literal."""


@dataclass(frozen=True)
class _Rounded:
    """Integer costs of the graphs' terms, flat: being at each node (with the first entry), then entering each.

    ``consumption`` and ``budget`` are by limit.
    """

    value: list[int]
    consumption: list[list[int]]
    budget: list[int]
    #: Real value of one unit.
    value_unit: float


@dataclass(frozen=True)
class _Run:
    """What one call of CP-SAT said, in real units."""

    status: Status
    termination: Termination
    choice: Choice | None
    bound: float | None
    branches: int
    conflicts: int


def solve_cp_sat(
    problem: BudgetedPaths, request: SolveRequest, *, resolution: int = DEFAULT_RESOLUTION
) -> PathsOutcome:
    """Solve budgeted paths with CP-SAT.

    Parameters
    ----------
    request
        Gap, seed and time limit. One worker, so the same request gives the same answer.
    resolution
        Units that each budget and the least value are divided into, for each term of a path.

    Returns
    -------
    PathsOutcome
        The choice keeps the real budgets, the bound holds for the real problem. OPTIMAL is about the rounded problem;
        the real gap is that between the choice's real value and the bound.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model or fails.
    """
    request.stopwatch.emit("cp-sat")
    found = call_with_cp_sat(run_cp_sat, (problem, request.gap, request.seed, resolution), request.stopwatch)
    return _nothing_yet() if found is None else found


def call_with_cp_sat(
    target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch
) -> OutcomeT | None:
    """Call a function that uses CP-SAT in the process that is kept for it, and stop it once the stopwatch has expired.

    Parameters and outcome are those of :func:`~optplan.solvers.engine_process.call_elsewhere`.

    Raises
    ------
    MissingExtraError
        Without OR-Tools.
    """
    if find_spec("ortools") is None:
        raise MissingExtraError("ortools", "cp-sat")
    return call_elsewhere(target, arguments, stopwatch, keep=True)


def run_cp_sat(
    problem: BudgetedPaths,
    gap: float,
    seed: int,
    resolution: int,
    stopwatch: Stopwatch,
    report: Report[PathsOutcome] | None = None,
) -> PathsOutcome:
    """Solve budgeted paths with CP-SAT in this process, which has to be one of its own.

    Parameters
    ----------
    problem, gap, seed, resolution
        As in :func:`solve_cp_sat`.
    stopwatch
        CP-SAT is asked to stop when it has expired.
    report
        Called with better incumbents and bounds as CP-SAT finds them; None where nobody listens.
    """
    known = _nothing_yet()

    def tell(choice: Choice, bound: float) -> None:
        nonlocal known
        known = replace(known, bound=known.bound if runs else bound)
        if problem.keeps_budgets(problem.totals(choice)[1]):
            known = replace(known, status=Status.FEASIBLE, choice=choice)
        if report is not None:
            report(known)

    runs: list[_Run] = []
    settings = (gap, seed, stopwatch, None if report is None else tell)
    runs.append(_solve_rounded(problem, _round(problem, resolution, upwards=False), *settings))
    first = last = runs[0]
    known = replace(known, bound=first.bound)
    if first.choice is not None and not problem.keeps_budgets(problem.totals(first.choice)[1]):
        runs.append(_solve_rounded(problem, _round(problem, resolution, upwards=True), *settings))
        last = runs[-1]
    status = last.status
    if len(runs) == 2:  # the second solve excludes choices close to a budget, so it proves nothing
        status = Status.UNKNOWN if last.choice is None else Status.FEASIBLE
    return replace(
        known,
        status=status,
        termination=last.termination,
        choice=last.choice,
        counters={
            "solves": float(len(runs)),
            "branches": float(sum(r.branches for r in runs)),
            "conflicts": float(sum(r.conflicts for r in runs)),
        },
    )


@cache
def _nothing_yet() -> PathsOutcome:
    return replace(OUT_OF_TIME, engine=_ENGINE, engine_version=version("ortools"))


def new_solver(seed: int) -> cp_model.CpSolver:
    """Return a solver with one worker: the same model and seed give the same answer."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # This presolve step adds up coefficients in 32 bits in OR-Tools 9.15 and cuts optima off (google/or-tools#5293).
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.random_seed = seed % 2**31
    return solver


def solve_watched(
    solver: cp_model.CpSolver,
    model: cp_model.CpModel,
    stopwatch: Stopwatch,
    callback: cp_model.CpSolverSolutionCallback | None = None,
    *,
    is_feasible: bool = False,
) -> str:
    """Run CP-SAT, stop it once a stopwatch has expired, and hear signals meanwhile.

    Parameters
    ----------
    solver, model, callback
        As CP-SAT's own ``solve`` takes them; a limit is set by the stopwatch.
    stopwatch
        Looked at while CP-SAT runs in a thread of its own.
    is_feasible
        Whether there is a solution for sure, so that INFEASIBLE is no answer.

    Returns
    -------
    str
        Name of CP-SAT's status: OPTIMAL, FEASIBLE, INFEASIBLE or UNKNOWN.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model, or ends otherwise.
    """
    wrong = model.validate()
    if wrong:
        raise EngineError(f"CP-SAT refuses the model: {wrong}")
    if stopwatch.remaining_s is not None:
        solver.parameters.max_time_in_seconds = stopwatch.remaining_s
    solver.parameters.catch_sigint_signal = False  # it would be CP-SAT's alone, and go unnoticed here
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(solver.solve, model, callback)
        try:
            while not wait([running], timeout=_LOOK_S).done:
                if stopwatch.expired:
                    solver.stop_search()
        finally:
            solver.stop_search()
        name = str(running.result().name)
    if name not in _ENDINGS or (is_feasible and name == "INFEASIBLE"):
        raise EngineError(f"CP-SAT ended with status {name}, which has no meaning for this problem")
    return name


def _round(problem: BudgetedPaths, resolution: int, *, upwards: bool) -> _Rounded:
    """Round values down, and consumptions down or up; the budgets go the other way."""
    units = 2 * problem.num_layers * resolution
    values = np.concatenate([_terms(graph, graph.run_value, graph.enter_value) for graph in problem.graphs])
    value_scale = _power_of_two(units / (problem.least_value or 1.0), values)
    to_integer, slack = (np.ceil, 0.0) if upwards else (np.floor, _BUDGET_SLACK)
    consumptions, budgets = [], []
    for limit, budget in enumerate(problem.budgets.tolist()):
        terms = np.concatenate(
            [_terms(graph, graph.run_consumption[limit], graph.enter_consumption[limit]) for graph in problem.graphs]
        )
        # What alone exceeds the budget is excluded just as well by a little more than the budget.
        terms = np.minimum(terms, 2.0 * budget)
        scale = _power_of_two(units / budget, terms)
        consumptions.append(to_integer(terms * scale).astype(np.int64).tolist())
        budgets.append(math.floor(budget * (1.0 + slack) * scale))
    return _Rounded(
        value=np.floor(values * value_scale).astype(np.int64).tolist(),
        consumption=consumptions,
        budget=budgets,
        value_unit=1.0 / value_scale,
    )


def _terms(graph: PathCosts, run: FloatArray, enter: FloatArray) -> FloatArray:
    """List the terms of a graph's paths: being at each node (entering the first layer included), then entering each."""
    at_nodes = run.copy()
    at_nodes[0] += enter[graph.group, 0, np.arange(graph.group.size)]
    return np.concatenate([at_nodes.ravel(), enter[:, 1:].swapaxes(0, 1).ravel()])


def _power_of_two(wanted: float, terms: FloatArray) -> float:
    """Return the largest power of two that is not above the wanted scale and keeps the sum of the terms in range."""
    total = float(terms.sum())
    allowed = _LARGEST_SUM / total if total else wanted
    return 2.0 ** math.floor(math.log2(min(wanted, allowed)))


def _solve_rounded(
    problem: BudgetedPaths,
    rounded: _Rounded,
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    tell: Callable[[Choice, float], None] | None,
) -> _Run:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    nodes = [_add_graph(model, graph, 1.0 / problem.budgets) for graph in problem.graphs]
    literals = [literal for at_nodes, entering in nodes for literal in (*at_nodes, *entering)]
    for consumption, budget in zip(rounded.consumption, rounded.budget, strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(literals, consumption) <= budget)
    model.minimize(cp_model.LinearExpr.weighted_sum(literals, rounded.value))

    def read(values: _Values) -> Choice:
        return tuple(_read_path(values, graph, at) for graph, (at, _) in zip(problem.graphs, nodes, strict=True))

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            assert tell is not None
            tell(read(self), _nearest(self.best_objective_bound) * rounded.value_unit)

    solver = new_solver(seed)
    # Boolean clauses are part of the linear relaxation only from level 2 on; without it there is hardly a bound.
    solver.parameters.linearization_level = 2
    solver.parameters.relative_gap_limit = gap * _GAP_SHARE
    status, termination = _ENDINGS[solve_watched(solver, model, stopwatch, None if tell is None else Listener())]
    return _Run(
        status=status,
        termination=termination,
        choice=read(solver) if status in (Status.OPTIMAL, Status.FEASIBLE) else None,
        # The bound is a whole number; as a float it may be a little beside it.
        bound=None if status is Status.INFEASIBLE else _nearest(solver.best_objective_bound) * rounded.value_unit,
        branches=solver.num_branches,
        conflicts=solver.num_conflicts,
    )


def _nearest(bound: float) -> float:
    """Return the nearest whole number; an infinite bound, of which there is nothing to round, as it is."""
    return float(round(bound)) if math.isfinite(bound) else bound


def _add_graph(
    model: cp_model.CpModel, graph: PathCosts, weights: FloatArray
) -> tuple[list[cp_model.IntVar], list[cp_model.IntVar]]:
    """Add a graph's literals: at each node, and entering each from each group from the second layer on.

    The path of least weighted consumption is the hint.
    """
    layers, nodes = graph.run_value.shape
    at = [model.new_bool_var("") for _ in range(layers * nodes)]
    entering = [model.new_bool_var("") for _ in range((layers - 1) * graph.num_groups * nodes)]
    for layer in range(layers):
        model.add_exactly_one(at[layer * nodes : (layer + 1) * nodes])
    if graph.num_groups == 1:
        for cell, entered in enumerate(entering):
            model.add_bool_or(at[cell + nodes].negated(), at[cell], entered)
    else:
        _add_hubs(
            model,
            graph,
            np.array(at, dtype=np.object_).reshape(layers, nodes),
            np.array(entering, dtype=np.object_).reshape(layers - 1, graph.num_groups, nodes),
        )
    run, enter = graph.weighted(weights, value=0.0)
    _, frugal = least_path(run, enter, graph.group)
    for layer, column in enumerate(frugal.tolist()):
        for node in range(nodes):
            model.add_hint(at[layer * nodes + node], node == column)
    return at, entering


def _add_hubs(
    model: cp_model.CpModel, graph: PathCosts, at: NDArray[np.object_], entering: NDArray[np.object_]
) -> None:
    """Say which entries a path makes where it matters which group it leaves.

    Who is at a node has stayed or entered it, who stays was there before, and who leaves a group enters from it; with
    bare implications next to nothing of what changes cost would be left to the linear relaxation.
    """
    for before, now, entered in zip(at[:-1], at[1:], entering, strict=True):
        stay = np.array([model.new_bool_var("") for _ in now], dtype=np.object_)
        for node, stays in enumerate(stay):
            model.add_exactly_one(now[node].negated(), stays, *entered[:, node])
            model.add_implication(stays, before[node])
        for group, entries in enumerate(entered):
            own = graph.group == group
            model.add(sum(before[own]) - sum(stay[own]) == sum(entries))


def _read_path(solver: _Values, graph: PathCosts, at: Sequence[cp_model.IntVar]) -> tuple[WeightedPath, ...]:
    chosen = np.array([solver.boolean_value(literal) for literal in at]).reshape(graph.run_value.shape)
    return (WeightedPath(1.0, chosen.argmax(axis=1)),)
