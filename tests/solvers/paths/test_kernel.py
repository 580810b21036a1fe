"""The kernel: compiled where the package was installed with a compiler, and the same to the bit as Python."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from optplan.contracts.judgement import PathCosts
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import kernel
from optplan.solvers.paths.switching import LinkedGraphs

Maker = Callable[..., tuple[PathCosts, ...]]
Interpret = Callable[[ModuleType], ModuleType]


def describe(module: ModuleType, graphs: LinkedGraphs, multipliers: np.ndarray) -> list[list[float]]:
    """Return everything that a kernel finds in some graphs: best nodes, costs through nodes, paths within 20 %."""
    costs = module.LayeredCosts(
        graphs.run_value,
        graphs.run_consumption,
        graphs.enter_value,
        graphs.enter_consumption,
        graphs.closed.view(np.uint8),
        graphs.starts,
        graphs.lengths,
    )
    nodes = np.zeros((graphs.num_graphs, graphs.num_layers), dtype=np.int32)
    weights = np.tile(multipliers, (graphs.num_graphs, 1))
    costs.find_best_nodes(np.arange(graphs.num_graphs), weights, 1.0, nodes)
    value, used = np.empty(graphs.num_graphs), np.empty((graphs.num_graphs, graphs.limits.size))
    costs.add_up_paths(np.arange(graphs.num_graphs), nodes, value, used)
    through = np.empty(graphs.run_value.shape)
    costs.find_costs_through(multipliers, through)
    allowance = 0.2 * float(value.sum())
    completion = np.empty(graphs.run_value.shape), np.empty((len(graphs.run_value), graphs.num_groups))
    costs.find_completion_bounds(multipliers, *completion)
    search = module.PathSearch(costs, np.arange(graphs.num_graphs), multipliers, completion, allowance, ROUNDING)
    while not search.run(50):
        pass
    ends = np.asarray(search.ends)[: search.num_ends]
    path = np.zeros(graphs.num_layers, dtype=np.int32)
    search.trace(int(search.ends_label[0]), 0, path)
    arrays = (nodes, value, used, through, *completion, ends, np.asarray(search.ends_of), path)
    return [np.asarray(each, dtype=float).ravel().tolist() for each in arrays]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("grouped", [False, True])
def test_compiled_and_interpreted_agree_to_the_bit(
    random_costs: Maker, interpret: Interpret, seed: int, *, grouped: bool
) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    costs = random_costs(seed, grouped=grouped)
    graphs = LinkedGraphs.from_costs(costs, np.ones(len(costs[0].limits)))
    multipliers = np.random.default_rng(seed).uniform(0.0, 2.0, graphs.limits.size)
    assert describe(kernel, graphs, multipliers) == describe(interpret(kernel), graphs, multipliers)
