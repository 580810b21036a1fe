"""Column generation: a restricted master and exact pricing in turns, for whatever is to be least.

The same paths serve every aim: the least value within the limits, the least common factor of the limits, the least of
one limit with the others kept. Each aim has its own master over all paths seen so far. The method: Desrosiers and
Luebbecke, "A primer in column generation", 2005.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, most_within
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathFamily, join_batches
from optplan.solvers.paths.restricted_master import Master, MasterSolution
from optplan.solvers.paths.search import Effort


@dataclass(frozen=True, eq=False)
class Aim:
    """What is to be least: value_weight * value + weights . consumption, or the common factor of the limits.

    Parameters
    ----------
    value_weight
        Weight of the value.
    weights
        (L,) Weights of the consumptions.
    limits
        (L,) The limits to keep; +inf for one that does not count.
    is_factor
        Whether the number that multiplies all limits is to be least instead.
    """

    value_weight: float
    weights: FloatArray
    limits: FloatArray
    is_factor: bool = False

    @classmethod
    def least_value(cls, limits: FloatArray) -> Aim:
        """Return the aim of the least value within the limits."""
        return cls(1.0, np.zeros(limits.size), limits)

    @classmethod
    def least_factor(cls, limits: FloatArray) -> Aim:
        """Return the aim of the least common factor."""
        return cls(0.0, np.zeros(limits.size), limits, is_factor=True)

    def cost(self, columns: PathBatch) -> FloatArray:
        """Return (P,) what following paths costs."""
        return columns.weigh(self.weights, self.value_weight)

    def pay(self, multipliers: FloatArray) -> float:
        """Return what the limits themselves are worth under multipliers."""
        return math.fsum((multipliers * np.where(np.isfinite(self.limits), self.limits, 0.0)).tolist())


@dataclass(eq=False)
class Progress:
    """How far an aim has come.

    Parameters
    ----------
    multipliers
        (L,) Multipliers of the greatest bound so far.
    bound
        That bound, evaluated.
    master
        The restricted master's last solution; its fractions are of the pool's first columns.
    attained
        Whether the two agree.
    """

    multipliers: FloatArray
    bound: float = -math.inf
    master: MasterSolution | None = None
    attained: bool = False


class ColumnGeneration:
    """All paths seen so far of a family, and the passes that find more.

    Parameters
    ----------
    family
        The graphs.
    gap
        Two sides of a bound agree when they differ by at most this fraction.
    effort
        Charged for every pass.
    """

    def __init__(self, family: PathFamily, gap: float, effort: Effort) -> None:
        self.family = family
        self.effort = effort
        self._gap = gap
        self._graphs: list[IntArray] = []
        self._batches: list[PathBatch] = []
        self.passes = 0

    @property
    def graph(self) -> IntArray:
        """(C,) Whose path each column is."""
        return np.concatenate(self._graphs)

    @property
    def columns(self) -> PathBatch:
        """(C,) All paths seen."""
        return join_batches(self._batches)

    def add(self, graph: IntArray, columns: PathBatch) -> None:
        """Take columns into the pool."""
        self._graphs.append(graph)
        self._batches.append(columns)

    def start(self) -> PathBatch:
        """Return each graph's path of least value, whatever the clock says: no bound comes without a pass."""
        self.effort.passes += 1
        self.passes += 1
        return self.family.best_paths(np.zeros(self.family.limits.size))

    def price(self, multipliers: FloatArray, value_weight: float) -> PathBatch:
        """Return each graph's best path, after a look at the clock."""
        self.effort.charge_pass()
        self.passes += 1
        return self.family.best_paths(multipliers, value_weight=value_weight)

    def find_factor(self, limits: FloatArray, progress: Progress, *, complete: bool = True) -> None:
        """Find the least common factor of the limits, or any factor of at most 1.

        Parameters
        ----------
        limits
            (L,) +inf for one that does not count.
        progress
            Updated all along; its bound exceeds 1 only when the limits cannot be kept.
        complete
            Whether a factor above 1 has to be the least one.

        Raises
        ------
        OutOfEffortError
            When time runs out.
        """
        hopeless = math.inf if complete else 1.0 + 2.0 * LIMIT_TOLERANCE
        self.minimise(Aim.least_factor(limits), progress, enough=1.0, hopeless=hopeless)

    def minimise(self, aim: Aim, progress: Progress, *, enough: float = -math.inf, hopeless: float = math.inf) -> None:
        """Bring an aim's bound and its master together; the pool must hold a mixture that keeps the limits.

        Parameters
        ----------
        aim
            What is to be least.
        progress
            Updated all along, so that it holds what is known when time runs out.
        enough
            Stop as soon as the master is at most this.
        hopeless
            Stop as soon as the bound is at least this.

        Raises
        ------
        OutOfEffortError
            When time runs out.
        """
        columns = self.columns
        total = aim.cost(columns).max(initial=0.0) * self.family.num_graphs
        master = Master(
            self.family.num_graphs,
            aim.limits,
            1.0 if aim.is_factor or total <= 0 else total,
            with_factor=aim.is_factor,
            most=columns.consumption.max(axis=0),
        )
        master.add(self.graph, aim.cost(columns), columns.consumption)
        while True:
            solution = master.solve(self.effort.stopwatch)
            if solution is None:
                return
            progress.master = solution
            if solution.objective <= enough:
                return
            better = self._improve(aim, progress, solution, master)
            if progress.bound >= hopeless:
                return
            if not better:
                progress.attained = True
                return

    def _improve(self, aim: Aim, progress: Progress, solution: MasterSolution, master: Master) -> bool:
        """Add better paths to the master and the pool; return whether there were any and they are needed."""
        paths = self.price(aim.weights + solution.multipliers, aim.value_weight)
        self.note_bound(aim, progress, solution.multipliers, paths)
        if self._agrees(aim, progress, solution):
            return False
        reduced = paths.weigh(aim.weights + solution.multipliers, aim.value_weight)
        better = np.flatnonzero(reduced < solution.shares - ROUNDING * (np.abs(solution.shares) + reduced))
        if better.size:
            chosen = paths.take(better)
            self.add(better, chosen)
            master.add(better, aim.cost(chosen), chosen.consumption)
        return bool(better.size)

    def note_bound(self, aim: Aim, progress: Progress, multipliers: FloatArray, paths: PathBatch) -> None:
        """Evaluate the bound of multipliers whose best paths are known, and keep it when it is the greatest."""
        least = math.fsum(paths.weigh(aim.weights + multipliers, aim.value_weight).tolist())
        if aim.is_factor:
            paid = aim.pay(multipliers)
            bound = least / paid if paid > 0 else -math.inf
        else:
            bound = least - aim.pay(multipliers)
        if bound > progress.bound:
            progress.bound, progress.multipliers = bound, multipliers

    def _agrees(self, aim: Aim, progress: Progress, solution: MasterSolution) -> bool:
        """Return whether the greatest bound meets the master's value."""
        rounding = 0.0 if aim.is_factor else ROUNDING * aim.pay(progress.multipliers)
        return solution.objective - progress.bound <= self._gap * abs(solution.objective) + rounding


def exceeds_one(factor: float) -> bool:
    """Return whether limits would have to grow by more than the tolerance."""
    return factor > most_within(1.0)
