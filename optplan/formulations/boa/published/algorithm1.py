"""The paper's own heuristic: Algorithm 1, the BOA Width Calculator (section 4.3 and appendix C), as printed.

Glue configurations are sampled, the glued problem (1) is solved for a running budget, real widths are rounded to the
hull, the true cost with rescaling is computed by Lemma 4.8, and the running budget shrinks by one per cent until that
cost fits. Where the printed text leaves a choice, this is what is done:

- A super-epoch's speed is the size-weighted *harmonic* mean of its epochs' speeds, which is what makes its duration the
  sum of theirs; the paper says "weighted average".
- "Nearest integer on the hull" means the nearest vertex of the hull, ties to the smaller; cost is evaluated with the
  true tables.
- Problem (1) is solved by sorting the hull's segments once for all budgets, which is what the convex program (6) finds.
- The loop ends without a plan for a configuration when the running budget falls below the least that the glued problem
  needs; as printed it would not end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optplan.contracts import Answer, PathCosts, SolveRequest, Status, Termination
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import infeasible_answer, least_budget
from optplan.formulations.boa.judge.evaluation import TOLERANCE
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import path_totals
from optplan.speedup import lower_left_hull
from optplan.speedup.hulls import BoolArray

#: Number of sampled glue configurations (Algorithm 1, line 2).
SAMPLES = 50
#: Factor by which the running budget shrinks (Algorithm 1, line 20).
STEP = 0.99


@dataclass(frozen=True)
class SuperEpochs:
    """The glued problem (1), (N, K) by super-epoch of any class and width; +inf where a class has fewer widths."""

    value: FloatArray
    consumption: FloatArray
    vertex: BoolArray
    first: IntArray
    glue: tuple[int, ...]


#: Given a running budget, (N, 2) value and consumption of each super-epoch at its optimal real width; None: infeasible.
InnerSolver = Callable[[float], FloatArray | None]


def solve_algorithm1(
    instance: BoaInstance,
    request: SolveRequest,
    prepare: Callable[[SuperEpochs], InnerSolver] | None = None,
    *,
    samples: int = SAMPLES,
) -> Answer[BoaSolution]:
    """Run Algorithm 1; ``prepare`` makes an inner solver of each glued problem, by sorting the hull's segments."""
    prepare = prepare or sort_segments
    costs, budget = cost_steps(instance), instance.budget_amount()
    total, parts = least_budget(instance)
    if total > budget * (1 + TOLERANCE):
        return infeasible_answer(instance, total, parts)
    rng = np.random.default_rng(request.seed)
    best: tuple[float, list[IntArray]] | None = None
    inner_solves = finished = 0
    while finished < samples and not request.stopwatch.expired:
        glue = tuple(2 ** int(rng.integers(0, int(np.log2(len(c.run_value))) + 1)) for c in costs)
        epochs = glue_epochs(costs, glue)
        found, solves, is_finished = _lower_running_budget(costs, epochs, prepare(epochs), budget, request.stopwatch)
        inner_solves += solves
        finished += is_finished
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        request.stopwatch.emit("glue configurations", objective=best[0] if best else None, fraction=finished / samples)
    termination = Termination.COMPLETED if finished == samples else Termination.TIME_LIMIT
    counters = {"configurations": float(finished), "inner_solves": float(inner_solves)}
    if best is None:
        return Answer(Status.UNKNOWN, termination, counters=counters)
    rows = {c.name: widths_of(c)[row].astype(float) for c, row in zip(costs, best[1], strict=True)}
    solution = BoaSolution(branches={name: (Branch(widths=widths),) for name, widths in rows.items()})
    return Answer(Status.FEASIBLE, termination, solution=solution, objective=best[0], counters=counters)


def widths_of(costs: PathCosts) -> IntArray:
    """Return the widths (K,) behind the nodes of a class on one GPU type."""
    return np.array(costs.labels, dtype=np.int64)


def glue_epochs(costs: list[PathCosts], glue: tuple[int, ...]) -> SuperEpochs:
    """Glue every ``glue[i]`` consecutive epochs of class i into a super-epoch (the last one may be shorter)."""
    widest = max(len(c.labels) for c in costs)
    values, consumptions, counts = [], [], []
    for c, size in zip(costs, glue, strict=True):
        starts = np.arange(0, len(c.run_value), size)
        pad = ((0, 0), (0, widest - len(c.labels)))
        values.append(np.pad(np.add.reduceat(c.run_value, starts), pad, constant_values=np.inf))
        consumptions.append(np.pad(np.add.reduceat(c.run_consumption[0], starts), pad, constant_values=np.inf))
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
        if budget < spent[0] * (1 - TOLERANCE):
            return None
        whole = max(0, int(np.searchsorted(spent, budget, side="right")) - 1)
        point = start.copy()
        np.subtract.at(point[:, 0], owner[:whole], gain[:whole])
        np.add.at(point[:, 1], owner[:whole], cost[:whole])
        if whole < cost.size:
            part = max(0.0, budget - spent[whole]) / cost[whole]
            point[owner[whole]] += part * np.array([-gain[whole], cost[whole]])
        return point

    return solve


def _lower_running_budget(
    costs: list[PathCosts], epochs: SuperEpochs, solve: InnerSolver, budget: float, stopwatch: Stopwatch
) -> tuple[tuple[float, list[IntArray]] | None, int, bool]:
    """Lower the running budget until rounded widths keep the true one (lines 12 to 27), if that is ever so."""
    running_budget, solves = budget, 0
    while not stopwatch.expired:
        point = solve(running_budget)
        solves += 1
        if point is None:
            return None, solves, True
        rows = _round_to_vertices(costs, epochs, point)
        totals = [path_totals(*each) for each in zip(costs, rows, strict=True)]  # by Lemma 4.8
        value, consumption = sum(each for each, _ in totals), sum(float(used[0]) for _, used in totals)
        if consumption <= budget * (1 + TOLERANCE):
            return (value, rows), solves, True
        running_budget *= STEP
    return None, solves, False


def _round_to_vertices(costs: list[PathCosts], epochs: SuperEpochs, point: FloatArray) -> list[IntArray]:
    """Round each super-epoch's real width to the nearest vertex and spread it over its epochs (positions, not GPUs)."""
    rows = []
    for number, c in enumerate(costs):
        block = slice(epochs.first[number], epochs.first[number + 1])
        widths = widths_of(c)
        rate = c.run_consumption[0, 0, 0] / c.run_value[0, 0] / widths[0]  # GPUs per second of value, at one GPU
        real = point[block, 1] / (point[block, 0] * rate)
        distance = np.where(epochs.vertex[block, : len(c.labels)], np.abs(real[:, None] - widths), np.inf)
        rows.append(np.repeat(distance.argmin(axis=1), epochs.glue[number])[: len(c.run_value)])
    return rows
