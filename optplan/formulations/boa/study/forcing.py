"""The same problem with some choices forced: what `explain` asks of the engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.paths import PathsAnswer, solve_costs
from optplan.progress import Stopwatch

#: By class, which options (E, K) its jobs may hold in which epochs; classes that are not named keep all.
Kept = Mapping[str, NDArray[np.bool_]]


def solve_forced(instance: BoaInstance, kept: Kept, *, gap: float, stopwatch: Stopwatch) -> PathsAnswer | None:
    """Find the best plan whose classes hold only what they may.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget.
    kept
        At least one option for every epoch of a named class.
    gap
        Relative gap at which a pure plan may stop.
    stopwatch
        Time limit of this one solve.

    Returns
    -------
    PathsAnswer or None
        None when it is proven that no plan keeps the limits.
    """
    costs = [
        replace(graph, run_value=np.where(kept[graph.name], graph.run_value, np.inf)) if graph.name in kept else graph
        for graph in cost_steps(instance)
    ]
    return solve_costs(instance, costs, gap=gap, stopwatch=stopwatch)
