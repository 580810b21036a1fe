"""Srift on general engines: HiGHS, and looking at every fleet. The independent checks of the exact one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo

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
from optplan.errors import InfeasibleError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.best_first import FleetSearch
from optplan.formulations.srift.models.statement import ROUNDING, state_model
from optplan.progress import Stopwatch
from optplan.solvers.layered_graphs import refuse_to_enumerate
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs import highs
from optplan.solvers.programs.statement import HIGHS, run_engine


class FleetModel:
    """The declarative model in HiGHS: fleets are asked for with :meth:`propose`, until there is none."""

    def __init__(self, instance: SriftInstance, request: SolveRequest) -> None:
        self.request = request
        self.counters: Counter[str] = Counter()
        #: No fleet that is not excluded is better than this.
        self.bound = 0.0
        #: Whether no fleet is left.
        self.exhausted = False
        self._statement = state_model(instance)
        # A fleet beyond a limit by its whole tolerance is to be proposed, too; the search refuses what is further.
        self._scaling = replace(self._statement.scaling, slack=LIMIT_TOLERANCE)
        self._statement.native.better = pyo.ConstraintList()

    def propose(self) -> tuple[VmGroup, ...] | None:
        """Return the fleet with the least relaxation left; any of them when time runs out; None without one."""
        outcome = run_engine(self._statement.native, HIGHS, self.request, self._scaling)
        self.counters.update(outcome.counters, solves=1)
        self.exhausted = outcome.status is Status.INFEASIBLE
        if outcome.bound is not None:
            self.bound = max(self.bound, outcome.bound * (1.0 - ROUNDING))
        if outcome.values is None:
            return None
        found: Any = self._statement.read()
        self._statement.cut_off()
        return tuple(found.groups)

    def require_better_than(self, objective: float) -> None:
        """Ask only for fleets whose relaxation is below an objective, by more than rounding."""
        native = self._statement.native
        native.better.add(native.least.expr <= objective * (1.0 - MEETING))


#: Most choices of counts and batches that enumeration goes through.
MOST_CHOICES = 500_000


def solve_highs(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Let HiGHS propose fleets, the best relaxation first, and look each up, until none can be better."""
    search, what = FleetSearch(instance, request.stopwatch), "fleet that HiGHS proposes"
    try:
        model = FleetModel(instance, request)
    except InfeasibleError:
        return search.answer(request, what, Termination.COMPLETED)
    while not closes_gap(search.objective, model.bound, request.gap) and not request.stopwatch.expired:
        fleet = model.propose()
        if fleet is None:
            break
        known = search.objective
        search.offer(search.judge(fleet))
        if search.objective is not None and search.objective != known:
            model.require_better_than(search.objective)
            request.stopwatch.emit("highs", objective=search.objective, bound=model.bound)
    closed = model.exhausted or closes_gap(search.objective, model.bound, request.gap)
    ended = Termination.COMPLETED if closed else Termination.TIME_LIMIT
    engine = highs.nothing_yet()
    answer = search.answer(request, what, ended, engine=(engine.engine, engine.engine_version))
    answer = replace(answer, counters=answer.counters | model.counters)
    if answer.status is Status.INFEASIBLE or (search.objective is None and model.bound == 0.0):
        return answer
    bound = model.bound if search.objective is None else min(search.objective, model.bound)
    if model.exhausted and search.objective is not None:
        bound = search.objective
    status = status_of(search.objective, bound, request.gap)
    return replace(answer, status=status, bound=bound, bound_proof=BoundProof.ENGINE)


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
