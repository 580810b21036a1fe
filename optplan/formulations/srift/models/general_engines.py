"""Srift on general engines: CP-SAT, and looking at every fleet. The independent checks of the exact one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, closes_gap, status_of
from optplan.errors import UnsupportedError
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.fleet_by_fleet import FleetSearch, answer_without_fleet
from optplan.formulations.srift.exact.incumbents import FleetJudge, JudgedFleet
from optplan.formulations.srift.models.fleet_model import FleetModel
from optplan.progress import Stopwatch
from optplan.solvers.engine_process import Report
from optplan.solvers.programs.cpsat import call_with_cp_sat

#: Most choices of counts and batches that enumeration goes through.
MOST_CHOICES = 500_000
_NO_FLEET = "CP-SAT has found no fleet that reaches the batch within the limits"


def solve_cp_sat(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Solve with CP-SAT: it proposes fleets, the best relaxation first, until none can be better than the best seen.

    The model (:mod:`optplan.formulations.srift.models.fleet_model`) holds counts and batches as integer variables;
    true times are looked up fleet by fleet, and a fleet once looked at is excluded.

    The bound is CP-SAT's word: that of the relaxation, or the objective where no better fleet is left. One worker,
    so the same request gives the same answer.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model or fails.
    """
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
    """Look for fleets with CP-SAT in this process."""
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
    """Look at every fleet, in plain Python, and price each that reaches the batch.

    Optimal, or infeasible; of equally good fleets the first one. The work is limited by :data:`MOST_CHOICES`, not
    by time.

    Raises
    ------
    UnsupportedError
        When there are too many choices.
    """
    options = [_list_groups(instance, name) for name in instance.types]
    choices = math.prod(len(groups) for groups in options)
    if choices > MOST_CHOICES:
        raise UnsupportedError(
            f"enumeration goes through {MOST_CHOICES:,} choices at most and this problem has {choices:.3g}; "
            "choose a solver that does not look at each of them"
        )
    request.stopwatch.emit("enumeration")
    best: JudgedFleet | None = None
    judge, looked_at = FleetJudge(instance), 0
    for fleet in _list_fleets(instance, options):
        looked_at += 1
        priced = judge.judge(fleet)
        ends = priced.keeps_limits and math.isfinite(priced.objective)
        if ends and (best is None or priced.objective < best.objective):
            best = priced
    counters = {"choices": float(choices), "fleets": float(looked_at)}
    if best is None:
        return answer_without_fleet(
            instance, request, "no fleet reaches the batch within the limits", counters=counters
        )
    return Answer(
        Status.OPTIMAL,
        Termination.COMPLETED,
        solution=SriftSolution(groups=best.groups),
        objective=best.objective,
        bound=best.objective,
        bound_proof=BoundProof.SEARCHED,
        counters=counters,
    )


def _list_groups(instance: SriftInstance, name: str) -> list[tuple[VmGroup, ...]]:
    """List what a fleet can have of a type: nothing, one group, or a group for each of several batches."""
    batches, most = instance.batches_of[name][::-1], instance.most_of(name)
    if instance.one_batch_per_type:
        one = [(VmGroup(type=name, count=n, batch=batch),) for batch in batches for n in range(1, most + 1)]
        return [(), *one]
    if (most + 1) ** len(batches) > MOST_CHOICES:
        raise UnsupportedError(
            f"enumeration goes through {MOST_CHOICES:,} choices at most and {name} alone has "
            f"{float(most + 1) ** len(batches):.3g}; choose a solver that does not look at each of them"
        )
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
