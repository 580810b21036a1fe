"""Layered graphs whose nodes are sizes: shrinking and staying are free, growing costs.

A path takes one *option* in each layer; an option belongs to a node, of which there may be several. The nodes are
sizes in increasing order, the same in all layers. Coming to a node from a greater or the same one costs nothing; from a
lesser one it costs what :class:`Growth` says; the first node costs what ``start`` says. With nodes as instances held,
layers as stages of a search and options as ways of running a stage, this is the elastic cluster of RubberBand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from optplan.errors import DataError
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch


@dataclass(frozen=True, eq=False)
class Growth:
    """What growing from node m to node n > m costs: leave[m] + enter[n] + factor[n] * wait[n - m], of both kinds.

    Parameters
    ----------
    leave_value, leave_consumption
        (K,) Of the node left.
    enter_value, enter_consumption
        (K,) Of the node entered.
    wait
        (K,) What depends on the number of nodes between the two, such as the latest of as many initialisations; not
        decreasing from wait[1] on, wait[0] is not used. None where nothing does: then a layer costs time linear in K.
    value_factor, consumption_factor
        (K,) By which the wait counts at the node entered, at least 0; None without a wait.
    """

    leave_value: FloatArray
    leave_consumption: FloatArray
    enter_value: FloatArray
    enter_consumption: FloatArray
    wait: FloatArray | None = None
    value_factor: FloatArray | None = None
    consumption_factor: FloatArray | None = None

    def between(self, before: IntArray, after: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return value and consumption of the steps between nodes, 0 where they do not grow; inputs broadcast."""
        grows = after > before
        value = self.leave_value[before] + self.enter_value[after]
        consumption = self.leave_consumption[before] + self.enter_consumption[after]
        if self.wait is not None and self.value_factor is not None and self.consumption_factor is not None:
            wait = self.wait[np.maximum(after - before, 0)]
            value = value + self.value_factor[after] * wait
            consumption = consumption + self.consumption_factor[after] * wait
        return np.where(grows, value, 0.0), np.where(grows, consumption, 0.0)

    def keep(self, nodes: IntArray) -> Growth:
        """Return the growth between some of the nodes, given in increasing order: with a wait, the first ones."""
        wait, value_factor, consumption_factor = (
            None if array is None else array[nodes] for array in (self.wait, self.value_factor, self.consumption_factor)
        )
        return Growth(
            self.leave_value[nodes],
            self.leave_consumption[nodes],
            self.enter_value[nodes],
            self.enter_consumption[nodes],
            wait,
            value_factor,
            consumption_factor,
        )

    def exchanged(self) -> Growth:
        """Return the same growth with value and consumption in each other's place."""
        return Growth(
            leave_value=self.leave_consumption,
            leave_consumption=self.leave_value,
            enter_value=self.enter_consumption,
            enter_consumption=self.enter_value,
            wait=self.wait,
            value_factor=self.consumption_factor,
            consumption_factor=self.value_factor,
        )


