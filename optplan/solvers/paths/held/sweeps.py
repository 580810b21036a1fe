"""Least costs of reaching every node of a held graph, and of going on from it, under weights of both costs.

Growing costs leave[m] + enter[n], so that the least over all m < n is a running minimum, and one layer is linear in the
number of nodes. Where a wait depends on n - m, the running minimum with the shortest wait bounds it from below: only
the pairs that could beat staying are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.held.layers import HeldLayers


class Sweep:
    """Shortest paths of a graph under ``value_weight`` * value + ``consumption_weight`` * consumption.

    Parameters
    ----------
    graph
        The graph.
    value_weight, consumption_weight
        At least 0.
    """

    def __init__(self, graph: HeldLayers, value_weight: float, consumption_weight: float) -> None:
        self.graph = graph
        self.value_weight = value_weight
        self.consumption_weight = consumption_weight
        growth = graph.growth
        #: (O,) Of each option.
        self.run = self.weigh(graph.value, graph.consumption)
        self._leave = self.weigh(growth.leave_value, growth.leave_consumption)
        self._enter = self.weigh(growth.enter_value, growth.enter_consumption)
        self._wait = growth.wait if graph.num_nodes > 1 else None
        if self._wait is not None and growth.value_factor is not None and growth.consumption_factor is not None:
            self._factor = self.weigh(growth.value_factor, growth.consumption_factor)

    def weigh(self, value: FloatArray, consumption: FloatArray) -> FloatArray:
        """Return the weighted sum of two costs."""
        return self.value_weight * value + self.consumption_weight * consumption

    @cached_property
    def node_run(self) -> FloatArray:
        """(J, K) The least of a node's options; +inf where it has none."""
        least = np.full((self.graph.num_layers, self.graph.num_nodes), np.inf)
        for layer, (nodes, starts) in enumerate(self.graph.groups):
            least[layer, nodes] = np.minimum.reduceat(self.run[self.graph.options(layer)], starts)
        return least

    @cached_property
    def arrive(self) -> FloatArray:
        """(J, K) The least cost of coming to a node, its own option not included."""
        arrive = np.empty_like(self.node_run)
        arrive[0] = self.weigh(self.graph.start_value, self.graph.start_consumption)
        for layer in range(1, self.graph.num_layers):
            arrive[layer] = self._step_forward(arrive[layer - 1] + self.node_run[layer - 1])
        return arrive

    @cached_property
    def rest(self) -> FloatArray:
        """(J, K) The least cost of what follows a node."""
        rest = np.zeros_like(self.node_run)
        for layer in range(self.graph.num_layers - 2, -1, -1):
            rest[layer] = self._step_backward(self.node_run[layer + 1] + rest[layer + 1])
        return rest

    @cached_property
    def ahead(self) -> FloatArray:
        """(J, K) The least cost of a node's own option and what follows it."""
        return self.node_run + self.rest

    @cached_property
    def best(self) -> float:
        """The least cost of a path."""
        return float((self.arrive[0] + self.ahead[0]).min())

    def best_path(self) -> IntArray:
        """Return the options (J,) of a path of least cost, found from the back."""
        layers = self.graph.num_layers
        depart = self.arrive + self.node_run
        path = np.empty(layers, dtype=np.intp)
        node = int(depart[-1].argmin())
        for layer in range(layers - 1, -1, -1):
            options = self.graph.options(layer)
            own = np.searchsorted(self.graph.node[options], [node, node + 1])
            path[layer] = options.start + own[0] + self.run[options][own[0] : own[1]].argmin()
            if layer:
                came = depart[layer - 1].copy()
                came[:node] += self._grow_to(node)
                least = int(came.argmin())
                node = node if came[node] <= came[least] else least
        return path

    def _grow_to(self, node: int) -> FloatArray:
        """Return what growing to a node costs from each lesser one."""
        cost: FloatArray = self._leave[:node] + self._enter[node]
        if self._wait is not None:
            cost += self._factor[node] * self._wait[node:0:-1]
        return cost

    def _step_forward(self, depart: FloatArray) -> FloatArray:
        """Return the least cost of coming to each node, given that of having left each node of the layer before."""
        arrive = np.minimum.accumulate(depart[::-1])[::-1].copy()
        base = depart + self._leave
        lowest = np.minimum.accumulate(base)[:-1]
        if self._wait is None:
            np.minimum(arrive[1:], lowest + self._enter[1:], out=arrive[1:])
            return arrive
        # A node is worth growing from when its base is below what some greater node needs to beat staying.
        needed = (arrive - self._enter - self._factor * self._wait[1])[1:]
        for node in np.flatnonzero(base[:-1] < np.maximum.accumulate(needed[::-1])[::-1]).tolist():
            count = arrive.size - 1 - node
            cost = base[node] + self._enter[node + 1 :] + self._factor[node + 1 :] * self._wait[1 : count + 1]
            np.minimum(arrive[node + 1 :], cost, out=arrive[node + 1 :])
        return arrive

    def _step_backward(self, ahead: FloatArray) -> FloatArray:
        """Return the least cost of going on from each node, given that of being at each node of the next layer."""
        rest = np.minimum.accumulate(ahead)
        growing = self._least_growing(ahead)
        if self._wait is None:
            return np.minimum(rest, growing)
        entered = ahead + self._enter
        for node in np.flatnonzero(growing < rest).tolist():
            count = rest.size - 1 - node
            cost = self._leave[node] + entered[node + 1 :] + self._factor[node + 1 :] * self._wait[1 : count + 1]
            rest[node] = min(rest[node], float(cost.min()))
        return rest

    @cached_property
    def least_growing(self) -> tuple[FloatArray, ...]:
        """By layer (K,) a lower bound, exact without waits, of what follows a node when the path grows to the layer."""
        return tuple(self._least_growing(ahead) for ahead in self.ahead)

    @cached_property
    def through(self) -> FloatArray:
        """(O,) The least cost of a path through each option."""
        graph = self.graph
        layer = np.repeat(np.arange(graph.num_layers), np.diff(graph.first_option))
        least: FloatArray = self.arrive[layer, graph.node] + self.run + self.rest[layer, graph.node]
        return least

    def _least_growing(self, ahead: FloatArray) -> FloatArray:
        entered = ahead + self._enter if self._wait is None else ahead + self._enter + self._factor * self._wait[1]
        least = np.full_like(ahead, np.inf)
        least[:-1] = self._leave[:-1] + np.minimum.accumulate(entered[::-1])[::-1][1:]
        return least


