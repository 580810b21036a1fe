"""Every path of a held graph that no other beats in both costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.held.charges import Charges
from optplan.solvers.paths.held.graphs import HeldGraph
from optplan.solvers.paths.held.labels import HeldPaths, find_paths
from optplan.solvers.paths.held.sweeps import Cut, Sweep


@dataclass(frozen=True, eq=False)
class Window:
    """Which part of the trade-off is wanted.

    Parameters
    ----------
    most_value, most_consumption
        Greatest costs of a path that is wanted; +inf for no limit.
    """

    most_value: float = math.inf
    most_consumption: float = math.inf


def find_pareto_set(
    graph: HeldGraph, window: Window | None = None, *, effort: Effort | None = None, charges: Charges | None = None
) -> HeldPaths:
    """Return the whole trade-off between value and consumption.

    Parameters
    ----------
    window
        The part that is wanted; all of it when None.
    effort
        Limits on time and labels.
    charges
        What paths pay beyond the sums of their steps.

    Returns
    -------
    HeldPaths
        By increasing consumption.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    wanted = window if window is not None else Window()
    limits = (((1.0, 0.0), wanted.most_value), ((0.0, 1.0), wanted.most_consumption))
    cuts = tuple(
        Cut(Sweep(graph, *weights), limit * (1.0 + LIMIT_TOLERANCE)) for weights, limit in limits if limit < math.inf
    )
    return find_paths(graph, cuts, effort if effort is not None else Effort(), charges)
