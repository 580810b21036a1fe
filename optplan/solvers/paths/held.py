"""The best path of a held graph within a budget, proven, also where paths cost more than the sums of their steps.

Sums are lower bounds of what paths truly cost, so what closes the gap (:mod:`~optplan.solvers.paths.search`) are the
paths whose sums are within the allowance; each that is left is charged exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.held_graphs import HeldGraph
from optplan.solvers.paths.held_labels import Charges, Cut, exchange_charges, find_candidates, settle_costs
from optplan.solvers.paths.search import Effort, Finding, GapClosing, OutOfEffortError
from optplan.solvers.paths.single import BudgetShortfall, LagrangianBound, maximise_bound


@dataclass(frozen=True, eq=False)
class HeldShortfall:
    """Proof that no path keeps the budget."""

    #: The least consumption of any path, charges included; a lower bound of it when ``stopped_by`` is set.
    least: float
    #: (J,) A path of that consumption; None when the search was stopped before one was found.
    options: IntArray | None
    #: As in :class:`HeldSolution`; then a lower bound alone exceeds the budget.
    stopped_by: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldSolution(Finding):
    """The best path found, with what is proven about all."""

    #: (J,) The option taken in each layer; None when a limit ended the search before a path within the budget was
    #: found, which only charges on the consumption can cause.
    options: IntArray | None
    #: Its true costs; infinite without a path.
    value: float
    consumption: float
    #: The bound by sums alone.
    lagrangian: LagrangianBound


def solve_held(
    graph: HeldGraph, budget: float, *, gap: float = 1e-6, effort: Effort | None = None, charges: Charges | None = None
) -> HeldSolution | HeldShortfall:
    """Return the path of least value within a budget, the best by then, or the proof that none keeps it."""
    spent = effort if effort is not None else Effort()
    lagrangian = maximise_bound(graph, budget, effort=spent)
    if isinstance(lagrangian, BudgetShortfall):
        return find_least(graph, effort=spent, charges=charges)
    spent.passes += lagrangian.passes
    search = _Closing(graph, lagrangian, gap, spent, charges)
    search.offer(lagrangian.under.payload)
    stopped_by = None
    try:
        if search.incumbent is None:
            least = find_least(graph, effort=spent, charges=charges)
            if not is_within(least.least, budget):
                return least
            if least.options is not None:
                search.offer(least.options[None])
            stopped_by = least.stopped_by
        if stopped_by is None:
            search.run()
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    return search.conclude(stopped_by)


def find_least(graph: HeldGraph, *, effort: Effort | None = None, charges: Charges | None = None) -> HeldShortfall:
    """Return the least consumption of any path, charges included."""
    exchanged = exchange_charges(charges)
    found = solve_held(graph.exchanged(), math.inf, gap=0.0, effort=effort, charges=exchanged)
    if isinstance(found, HeldShortfall):
        return found
    least = found.value if found.proven else found.bound
    return HeldShortfall(least, found.options, found.stopped_by)


class _Closing(GapClosing):
    """The state of closing one gap of one graph: incumbent, allowance covered, work."""

    def __init__(
        self, graph: HeldGraph, lagrangian: LagrangianBound, gap: float, effort: Effort, charges: Charges | None
    ) -> None:
        super().__init__(lagrangian.bound, np.array([lagrangian.multiplier]), 0.0, gap, effort)
        self.graph = graph
        self.lagrangian = lagrangian
        self.charges = charges
        self.incumbent: IntArray | None = None
        self.paid = self.consumption = math.inf
        self.linked = lagrangian.multiplier * lagrangian.budget if lagrangian.multiplier > 0 else 0.0

    @property
    def value(self) -> float:
        """The incumbent's true value; +inf without one."""
        return self.paid

    @property
    def rounding(self) -> float:
        """Values closer than this are the same."""
        value = self.lagrangian.under.total_value
        return ROUNDING * (max(value, self.value if self.value < math.inf else 0.0) + 2.0 * self.linked)

    def offer(self, options: IntArray, least: FloatArray | None = None) -> None:
        """Take the best of paths (P, J) as the incumbent when it keeps the budget and is better."""
        budget = self.lagrangian.budget * (1.0 + LIMIT_TOLERANCE)
        low = np.zeros(len(options)) if least is None else least
        order = np.argsort(low, kind="stable")
        for piece in np.array_split(order, 1 + order.size // TUNING.offered_at_once):
            some = options[piece[low[piece] < self.value]]
            if not len(some):
                continue
            value, consumption = settle_costs(self.graph, some, self.charges, self.effort)
            fitting = np.flatnonzero(consumption <= budget)
            if not fitting.size:
                continue
            best = fitting[np.lexsort((consumption[fitting], value[fitting]))[0]]
            if value[best] < self.value:
                self.incumbent = some[best]
                self.paid, self.consumption = float(value[best]), float(consumption[best])

    def run(self) -> None:
        """Enumerate within growing allowances until the gap is closed or a limit is met."""
        self.report("bound")
        scale = self.value if self.value < math.inf else self.lagrangian.under.total_value + self.linked
        first = max((scale - self.least) * TUNING.first_of_held_gap, self.gap * scale)
        self.grow(first, TUNING.growth)

    def enumerate_within(self, allowance: float) -> bool:
        """Look for a path within an allowance, which also improves the bound."""
        self.effort.charge_pass()
        found = find_candidates(self.graph, self.effort, self.charges, self._list_cuts(allowance))
        self.offer(found.payload, found.value)
        self.note_covered(allowance)
        return True

    def _list_cuts(self, allowance: float) -> tuple[Cut, ...]:
        """Return what keeps labels within an allowance, the incumbent's value and the budget."""
        wanted = min(self.value, self.least + allowance) + self.rounding
        budget, multiplier = self.lagrangian.budget * (1.0 + LIMIT_TOLERANCE), self.lagrangian.multiplier
        # Within the budget, a path's reduced cost less the price of the budget is at most its value.
        prices = [factor * multiplier for factor in TUNING.cut_factors] if multiplier > 0.0 else []
        cuts = [Cut((1.0, price), wanted + price * budget) for price in prices] or [Cut((1.0, 0.0), wanted)]
        return (*cuts, Cut((0.0, 1.0), budget)) if budget < math.inf else tuple(cuts)

    def conclude(self, stopped_by: str | None) -> HeldSolution:
        """Return what is known now."""
        return HeldSolution(
            options=self.incumbent,
            value=self.value,
            consumption=self.consumption,
            lagrangian=self.lagrangian,
            **self.sum_up(stopped_by),
        )
