"""The restricted master of branch and price: a dense revised simplex method with column generation.

One row for each graph (the fractions of its paths add up to 1), one for each limit, and one for each number of runs
that a part of all plans bounds (:meth:`RestrictedMaster.bound_runs`). There are few rows and many
columns, and a search solves thousands of such programs that hardly differ, so the basis goes from one to the next:
columns that the masks forbid stay in it at a prohibitive cost until they leave. Nothing rests on its precision: what
multipliers prove is computed anew by shortest paths. ``simplex.pxd`` has the types with which Cython compiles this.

Dantzig, "Linear programming and extensions", 1963; column generation as in Desrosiers and Luebbecke, "A primer in
column generation", 2005.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from optplan.solvers.paths.runs import RunGraphs

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]
Places = NDArray[np.intp]
Counts = NDArray[np.int32]


class RestrictedMaster:
    """Columns, a basis among them, and the steps from one basis to the next.

    Column c is a path for c >= 0; -1 - l is the slack of limit l, and -1 - L - g the artificial column of graph g. Then
    there are, for each graph and kind, slack and excess of the fewest runs, and of the most. Values are divided by
    ``unit``; in that, a fraction of an artificial or forbidden column costs ``penalty``, and so does excess. After
    ``memory`` masks a column that was in no basis is left out.
    """

    def __init__(self, graphs: RunGraphs, limits: Floats, unit: float, penalty: float, memory: int, rows: int) -> None:
        self.graphs = graphs
        self.limits, self.unit, self.penalty = limits, unit, penalty
        self.num_graphs, self.num_limits = graphs.num_graphs, limits.shape[0]
        self.base = self.num_graphs + self.num_limits
        #: Rows in use; of those of runs: graph, kind, sign and right-hand side, and where each possible one stands.
        self.size = self.base
        self.row_graph = np.zeros(rows, dtype=np.intp)
        self.row_kind = np.zeros(rows, dtype=np.intp)
        self.row_sign = np.zeros(rows)
        self.row_side = np.zeros(rows)
        self.row_of = np.full(2 * self.num_graphs * graphs.num_kinds, -1, dtype=np.intp)
        #: (G, F) Multipliers of numbers of runs, and (G,) whether any row bounds those of a graph.
        self.run_duals = np.zeros((self.num_graphs, graphs.num_kinds))
        self.bounded = np.zeros(self.num_graphs, dtype=np.uint8)
        depth = graphs.path.shape[1]
        #: Columns: values in the unit, consumptions as fractions of the limits, runs of each kind, owners, paths.
        self.count = 0
        self.value = np.empty(256)
        self.entries = np.empty((256, self.num_limits))
        self.runs = np.empty((256, graphs.num_kinds), dtype=np.int32)
        self.owner = np.empty(256, dtype=np.intp)
        self.nodes = np.empty((256, depth), dtype=np.int32)
        #: Which of them may be used now, and their numbers.
        self.allowed = np.zeros(256, dtype=np.uint8)
        self.active = np.zeros(256, dtype=np.intp)
        self.num_active = 0
        #: When each was in a basis last, and for how long those that were not are kept in mind: in masks looked at.
        self.used_at = np.zeros(256, dtype=np.intp)
        #: Which are kept in mind, and their numbers.
        self.kept = np.zeros(256, dtype=np.uint8)
        self.recent = np.zeros(256, dtype=np.intp)
        self.num_recent = 0
        self.now = 0
        self.memory = memory
        #: (G,) How often the possible paths of each graph had changed when columns were allowed last.
        self.changes = np.full(self.num_graphs, -1, dtype=np.intp)
        #: The basis: its columns, the inverse of their matrix, their levels and costs.
        most = self.base + rows
        self.basis = np.arange(-1, -1 - most, -1, dtype=np.intp)
        self.inverse = np.eye(most)
        self.levels = np.ones(most)
        self.costs = np.zeros(most)
        self.duals = np.zeros(most)
        self.entering = np.zeros(most)
        self.weights = np.zeros(1 + self.num_limits + self.num_graphs * graphs.num_kinds)
        #: The best bound of the last generation and the weights (1 + L + G * F,) that attain it.
        self.bound = 0.0
        self.best = np.zeros(self.weights.shape[0])
        #: A partial choice: where each graph's column stands, reduced cost, value and consumptions up to each graph.
        self.trial = np.zeros(self.num_graphs + 1, dtype=np.intp)
        self.partial = np.zeros((self.num_graphs + 1, 2 + self.num_limits))
        self.value_weight = 1.0
        self.pivots = 0
        self.passes = 0

    def reserve(self) -> None:
        """Make room for a further column of each graph."""
        if self.count + self.num_graphs <= self.value.shape[0]:
            return
        for name in ("value", "entries", "runs", "owner", "nodes", "allowed", "active", "used_at", "kept", "recent"):
            known = np.asarray(getattr(self, name))
            setattr(self, name, np.concatenate([known, np.zeros_like(known)]))

    def add(self, g: int) -> None:
        """Append the path that was priced last of a graph."""
        c = self.count
        self.value[c] = self.graphs.sums[g, 0] / self.unit
        for limit in range(self.num_limits):
            self.entries[c, limit] = self.graphs.sums[g, 1 + limit] / self.limits[limit]
        for kind in range(self.runs.shape[1]):
            self.runs[c, kind] = self.graphs.runs[g, kind]
        self.owner[c] = g
        for j in range(self.nodes.shape[1]):
            self.nodes[c, j] = self.graphs.path[g, j]
        self.count = c + 1
        self.keep(c)
        self.admit(c)

    def keep(self, c: int) -> None:
        """Keep a column in mind from now on."""
        self.used_at[c] = self.now
        if not self.kept[c]:
            self.kept[c] = 1
            self.recent[self.num_recent] = c
            self.num_recent += 1

    def admit(self, c: int) -> None:
        """Let a column be used."""
        self.allowed[c] = 1
        self.active[self.num_active] = c
        self.num_active += 1

    def allow(self) -> None:
        """Allow the columns that keep the masks and the runs that these leave possible.

        Those that have long been in no basis are left out: where one is needed, it is generated anew.
        """
        count = self.num_recent
        self.num_active = self.num_recent = 0
        self.now += 1
        for at in range(count):
            c = self.recent[at]
            g = self.owner[c]
            admitted = self.allowed[c]
            self.allowed[c] = 0
            if self.now - self.used_at[c] > self.memory:
                self.kept[c] = 0
                continue
            self.recent[self.num_recent] = c
            self.num_recent += 1
            if self.changes[g] != self.graphs.changes[g]:
                admitted = self.graphs.admits(g, self.nodes, c)
            if admitted:
                self.admit(c)
        for g in range(self.num_graphs):
            self.changes[g] = self.graphs.changes[g]

    def bound_runs(self, bounds: Counts) -> None:
        """Have a row for each number of runs that is bounded; a basis has to be loaded then.

        ``bounds`` (2, G, F) are the fewest and the most runs of each graph on each kind; where the most are none, masks
        say so.
        """
        self.size = self.base
        for g in range(self.num_graphs):
            self.bounded[g] = 0
            for kind in range(self.runs.shape[1]):
                for side in range(2):
                    bound, at = bounds[side, g, kind], self.size - self.base
                    if 0 < bound < self.nodes.shape[1] and at < self.row_graph.shape[0]:
                        self.row_graph[at], self.row_kind[at] = g, kind
                        self.row_sign[at] = 1.0 if side == 1 else -1.0
                        self.row_side[at] = self.row_sign[at] * bound
                        self.row_of[2 * (g * self.runs.shape[1] + kind) + side] = at
                        self.bounded[g] = 1
                        self.size += 1

    def load(self, basis: Places) -> None:
        """Take a basis and compute its inverse; a column that would make it singular is replaced.

        Where the rows are others than those it was for and it is infeasible, artificial columns are begun with.
        """
        for at in range(basis.shape[0]):
            column = basis[at]
            if column >= 0:
                self.keep(column)
                if not self.allowed[column] and self.graphs.admits(self.owner[column], self.nodes, column):
                    self.admit(column)
        if not self.enter_all(basis, basis.shape[0]):
            self.enter_all(basis, 0)

    def enter_all(self, basis: Places, count: int) -> bool:
        """Have the first columns of a basis enter that of slacks and artificial ones; return whether it is feasible."""
        size = self.size
        for row in range(size):
            for column in range(size):
                self.inverse[row, column] = 0.0
            self.inverse[row, row] = 1.0
            self.levels[row] = 1.0
            if row < self.num_graphs:
                self.basis[row] = -1 - self.num_limits - row
            elif row < self.base:
                self.basis[row] = -1 - row + self.num_graphs
            else:
                place = row - self.base
                kind = self.row_graph[place] * self.runs.shape[1] + self.row_kind[place]
                side = 1 if self.row_sign[place] > 0.0 else 0
                self.basis[row] = -1 - self.base - 2 * (2 * kind + side)
                self.levels[row] = self.row_side[place]
            self.costs[row] = self.cost(self.basis[row])
        # Product form: columns enter the basis of slacks and artificial columns one by one.
        for at in range(count):
            column = basis[at]
            if column < 0:
                continue
            self.direct(column)
            row = -1
            pivot = 1e-7
            for each in range(size):
                replaceable = self.basis[each] < 0 and not self.keeps(basis, self.basis[each])
                if replaceable and abs(self.entering[each]) > pivot:
                    pivot = abs(self.entering[each])
                    row = each
            if row >= 0:
                self.pivot(row, column)
        for row in range(size):
            if self.levels[row] < -1e-7:
                column = self.basis[row]
                if column >= -self.base:
                    if count > 0:
                        return False
                    continue
                # The excess of a bound is what its slack lacks.
                self.direct(column - 1)
                self.pivot(row, column - 1)
        return True

    def keeps(self, basis: Places, column: int) -> bool:
        """Whether a basis has a column."""
        for at in range(basis.shape[0]):  # noqa: SIM110 - compiled: no generators
            if basis[at] == column:
                return True
        return False

    def cost(self, column: int) -> float:
        """Return what a column costs."""
        if column < 0:
            return self.penalty if self.is_artificial(column) else 0.0
        value: float = self.value_weight * self.value[column]
        return value if self.allowed[column] else value + self.penalty

    def is_artificial(self, column: int) -> bool:
        """Whether a column stands for what is missing: a graph's path, or keeping a bound on runs."""
        is_excess: bool = (-1 - self.base - column) % 2 == 1
        return is_excess if column < -self.base else column < -self.num_limits

    def direct(self, column: int) -> None:
        """Write a column in terms of the basis into ``entering``."""
        graphs = self.num_graphs
        for row in range(self.size):
            if column >= 0:
                total = self.inverse[row, self.owner[column]]
                for limit in range(self.num_limits):
                    total += self.inverse[row, graphs + limit] * self.entries[column, limit]
                if self.bounded[self.owner[column]]:
                    for each in range(self.size - self.base):
                        if self.row_graph[each] == self.owner[column]:
                            share = self.row_sign[each] * self.runs[column, self.row_kind[each]]
                            total += self.inverse[row, self.base + each] * share
            elif column >= -self.num_limits:
                total = self.inverse[row, graphs - 1 - column]
            elif column >= -self.base:
                total = self.inverse[row, -1 - self.num_limits - column]
            else:
                number = -1 - self.base - column
                total = self.inverse[row, self.base + self.row_of[number // 2]]
                if number % 2 == 1:
                    total = -total
            self.entering[row] = total

    def pivot(self, row: int, column: int) -> None:
        """Have a column, written into ``entering``, take the place of the one at a row."""
        size = self.size
        scale = 1.0 / self.entering[row]
        for each in range(size):
            self.inverse[row, each] *= scale
        self.levels[row] *= scale
        for other in range(size):
            factor = self.entering[other]
            if other != row and factor != 0.0:
                for each in range(size):
                    self.inverse[other, each] -= factor * self.inverse[row, each]
                self.levels[other] -= factor * self.levels[row]
        self.basis[row] = column
        self.costs[row] = self.cost(column)
        self.pivots += 1

    def begin(self, value_weight: float) -> None:
        """Weigh values anew, by 1 or 0, and columns by what is allowed now."""
        self.value_weight = value_weight
        for row in range(self.size):
            self.costs[row] = self.cost(self.basis[row])

    def price_out(self) -> None:
        """Compute the multipliers of the basis."""
        for each in range(self.size):
            self.duals[each] = 0.0
        for row in range(self.size):
            if self.costs[row] != 0.0:
                for each in range(self.size):
                    self.duals[each] += self.costs[row] * self.inverse[row, each]
        if self.size > self.base:
            for g in range(self.num_graphs):
                for kind in range(self.runs.shape[1]):
                    self.run_duals[g, kind] = 0.0
            for each in range(self.size - self.base):
                dual = self.row_sign[each] * self.duals[self.base + each]
                self.run_duals[self.row_graph[each], self.row_kind[each]] += dual

    def optimise(self, most: int) -> bool:
        """Step from basis to basis until none is better, or after a number of steps; return whether none is."""
        graphs, limits = self.num_graphs, self.num_limits
        kinds = self.runs.shape[1]
        none = -1 - self.base - 4 * graphs * kinds
        for _step in range(most):
            self.price_out()
            found = none
            least = -1e-9
            for limit in range(limits):
                if -self.duals[graphs + limit] < least:
                    least = -self.duals[graphs + limit]
                    found = -1 - limit
            for each in range(self.size - self.base):
                if -self.duals[self.base + each] < least:
                    least = -self.duals[self.base + each]
                    kind = self.row_graph[each] * kinds + self.row_kind[each]
                    found = -1 - self.base - 4 * kind - (2 if self.row_sign[each] > 0.0 else 0)
            for at in range(self.num_active):
                c = self.active[at]
                reduced = self.value_weight * self.value[c] - self.duals[self.owner[c]]
                for limit in range(limits):
                    reduced -= self.duals[graphs + limit] * self.entries[c, limit]
                if self.bounded[self.owner[c]]:
                    for kind in range(kinds):
                        reduced -= self.run_duals[self.owner[c], kind] * self.runs[c, kind]
                if reduced < least:
                    least = reduced
                    found = c
            if found == none:
                return True
            if found >= 0:
                self.used_at[found] = self.now
            self.direct(found)
            row = -1
            ratio = 0.0
            for each in range(self.size):
                if self.entering[each] > 1e-9:
                    level = max(self.levels[each], 0.0) / self.entering[each]
                    if (
                        row < 0
                        or level < ratio - 1e-13
                        or (level < ratio + 1e-13 and self.entering[each] > self.entering[row])
                    ):
                        ratio = level if row < 0 else min(level, ratio)
                        row = each
            if row < 0:
                return True
            self.pivot(row, found)
        return False

    def generate(self, cutoff: float, most: int, anew: bool) -> int:
        """Add columns until none is better, the bound reaches the cutoff, or the columns are full.

        At most so many passes; the bound begins ``anew`` where the masks are others than before. Returned is 0 at the
        optimum, 1 at the cutoff, 2 where ``reserve`` has to be called, 3 after the passes.
        """
        graphs, limits = self.num_graphs, self.num_limits
        unit = self.unit if self.value_weight > 0.0 else 1.0
        for _round in range(most):
            if self.count + graphs > self.value.shape[0]:
                return 2
            self.optimise(50 * self.size)
            self.weights[0] = self.value_weight
            paid = 0.0
            for limit in range(limits):
                weight = max(0.0, -self.duals[graphs + limit]) * unit / self.limits[limit]
                self.weights[1 + limit] = weight
                paid += weight * self.limits[limit]
            for each in range(1 + limits, self.weights.shape[0]):
                self.weights[each] = 0.0
            for each in range(self.size - self.base):
                weight = max(0.0, -self.duals[self.base + each]) * unit
                kind = self.row_graph[each] * self.runs.shape[1] + self.row_kind[each]
                self.weights[1 + limits + kind] += self.row_sign[each] * weight
            for each in range(self.size - self.base):
                # Where both bounds of a number have multipliers, what counts is the difference.
                kind = self.row_graph[each] * self.runs.shape[1] + self.row_kind[each]
                paid += max(0.0, self.row_sign[each] * self.weights[1 + limits + kind]) * self.row_side[each]
            total = 0.0
            better = 0
            for g in range(graphs):
                least = self.graphs.price(g, self.weights)
                total += least
                share = self.duals[g] * unit
                if least < share - 1e-9 * (abs(share) + unit):
                    self.add(g)
                    better += 1
            self.passes += 1
            total -= paid
            if (anew and _round == 0) or total > self.bound:
                self.bound = total
                for c in range(self.weights.shape[0]):
                    self.best[c] = self.weights[c]
            if self.bound >= cutoff:
                return 1
            if better == 0:
                return 0
        return 3

    def count_penalised(self) -> float:
        """Return the sum of the levels of artificial and forbidden columns."""
        total = 0.0
        for row in range(self.size):
            column = self.basis[row]
            if self.is_artificial(column) if column < 0 else not self.allowed[column]:
                total += max(0.0, self.levels[row])
        return total

    def combine(
        self,
        starts: Places,
        order: Places,
        reduced: Floats,
        rest: Floats,
        ceiling: float,
        paid: float,
        steps: int,
        chosen: Places,
    ) -> float:
        """Choose one column of each graph, depth first, those of least reduced cost first; return the least value.

        ``starts`` (G + 1,) says where each graph's columns begin in ``order`` (C,), graphs in any order; ``reduced``
        (C,) are reduced costs, increasing within each graph; ``rest`` (G + 1, 1 + L) is the least reduced cost, and
        consumption of each limit, of the graphs from each one on. A choice has to be below the ceiling; ``paid`` is
        what the limits are worth by the multipliers; at most so many steps are made. The columns of the best choice are
        written into ``chosen`` (G,).
        """
        graphs, limits = self.num_graphs, self.num_limits
        best = ceiling
        at = 0
        self.trial[0] = starts[0]
        for c in range(2 + limits):
            self.partial[0, c] = 0.0
        while at >= 0 and steps > 0:
            place = self.trial[at]
            if place == starts[at + 1] or self.partial[at, 0] + reduced[place] + rest[at + 1, 0] > best + paid:
                at -= 1
                if at >= 0:
                    self.trial[at] += 1
                continue
            steps -= 1
            column = order[place]
            fits = True
            for limit in range(limits):
                level = self.partial[at, 2 + limit] + self.entries[column, limit]
                self.partial[at + 1, 2 + limit] = level
                if level + rest[at + 1, 1 + limit] > 1.0 + 1e-9:
                    fits = False
                    break
            if not fits:
                self.trial[at] += 1
                continue
            self.partial[at + 1, 0] = self.partial[at, 0] + reduced[place]
            self.partial[at + 1, 1] = self.partial[at, 1] + self.value[column]
            if at + 1 < graphs:
                at += 1
                self.trial[at] = starts[at]
                continue
            if self.partial[graphs, 1] < best:
                best = self.partial[graphs, 1]
                for g in range(graphs):
                    chosen[g] = order[self.trial[g]]
            self.trial[at] += 1
        return best
