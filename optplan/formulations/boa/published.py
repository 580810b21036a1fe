"""The paper's own heuristic: Algorithm 1, the BOA Width Calculator (section 4.3 and appendix C), as printed.

Glue configurations are sampled, the glued problem (1) is solved for a running budget, real widths are rounded to the
hull, the true cost with rescaling is computed by Lemma 4.8, and the running budget shrinks by one per cent until that
cost fits. Where the printed text leaves a choice, this is what is done:

- A super-epoch's speed is the size-weighted *harmonic* mean of its epochs' speeds, which is what makes its duration the
  sum of theirs; the paper says "weighted average".
- "Nearest integer on the hull" means the nearest vertex of the hull, ties to the smaller; cost is evaluated with the
  true tables.
- The loop ends without a plan for a configuration when the running budget falls below the least that the glued problem
  needs; as printed it would not end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optplan.contracts import Answer, PathCosts, SolveRequest, Status, Termination
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.evaluation import TOLERANCE, path_costs
from optplan.formulations.boa.feasibility import infeasible_answer, least_budget
from optplan.schema import FloatArray, IntArray
from optplan.speedup import lower_left_hull

#: Number of sampled glue configurations (Algorithm 1, line 2).
SAMPLES = 50
#: Factor by which the running budget shrinks (Algorithm 1, line 20).
STEP = 0.99


@dataclass(frozen=True)
class SuperEpochs:
    """The glued problem (1): one row per super-epoch of every class.

    Parameters
    ----------
    value, consumption
        (N, K) Of running the super-epoch at each width; +inf where a class has fewer widths.
    vertex
        (N, K) Vertices of the hull.
    first
        For each class, the row of its first super-epoch, and at the end N.
    glue
        For each class, how many epochs a super-epoch has.
    """

    value: FloatArray
    consumption: FloatArray
    vertex: np.ndarray
    first: IntArray
    glue: tuple[int, ...]


#: Given a running budget, (N, 2) value and consumption of each super-epoch at its optimal real width; None: infeasible.
InnerSolver = Callable[[float], FloatArray | None]


def solve_algorithm1(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Run Algorithm 1 with problem (1) solved by sorting the hull's segments once per configuration."""
    return run_algorithm1(instance, request, sort_segments)


