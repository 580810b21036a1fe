"""The same problem with some choices forced: what `explain` asks of the engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.paths import PathsAnswer, solve_costs
from optplan.progress import Stopwatch
from optplan.solvers.paths.levels.memory import Memory

#: By class, which options (E, K) its jobs may hold in which epochs; classes that are not named keep all.
Kept = Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Shared:
    """What re-solves of one instance have in common: costs by class, and what is known of their graphs."""

    costs: Sequence[PathCosts]
    memory: Memory

    @classmethod
    def of_instance(cls, instance: BoaInstance) -> Shared:
        """Compute the costs of an instance, of which nothing else is known yet."""
        return cls(cost_steps(instance), Memory())


def solve_forced(
    instance: BoaInstance, kept: Kept, shared: Shared, *, gap: float, stopwatch: Stopwatch
) -> PathsAnswer | None:
    """Find the best plan whose classes hold only what they may.

    Parameters
    ----------
    instance
        Problem whole or rescaling, with a budget.
    kept
        At least one option for every epoch of a named class.
    shared
        From the re-solves before; this one adds to it.
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
        for graph in shared.costs
    ]
    return solve_costs(instance, costs, gap=gap, stopwatch=stopwatch, memory=shared.memory)
