"""Srift as a model for CP-SAT: counts by type and batch, and a relaxation of the iteration time by tables.

How long an iteration takes depends on the whole fleet, so the model holds what bounds it from below:

* the slowest of n VMs of one type and batch, for every n, tabulated (no fleet with such a group computes faster);
* the shortest transfer of all gradients, for every number of ranks, tabulated by the capacity of each type present (the
  transfers in flight never get more than the capacity together), after the earliest gradient that any forward and
  backward pass of that length has.

Fleets are excluded one by one once their true times and costs are known, and from then on only fleets whose relaxation
is better than the best one are asked for. When there is none left, the best one is optimal. Everything is rounded
down to whole units, so that the relaxation stays one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.contracts.result import MEETING, SolveRequest
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT
from optplan.formulations.srift.data.instance import Objective, SriftInstance, VmGroup
from optplan.formulations.srift.exact.incumbents import TOLERANCE
from optplan.formulations.srift.models.fleet_tables import ROUNDING, find_least_share, list_cells, list_volumes
from optplan.schema import FloatArray
from optplan.solvers.programs.cpsat import new_solver, solve_watched

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Units that the longest iteration, and the highest price of a fleet, are divided into; products stay in 64 bits.
_TIME_UNITS = 2**22
_PRICE_UNITS = 2**28
#: Parts of a unit in which shares are counted.
_SHARES = 2**20


class FleetModel:
    """The model; fleets are asked for with :meth:`propose`, until there is none.

    Parameters
    ----------
    instance
        The problem.
    request
        Seed and time limit. One worker, so the same request gives the same fleets.
    """

    def __init__(self, instance: SriftInstance, request: SolveRequest) -> None:
        from ortools.sat.python import cp_model

        self.instance = instance
        self.request = request
        self.solves = self.branches = 0
        #: No fleet that is not excluded is better than this.
        self.bound = 0.0
        #: Whether no fleet is left.
        self.exhausted = False
        self.cells = list_cells(instance)
        self.model = cp_model.CpModel()
        self._counts = [self.model.new_int_var(0, cell.most, "") for cell in self.cells]
        self._used = [self.model.new_bool_var("") for _ in self.cells]
        self._present = {name: self.model.new_bool_var("") for name in instance.types}
        self._add_fleet()
        self._time_unit_s = 1.0
        self._objective, self._unit = self._add_objective()
        self.model.minimize(self._objective)

    def _add_fleet(self) -> None:
        """Say what a fleet is: it reaches the batch, within availability and the rules on batches and types."""
        model, instance = self.model, self.instance
        for count, used in zip(self._counts, self._used, strict=True):
            model.add(count >= 1).only_enforce_if(used)
            model.add(count == 0).only_enforce_if(used.negated())
        unit = math.gcd(instance.global_batch, *(cell.batch for cell in self.cells))
        batches = [cell.batch // unit for cell in self.cells]
        model.add(_weigh(self._counts, batches) == instance.global_batch // unit)
        for name, vm in instance.types.items():
            own = [used for used, cell in zip(self._used, self.cells, strict=True) if cell.name == name]
            model.add(self._total(name) <= instance.most_of(name))
            model.add(self._total(name) >= vm.running)
            model.add_max_equality(self._present[name], [0, *own])
            if instance.one_batch_per_type:
                model.add_at_most_one(own)
        if not instance.mixed:
            model.add_at_most_one(self._present.values())

    def _add_objective(self) -> tuple[cp_model.IntVar, float]:
        """Add times and costs with their limits; return the variable to minimise, and what a unit of it is worth."""
        instance = self.instance
        training, launch = self._add_times()
        training_unit_s = self._time_unit_s * instance.iterations
        time = self.model.new_int_var(0, _TIME_UNITS, "")
        self.model.add(time == training + launch)
        if instance.deadline_s is not None:
            self.model.add(time <= _count_units(instance.deadline_s * (1.0 + TOLERANCE), training_unit_s))
        if instance.objective is Objective.TIME and instance.budget is None:
            return time, training_unit_s
        cost, cost_unit = self._add_cost(time if instance.launch_billed else training, training_unit_s)
        if instance.budget is not None:
            self.model.add(cost <= _count_units(instance.budget.value * (1.0 + TOLERANCE), cost_unit))
        return (time, training_unit_s) if instance.objective is Objective.TIME else (cost, cost_unit)

    def _add_times(self) -> tuple[cp_model.IntVar, Any]:
        """Add the least time of an iteration, in units, and what launching adds to all iterations."""
        model, instance = self.model, self.instance
        volumes = list_volumes(instance)
        longest_s = max((float(cell.compute_s[-1]) for cell in self.cells), default=0.0)
        slowest = min(vm.network_gbit_per_s for vm in instance.types.values()) * BYTES_PER_GBIT
        launch_s = instance.launch_s / instance.iterations
        self._time_unit_s = (longest_s + float(volumes.max()) / slowest + launch_s or 1.0) / _TIME_UNITS
        compute = self._add_greatest(
            [
                self._look_up(count, cell.compute_s * (1.0 - ROUNDING))
                for count, cell in zip(self._counts, self.cells, strict=True)
            ]
        )
        exchange = self._add_exchange(volumes)
        after = model.new_int_var(0, _TIME_UNITS, "")
        rest = model.new_int_var(0, _SHARES - 1, "")
        share = math.floor(_SHARES * find_least_share(instance, self.cells))
        model.add(_SHARES * after + rest == share * compute + _SHARES * exchange)
        return self._add_greatest([compute, after]), math.floor(launch_s / self._time_unit_s) * self._grows()

    def _add_exchange(self, volumes: FloatArray) -> cp_model.IntVar:
        """Add the least time of the exchange: that at the least capacity of the types present."""
        model, types = self.model, self.instance.types
        ranks = model.new_int_var(0, volumes.size - 1, "")
        model.add(_weigh(self._counts, [types[cell.name].gpus for cell in self.cells]) == ranks)
        taken = []
        for gbit_per_s in sorted({vm.network_gbit_per_s for vm in types.values()}):
            least = self._look_up(ranks, volumes / (gbit_per_s * BYTES_PER_GBIT) * (1.0 - ROUNDING))
            seconds, present = model.new_int_var(0, _TIME_UNITS, ""), model.new_bool_var("")
            own = [self._present[name] for name, vm in types.items() if vm.network_gbit_per_s == gbit_per_s]
            model.add_max_equality(present, own)
            model.add(seconds == least).only_enforce_if(present)
            model.add(seconds == 0).only_enforce_if(present.negated())
            taken.append(seconds)
        return self._add_greatest(taken)

    def _look_up(self, number: cp_model.IntVar, seconds: FloatArray) -> cp_model.IntVar:
        """Return a variable with what a table has for a number, in units."""
        found = self.model.new_int_var(0, _TIME_UNITS, "")
        self.model.add_element(number, [int(each) for each in np.floor(seconds / self._time_unit_s)], found)
        return found

    def _add_greatest(self, variables: list[cp_model.IntVar]) -> cp_model.IntVar:
        """Return the greatest of several times, zero among them.

        Every variable follows from the counts: one that could be larger would be lowered by CP-SAT unit by unit.
        """
        greatest = self.model.new_int_var(0, _TIME_UNITS, "")
        self.model.add_max_equality(greatest, [0, *variables])
        return greatest

    def _grows(self) -> cp_model.IntVar:
        """Return whether the fleet has more VMs of any type than are running."""
        grows = self.model.new_bool_var("")
        more = []
        for name, vm in self.instance.types.items():
            launched = self.model.new_bool_var("")
            self.model.add(self._total(name) >= vm.running + 1).only_enforce_if(launched)
            self.model.add(self._total(name) <= vm.running).only_enforce_if(launched.negated())
            more.append(launched)
        self.model.add_max_equality(grows, more)
        return grows

    def _total(self, name: str) -> cp_model.LinearExprT:
        """Return the number of VMs of a type."""
        own = [count for count, cell in zip(self._counts, self.cells, strict=True) if cell.name == name]
        return _weigh(own, [1] * len(own))

    def _add_cost(self, billed_units: cp_model.IntVar, unit_s: float) -> tuple[cp_model.IntVar, float]:
        """Add the least cost; return it, and what a unit of it is worth."""
        prices = [self.instance.types[cell.name].price_usd_per_s for cell in self.cells]
        highest = sum(price * cell.most for price, cell in zip(prices, self.cells, strict=True))
        price_unit = (highest or 1.0) / _PRICE_UNITS
        price = self.model.new_int_var(0, _PRICE_UNITS, "")
        self.model.add(_weigh(self._counts, [math.floor(each / price_unit) for each in prices]) == price)
        cost = self.model.new_int_var(0, _PRICE_UNITS * _TIME_UNITS, "")
        self.model.add_multiplication_equality(cost, [price, billed_units])
        return cost, price_unit * unit_s

    def propose(self) -> tuple[VmGroup, ...] | None:
        """Return the fleet with the least relaxation of those left; any of them when time runs out; None without one.

        Raises
        ------
        EngineError
            When CP-SAT refuses the model or fails.
        """
        solver = new_solver(self.request.seed)
        # The presolve of OR-Tools 9.15 calls models infeasible that are not, where a factor of a product is a sum with
        # large coefficients; without it, models of this size take about as long.
        solver.parameters.cp_model_presolve = False
        name = solve_watched(solver, self.model, self.request.stopwatch)
        self.solves += 1
        self.branches += solver.num_branches
        if name == "INFEASIBLE":
            self.exhausted = True
            return None
        if math.isfinite(solver.best_objective_bound):
            self.bound = max(self.bound, round(solver.best_objective_bound) * self._unit)
        if name == "UNKNOWN":
            return None
        chosen = [(cell, solver.value(count)) for cell, count in zip(self.cells, self._counts, strict=True)]
        self.model.add_forbidden_assignments(self._counts, [tuple(number for _, number in chosen)])
        return tuple(VmGroup(type=cell.name, count=number, batch=cell.batch) for cell, number in chosen if number)

    def require_better_than(self, objective: float) -> None:
        """Ask only for fleets whose relaxation is below an objective, by more than rounding."""
        self.model.add(self._objective <= math.floor(objective * (1.0 - MEETING) / self._unit))


def _count_units(limit: float, unit: float) -> int:
    """Return how many whole units a limit holds, at most as many as any variable."""
    return math.floor(min(limit / unit, float(_PRICE_UNITS) * _TIME_UNITS))


def _weigh(variables: list[cp_model.IntVar], weights: list[int]) -> cp_model.LinearExprT:
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.weighted_sum(variables, weights)
