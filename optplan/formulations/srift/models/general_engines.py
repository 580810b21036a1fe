"""Srift on general engines: CP-SAT, and looking at every fleet. The independent checks of the exact one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.contracts.result import (
    MEETING,
    Answer,
    BoundProof,
    SolveRequest,
    Status,
    Termination,
    closes_gap,
    status_of,
)
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT
from optplan.formulations.srift.data.instance import Objective, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.best_first import FleetSearch, answer_without_fleet
from optplan.formulations.srift.exact.goals import TOLERANCE
from optplan.formulations.srift.models.statement import ROUNDING, find_least_share, list_cells, list_volumes
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.engine_process import Report
from optplan.solvers.layered_graphs import refuse_to_enumerate
from optplan.solvers.programs.cpsat import call_with_cp_sat, new_solver, solve_watched

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Units that the longest iteration, and the highest price of a fleet, are divided into; products stay in 64 bits.
_TIME_UNITS = 2**22
_PRICE_UNITS = 2**28
#: Parts of a unit in which shares are counted.
_SHARES = 2**20


class FleetModel:
    """The model, by one worker: fleets are asked for with :meth:`propose`, until there is none."""

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
        """Return the greatest of several times and zero, which follows from the counts, as all variables do."""
        greatest = self.model.new_int_var(0, _TIME_UNITS, "")
        self.model.add_max_equality(greatest, [0, *variables])
        return greatest

    def _grows(self) -> cp_model.IntVar:
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
        """Return the fleet with the least relaxation left; any of them when time runs out; None without one."""
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


#: Most choices of counts and batches that enumeration goes through.
MOST_CHOICES = 500_000
_NO_FLEET = "CP-SAT has found no fleet that reaches the batch within the limits"


def solve_cp_sat(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Let CP-SAT propose fleets, the best relaxation first, and look each up, until none can be better."""
    request.stopwatch.emit("cp-sat")
    found = call_with_cp_sat(_search, (instance, request.gap, request.seed), request.stopwatch)
    return answer_without_fleet(instance, request, _NO_FLEET, Termination.TIME_LIMIT) if found is None else found


def _search(
    instance: SriftInstance,
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    report: Report[Answer[SriftSolution]] | None = None,
) -> Answer[SriftSolution]:
    request = SolveRequest(gap=gap, seed=seed, stopwatch=stopwatch)
    search = FleetSearch(instance, request.stopwatch)
    model = FleetModel(instance, request)
    while not closes_gap(search.objective, model.bound, request.gap) and not request.stopwatch.expired:
        fleet = model.propose()
        if fleet is None:
            break
        known = search.objective
        search.offer(search.judge(fleet))
        if search.objective is not None and search.objective != known:
            model.require_better_than(search.objective)
            request.stopwatch.emit("cp-sat", objective=search.objective, bound=model.bound)
            if report is not None:
                report(_answer(instance, request, search, model))
    return _answer(instance, request, search, model)


def _answer(
    instance: SriftInstance, request: SolveRequest, search: FleetSearch, model: FleetModel
) -> Answer[SriftSolution]:
    counters = {"fleets": float(search.judged), "solves": float(model.solves), "branches": float(model.branches)}
    closed = model.exhausted or closes_gap(search.objective, model.bound, request.gap)
    ended = Termination.COMPLETED if closed else Termination.TIME_LIMIT
    if search.best is None:
        answer = answer_without_fleet(instance, request, _NO_FLEET, ended, counters)
        known = answer.status is Status.UNKNOWN and model.bound > 0.0
        return replace(answer, bound=model.bound, bound_proof=BoundProof.ENGINE) if known else answer
    objective = search.best.objective
    bound = objective if model.exhausted else min(objective, model.bound)
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=ended,
        solution=SriftSolution(groups=search.best.groups),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.ENGINE,
        counters=counters,
        engine="CP-SAT",
        engine_version=version("ortools"),
    )


def solve_enumeration(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Look at every fleet, in plain Python, and price each that reaches the batch; up to :data:`MOST_CHOICES`."""
    options = [_list_groups(instance, name) for name in instance.types]
    choices = math.prod(len(groups) for groups in options)
    if choices > MOST_CHOICES:
        raise refuse_to_enumerate(MOST_CHOICES, choices)
    request.stopwatch.emit("enumeration")
    search = FleetSearch(instance, Stopwatch())
    search.look_at(_list_fleets(instance, options))
    answer = search.answer(request, "fleet", Termination.COMPLETED)
    answer = replace(answer, counters={"choices": float(choices), **answer.counters})
    if search.objective is None:
        return answer
    return replace(answer, status=Status.OPTIMAL, bound=search.objective, bound_proof=BoundProof.SEARCHED)


def _list_groups(instance: SriftInstance, name: str) -> list[tuple[VmGroup, ...]]:
    """List what a fleet can have of a type: nothing, one group, or a group for each of several batches."""
    batches, most = instance.batches_of[name][::-1], instance.most_of(name)
    if instance.one_batch_per_type:
        one = [(VmGroup(type=name, count=n, batch=batch),) for batch in batches for n in range(1, most + 1)]
        return [(), *one]
    if (most + 1) ** len(batches) > MOST_CHOICES:
        raise refuse_to_enumerate(MOST_CHOICES, float(most + 1) ** len(batches), whose=f"{name} alone")
    every = itertools.product(range(most + 1), repeat=len(batches))
    return [
        tuple(VmGroup(type=name, count=n, batch=batch) for n, batch in zip(counts, batches, strict=True) if n)
        for counts in every
        if sum(counts) <= most
    ]


def _list_fleets(instance: SriftInstance, options: list[list[tuple[VmGroup, ...]]]) -> Iterator[tuple[VmGroup, ...]]:
    """List the combinations that reach the batch, with the VMs that run, and of one type where types are not mixed."""
    running = [vm.running for vm in instance.types.values()]
    for groups in itertools.product(*options):
        if not instance.mixed and sum(map(bool, groups)) != 1:
            continue
        if any(sum(group.count for group in own) < least for own, least in zip(groups, running, strict=True)):
            continue
        fleet = tuple(itertools.chain.from_iterable(groups))
        if fleet and sum(group.count * group.batch for group in fleet) == instance.global_batch:
            yield fleet
