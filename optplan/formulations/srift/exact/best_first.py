"""The exact solver: best-first search of all fleets under lower bounds, proven by exhaustion (design 4.7)."""

from __future__ import annotations

from optplan.contracts.result import (
    Answer,
    BoundProof,
    SolveRequest,
    Status,
    Termination,
    closes_gap,
    relative_gap,
)
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.exact.feasibility import explain_shortfall
from optplan.formulations.srift.exact.goals import LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace, SearchEnd


def solve_best_first(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Find the cheapest, or the fastest, fleet within the limits, with proof.

    Parameters
    ----------
    instance
        The problem, of any kind.
    request
        Gap and time limit.

    Returns
    -------
    Answer
        Of fleets with the same objective the one with less of the other of time and cost, then the one with fewer VMs.
        Where time or memory runs out, the least bound of all that was not looked at is the bound. Infeasible: with
        the nearest limits, or the nearest global batches, that some fleet can keep.
    """
    goal = LeastGoal(instance)
    end = FleetSpace(instance).search(goal, request.stopwatch, gap=request.gap)
    counters = {"steps": float(end.steps), "partial_fleets": float(end.decided), "fleets": float(end.judged)}
    if goal.best is None:
        if end.termination is Termination.COMPLETED:
            return explain_shortfall(instance, request, counters)
        return Answer(
            status=Status.UNKNOWN,
            termination=end.termination,
            bound=end.bound,
            bound_proof=BoundProof.SEARCHED,
            counters=counters,
            warnings=(f"no fleet within the limits was found, and none is excluded; {_say_what_helps(instance, end)}",),
        )
    objective = goal.best.objective
    bound = min(objective, end.bound)
    closed = closes_gap(objective, bound, request.gap)
    means = _say_what_helps(instance, end)
    return Answer(
        status=Status.OPTIMAL if closed else Status.FEASIBLE,
        termination=Termination.COMPLETED if closed else end.termination,
        solution=SriftSolution(groups=goal.best.groups),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.SEARCHED,
        counters=counters,
        warnings=()
        if closed
        else (f"fleets that are {_write_gap(objective, bound)} better are not excluded; {means}",),
    )


def _write_gap(objective: float, bound: float) -> str:
    return f"up to {100.0 * (relative_gap(objective, bound) or 0.0):.2g} %"


def _say_what_helps(instance: SriftInstance, end: SearchEnd) -> str:
    """Say what would leave less to be looked at, or let more of it be looked at."""
    means = ["more time"] if end.termination is Termination.TIME_LIMIT else []
    means.append("fewer types, or fewer choices of batches")
    if not instance.one_batch_per_type:
        means.append("one batch per type")
    if any(vm.available is None for vm in instance.types.values()):
        means.append("the number of VMs that can be had")
    return f"what would: {'; '.join(means)}"
