"""Every pure plan of a small instance, by which judges of trees are tried."""

from __future__ import annotations

import itertools
import math

import numpy as np

from optplan.contracts import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import path_costs
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import path_totals


def every_path(costs: PathCosts) -> FloatArray:
    """List value and consumptions (N, 1 + L) of every path of a class."""
    epochs, nodes = costs.run_value.shape
    totals = [path_totals(costs, np.array(columns)) for columns in itertools.product(range(nodes), repeat=epochs)]
    return np.array([[value, *used] for value, used in totals])


def draw_budget_use(instance: BoaInstance, rng: np.random.Generator) -> float:
    """Return what a plan that is drawn uses of the first limit, without a list of all plans."""
    per_class = [every_path(costs) for costs in path_costs(instance)]
    sizes = [len(paths) for paths in per_class]
    places = np.unravel_index(int(rng.choice(math.prod(sizes))), sizes)
    return float(sum(paths[place, 1] for paths, place in zip(per_class, places, strict=True)))


def useful_plans(instance: BoaInstance) -> FloatArray:
    """List value and consumptions (N, 1 + L) of every pure plan but those of paths that another path beats.

    One that is nowhere larger takes the place of a path in any plan, so no least value or least consumption within
    limits is lost; there are a hundred times as many plans with them.
    """
    total = np.zeros((1, 1 + len(instance.limit_names)))
    for costs in path_costs(instance):
        paths = np.unique(every_path(costs), axis=0)
        beaten = (paths[:, None] <= paths[None]).all(axis=2).sum(axis=0) > 1  # each is no larger than itself
        total = (total[:, None] + paths[~beaten][None]).reshape(-1, total.shape[1])
    return total
