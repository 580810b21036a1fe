"""Column generation: a restricted master and exact pricing in turns, for whatever is to be least.

The same paths serve every aim: the least value within the limits, the least common factor of the limits, the least of
one limit with the others kept. Each aim has its own master over all paths seen so far. The method: Desrosiers and
Luebbecke, "A primer in column generation", 2005.

The master has one column per path with its fraction; one row per graph (fractions add up to 1), one per limit. It is
kept in HiGHS from one pass to the next. Costs and limits are scaled so that their total is the number of graphs: a
typical coefficient is then one, whatever the units are. HiGHS says which columns form the optimal basis; fractions and
multipliers are then recomputed from the small system of the extra columns, which is exact but for rounding, so nothing
rests on the engine's tolerances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import EngineError
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathFamily, join_batches
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.quiet_highs import run_engine, start_engine

if TYPE_CHECKING:
    import highspy

    from optplan.progress import Stopwatch

#: Absolute tolerance of HiGHS on the scaled program.
_ENGINE_TOLERANCE = 1e-10
#: Entries of a basic solution that are below zero by less than this, on the scaled program, are zero.
_NEGLIGIBLE = 1e-9

#: A limit of less than this fraction of what a path consumes is scaled as if it were that much.
_LEAST_SHARE = 1e-5

#: How HiGHS ends where rounding got the better of it: costs and fractions are never negative, so nothing is unbounded.
_UNSETTLED = ("kUnknown", "kNotset", "kUnbounded", "kUnboundedOrInfeasible", "kSolveError")

#: Options of other methods, tried in turn: the serial dual simplex method, interior points, either after presolving.
_OTHER_METHODS: tuple[dict[str, str | int], ...] = (
    {"simplex_strategy": 1},
    {"solver": "ipm"},
    {"solver": "choose", "presolve": "on"},
)


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """The optimum of a restricted master."""

    #: Its value, in the units of the costs.
    objective: float
    #: (C,) Of each column.
    fractions: FloatArray
    #: (L,) Of the limits, at least 0, in cost per consumption.
    multipliers: FloatArray
    #: (G,) Multiplier of each graph's row: a path of less reduced cost improves the program.
    shares: FloatArray


class Master:
    """The linear program over some columns; columns can be added and limits changed.

    Limits (L,) are the right sides of their rows, +inf for one that does not count. Costs are divided by ``cost_unit``
    for HiGHS. With a factor, the limits are multiplied by a common one, and that is what costs, 1 per unit. ``most``
    (L,) is what paths consume at most, as far as known: no coefficient should be far above one.
    """

    def __init__(
        self, num_graphs: int, limits: FloatArray, cost_unit: float, *, most: FloatArray, with_factor: bool = False
    ) -> None:
        self.num_graphs = num_graphs
        self.limits = limits
        self._cost_unit = cost_unit / num_graphs
        self._counted = np.flatnonzero(np.isfinite(limits))
        #: The counted limits' numbers among the limits' rows.
        self._limit_rows = np.arange(self._counted.size)
        counted = limits[self._counted]
        unit = np.maximum(counted, _LEAST_SHARE * most[self._counted])
        self._limit_unit = np.where(unit > 0.0, unit, 1.0) / num_graphs
        #: Right sides of the limits' rows: the number of graphs, unless a limit is far below what paths consume.
        self._room = counted / self._limit_unit
        self._with_factor = with_factor
        self._graph = np.empty(0, dtype=np.intp)
        self._cost = np.empty(0)
        self._entries = np.empty((0, self._counted.size))
        self._engine = self._start_engine()

    def add(self, graph: IntArray, cost: FloatArray, consumption: FloatArray) -> None:
        """Append columns: whose path each is (P,), what following it costs (P,), and its consumptions (P, L)."""
        entries = consumption[:, self._counted] / self._limit_unit
        rows = np.concatenate([graph[:, None], np.tile(self.num_graphs + self._limit_rows, (graph.size, 1))], axis=1)
        values = np.concatenate([np.ones((graph.size, 1)), entries], axis=1)
        starts = np.arange(graph.size) * rows.shape[1]
        self._engine.addCols(
            graph.size,
            cost / self._cost_unit,
            np.zeros(graph.size),
            np.full(graph.size, np.inf),
            values.size,
            starts.astype(np.int32),
            rows.ravel().astype(np.int32),
            values.ravel(),
        )
        self._graph = np.concatenate([self._graph, graph])
        self._cost = np.concatenate([self._cost, cost / self._cost_unit])
        self._entries = np.concatenate([self._entries, entries])

    def solve(self, stopwatch: Stopwatch) -> MasterSolution | None:
        """Return the optimum; None where the columns cannot keep the limits.

        Raises OutOfEffortError also where no method of HiGHS can tell.
        """
        if stopwatch.remaining_s is not None:
            # The clock of HiGHS counts over all its runs.
            self._engine.setOptionValue("time_limit", self._engine.getRunTime() + stopwatch.remaining_s)
        run_engine(self._engine)
        status = self._engine.getModelStatus().name
        if not self._is_settled(status):
            status = self._run_anew()
        if status == "kInfeasible":
            return None
        if status == "kTimeLimit":
            raise OutOfEffortError("time")
        if status in _UNSETTLED:
            raise OutOfEffortError("engine")
        if status != "kOptimal":
            message = f"HiGHS ended a linear program over paths with {status}"
            raise EngineError(message)
        return self._read_basis() or self._read_engine()

    def _run_anew(self) -> str:
        """Start anew with other methods until one knows what the program is, and return what it says.

        The primal simplex method, going on from a basis that columns were added to, cannot always tell that they keep
        no limits; nor can the dual one on the same program. Interior points can, or either after presolving.
        """
        for changes in _OTHER_METHODS:
            usual = {name: self._engine.getOptionValue(name)[1] for name in changes}
            for name, value in changes.items():
                self._engine.setOptionValue(name, value)
            self._engine.clearSolver()
            run_engine(self._engine)
            for name, value in usual.items():
                self._engine.setOptionValue(name, value)
            status = str(self._engine.getModelStatus().name)
            if self._is_settled(status):
                break
        return status

    def _is_settled(self, status: str) -> bool:
        """Whether a status can be believed: a great factor keeps any limit, and HiGHS calls one of 1e15 infeasible."""
        return status not in _UNSETTLED and not (self._with_factor and status == "kInfeasible")

    def _start_engine(self) -> highspy.Highs:
        import highspy

        engine = start_engine(
            presolve="off",
            # Its own defaults would drop paths of a billionth of a limit, and refuse those that far exceed one.
            small_matrix_value=1e-12,
            large_matrix_value=1e30,
            solver="simplex",
            # Columns that are added keep the basis feasible, so the primal simplex goes on where it was.
            simplex_strategy=int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyPrimal),
            primal_feasibility_tolerance=_ENGINE_TOLERANCE,
            dual_feasibility_tolerance=_ENGINE_TOLERANCE,
        )
        count, scale = self._counted.size, float(self.num_graphs)
        lower = np.concatenate([np.ones(self.num_graphs), np.full(count, -np.inf)])
        upper = np.concatenate([np.ones(self.num_graphs), np.zeros(count) if self._with_factor else self._room])
        nothing = np.empty(0, dtype=np.int32)
        engine.addRows(lower.size, lower, upper, 0, np.zeros(lower.size, dtype=np.int32), nothing, np.empty(0))
        if self._with_factor:
            rows = (self.num_graphs + self._limit_rows).astype(np.int32)
            engine.addCol(scale, 0.0, np.inf, count, rows, -self._room)
        return engine

    def _read_basis(self) -> MasterSolution | None:
        """Return the basic solution recomputed from its columns, or None where they do not settle it."""
        status, basic = self._engine.getBasicVariables()
        if status.name == "kError":
            return None
        basic = np.asarray(basic)
        offset = int(self._with_factor)
        chosen = np.sort(basic[basic >= offset] - offset)
        slack = -basic[basic < 0] - 1 - self.num_graphs
        scaled_factor = self._with_factor and 0 in basic
        if slack.min(initial=0) < 0:
            return None
        binds = np.ones(self._limit_rows.size, dtype=np.bool_)
        binds[slack] = False
        binding = binds.nonzero()[0]
        levels = np.asarray(self._engine.getSolution().col_value)[offset:]
        # The base column of each graph is its largest, the others are extra.
        by_graph = chosen[np.lexsort((-levels[chosen], self._graph[chosen]))]
        is_base = np.diff(self._graph[by_graph], prepend=-1) > 0
        base, extra = by_graph[is_base], by_graph[~is_base]
        if base.size < self.num_graphs or binding.size != extra.size + scaled_factor:
            return None
        return self._solve_extras(base, extra, binding, scaled_factor=scaled_factor)

    def _solve_extras(
        self, base: IntArray, extra: IntArray, binding: IntArray, *, scaled_factor: bool
    ) -> MasterSolution | None:
        """Return the solution in which the binding limits are met by base and extra columns, None if it is none."""
        owner = self._graph[extra]
        scale = float(self.num_graphs)
        steps = (self._entries[extra] - self._entries[base[owner]])[:, binding]
        gains = self._cost[base[owner]] - self._cost[extra]
        most = np.zeros(binding.size) if self._with_factor else self._room[binding]
        room = most - self._entries[base].sum(axis=0)[binding]
        if scaled_factor:
            steps = np.concatenate([steps, -self._room[None, binding]])
            gains = np.append(gains, -scale)
        try:
            duals, levels = np.linalg.solve(steps, gains), np.linalg.solve(steps.T, room)
        except np.linalg.LinAlgError:
            return None
        fractions = np.zeros(self._graph.size)
        fractions[base] = 1.0
        fractions[extra] = levels[: extra.size]
        np.subtract.at(fractions, base[owner], levels[: extra.size])
        scaled = np.zeros(self._counted.size)
        scaled[binding] = duals
        if not (fractions.min() >= -_NEGLIGIBLE and scaled.min(initial=0.0) >= -_NEGLIGIBLE):
            return None
        return self._conclude(fractions, scaled, float(levels[-1]) if scaled_factor else 0.0)

    def _read_engine(self) -> MasterSolution:
        """Return the solution as HiGHS has it."""
        solution = self._engine.getSolution()
        levels = np.asarray(solution.col_value)
        offset = int(self._with_factor)
        scaled = -np.asarray(solution.row_dual)[self.num_graphs :]
        return self._conclude(levels[offset:], scaled, float(levels[0]) if self._with_factor else 0.0)

    def _conclude(self, fractions: FloatArray, scaled: FloatArray, factor: float) -> MasterSolution:
        """Return a solution in the caller's units; ``scaled`` are the multipliers of the scaled program."""
        scaled = np.maximum(scaled, 0.0)
        fractions = np.where(fractions > 1e-12, fractions, 0.0)
        fractions /= np.bincount(self._graph, weights=fractions, minlength=self.num_graphs)[self._graph]
        shares = np.full(self.num_graphs, np.inf)
        np.minimum.at(shares, self._graph, self._cost + self._entries @ scaled)
        objective = float(fractions @ self._cost) + self.num_graphs * factor
        multipliers = np.zeros(self.limits.size)
        multipliers[self._counted] = scaled / self._limit_unit * self._cost_unit
        return MasterSolution(objective * self._cost_unit, fractions, multipliers, shares * self._cost_unit)