def solve_algorithm1_cvxpy(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Run Algorithm 1 with problem (1) as the convex program (6) in CVXPY, compiled once per configuration."""
    import cvxpy

    answer = run_algorithm1(instance, request, compile_program)
    return Answer(**{**vars(answer), "engine": "cvxpy", "engine_version": cvxpy.__version__})


def run_algorithm1(
    instance: BoaInstance,
    request: SolveRequest,
    prepare: Callable[[SuperEpochs], InnerSolver],
    *,
    samples: int = SAMPLES,
    step: float = STEP,
) -> Answer[BoaSolution]:
    """Run Algorithm 1.

    Parameters
    ----------
    instance
        Problem rescaling, with a budget.
    request
        Seed and time limit; the limit is looked at between configurations.
    prepare
        Makes the inner solver of a glued problem.
    samples, step
        The paper's 50 and 0.99.

    Returns
    -------
    Answer
        Feasible without a bound, infeasible, or unknown when no configuration gave a plan.
    """
    costs, budget = path_costs(instance), instance.budget_gpus()
    total, parts = least_budget(instance)
    if total > budget * (1 + TOLERANCE):
        return infeasible_answer(instance, total, parts)
    rng = np.random.default_rng(request.seed)
    best: tuple[float, list[IntArray]] | None = None
    inner_solves = tried = 0
    termination = Termination.COMPLETED
    for tried in range(1, samples + 1):
        glue = tuple(2 ** int(rng.integers(0, int(np.log2(len(c.run_value))) + 1)) for c in costs)
        epochs = glue_epochs(costs, glue)
        found, solves = _shrink_running_budget(costs, epochs, prepare(epochs), budget, step)
        inner_solves += solves
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        request.stopwatch.emit("glue configurations", objective=best[0] if best else None, fraction=tried / samples)
        if request.stopwatch.expired:
            termination = Termination.TIME_LIMIT
            break
    counters = {"configurations": float(tried), "inner_solves": float(inner_solves)}
    if best is None:
        return Answer(Status.UNKNOWN, termination, counters=counters)
    solution = BoaSolution(
        branches={c.name: (Branch(widths=c.nodes[row].astype(float)),) for c, row in zip(costs, best[1], strict=True)}
    )
    return Answer(Status.FEASIBLE, termination, solution=solution, objective=best[0], counters=counters)


def glue_epochs(costs: list[PathCosts], glue: tuple[int, ...]) -> SuperEpochs:
    """Glue every ``glue[i]`` consecutive epochs of class i into a super-epoch (the last one may be shorter)."""
    widest = max(c.nodes.size for c in costs)
    values, consumptions, counts = [], [], []
    for c, size in zip(costs, glue, strict=True):
        starts = np.arange(0, len(c.run_value), size)
        pad = ((0, 0), (0, widest - c.nodes.size))
        values.append(np.pad(np.add.reduceat(c.run_value, starts), pad, constant_values=np.inf))
        consumptions.append(np.pad(np.add.reduceat(c.run_consumption, starts), pad, constant_values=np.inf))
        counts.append(starts.size)
    value, consumption = np.concatenate(values), np.concatenate(consumptions)
    vertex = lower_left_hull(consumption, value)
    return SuperEpochs(value, consumption, vertex, np.concatenate(([0], np.cumsum(counts))), glue)


def sort_segments(epochs: SuperEpochs) -> InnerSolver:
    """Solve the glued problem for every budget at once: all hull segments in the order of their slopes."""
    rows, columns = np.nonzero(epochs.vertex)
    order = np.lexsort((epochs.consumption[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    v, c = epochs.value[rows, columns], epochs.consumption[rows, columns]
    inside = rows[1:] == rows[:-1]
    gain, cost, owner = (v[:-1] - v[1:])[inside], (c[1:] - c[:-1])[inside], rows[1:][inside]
    by_slope = np.argsort(-gain / cost, kind="stable")
    gain, cost, owner = gain[by_slope], cost[by_slope], owner[by_slope]
    is_first = np.concatenate(([True], ~inside))
    start = np.column_stack((v[is_first], c[is_first]))
    spent = start[:, 1].sum() + np.concatenate(([0.0], np.cumsum(cost)))

    def solve(budget: float) -> FloatArray | None:
        if budget < spent[0]:
            return None
        whole = int(np.searchsorted(spent, budget, side="right")) - 1
        point = start.copy()
        np.subtract.at(point[:, 0], owner[:whole], gain[:whole])
        np.add.at(point[:, 1], owner[:whole], cost[:whole])
        if whole < cost.size:
            part = (budget - spent[whole]) / cost[whole]
            point[owner[whole]] += part * np.array([-gain[whole], cost[whole]])
        return point

    return solve


def compile_program(epochs: SuperEpochs) -> InnerSolver:
    """State the glued problem as the convex program (6): values within range, consumption above the hull's segments."""
    import cvxpy as cp
    import scipy.sparse as sp

    rows, columns = np.nonzero(epochs.vertex)
    order = np.lexsort((epochs.consumption[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    v, c = epochs.value[rows, columns], epochs.consumption[rows, columns]
    inside = np.flatnonzero(rows[1:] == rows[:-1])
    slope = (c[inside + 1] - c[inside]) / (v[inside + 1] - v[inside])
    number = len(epochs.value)
    pick = sp.csr_array((np.ones(inside.size), (np.arange(inside.size), rows[inside])), shape=(inside.size, number))
    dearest, cheapest = np.zeros(number), np.full(number, np.inf)
    np.maximum.at(dearest, rows, v)
    np.minimum.at(cheapest, rows, v)
    least_use = np.full(number, np.inf)
    np.minimum.at(least_use, rows, c)
    scale_v, scale_c = dearest.sum(), least_use.sum()
    value, use = cp.Variable(number), cp.Variable(number)
    limit = cp.Parameter(nonneg=True)
    constraints = [
        value >= cheapest / scale_v,
        value <= dearest / scale_v,
        use >= least_use / scale_c,
        cp.sum(use) <= limit,
    ]
    if inside.size:
        intercept = (c[inside] - slope * v[inside]) / scale_c
        constraints.append(pick @ use >= cp.multiply(slope * scale_v / scale_c, pick @ value) + intercept)
    program = cp.Problem(cp.Minimize(cp.sum(value)), constraints)

    def solve(budget: float) -> FloatArray | None:
        limit.value = budget / scale_c
        program.solve(solver=cp.CLARABEL)
        if value.value is None or program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            return None
        return np.column_stack((value.value * scale_v, use.value * scale_c))

    return solve


def _shrink_running_budget(
    costs: list[PathCosts], epochs: SuperEpochs, solve: InnerSolver, budget: float, step: float
) -> tuple[tuple[float, list[IntArray]] | None, int]:
    """Lower the running budget until the rounded widths keep the true budget (lines 13 to 27)."""
    running_budget, solves = budget, 0
    while True:
        point = solve(running_budget)
        solves += 1
        if point is None:
            return None, solves
        rows = _round_to_vertices(costs, epochs, point)
        value, consumption = _true_cost(costs, rows)
        if consumption <= budget * (1 + TOLERANCE):
            return (value, rows), solves
        running_budget *= step


def _round_to_vertices(costs: list[PathCosts], epochs: SuperEpochs, point: FloatArray) -> list[IntArray]:
    """Round each super-epoch's real width to the nearest vertex and spread it over its epochs (positions, not GPUs)."""
    rows = []
    for number, c in enumerate(costs):
        block = slice(epochs.first[number], epochs.first[number + 1])
        rate = c.run_consumption[0, 0] / c.run_value[0, 0] / c.nodes[0]  # GPUs per second of value, at one GPU
        real = point[block, 1] / (point[block, 0] * rate)
        distance = np.where(epochs.vertex[block, : c.nodes.size], np.abs(real[:, None] - c.nodes), np.inf)
        rows.append(np.repeat(distance.argmin(axis=1), epochs.glue[number])[: len(c.run_value)])
    return rows


def _true_cost(costs: list[PathCosts], rows: list[IntArray]) -> tuple[float, float]:
    """Return value and consumption of widths by Lemma 4.8."""
    value = consumption = 0.0
    for c, row in zip(costs, rows, strict=True):
        layers = np.arange(row.size)
        entering = np.concatenate(([True], row[1:] != row[:-1]))
        value += float((c.run_value[layers, row] + entering * c.enter_value[layers, row]).sum())
        consumption += float((c.run_consumption[layers, row] + entering * c.enter_consumption[layers, row]).sum())
    return value, consumption
