"""Budgeted paths: the problem that the general engines of this folder take, and what they hand back.

There is one layered graph per subject and one path through each; a path takes one node per layer. Being at a node costs
value and consumption, and so does entering it: in the first layer always, later when the path was at another node
before. Minimise the total value such that the total consumption keeps the budget. A *mixture* follows several paths
through one graph, each with a fraction; that is the convexified problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import Status, Termination
from optplan.errors import DataError
from optplan.schema import FloatArray, IntArray

#: Relative tolerance on the budget: a choice exactly at the budget keeps it, however its terms were added up.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class WeightedPath:
    """One path through a graph.

    Parameters
    ----------
    fraction
        Share of whatever flows through the graph; the fractions of a graph's paths add up to one.
    columns
        (E,) Column of the node in each layer; ``graph.nodes[columns]`` is what the nodes mean.
    """

    fraction: float
    columns: IntArray


#: A mixture for each graph; a pure choice has one path per graph.
Choice = tuple[tuple[WeightedPath, ...], ...]


@dataclass(frozen=True)
class BudgetedPaths:
    """Layered graphs that share one budget.

    Parameters
    ----------
    graphs
        What steps cost; all costs are finite and not negative.
    budget
        Limit on the total consumption, above zero.

    Raises
    ------
    DataError
        When there is no graph, shapes differ, or a number is out of its range.
    """

    graphs: tuple[PathCosts, ...]
    budget: float

    def __post_init__(self) -> None:
        if not self.graphs:
            raise DataError("graphs", "is empty; at least one graph is needed")
        if not (np.isfinite(self.budget) and self.budget > 0):
            raise DataError("budget", f"got {self.budget!r}; a finite number above zero is needed")
        for graph in self.graphs:
            _check_graph(graph)

    @property
    def num_layers(self) -> int:
        """Layers of all graphs together."""
        return sum(len(graph.run_value) for graph in self.graphs)

    @property
    def least_value(self) -> float:
        """Total value of the best paths when the budget is no object: a lower bound on every choice."""
        return sum(least_path(graph.run_value, graph.enter_value)[0] for graph in self.graphs)

    def totals(self, choice: Choice) -> tuple[float, float]:
        """Return total value and total consumption of a choice."""
        value = consumption = 0.0
        for graph, mixture in zip(self.graphs, choice, strict=True):
            for path in mixture:
                path_value, path_consumption = path_totals(graph, path.columns)
                value += path.fraction * path_value
                consumption += path.fraction * path_consumption
        return value, consumption

    @property
    def most_consumption(self) -> float:
        """What a total consumption may be at most: the budget, to within :data:`TOLERANCE`."""
        return self.budget * (1.0 + TOLERANCE)


@dataclass(frozen=True)
class PathsOutcome:
    """What an engine found out about :class:`BudgetedPaths`.

    Parameters
    ----------
    status, termination
        As in :class:`~optplan.contracts.Result`; OPTIMAL is the engine's word.
    choice
        The best choice found, or None; it keeps the budget to within :data:`TOLERANCE`.
    bound
        Lower bound on the total value by the engine; None when it has none.
    multiplier
        Dual value of the budget, in value per consumption; None for integer problems.
    counters
        What the engine counted.
    engine, engine_version
        Who it was.
    """

    status: Status
    termination: Termination
    choice: Choice | None = None
    bound: float | None = None
    multiplier: float | None = None
    counters: dict[str, float] = field(default_factory=dict)
    engine: str = "optplan"
    engine_version: str = ""


def path_totals(graph: PathCosts, columns: IntArray) -> tuple[float, float]:
    """Return value and consumption of one path.

    Parameters
    ----------
    graph
        What steps cost.
    columns
        (E,) Column of the node in each layer.
    """
    layers = np.arange(columns.size)
    entered = np.concatenate(([True], columns[1:] != columns[:-1]))
    value = graph.run_value[layers, columns].sum() + graph.enter_value[layers, columns][entered].sum()
    consumption = graph.run_consumption[layers, columns].sum() + graph.enter_consumption[layers, columns][entered].sum()
    return float(value), float(consumption)


def least_path(run: FloatArray, enter: FloatArray) -> tuple[float, IntArray]:
    """Return the least cost of a path and the columns of one that has it.

    Parameters
    ----------
    run, enter
        (E, K) Costs of being at and of entering a node.
    """
    staying = np.zeros(run.shape, dtype=np.bool_)
    cheapest = np.zeros(len(run), dtype=np.int64)
    best = enter[0] + run[0]
    for layer in range(1, len(run)):
        cheapest[layer] = best.argmin()
        entering = best[cheapest[layer]] + enter[layer]
        staying[layer] = best <= entering
        best = run[layer] + np.where(staying[layer], best, entering)
    columns = np.empty(len(run), dtype=np.int64)
    columns[-1] = best.argmin()
    for layer in range(len(run) - 1, 0, -1):
        columns[layer - 1] = columns[layer] if staying[layer, columns[layer]] else cheapest[layer]
    return float(best.min()), columns


def _check_graph(graph: PathCosts) -> None:
    shape = graph.run_value.shape
    arrays = {
        "run_value": graph.run_value,
        "run_consumption": graph.run_consumption,
        "enter_value": graph.enter_value,
        "enter_consumption": graph.enter_consumption,
    }
    for name, array in arrays.items():
        path = f"graphs.{graph.name}.{name}"
        if array.ndim != 2 or array.shape != shape or not array.size or shape[1] != graph.nodes.size:
            raise DataError(path, f"has shape {array.shape}; (layers, {graph.nodes.size} nodes) is needed")
        wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
        if wrong.size:
            layer, node = wrong[0]
            problem = f"entry [{layer}][{node}]: got {array[layer, node]}; finite numbers from 0 on are allowed"
            raise DataError(path, problem)