@dataclass(frozen=True, eq=False)
class Aim:
    """What is to be least: value_weight * value + weights . consumption, or the common factor of the limits."""

    #: Weight of the value.
    value_weight: float
    #: (L,) Weights of the consumptions.
    weights: FloatArray
    #: (L,) The limits to keep; +inf for one that does not count.
    limits: FloatArray
    #: Whether the number that multiplies all limits is to be least instead.
    is_factor: bool = False

    @classmethod
    def least_value(cls, limits: FloatArray) -> Aim:
        """Return the aim of the least value within the limits."""
        return cls(1.0, np.zeros(limits.size), limits)

    def cost(self, columns: PathBatch) -> FloatArray:
        """Return (P,) what following paths costs."""
        return columns.weigh(self.weights, self.value_weight)

    def pay(self, multipliers: FloatArray) -> float:
        """Return what the limits themselves are worth under multipliers."""
        return math.fsum((multipliers * np.where(np.isfinite(self.limits), self.limits, 0.0)).tolist())


@dataclass(eq=False)
class Progress:
    """How far an aim has come."""

    #: (L,) Multipliers of the greatest bound so far.
    multipliers: FloatArray
    #: That bound, evaluated.
    bound: float = -math.inf
    #: The restricted master's last solution; its fractions are of the pool's first columns.
    master: MasterSolution | None = None
    #: Whether the two agree.
    attained: bool = False