@dataclass(frozen=True, eq=False)
class Cut:
    """Paths wanted: those whose cost under a sweep's weights is within a limit.

    Parameters
    ----------
    sweep
        Weights, and the least cost of what follows each node.
    limit
        Greatest cost of a path that is wanted.
    """

    sweep: Sweep
    limit: float

    def through(self, layer: int) -> FloatArray:
        """Return the least cost of a path through each option of a layer, in the options' order."""
        return self.sweep.through[self.sweep.graph.options(layer)]


class CutBundle:
    """Several cuts, looked at together.

    Parameters
    ----------
    cuts
        None at all keep everything.
    num_nodes
        Of their graph, K.
    """

    def __init__(self, cuts: tuple[Cut, ...], num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._sweeps = [cut.sweep for cut in cuts]
        self._value_weight = np.array([sweep.value_weight for sweep in self._sweeps])
        self._consumption_weight = np.array([sweep.consumption_weight for sweep in self._sweeps])
        self._limit = np.array([cut.limit for cut in cuts])

    @property
    def count(self) -> int:
        """How many there are, C."""
        return len(self._sweeps)

    def keeps_options(self, options: slice) -> NDArray[np.bool_]:
        """Say for each of some options whether a path through it is within all cuts."""
        if not self._sweeps:
            return np.ones(options.stop - options.start, dtype=np.bool_)
        through = np.array([sweep.through[options] for sweep in self._sweeps])
        return np.asarray((through <= self._limit[:, None]).all(axis=0))

    def ahead(self, layer: int) -> FloatArray:
        """Return (C, K) the least cost of every node's own option and what follows it."""
        return self._stack([sweep.ahead[layer] for sweep in self._sweeps])

    def rest(self, layer: int) -> FloatArray:
        """Return (C, K) the least cost of what follows every node."""
        return self._stack([sweep.rest[layer] for sweep in self._sweeps])

    def least_growing(self, layer: int) -> FloatArray:
        """Return (C, K) what :attr:`Sweep.least_growing` says of a layer."""
        return self._stack([sweep.least_growing[layer] for sweep in self._sweeps])

    def keep(self, value: FloatArray, consumption: FloatArray, follows: FloatArray) -> NDArray[np.bool_]:
        """Say whether what has such costs is within all cuts.

        Parameters
        ----------
        value, consumption
            Costs so far, of any shape.
        follows
            (C, ...) Least cost of what follows, under each cut's weights; broadcasts with the costs.
        """
        if not self._sweeps:
            return np.ones(value.shape, dtype=np.bool_)
        each = (-1, *(1,) * value.ndim)
        weighed = self._value_weight.reshape(each) * value + self._consumption_weight.reshape(each) * consumption
        return np.asarray((weighed + follows <= self._limit.reshape(each)).all(axis=0))

    def _stack(self, rows: list[FloatArray]) -> FloatArray:
        return np.array(rows) if rows else np.empty((0, self._num_nodes))