@dataclass(frozen=True, eq=False)
class HeldLayers:
    """One graph of J layers, K nodes in each, and O options in all.

    Parameters
    ----------
    start_value, start_consumption
        (K,) Of the first node.
    growth
        Of coming to a greater node.
    value, consumption
        (O,) Of each option; layer after layer, within a layer by node.
    node
        (O,) Node of each option. A node without an option in a layer cannot be taken there.
    first_option
        (J + 1,) First option of each layer; the last entry is O.
    needed
        (O,) The least node at which each option could be taken, where that is known and charges are as
        :mod:`optplan.solvers.paths.held.thrift` wants them; None otherwise.

    Raises
    ------
    DataError
        When shapes do not fit, a number is not finite or an option's is negative, or a layer has no option.
    """

    start_value: FloatArray
    start_consumption: FloatArray
    growth: Growth
    value: FloatArray
    consumption: FloatArray
    node: IntArray
    first_option: IntArray
    needed: IntArray | None = None

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_numbers()

    @classmethod
    def from_layers(
        cls,
        start: tuple[ArrayLike, ArrayLike],
        growth: Growth,
        layers: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]],
    ) -> Self:
        """Build from one triple (node, value, consumption) of arrays for each layer, in any order of the options.

        Parameters
        ----------
        start
            (K,) value and consumption of the first node.
        growth
            Of coming to a greater node.
        layers
            Options; of one node, the order is kept.

        Raises
        ------
        DataError
            When arrays do not fit together or hold numbers that are not allowed.
        """
        nodes = [np.asarray(layer[0], dtype=np.intp) for layer in layers]
        orders = [np.argsort(node, kind="stable") for node in nodes]

        def lay_out(part: int) -> FloatArray:
            pieces = [np.asarray(layer[part], dtype=np.float64) for layer in layers]
            for number, (piece, node) in enumerate(zip(pieces, nodes, strict=True)):
                if piece.shape != node.shape:
                    raise DataError(f"layers[{number}]", f"has arrays of shapes {node.shape} and {piece.shape}")
            return np.concatenate([piece[order] for piece, order in zip(pieces, orders, strict=True)])

        if not nodes:
            raise DataError("layers", "there are none", "give at least one layer")
        return cls(
            np.asarray(start[0], dtype=np.float64),
            np.asarray(start[1], dtype=np.float64),
            growth,
            lay_out(1),
            lay_out(2),
            np.concatenate([node[order] for node, order in zip(nodes, orders, strict=True)]),
            np.cumsum([0] + [node.size for node in nodes]),
        )

    @property
    def num_graphs(self) -> int:
        """One: this is a family of a single graph for the algorithms of :mod:`optplan.solvers.paths`."""
        return 1

    @property
    def num_nodes(self) -> int:
        """How many nodes a layer has."""
        return self.start_value.size

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return self.first_option.size - 1

    @cached_property
    def more_is_no_dearer(self) -> bool:
        """Whether who is at a greater node can do all that others can, at no more cost, from there on."""
        leaves = (self.growth.leave_value, self.growth.leave_consumption)
        return all(np.diff(leave).max(initial=0.0) <= 0.0 for leave in leaves)

    @cached_property
    def groups(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """By layer: the nodes that have options, and where the options of each begin."""
        found = []
        for layer in range(self.num_layers):
            nodes, starts = np.unique(self.node[self.options(layer)], return_index=True)
            found.append((nodes, starts))
        return tuple(found)

    def options(self, layer: int) -> slice:
        """Return the options of a layer."""
        return slice(int(self.first_option[layer]), int(self.first_option[layer + 1]))

    def exchanged(self) -> Self:
        """Return the same graph with value and consumption in each other's place."""
        return replace(
            self,
            start_value=self.start_consumption,
            start_consumption=self.start_value,
            growth=self.growth.exchanged(),
            value=self.consumption,
            consumption=self.value,
        )

    def follow(self, options: IntArray) -> PathBatch:
        """Return the sums along given paths.

        Parameters
        ----------
        options
            (P, J) The option taken in each layer.
        """
        nodes = self.node[options]
        value = self.start_value[nodes[:, 0]] + self.value[options[:, 0]]
        consumption = self.start_consumption[nodes[:, 0]] + self.consumption[options[:, 0]]
        for layer in range(1, self.num_layers):
            grown = self.growth.between(nodes[:, layer - 1], nodes[:, layer])
            value = value + grown[0] + self.value[options[:, layer]]
            consumption = consumption + grown[1] + self.consumption[options[:, layer]]
        return PathBatch(value, consumption[:, None], options)

    def _check_shapes(self) -> None:
        """Raise when the arrays do not fit together."""
        nodes, options, first = self.start_value.shape, self.value.shape, self.first_option
        if len(nodes) != 1 or nodes[0] == 0 or self.start_consumption.shape != nodes:
            raise DataError("start", f"has shapes {nodes} and {self.start_consumption.shape}", "give two equal vectors")
        for name, array in vars(self.growth).items():
            if array is not None and array.shape != nodes:
                raise DataError(f"growth.{name}", f"has shape {array.shape}, start has {nodes}")
        factors = (self.growth.value_factor, self.growth.consumption_factor)
        if any((factor is None) != (self.growth.wait is None) for factor in factors):
            raise DataError("growth.wait", "comes with value_factor and consumption_factor", "give all three or none")
        if len(options) != 1 or {self.consumption.shape, self.node.shape} != {options}:
            raise DataError("layers", "the options' nodes, values and consumptions differ in number")
        if first[0] != 0 or first[-1] != options[0] or np.any(np.diff(first) < 1):
            raise DataError("layers", "a layer has no option", "every layer needs one")
        if self.node.min() < 0 or self.node.max() >= nodes[0]:
            raise DataError("layers", f"options belong to nodes from 0 to {nodes[0] - 1}")

    def _check_numbers(self) -> None:
        """Raise at the first number that is not allowed."""
        for name in ("value", "consumption", "start_value", "start_consumption"):
            array: FloatArray = getattr(self, name)
            wrong = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
            if wrong.size:
                raise DataError(f"{name}[{wrong[0]}]", f"is {array[wrong[0]]}", "it must be finite and at least 0")
        for name, cost in vars(self.growth).items():
            if cost is not None and not np.isfinite(cost).all():
                raise DataError(f"growth.{name}", "has numbers that are not finite")
        wait = self.growth.wait
        if wait is not None and np.diff(wait[1:]).min(initial=0.0) < 0:
            raise DataError("growth.wait", "must not decrease")
