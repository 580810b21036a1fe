"""Budgeted paths as a mixed-integer program: columns, rows and their names, for whichever engine takes matrices.

For each graph, layer j and node k: ``x[j, k]`` is one when the path is at the node, and ``enter[j, k]`` is one when it
comes from another one (from the second layer on; what entering the first layer costs is part of x there). Rows:

one for each limit
    Total consumption of all x and enter keeps the budget.
``one``
    One node per layer: the x of a layer add up to one.
``enter``
    ``enter[j, k] >= x[j, k] - x[j - 1, k]``; costs are not negative, so equality with the positive part holds in an
    optimum and ``enter`` need not be integer.

Without the rows of the limits the linear relaxation has integer vertices: for given x, the most that can stay at node k
is the lesser of x[j - 1, k] and x[j, k], and all else flows from any left node to any entered one at a cost that does
not depend on where it comes from. With them the relaxation is therefore the problem of the best *mixture* of paths, and
its solution is taken apart into paths with fractions.

Where what entering costs depends on the group f of the node left, the flow says who goes where, by a hub for each layer
and group. ``enter[j, f, k]`` comes from group f, ``stay[j, k]`` was at the node before, what leaves node k is
``x[j - 1, k] - stay[j, k]``, and in place of the rows ``enter`` there are:

``at``
    ``x[j, k] = stay[j, k] + sum_f enter[j, f, k]``.
``leave``
    ``stay[j, k] <= x[j - 1, k]``: nothing that was not at a node leaves it, so no path passes two hubs in one layer.
``hub``
    What leaves the nodes of group f enters from f: ``sum_(k in f) (x[j - 1, k] - stay[j, k]) = sum_k enter[j, f, k]``.

That is a flow through a network, so all that is said above holds for it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import BudgetedPaths
from optplan.solvers.flows import Flow


@dataclass(frozen=True, eq=False)
class Scales:
    """What the total value, and the consumption (L,) of each limit, are divided by."""

    value: float
    consumption: FloatArray


@dataclass(frozen=True, eq=False)
class Block:
    """Where one graph's columns lie: first x, then stay, then enter.

    There is no enter where entering costs nothing, and no stay where it does not matter which group is left.
    """

    graph: PathCosts
    first: int

    @property
    def has_changes(self) -> bool:
        """Whether entering costs anything after the first layer."""
        graph = self.graph
        return bool((graph.enter_value[:, 1:] > 0).any() or (graph.enter_consumption[:, :, 1:] > 0).any())

    @property
    def has_hubs(self) -> bool:
        """Whether it matters which group is left."""
        return self.graph.num_groups > 1 and self.has_changes

    @property
    def x(self) -> IntArray:
        """(E, K) Columns of x."""
        return self._columns(self.first, *self.graph.run_value.shape)

    @property
    def stay(self) -> IntArray:
        """(E - 1, K) Columns of stay; no rows where there is none."""
        layers, nodes = self.graph.run_value.shape
        return self._columns(self.first + layers * nodes, layers - 1 if self.has_hubs else 0, nodes)

    @property
    def enter(self) -> IntArray:
        """(E - 1, F, K) Columns of enter; no rows where there is none."""
        layers, nodes = self.graph.run_value.shape
        first = self.first + layers * nodes + self.stay.size
        return self._columns(first, layers - 1 if self.has_changes else 0, self.graph.num_groups, nodes)

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.x.size + self.stay.size + self.enter.size

    @staticmethod
    def _columns(first: int, *shape: int) -> IntArray:
        return first + np.arange(np.prod(shape), dtype=np.int64).reshape(shape)

    def costs(self, run: FloatArray, enter: FloatArray) -> FloatArray:
        """List the costs of the columns, being at (E, K) and entering (F, E, K) nodes given."""
        nodes = np.arange(len(self.graph.group))
        at_nodes = run.copy()
        at_nodes[0] += enter[self.graph.group, 0, nodes]
        entering = enter[:, 1:].swapaxes(0, 1)[: len(self.enter)]
        return np.concatenate([at_nodes.ravel(), np.zeros(self.stay.size), entering.ravel()])

    def read(self, columns: FloatArray) -> Flow:
        """Return the flow that values of all columns of the program say."""
        if not self.has_hubs:
            return Flow.of_shares(columns[self.x])
        return Flow(columns[self.x], columns[self.stay], columns[self.enter], self.graph.group)


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise cost * x, 0 <= x <= upper, rows between their limits; the matrix row by row."""

    cost: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    entries: FloatArray
    integral: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows (N, M) of one family, all with the same limits."""

    columns: IntArray
    entries: FloatArray
    lower: float
    upper: float


def lay_out(problem: BudgetedPaths) -> list[Block]:
    """Say where the columns of each graph lie."""
    blocks, column = [], 0
    for graph in problem.graphs:
        blocks.append(Block(graph, column))
        column += blocks[-1].size
    return blocks


def scales_of(problem: BudgetedPaths) -> Scales:
    """Choose scales on which each budget, and the least value, is the number of layers: typical entries are one."""
    layers = problem.num_layers
    return Scales(value=(problem.least_value or 1.0) / layers, consumption=problem.budgets / layers)


def build_program(blocks: Sequence[Block], budgets: FloatArray, scales: Scales, *, relaxed: bool) -> Program:
    """Make the program; the limits (L,) are its first rows.

    Parameters
    ----------
    blocks
        From :func:`lay_out`.
    budgets
        (L,) In the unit of the graphs.
    scales
        What values and consumptions are divided by.
    relaxed
        Whether x may be fractional.
    """
    budgets = budgets / scales.consumption
    value = np.concatenate([b.costs(b.graph.run_value, b.graph.enter_value) for b in blocks]) / scales.value
    is_x = np.concatenate([np.repeat([True, False], [b.x.size, b.size - b.x.size]) for b in blocks])
    # A node that needs more than a whole budget is on no single path; mixtures may have a little of it.
    too_much = np.zeros(value.size, dtype=np.bool_)
    rows = []
    for limit, budget in enumerate(budgets.tolist()):
        costs = [b.costs(b.graph.run_consumption[limit], b.graph.enter_consumption[limit]) for b in blocks]
        consumption = np.concatenate(costs) / scales.consumption[limit]
        used = np.flatnonzero(consumption)
        rows.append(_Rows(used[None, :], consumption[None, used], -np.inf, budget))
        too_much |= is_x & (consumption > budget) & (not relaxed)
    rows += [family for block in blocks for family in _list_rows(block)]
    lengths = np.concatenate([np.full(len(family.columns), family.columns.shape[1]) for family in rows])
    return Program(
        cost=value,
        upper=np.where(too_much, 0.0, 1.0),
        row_lower=np.concatenate([np.full(len(family.columns), family.lower) for family in rows]),
        row_upper=np.concatenate([np.full(len(family.columns), family.upper) for family in rows]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        columns=np.concatenate([family.columns.ravel() for family in rows]).astype(np.int32),
        entries=np.concatenate([family.entries.ravel() for family in rows]),
        integral=(is_x & (not relaxed)).astype(np.int32),
    )


def _list_rows(block: Block) -> list[_Rows]:
    """List the families of a graph's rows, in the order of the names in :func:`name_program`."""
    x, stay, enter = block.x, block.stay, block.enter
    one = _Rows(x, np.ones(x.shape), 1.0, 1.0)
    if not block.has_changes:
        return [one]
    if not block.has_hubs:
        return [one, _row_family([(enter[:, 0], 1.0), (x[1:], -1.0), (x[:-1], 1.0)], 0.0, np.inf)]
    coming = [(enter[:, group], 1.0) for group in range(enter.shape[1])]
    at = _row_family([(stay, 1.0), *coming, (x[1:], -1.0)], 0.0, 0.0)
    leave = _row_family([(x[:-1], 1.0), (stay, -1.0)], 0.0, np.inf)
    hubs = []
    for group in range(enter.shape[1]):
        own = block.graph.group == group
        columns = np.concatenate([x[:-1, own], stay[:, own], enter[:, group]], axis=1)
        entries = np.repeat([1.0, -1.0, -1.0], [own.sum(), own.sum(), own.size])
        hubs.append(_Rows(columns, np.broadcast_to(entries, columns.shape), 0.0, 0.0))
    return [one, at, leave, *hubs]


