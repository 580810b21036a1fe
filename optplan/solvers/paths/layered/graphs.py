"""Layered graphs with node costs and switch costs.

A graph is a sequence of layers with the same nodes in each; a path takes one node per layer. Being at node k of layer
j costs ``value`` and ``consumption``; being there without having been at node k of the layer before (which includes
the first layer) costs ``switch_value`` and ``switch_consumption`` on top, from wherever one comes. With layers as the
epochs of a job class and nodes as widths this is training with restarts; with one layer per graph it is a
multiple-choice knapsack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from optplan.errors import DataError
from optplan.solvers.paths.batches import FloatArray, IntArray, NodeArray, PathBatch
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.layered.labels import find_pareto_paths
from optplan.solvers.paths.layered.sweeps import find_shortest_paths
from optplan.solvers.paths.skyline import ParetoPaths

#: Path steps whose costs are added up at once; bounds the memory of large batches.
_FOLLOWED_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class LayeredGraphs:
    """G layered graphs; the layers of all of them are stacked into N rows, so unequal lengths cost nothing.

    Parameters
    ----------
    value
        (N, K) Value of each node, at least 0; +inf marks a node that is forbidden or does not exist.
    consumption
        (N, K) Consumption of each node, finite and at least 0.
    switch_value
        (S, K) Extra value of entering a node, finite and at least 0.
    switch_consumption
        (S, K) Extra consumption of entering a node, finite and at least 0.
    switch_row
        (N,) Which of the S rows holds for each layer.
    first_row
        (G + 1,) Row of each graph's first layer; the last entry is N.

    Raises
    ------
    DataError
        When shapes do not fit, a number is negative or not a number, or a layer has no allowed node.
    """

    value: FloatArray
    consumption: FloatArray
    switch_value: FloatArray
    switch_consumption: FloatArray
    switch_row: IntArray
    first_row: IntArray

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_numbers()
        for name, array in list(vars(self).items()):
            # A view, so that the caller's own array stays writeable.
            view = array.view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @classmethod
    def from_lists(
        cls,
        values: Sequence[ArrayLike],
        consumptions: Sequence[ArrayLike],
        switch_values: Sequence[ArrayLike] | float = 0.0,
        switch_consumptions: Sequence[ArrayLike] | float = 0.0,
    ) -> LayeredGraphs:
        """Build from one array per graph; graphs may differ in layers and in nodes.

        Parameters
        ----------
        values, consumptions
            One (E_g, K_g) array per graph.
        switch_values, switch_consumptions
            One array per graph that broadcasts to (E_g, K_g), or one number for all. Costs that are the same in all
            layers, given as (K_g,) or as a number, are stored once.

        Returns
        -------
        LayeredGraphs
            Copies of the arrays, stacked.

        Raises
        ------
        DataError
            When arrays do not fit together or hold numbers that are not allowed.
        """
        tables = [np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in values]
        if not tables:
            raise DataError("graphs", "there are none", "give at least one graph")
        widest = max(table.shape[1] for table in tables)
        lengths = [table.shape[0] for table in tables]
        shapes = [table.shape for table in tables]
        switch_value, per_layer = _stack_switches(switch_values, shapes, widest, "switch_value")
        switch_consumption, also = _stack_switches(switch_consumptions, shapes, widest, "switch_consumption")
        if per_layer != also:
            owner = np.repeat(np.arange(len(shapes)), lengths)
            switch_value = switch_value if per_layer else switch_value[owner]
            switch_consumption = switch_consumption if also else switch_consumption[owner]
        if per_layer or also:
            switch_row = np.arange(sum(lengths))
        else:
            switch_row = np.repeat(np.arange(len(shapes)), lengths)
        return cls(
            _stack(tables, shapes, widest, "value", np.inf),
            _stack(consumptions, shapes, widest, "consumption", 0.0),
            switch_value,
            switch_consumption,
            switch_row,
            np.concatenate([[0], np.cumsum(lengths)]),
        )

    @classmethod
    def from_padded(
        cls,
        value: ArrayLike,
        consumption: ArrayLike,
        switch_value: ArrayLike = 0.0,
        switch_consumption: ArrayLike = 0.0,
        num_layers: ArrayLike | None = None,
    ) -> LayeredGraphs:
        """Build from arrays over all graphs at once; rows beyond a graph's layers are left out.

        Parameters
        ----------
        value, consumption
            (G, E, K). Taken without a copy when every graph has E layers.
        switch_value, switch_consumption
            Broadcast to (G, 1, K) or to (G, E, K).
        num_layers
            (G,) Layers of each graph, from 1 to E; E for all when None.

        Returns
        -------
        LayeredGraphs
            The graphs in the same order.

        Raises
        ------
        DataError
            When shapes do not fit or numbers are not allowed.
        """
        values = np.asarray(value, dtype=np.float64)
        if values.ndim != 3:
            raise DataError("value", f"has shape {values.shape}", "give an array of graphs x layers x nodes")
        count, layers, nodes = values.shape
        lengths = np.full(count, layers) if num_layers is None else np.asarray(num_layers, dtype=np.intp)
        if lengths.shape != (count,) or np.any((lengths < 1) | (lengths > layers)):
            raise DataError("num_layers", f"must be {count} whole numbers from 1 to {layers}")
        kept = (np.arange(layers) < lengths[:, None]).ravel()
        all_kept = bool(kept.all())
        fixed = all(np.ndim(cost) < 3 or np.shape(cost)[1] == 1 for cost in (switch_value, switch_consumption))

        def lay_out(name: str, array: ArrayLike, depth: int) -> FloatArray:
            try:
                full = np.broadcast_to(np.asarray(array, dtype=np.float64), (count, depth, nodes))
            except ValueError:
                problem = f"has shape {np.shape(array)}, which does not fit {count} x {depth} x {nodes}"
                raise DataError(name, problem) from None
            rows = full.reshape(-1, nodes)
            return np.ascontiguousarray(rows if depth == 1 < layers or all_kept else rows[kept])

        owner = np.repeat(np.arange(count), lengths)
        depth = 1 if fixed else layers
        return cls(
            lay_out("value", values, layers),
            lay_out("consumption", consumption, layers),
            lay_out("switch_value", switch_value, depth),
            lay_out("switch_consumption", switch_consumption, depth),
            owner if fixed else np.arange(owner.size),
            np.concatenate([[0], np.cumsum(lengths)]),
        )

    @property
    def num_graphs(self) -> int:
        """How many graphs there are."""
        return self.first_row.size - 1

    @property
    def num_nodes(self) -> int:
        """How many nodes a layer has, forbidden ones included."""
        return int(self.value.shape[1])

    @cached_property
    def num_layers(self) -> IntArray:
        """(G,) How many layers each graph has."""
        return np.diff(self.first_row)

    @cached_property
    def switches_once(self) -> bool:
        """Whether each graph has one row of switch costs for all its layers."""
        return bool(np.array_equal(self.switch_row, np.repeat(self.switch_row[self.first_row[:-1]], self.num_layers)))

    def shortest_paths(self, multiplier: float | FloatArray, members: IntArray | None = None) -> PathBatch:
        """Return a path of least value + multiplier * consumption; O(layers x nodes) each.

        Ties go to staying over switching, then to the node of the lowest index; so they do not depend on which other
        graphs are asked along.

        Parameters
        ----------
        multiplier
            At least 0; one number, or one per asked graph.
        members
            (P,) Which graph each path is wanted of, repetitions allowed; every graph once when None.

        Returns
        -------
        PathBatch
            P paths.
        """
        asked = np.arange(self.num_graphs) if members is None else members
        multipliers = np.broadcast_to(np.asarray(multiplier, dtype=np.float64), asked.shape)
        return self.follow(asked, find_shortest_paths(self, asked, multipliers), multipliers)

    def follow(self, members: IntArray, nodes: NodeArray, multiplier: float | FloatArray = 0.0) -> PathBatch:
        """Return the sums along given paths.

        Parameters
        ----------
        members
            (P,) The graph of each path.
        nodes
            (P, E) Node in each layer; entries beyond a graph's layers are ignored.
        multiplier
            For the reduced cost; one number, or (P,).

        Returns
        -------
        PathBatch
            The same paths with their sums.
        """
        value, consumption = np.empty(members.size), np.empty(members.size)
        pieces = max(1, nodes.size // _FOLLOWED_AT_ONCE)
        for piece in np.array_split(np.arange(members.size), pieces):
            value[piece], consumption[piece] = self._add_up(members[piece], nodes[piece])
        inside = np.arange(nodes.shape[1]) < self.num_layers[members][:, None]
        labelled = np.where(inside, nodes, np.int32(-1))
        return PathBatch(value, consumption, value + multiplier * consumption, labelled)

    def _add_up(self, members: IntArray, nodes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Return the values and the consumptions of paths."""
        layers = np.arange(nodes.shape[1])
        inside = layers < self.num_layers[members][:, None]
        rows = np.where(inside, self.first_row[members][:, None] + layers, 0)
        taken = np.where(inside, nodes, 0)
        enters = np.ones(taken.shape, dtype=bool)
        enters[:, 1:] = taken[:, 1:] != taken[:, :-1]
        switch_rows = self.switch_row[rows]

        def total(cost: FloatArray, switch: FloatArray) -> FloatArray:
            steps = cost[rows, taken] + np.where(enters, switch[switch_rows, taken], 0.0)
            # One after another: unlike sum, the result does not depend on how many layers other graphs have.
            return np.asarray(np.where(inside, steps, 0.0).cumsum(axis=1)[:, -1])

        return total(self.value, self.switch_value), total(self.consumption, self.switch_consumption)

    def pareto_paths(self, multiplier: float, allowance: float, effort: Effort) -> ParetoPaths:
        """Return, per graph, the undominated paths within ``allowance`` of the graph's least reduced cost.

        Parameters
        ----------
        multiplier
            Weight of the consumption in the reduced cost.
        allowance
            In units of value.
        effort
            Charged for a pass and for each layer's labels.

        Returns
        -------
        ParetoPaths
            At least one path per graph.

        Raises
        ------
        OutOfEffortError
            When a limit of ``effort`` is met.
        """
        return find_pareto_paths(self, multiplier, allowance, effort)

    def _check_shapes(self) -> None:
        """Raise when the arrays do not fit together."""
        shape, switch_shape = self.value.shape, self.switch_value.shape
        if self.value.ndim != 2 or 0 in shape:
            raise DataError("graphs.value", f"has shape {shape}", "give at least one layer and one node")
        if self.consumption.shape != shape:
            raise DataError("graphs.consumption", f"has shape {self.consumption.shape}, value has {shape}")
        if self.switch_consumption.shape != switch_shape or switch_shape[1:] != shape[1:]:
            found = f"{switch_shape} and {self.switch_consumption.shape}"
            raise DataError("graphs.switch_value, graphs.switch_consumption", f"have shapes {found}, value has {shape}")
        first, rows = self.first_row, self.switch_row
        if first.size < 2 or first[0] != 0 or first[-1] != shape[0] or np.any(np.diff(first) < 1):
            raise DataError("graphs.first_row", f"must increase from 0 to {shape[0]}", "every graph needs a layer")
        if rows.shape != shape[:1] or rows.min() < 0 or rows.max() >= switch_shape[0]:
            raise DataError("graphs.switch_row", f"must be {shape[0]} numbers from 0 to {switch_shape[0] - 1}")

    def _check_numbers(self) -> None:
        """Raise at the first number that is not allowed."""
        for name in ("value", "consumption", "switch_value", "switch_consumption"):
            array: FloatArray = getattr(self, name)
            # min and max make no temporary of the array's size; not-a-number spreads to both.
            if array.min() >= 0 and (name == "value" or array.max() < np.inf):
                continue
            wrong = ~(array >= 0) if name == "value" else ~((array >= 0) & np.isfinite(array))
            row, node = (int(index) for index in np.argwhere(wrong)[0])
            allowed = "at least 0 (+inf forbids the node)" if name == "value" else "finite and at least 0"
            raise DataError(self._locate(name, row, node), f"is {array[row, node]}", f"it must be {allowed}")
        closed = np.flatnonzero(self.value.min(axis=1) == np.inf)
        if closed.size:
            path = self._locate("value", int(closed[0]))
            raise DataError(path, "every node is forbidden", "allow at least one node in each layer")

    def _locate(self, name: str, row: int, node: int | None = None) -> str:
        """Return the path of a row, or of one of its numbers, as the caller knows it."""
        if name.startswith("switch"):
            row = int(np.flatnonzero(self.switch_row == row)[0])
        graph = int(np.searchsorted(self.first_row, row, side="right")) - 1
        path = f"graphs[{graph}].{name}[{row - int(self.first_row[graph])}]"
        return path if node is None else f"{path}[{node}]"


