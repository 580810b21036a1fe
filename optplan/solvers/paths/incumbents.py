"""Choices of one path per graph among paths known: a small integer program, solved by HiGHS as far as effort allows.

The restricted master heuristic (Joncour et al., "Column generation based primal heuristics", Electronic Notes in
Discrete Mathematics 36, 2010). What it finds is a plan; nothing is proven by it.
"""

from __future__ import annotations

import numpy as np

from optplan.progress import Stopwatch
from optplan.solvers.paths.engine import pass_choices, run_engine, start_engine
from optplan.solvers.paths.families import FloatArray, IntArray

#: Absolute tolerance of HiGHS on the scaled program, and the relative slack of the limits: together LIMIT_TOLERANCE.
_ENGINE_TOLERANCE = 4e-10
#: Nodes of the search tree, so that the outcome does not depend on the machine's speed.
_MOST_NODES = 500
#: Paths among which a choice is looked for, besides two per graph: those of least excess.
_MOST_PATHS = 2_000


def find_nearest(graph: IntArray, reduced_cost: FloatArray) -> IntArray:
    """Return the positions, increasing, of the paths of least excess, as many as a choice is looked for among.

    Parameters
    ----------
    graph
        (C,) Whose path each is, from 0 to G - 1.
    reduced_cost
        (C,) Of each.
    """
    least = np.full(int(graph.max()) + 1, np.inf)
    np.minimum.at(least, graph, reduced_cost)
    nearest = np.argsort(reduced_cost - least[graph], kind="stable")
    return np.sort(nearest[: _MOST_PATHS + 2 * least.size])


def choose_paths(
    graph: IntArray, value: FloatArray, consumption: FloatArray, limits: FloatArray, gap: float, stopwatch: Stopwatch
) -> IntArray | None:
    """Return a good choice of one path per graph that keeps the limits, or None when none was found.

    Parameters
    ----------
    graph
        (M,) Whose path each is, from 0 to G - 1.
    value, consumption
        (M,), (M, L) Of each path.
    limits
        (L,) What the total consumptions may be.
    gap
        Stop at this relative gap to the best choice among these paths.
    stopwatch
        When to stop.

    Returns
    -------
    IntArray | None
        (G,) Position of the chosen path of each graph.
    """
    import highspy

    num_graphs = int(graph.max()) + 1
    entries = consumption / limits
    usable = np.flatnonzero((entries <= 1.0 + _ENGINE_TOLERANCE).all(axis=1))
    graph, entries = graph[usable], entries[usable]
    if np.unique(graph).size < num_graphs:
        return None
    engine = start_engine(
        mip_rel_gap=gap,
        mip_max_nodes=_MOST_NODES,
        mip_feasibility_tolerance=_ENGINE_TOLERANCE,
        primal_feasibility_tolerance=_ENGINE_TOLERANCE,
        small_matrix_value=1e-12,
    )
    if stopwatch.remaining_s is not None:
        engine.setOptionValue("time_limit", stopwatch.remaining_s)
    scale, room = float(value.max()) or 1.0, np.full(limits.size, 1.0 + _ENGINE_TOLERANCE)
    pass_choices(engine, graph, value[usable] / scale, entries, room, whole=True)
    run_engine(engine)
    if engine.getInfo().primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    chosen = np.flatnonzero(np.asarray(engine.getSolution().col_value) > 0.5)
    # Paths come in any order, and the choice is by graph.
    return usable[chosen[np.argsort(graph[chosen])]] if chosen.size == num_graphs else None
