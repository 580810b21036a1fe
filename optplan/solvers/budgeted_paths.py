"""Budgeted paths: the problem that the general engines of this folder take, and what they hand back.

There is one layered graph per subject and one path through each; a path takes one node per layer. Being at a node costs
value, and consumption of each of some limits, and so does entering it: in the first layer always, later when the path
was at another node before. What entering costs may depend on the group of that other node. Minimise the total value
such that the total consumption keeps the budget of every limit. A *mixture* follows several paths through one graph,
each with a fraction; that is the convexified problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import Status, Termination
from optplan.errors import DataError
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE, is_within, most_within

#: Relative tolerance on the budgets: a choice exactly at a budget keeps it, however its terms were added up.
TOLERANCE = LIMIT_TOLERANCE


@dataclass(frozen=True)
class WeightedPath:
    """One path through a graph.

    Parameters
    ----------
    fraction
        Share of whatever flows through the graph; the fractions of a graph's paths add up to one.
    columns
        (E,) Column of the node in each layer; ``graph.labels`` says what the nodes mean.
    """

    fraction: float
    columns: IntArray


#: A mixture for each graph; a pure choice has one path per graph.
Choice = tuple[tuple[WeightedPath, ...], ...]


@dataclass(frozen=True, eq=False)
class BudgetedPaths:
    """Layered graphs that share one budget for each of some limits.

    Parameters
    ----------
    graphs
        What steps cost; all costs are finite and not negative, and all graphs have the same limits.
    budgets
        (L,) For each limit the most that the total consumption may be: finite and above zero. A limit that limits
        nothing is left out.

    Raises
    ------
    DataError
        When there is no graph, limits or shapes differ, or a number is out of its range.
    """

    graphs: tuple[PathCosts, ...]
    budgets: FloatArray

    def __post_init__(self) -> None:
        if not self.graphs:
            raise DataError("graphs", "is empty; at least one graph is needed")
        for graph in self.graphs:
            if graph.limits != self.limits:
                problem = f"has the limits {', '.join(graph.limits)}; those of {self.graphs[0].name} are needed"
                raise DataError(f"graphs.{graph.name}.limits", f"{problem}: {', '.join(self.limits)}")
            _check_graph(graph)
        if self.budgets.shape != (len(self.limits),) or not len(self.limits):
            raise DataError("budgets", f"has shape {self.budgets.shape}; one budget for each limit is needed")
        for limit, budget in zip(self.limits, self.budgets.tolist(), strict=True):
            if not (np.isfinite(budget) and budget > 0):
                raise DataError(f"budgets.{limit}", f"got {budget!r}; a finite number above zero is needed")

    @property
    def limits(self) -> tuple[str, ...]:
        """(L,) Names of the limits."""
        return self.graphs[0].limits

    @property
    def num_layers(self) -> int:
        """Layers of all graphs together."""
        return sum(len(graph.run_value) for graph in self.graphs)

    @property
    def least_value(self) -> float:
        """Total value of the best paths when the budgets are no object: a lower bound on every choice."""
        return sum(least_path(graph.run_value, graph.enter_value, graph.group)[0] for graph in self.graphs)

    def totals(self, choice: Choice) -> tuple[float, FloatArray]:
        """Return total value and total consumption (L,) of a choice."""
        value, consumption = 0.0, np.zeros(len(self.limits))
        for graph, mixture in zip(self.graphs, choice, strict=True):
            for path in mixture:
                path_value, path_consumption = path_totals(graph, path.columns)
                value += path.fraction * path_value
                consumption += path.fraction * path_consumption
        return value, consumption

    @property
    def most_consumption(self) -> FloatArray:
        """(L,) What total consumptions may be at most: the budgets, to within :data:`TOLERANCE`."""
        return most_within(self.budgets)

    def keeps_budgets(self, consumption: FloatArray) -> bool:
        """Whether total consumptions (L,) are within :attr:`most_consumption`."""
        return is_within(consumption, self.budgets)


@dataclass(frozen=True, eq=False)
class PathsOutcome:
    """What an engine found out about :class:`BudgetedPaths`.

    Parameters
    ----------
    status, termination
        As in :class:`~optplan.contracts.Result`; OPTIMAL is the engine's word.
    choice
        The best choice found, or None; it keeps the budgets to within :data:`TOLERANCE`.
    bound
        Lower bound on the total value by the engine; None when it has none.
    multipliers
        (L,) Dual values of the budgets, in value per consumption; None for integer problems.
    counters
        What the engine counted.
    engine, engine_version
        Who it was.
    """

    status: Status
    termination: Termination
    choice: Choice | None = None
    bound: float | None = None
    multipliers: FloatArray | None = None
    counters: dict[str, float] = field(default_factory=dict)
    engine: str = "optplan"
    engine_version: str = ""


#: What is known when time runs out before an engine has the problem.
OUT_OF_TIME = PathsOutcome(Status.UNKNOWN, Termination.TIME_LIMIT)


def path_totals(graph: PathCosts, columns: IntArray) -> tuple[float, FloatArray]:
    """Return value and consumption (L,) of one path.

    Parameters
    ----------
    columns
        (E,) Column of the node in each layer.
    """
    layers = np.arange(columns.size)
    entered = np.flatnonzero(np.concatenate(([True], columns[1:] != columns[:-1])))
    left = graph.group[columns[np.maximum(entered - 1, 0)]]
    value = graph.run_value[layers, columns].sum() + graph.enter_value[left, entered, columns[entered]].sum()
    consumption = graph.run_consumption[:, layers, columns].sum(axis=1)
    consumption = consumption + graph.enter_consumption[:, left, entered, columns[entered]].sum(axis=1)
    return float(value), consumption


def least_path(run: FloatArray, enter: FloatArray, group: IntArray | None = None) -> tuple[float, IntArray]:
    """Return the least cost of a path and the columns of one that has it.

    Parameters
    ----------
    run
        (E, K) Costs of being at a node.
    enter
        (F, E, K) Costs of entering a node from another one of each group.
    group
        (K,) Group of each node; None where there is one group.
    """
    layers, nodes = run.shape
    group = np.zeros(nodes, dtype=np.int64) if group is None else group
    members = [np.flatnonzero(group == number) for number in range(len(enter))]
    members = [nodes_of for nodes_of in members if nodes_of.size]
    groups = group[[nodes_of[0] for nodes_of in members]]
    come_from = np.tile(np.arange(nodes), (layers, 1))
    best = enter[group, 0, np.arange(nodes)] + run[0]
    for layer in range(1, layers):
        cheapest = np.array([nodes_of[best[nodes_of].argmin()] for nodes_of in members])
        coming = best[cheapest][:, None] + enter[groups, layer]
        source = coming.argmin(axis=0)
        entering = coming[source, np.arange(nodes)]
        moved = entering < best
        come_from[layer, moved] = cheapest[source[moved]]
        best = run[layer] + np.where(moved, entering, best)
    columns = np.empty(layers, dtype=np.int64)
    columns[-1] = best.argmin()
    for layer in range(layers - 1, 0, -1):
        columns[layer - 1] = come_from[layer, columns[layer]]
    return float(best.min()), columns


def _check_graph(graph: PathCosts) -> None:
    nodes, groups, limits = len(graph.labels), len(graph.enter_value), len(graph.limits)
    layers = len(graph.run_value)
    shapes = {
        "run_value": ("layers, nodes", (layers, nodes)),
        "run_consumption": ("limits, layers, nodes", (limits, layers, nodes)),
        "enter_value": ("groups, layers, nodes", (groups, layers, nodes)),
        "enter_consumption": ("limits, groups, layers, nodes", (limits, groups, layers, nodes)),
    }
    for name, (axes, shape) in shapes.items():
        array: FloatArray = getattr(graph, name)
        path = f"graphs.{graph.name}.{name}"
        if array.shape != shape or not array.size:
            raise DataError(path, f"has shape {array.shape}; {shape} is needed ({axes}), none of them zero")
        wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
        if wrong.size:
            place = "".join(f"[{position}]" for position in wrong[0])
            got = float(array[tuple(wrong[0])])
            raise DataError(path, f"entry {place}: got {got!r}; finite numbers from 0 on are allowed")
    path = f"graphs.{graph.name}.group"
    if graph.group.shape != (nodes,):
        raise DataError(path, f"has shape {graph.group.shape}; ({nodes},) is needed (nodes)")
    if graph.group.min() < 0 or graph.group.max() >= groups:
        raise DataError(path, f"got {graph.group.tolist()}; whole numbers from 0 to {groups - 1} are allowed")