def _stack(
    arrays: Sequence[ArrayLike], shapes: Sequence[tuple[int, ...]], widest: int, name: str, fill: float
) -> FloatArray:
    """Return the graphs' arrays below one another, rows filled up to the widest."""
    if len(arrays) != len(shapes):
        raise DataError(f"graphs.{name}", f"{len(arrays)} arrays for {len(shapes)} graphs")
    tables = [np.atleast_2d(np.asarray(array, dtype=np.float64)) for array in arrays]
    for graph, (table, shape) in enumerate(zip(tables, shapes, strict=True)):
        if table.shape != shape:
            raise DataError(f"graphs[{graph}].{name}", f"has shape {table.shape}, value has {shape}")
    stacked = np.full((sum(shape[0] for shape in shapes), widest), fill)
    if all(shape[1] == widest for shape in shapes):
        return np.concatenate(tables, out=stacked)  # row after row in memory, whatever the tables' own order
    row = 0
    for table, shape in zip(tables, shapes, strict=True):
        stacked[row : row + shape[0], : shape[1]] = table
        row += shape[0]
    return stacked


def _stack_switches(
    costs: Sequence[ArrayLike] | float, shapes: Sequence[tuple[int, ...]], widest: int, name: str
) -> tuple[FloatArray, bool]:
    """Return the switch costs stacked, and whether they have one row per layer rather than one per graph."""
    given: Sequence[ArrayLike] = [costs] * len(shapes) if isinstance(costs, int | float) else costs
    if len(given) != len(shapes):
        raise DataError(f"graphs.{name}", f"{len(given)} arrays for {len(shapes)} graphs")
    per_layer = any(np.ndim(cost) == 2 and np.shape(cost)[0] > 1 for cost in given)
    tables = []
    for graph, (cost, shape) in enumerate(zip(given, shapes, strict=True)):
        depth = shape[0] if per_layer else 1
        table = np.asarray(cost, dtype=np.float64)
        if table.shape == (shape[1],) and depth == 1:
            tables.append(table[None])
            continue
        try:
            tables.append(np.broadcast_to(table, (depth, shape[1])))
        except ValueError:
            problem = f"has shape {np.shape(cost)}, which does not fit {depth} x {shape[1]}"
            raise DataError(f"graphs[{graph}].{name}", problem) from None
    return _stack(tables, [table.shape for table in tables], widest, name, 0.0), per_layer