class ColumnGeneration:
    """All paths seen so far of a family, and the passes that find more; each charges the effort."""

    def __init__(self, family: PathFamily, effort: Effort) -> None:
        self.family = family
        self.effort = effort
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

    def find_factor(self, limits: FloatArray, progress: Progress) -> None:
        """Find the least common factor of the limits (L,), or any of at most 1; +inf is a limit that does not count.

        The bound of ``progress`` exceeds 1 only when the limits cannot be kept.
        """
        self.minimise(Aim(0.0, np.zeros(limits.size), limits, is_factor=True), progress, enough=1.0)

    def minimise(self, aim: Aim, progress: Progress, *, enough: float = -math.inf) -> None:
        """Bring an aim's bound and its master together; the pool must hold a mixture that keeps the limits.

        The master may stop as soon as it is at most ``enough``. Progress is updated all along, so that it holds what is
        known when time runs out.
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
            if not self._improve(aim, progress, solution, master):
                progress.attained = True
                return

    def _improve(self, aim: Aim, progress: Progress, solution: MasterSolution, master: Master) -> bool:
        """Add better paths to the master and the pool; return whether there were any and they are needed."""
        paths = self.price(aim.weights + solution.multipliers, aim.value_weight)
        self.note_bound(aim, progress, solution.multipliers, paths)
        rounding = 0.0 if aim.is_factor else ROUNDING * aim.pay(progress.multipliers)
        if solution.objective - progress.bound <= TUNING.agreement * abs(solution.objective) + rounding:
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