def _row_family(terms: Sequence[tuple[IntArray, float]], lower: float, upper: float) -> _Rows:
    """Make one row for each entry of the arrays of columns, which have one shape."""
    columns = np.stack([columns for columns, _ in terms], axis=-1).reshape(-1, len(terms))
    return _Rows(columns, np.broadcast_to([entry for _, entry in terms], columns.shape), lower, upper)


def name_program(blocks: Sequence[Block]) -> tuple[list[str], list[str]]:
    """Name columns and rows in the program's order.

    Layers and groups count from 1; characters that the formats of models do not allow become underscores, and names
    that then coincide are numbered.
    """
    rows = _clean(blocks[0].graph.limits)
    columns = []
    for name, block in zip(_clean(block.graph.name for block in blocks), blocks, strict=True):
        layers, groups = range(1, len(block.x) + 1), range(1, block.graph.num_groups + 1)
        labels = _clean(block.graph.labels)
        cells = [f"{name}.{layer}.{label}" for layer in layers for label in labels]
        columns += [f"x.{cell}" for cell in cells]
        rows += [f"one.{name}.{layer}" for layer in layers]
        later = cells[len(labels) :]
        if block.has_hubs:
            columns += [f"stay.{cell}" for cell in later]
            columns += [
                f"enter.{name}.{layer}.{label}.from.{group}"
                for layer in layers[1:]
                for group in groups
                for label in labels
            ]
            rows += [f"{family}.{cell}" for family in ("at", "leave") for cell in later]
            rows += [f"hub.{name}.{layer}.{group}" for group in groups for layer in layers[1:]]
        elif block.has_changes:
            columns += [f"enter.{cell}" for cell in later]
            rows += [f"enter.{cell}" for cell in later]
    return columns, rows


def _clean(names: Iterable[str]) -> list[str]:
    cleaned: list[str] = []
    for number, name in enumerate(names, start=1):
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        cleaned.append(f"{clean}_{number}" if clean in cleaned else clean)
    return cleaned
