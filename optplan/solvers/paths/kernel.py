"""Dynamic programming and label setting on layered graphs: the loops in which a solve spends its time.

``kernel.pxd`` has the types with which Cython compiles this file; without a compiler it runs as it stands, slower. The
passes are Bellman's. Label setting with completion bounds is that of Carlyle, Royset and Wood ("Lagrangian relaxation
and enumeration for solving constrained shortest-path problems", Networks 52, 2008), with Pareto sets, merged as sorted
lists, in place of single labels.

What is weighed is value_weight * value + multipliers . consumption. Costs and search are one unit of compilation, so
that the search's calls of its costs are inlined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]
Numbers = NDArray[np.int32]
Places = NDArray[np.intp]


class LayeredCosts:
    """What the steps of layered graphs cost, and passes over them.

    ``value`` (N, K) and ``consumption`` (L, N, K) are those of each node; row ``starts[j] + p`` is layer j of the graph
    at position p. ``enter_value`` (M, F, K) and ``enter_consumption`` (L, M, F, K) are those of entering a node from
    another one of each group; M is N, or G where that is the same in all layers of a graph. The nodes of a group are
    neighbours; ``closed`` (N, K) ones may not be used. Layers begin at ``starts`` (E + 1,), and graphs have ``lengths``
    (G,) layers.
    """

    def __init__(
        self,
        value: Floats,
        consumption: Floats,
        enter_value: Floats,
        enter_consumption: Floats,
        closed: Flags,
        starts: Places,
        lengths: Places,
    ) -> None:
        self.value, self.consumption = value, consumption
        self.enter_value, self.enter_consumption = enter_value, enter_consumption
        self.closed, self.starts, self.lengths = closed, starts, lengths
        self.nodes, self.groups = value.shape[1], enter_value.shape[1]
        self.size, self.limits = self.nodes // self.groups, consumption.shape[0]
        self.once = enter_value.shape[0] != value.shape[0]
        self.some_closed = np.asarray(np.asarray(closed).any(axis=1), dtype=np.uint8)
        if self.limits == 0:
            raise ValueError("graphs without a limit")
        layers = starts.shape[0] - 1
        #: Room to work in.
        self.run, self.enter = np.empty(self.nodes), np.empty((self.groups, self.nodes))
        self.reached, self.least = np.empty((layers, self.nodes)), np.empty((layers, self.groups))
        self.onwards = np.empty((value.shape[0], self.groups))

    def weigh_nodes(self, out: Floats, row: int, multipliers: Floats, value_weight: float) -> None:
        """Write what each node of a row costs into ``out`` (K,): infinite where it is closed."""
        endless = 1e300 * 1e300
        weight = multipliers[0]
        for k in range(self.nodes):
            out[k] = value_weight * self.value[row, k] + weight * self.consumption[0, row, k]
        for limit in range(1, self.limits):
            weight = multipliers[limit]
            if weight != 0.0:
                for k in range(self.nodes):
                    out[k] += weight * self.consumption[limit, row, k]
        if self.some_closed[row]:
            for k in range(self.nodes):
                if self.closed[row, k]:
                    out[k] = endless

    def weigh_entries(self, out: Floats, row: int, multipliers: Floats, value_weight: float) -> None:
        """Write what entering each node costs from each group into ``out`` (F, K)."""
        for f in range(self.groups):
            for k in range(self.nodes):
                out[f, k] = value_weight * self.enter_value[row, f, k]
            for limit in range(self.limits):
                weight = multipliers[limit]
                if weight != 0.0:
                    for k in range(self.nodes):
                        out[f, k] += weight * self.enter_consumption[limit, row, f, k]

    def find_best_nodes(self, positions: Places, multipliers: Floats, value_weight: float, nodes: Numbers) -> None:
        """Write the nodes of a best path for each position (P,) and multipliers (P, L) into ``nodes`` (P, E).

        Ties go to staying, then to the lowest group left, then to the lowest node of the group.
        """
        run, enter, reached, least = self.run, self.enter, self.reached, self.least
        size, groups = self.size, self.groups
        for asked in range(positions.shape[0]):
            position, layers, weights = positions[asked], self.lengths[positions[asked]], multipliers[asked]
            for j in range(layers):
                row = self.starts[j] + position
                self.weigh_nodes(run, row, weights, value_weight)
                if j == 0 or not self.once:
                    self.weigh_entries(enter, position if self.once else row, weights, value_weight)
                if j == 0:
                    for k in range(self.nodes):
                        reached[0, k] = run[k] + enter[k // size, k]
                elif groups == 1:
                    best = least[j - 1, 0]
                    for k in range(size):
                        reached[j, k] = min(reached[j - 1, k], best + enter[0, k]) + run[k]
                else:
                    for k in range(self.nodes):
                        reached[j, k] = reached[j - 1, k]
                    for f in range(groups):
                        best = least[j - 1, f]
                        for k in range(self.nodes):
                            reached[j, k] = min(reached[j, k], best + enter[f, k])
                    for k in range(self.nodes):
                        reached[j, k] += run[k]
                self.find_least(j)
            left = 0
            for f in range(1, groups):
                left = f if least[layers - 1, f] < least[layers - 1, left] else left
            node = self.find_cheapest(layers - 1, left)
            for j in range(layers - 1, 0, -1):
                nodes[asked, j] = node
                if not self.once:
                    self.weigh_entries(enter, self.starts[j] + position, weights, value_weight)
                left, best = -1, reached[j - 1, node]
                for f in range(groups):
                    if least[j - 1, f] + enter[f, node] < best:
                        left, best = f, least[j - 1, f] + enter[f, node]
                node = node if left < 0 else self.find_cheapest(j - 1, left)
            nodes[asked, 0] = node

    def find_least(self, layer: int) -> None:
        """Find what the cheapest node reached of each group costs, by four chains, followed at once."""
        reached = self.reached
        for f in range(self.groups):
            begin, end = f * self.size, f * self.size + self.size
            one = two = three = four = 1e300 * 1e300
            for k in range(begin, end - 3, 4):
                one, two = min(one, reached[layer, k]), min(two, reached[layer, k + 1])
                three, four = min(three, reached[layer, k + 2]), min(four, reached[layer, k + 3])
            for k in range(end - self.size % 4, end):
                one = min(one, reached[layer, k])
            self.least[layer, f] = min(min(one, two), min(three, four))  # noqa: PLW3301 - of two at a time, as it is compiled

    def find_cheapest(self, layer: int, group: int) -> int:
        """Return the first node of a group that costs as little as any of it."""
        node: int = group * self.size
        while node < group * self.size + self.size - 1 and self.reached[layer, node] != self.least[layer, group]:
            node += 1
        return node

    def find_costs_through(self, multipliers: Floats, through: Floats) -> None:
        """Write the least cost of a path through each node into ``through`` (N, K), under multipliers (L,)."""
        self.find_completion_bounds(multipliers, through, self.onwards)
        for position in range(self.lengths.shape[0]):
            for j in range(self.lengths[position]):
                row = self.starts[j] + position
                if j == 0 or not self.once:
                    self.weigh_entries(self.enter, position if self.once else row, multipliers, 1.0)
                self.weigh_nodes(self.run, row, multipliers, 1.0)
                if j == 0:
                    for k in range(self.nodes):
                        self.reached[0, k] = self.enter[k // self.size, k]
                else:
                    for f in range(self.groups):
                        for k in range(self.nodes):
                            self.reached[0, k] = min(self.reached[0, k], self.least[0, f] + self.enter[f, k])
                for k in range(self.nodes):
                    through[row, k] += self.reached[0, k]
                    self.reached[0, k] += self.run[k]
                self.find_least(0)

    def find_completion_bounds(self, multipliers: Floats, rest: Floats, onwards: Floats) -> None:
        """Write the least costs to the end under multipliers (L,).

        ``rest`` (N, K) is from being at a node, itself included, and ``onwards`` (N, F) from leaving a group for some
        node of the layer.
        """
        endless = 1e300 * 1e300
        for position in range(self.lengths.shape[0]):
            for j in range(self.lengths[position] - 1, -1, -1):
                row = self.starts[j] + position
                self.weigh_nodes(rest[row], row, multipliers, 1.0)
                if j + 1 < self.lengths[position]:
                    after = self.starts[j + 1] + position
                    for k in range(self.nodes):
                        rest[row, k] += min(rest[after, k], onwards[after, k // self.size])
                if j + 1 == self.lengths[position] or not self.once:
                    self.weigh_entries(self.enter, position if self.once else row, multipliers, 1.0)
                for f in range(self.groups):
                    best = endless
                    for k in range(self.nodes):
                        best = min(best, rest[row, k] + self.enter[f, k])
                    onwards[row, f] = best

    def add_up_paths(self, positions: Places, nodes: Numbers, total_value: Floats, total_consumption: Floats) -> None:
        """Write what given paths cost into ``total_value`` (P,) and ``total_consumption`` (P, L), summed step by step.

        ``nodes`` (P, E) are places in the graphs at ``positions`` (P,), ignored beyond a graph's last layer.
        """
        for asked in range(positions.shape[0]):
            position, left = positions[asked], -1
            total_value[asked] = 0.0
            total_consumption[asked, :] = 0.0
            for j in range(self.lengths[position]):
                node, row = nodes[asked, j], self.starts[j] + position
                at, f = position if self.once else row, (node if j == 0 else left) // self.size
                comes = node != left
                total_value[asked] += self.value[row, node] + (self.enter_value[at, f, node] if comes else 0.0)
                for limit in range(self.limits):
                    used = self.enter_consumption[limit, at, f, node] if comes else 0.0
                    total_consumption[asked, limit] += self.consumption[limit, row, node] + used
                left = node


def dominates(entries: Floats, one: int, other: int) -> bool:
    """Whether an entry of a list has no more of anything than another."""
    for c in range(1, entries.shape[1]):  # noqa: SIM110 - a loop that is compiled
        if entries[one, c] > entries[other, c]:
            return False
    return True


def merge_lists(
    first: Floats,
    first_label: Numbers,
    start: int,
    end: int,
    add: Floats,
    second: Floats,
    second_label: Numbers,
    begin: int,
    stop: int,
    plus: Floats,
    most_first: float,
    most_second: float,
    out: Floats,
    out_label: Numbers,
    out_side: Flags,
    at: int,
    entering: bool,
) -> int:
    """Merge two sorted Pareto sets into a third from ``at`` on, and return where that ends.

    An entry is (2 + L,): its cost, value and consumptions. With one limit sets are by increasing consumption and
    decreasing value, else by increasing cost. ``add`` and ``plus`` (2 + L,) come on top of the first and the second
    set's; entries that cost more than ``most_first`` and ``most_second`` before that are left out. Labels of the second
    set are written as -1 - label where they are ``entering``.
    """
    width = first.shape[1]
    begun = at
    last = 1e300 * 1e300
    latest = [-1, -1]
    while start < end or begin < stop:
        if start < end and first[start, 0] > most_first:
            start += 1
            continue
        if begin < stop and second[begin, 0] > most_second:
            begin += 1
            continue
        if start >= end:
            if begin >= stop:
                break
            side = 1
        elif begin >= stop:
            side = 0
        elif width == 3:
            left, right = first[start, 2] + add[2], second[begin, 2] + plus[2]
            tied = left == right and first[start, 1] + add[1] <= second[begin, 1] + plus[1]
            side = 0 if left < right or tied else 1
        else:
            side = 0 if first[start, 0] + add[0] <= second[begin, 0] + plus[0] else 1
        if side:
            for c in range(width):
                out[at, c] = second[begin, c] + plus[c]
            out_label[at] = -1 - second_label[begin] if entering else second_label[begin]
            begin += 1
        else:
            for c in range(width):
                out[at, c] = first[start, c] + add[c]
            out_label[at] = first_label[start]
            start += 1
        if width == 3:
            if out[at, 1] < last:
                last = out[at, 1]
                at += 1
            continue
        out_side[at] = side
        # What has dominated one of a side is likely to dominate the next.
        if begun <= latest[side] < at and dominates(out, latest[side], at):
            continue
        kept = True
        for other in range(begun, at):
            if out_side[other] != side and dominates(out, other, at):
                latest[side] = other
                kept = False
                break
        if kept:
            at += 1
    return at


class PathSearch:
    """Every graph's undominated paths within an allowance of its least cost, graph after graph, a piece at a time.

    A node's labels are one sorted list with what all of them have in common apart, so that staying adds up once for
    all. A layer that no path within the allowance can enter takes time for the nodes that are open still. Where nodes
    are entered, the lists of a group's nodes merge into one of what can still enter any node, which then merges into
    the list of each.
    """

    def __init__(
        self,
        costs: LayeredCosts,
        order: Places,
        multipliers: Floats,
        completion: tuple[Floats, Floats],
        allowance: float,
        rounding: float,
    ) -> None:
        self.costs, self.order = costs, order
        self.multipliers, self.allowance, self.rounding = multipliers, allowance, rounding
        nodes, groups, entry = self.costs.nodes, self.costs.groups, 2 + self.costs.limits  # typed as an attribute only
        #: The graph at work, by its place in ``order``, and its next layer.
        self.graph, self.layer = 0, 0
        self.limit, self.work = 0.0, 0
        #: Least costs as of :meth:`LayeredCosts.find_completion_bounds`; what entering costs.
        self.rest, self.onwards = completion
        self.enter = np.empty((groups, nodes))
        self.run_cost = np.empty(nodes)
        #: Where each open node's list is, what its labels have in common, and its least cost before that.
        self.first, self.last = np.zeros(nodes, dtype=np.intp), np.zeros(nodes, dtype=np.intp)
        self.common, self.cheapest = np.zeros((nodes, entry)), np.zeros(nodes)
        self.open, self.is_open = np.zeros(nodes, dtype=np.intp), np.zeros(nodes, dtype=np.uint8)
        self.num_open = 0
        self.nothing = np.zeros(entry)
        self.plus = np.zeros(entry)
        #: Lists, the ones to be, and room to merge in.
        self.lists, self.lists_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.made, self.made_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.exit, self.exit_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.spare, self.spare_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.other, self.other_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.side = np.empty(256, dtype=np.uint8)
        self.exit_end, self.exit_least = np.zeros(groups + 1, dtype=np.intp), np.zeros(groups)
        self.bounds = np.zeros(nodes + 2, dtype=np.intp)
        #: Labels: the one before, the node entered and in which layer.
        self.parent = np.empty(1024, dtype=np.int32)
        self.node = np.empty(1024, dtype=np.int32)
        self.entered = np.empty(1024, dtype=np.int32)
        self.num_labels = 0
        #: Entries of all nodes' lists, layer by layer.
        self.num_kept = 0
        #: What was found: entries and labels, and where each graph's end.
        self.ends, self.ends_label = np.empty((256, entry)), np.empty(256, dtype=np.int32)
        self.num_ends = 0
        self.ends_of = np.zeros(order.shape[0] + 1, dtype=np.intp)

    def run(self, work: int) -> bool:
        """Go on for about so many list entries and nodes; return whether everything is found."""
        self.work = 0
        while self.graph < self.order.shape[0]:
            position = self.order[self.graph]
            if self.layer == 0:
                self._limit_costs(position)
                self._begin(position)
                self.layer = 1
            while self.layer < self.costs.lengths[position]:
                if self.work > work:
                    return False
                self._advance(position)
                self.layer += 1
            self._end()
            self.graph += 1
            self.layer = 0
        return True

    def trace(self, label: int, graph: int, nodes: Numbers) -> None:
        """Write the nodes of a found path of a graph, by its label, into ``nodes`` (E,)."""
        layer = self.costs.lengths[self.order[graph]]
        while label >= 0:
            while layer > self.entered[label]:
                layer -= 1
                nodes[layer] = self.node[label]
            label = self.parent[label]

    def _limit_costs(self, position: int) -> None:
        """Find up to what cost paths of a graph are worth a look, and weigh what entering costs."""
        best = 1e300 * 1e300
        costs, enter = self.costs, self.enter
        row = costs.starts[0] + position
        costs.weigh_entries(enter, position if costs.once else row, self.multipliers, 1.0)
        for k in range(costs.nodes):
            best = min(best, self.rest[row, k] + enter[k // costs.size, k])
        self.limit = best * (1.0 + self.rounding) + self.allowance
        self.work += costs.nodes

    def _begin(self, position: int) -> None:
        """Enter the nodes of the first layer, each as from its own group."""
        rest, enter = self.rest, self.enter
        costs = self.costs
        nodes, limits, size = costs.nodes, costs.limits, costs.size
        row = costs.starts[0] + position
        at = position if costs.once else row
        self._make_room(nodes)
        self.num_open = 0
        costs.weigh_nodes(self.run_cost, row, self.multipliers, 1.0)
        for k in range(nodes):
            if not rest[row, k] + enter[k // size, k] <= self.limit:
                continue
            place = self.num_open
            entry = self.lists[place]
            entry[0] = enter[k // size, k] + self.run_cost[k]
            entry[1] = costs.enter_value[at, k // size, k] + costs.value[row, k]
            for limit in range(limits):
                entry[2 + limit] = costs.enter_consumption[limit, at, k // size, k] + costs.consumption[limit, row, k]
            self.lists_label[place] = self._add_label(-1, k, 0)
            self.first[k], self.last[k] = place, place + 1
            self.cheapest[k] = entry[0]
            for c in range(entry.shape[0]):
                self.common[k, c] = 0.0
            self.open[place] = k
            self.num_open += 1
        self.num_kept += self.num_open

    def _advance(self, position: int) -> None:
        """Go from the layer before to this one: stay, and enter where that is within the allowance."""
        costs, j = self.costs, self.layer
        size = costs.size
        row = costs.starts[j] + position
        enters = False
        for place in range(self.num_open):
            k = self.open[place]
            if self.cheapest[k] + self.common[k, 0] + self.onwards[row, k // size] <= self.limit:
                enters = True
                break
        if enters:
            self._enter(position)
        costs.weigh_nodes(self.run_cost, row, self.multipliers, 1.0)
        kept = 0
        for place in range(self.num_open):
            k = self.open[place]
            if not self.cheapest[k] + self.common[k, 0] + self.rest[row, k] <= self.limit:
                continue
            self.open[kept] = k
            kept += 1
            self.common[k, 0] += self.run_cost[k]
            self.common[k, 1] += costs.value[row, k]
            for limit in range(costs.limits):
                self.common[k, 2 + limit] += costs.consumption[limit, row, k]
        self.num_open = kept
        self.work += costs.nodes

    def _enter(self, position: int) -> None:
        """Merge what can enter a node into each node's list; open are then the nodes with a list, in their order."""
        endless = 1e300 * 1e300
        costs, j = self.costs, self.layer
        nodes, groups, limits = costs.nodes, costs.groups, costs.limits
        row = costs.starts[j] + position
        at = position if costs.once else row
        if not costs.once:
            costs.weigh_entries(self.enter, at, self.multipliers, 1.0)
        self._merge_exits(row)
        for k in range(nodes):
            self.is_open[k] = 0
        for place in range(self.num_open):
            self.is_open[self.open[place]] = 1
        self.num_open, begin = 0, 0
        for k in range(nodes):
            most = self.limit - self.rest[row, k]
            if not most >= 0.0:
                continue
            source, label, add = self.lists, self.lists_label, self.common[k]
            start, stop, most_first = 0, 0, most - self.common[k, 0]
            if self.is_open[k]:
                start, stop = self.first[k], self.last[k]
            for f in range(groups):
                most_second = most - self.enter[f, k]
                if not self.exit_least[f] <= most_second:
                    continue
                size = self.exit_end[f + 1] - self.exit_end[f]
                self._make_room(stop - start + size)
                self.work += size
                if limits > 1:
                    self.work += (stop - start) * size // 16  # comparisons: so many take as long as an entry
                self.plus[0], self.plus[1] = self.enter[f, k], costs.enter_value[at, f, k]
                for limit in range(limits):
                    self.plus[2 + limit] = costs.enter_consumption[limit, at, f, k]
                stop = merge_lists(
                    source, label, start, stop, add, self.exit, self.exit_label, self.exit_end[f], self.exit_end[f + 1],
                    self.plus, most_first, most_second, self.spare, self.spare_label, self.side, 0, True,
                )  # fmt: skip
                self._swap_spares()
                source, label, add, start, most_first = self.other, self.other_label, self.nothing, 0, endless
            if stop == start:
                continue
            self._make_room(begin + stop - start)
            end = merge_lists(
                source, label, start, stop, add, source, label, 0, 0, self.nothing,
                most_first, 0.0, self.made, self.made_label, self.side, begin, False,
            )  # fmt: skip
            if end == begin:
                continue
            self._open_node(k, begin, end)
            begin = end
        self.lists, self.made = self.made, self.lists
        self.lists_label, self.made_label = self.made_label, self.lists_label
        self.work += nodes * groups
        self.num_kept += begin

    def _open_node(self, k: int, begin: int, end: int) -> None:
        """Take a node's list as made, and give labels of their own to those that have just entered."""
        least = 1e300 * 1e300
        for place in range(begin, end):
            least = min(least, self.made[place, 0])
            if self.made_label[place] < 0:
                self.made_label[place] = self._add_label(-1 - self.made_label[place], k, self.layer)
        self.first[k], self.last[k], self.cheapest[k] = begin, end, least
        for c in range(self.common.shape[1]):
            self.common[k, c] = 0.0
        self.open[self.num_open] = k
        self.num_open += 1

    def _merge_exits(self, row: int) -> None:
        """Merge for each group what can still enter some node from it."""
        endless = 1e300 * 1e300
        size = self.costs.size
        for f in range(self.costs.groups):
            begin = self.exit_end[f]
            count = self._gather(f * size, f * size + size, self.limit - self.onwards[row, f])
            self._make_room(begin + count)
            least = endless
            for place in range(count):
                for c in range(self.spare.shape[1]):
                    self.exit[begin + place, c] = self.spare[place, c]
                self.exit_label[begin + place] = self.spare_label[place]
                least = min(least, self.spare[place, 0])
            self.exit_end[f + 1], self.exit_least[f] = begin + count, least

    def _gather(self, low: int, high: int, most: float) -> int:
        """Merge the lists of the open nodes of a range into ``spare``, up to a cost; return how long it is."""
        count, total, widest = 0, 0, 0
        for place in range(self.num_open):
            k = self.open[place]
            if low <= k < high:
                widest += self.last[k] - self.first[k]
        self._make_room(widest)
        self.bounds[0] = 0
        for place in range(self.num_open):
            k = self.open[place]
            if low <= k < high and self.cheapest[k] + self.common[k, 0] <= most:
                total = merge_lists(
                    self.lists, self.lists_label, self.first[k], self.last[k], self.common[k],
                    self.lists, self.lists_label, 0, 0, self.nothing, most - self.common[k, 0], 0.0,
                    self.spare, self.spare_label, self.side, total, False,
                )  # fmt: skip
                count += 1
                self.bounds[count] = total
        self.work += widest
        while count > 1:
            pairs, total = 0, 0
            for place in range(0, count, 2):
                middle = self.bounds[place + 1]
                stop = self.bounds[place + 2] if place + 1 < count else middle
                total = merge_lists(
                    self.spare, self.spare_label, self.bounds[place], middle, self.nothing,
                    self.spare, self.spare_label, middle, stop, self.nothing, self.limit, self.limit,
                    self.other, self.other_label, self.side, total, False,
                )  # fmt: skip
                pairs += 1
                self.work += total
                self.bounds[pairs] = total
            self._swap_spares()
            count = pairs
        return total

    def _end(self) -> None:
        """Keep what was found for a graph."""
        count = self._gather(0, self.costs.nodes, self.limit)
        begin = self.num_ends
        while self.ends.shape[0] < begin + count:
            self.ends = np.concatenate([self.ends, np.empty_like(self.ends)])
            self.ends_label = np.concatenate([self.ends_label, np.empty_like(self.ends_label)])
        for place in range(count):
            for c in range(self.ends.shape[1]):
                self.ends[begin + place, c] = self.spare[place, c]
            self.ends_label[begin + place] = self.spare_label[place]
        self.num_ends += count
        self.ends_of[self.graph + 1] = self.num_ends

    def _swap_spares(self) -> None:
        self.spare, self.other = self.other, self.spare
        self.spare_label, self.other_label = self.other_label, self.spare_label

    def _add_label(self, parent: int, node: int, layer: int) -> int:
        """Take down that a path enters a node, and return its label."""
        label = self.num_labels
        if label == self.parent.shape[0]:
            self.parent = np.concatenate([self.parent, np.empty_like(self.parent)])
            self.node = np.concatenate([self.node, np.empty_like(self.node)])
            self.entered = np.concatenate([self.entered, np.empty_like(self.entered)])
        self.parent[label], self.node[label], self.entered[label] = parent, node, layer
        self.num_labels += 1
        return label

    def _make_room(self, entries: int) -> None:
        """Let lists hold so many entries."""
        if entries <= self.side.shape[0]:
            return
        more = max(entries, 2 * self.side.shape[0])
        self.lists, self.lists_label = _widen(self.lists, more), _widen(self.lists_label, more)
        self.made, self.made_label = _widen(self.made, more), _widen(self.made_label, more)
        self.exit, self.exit_label = _widen(self.exit, more), _widen(self.exit_label, more)
        self.spare, self.spare_label = _widen(self.spare, more), _widen(self.spare_label, more)
        self.other, self.other_label = _widen(self.other, more), _widen(self.other_label, more)
        self.side = _widen(self.side, more)


def _widen(array: Any, rows: int) -> Any:  # noqa: ANN401 - an array, or a view of one
    """Return an array of so many rows that begins with the given ones."""
    wide = np.empty((rows, *array.shape[1:]), dtype=np.asarray(array).dtype)
    wide[: array.shape[0]] = array
    return wide
