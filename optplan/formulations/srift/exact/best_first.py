"""The exact solver: branch and bound over all fleets, best first with plunging, proven by a tree.

Land and Doig ("An automatic method of solving discrete programming problems", Econometrica 28, 1960), each node being
fleets of which some types are decided.
"""

from __future__ import annotations

from optplan.contracts.result import (
    Answer,
    BoundProof,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
    closes_gap,
    relative_gap,
)
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
from optplan.formulations.srift.exact.feasibility import explain_shortfall
from optplan.formulations.srift.exact.goals import LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace, SearchEnd
from optplan.formulations.srift.exact.trees import say_uncertified, write_tree


def solve_best_first(instance: SriftInstance, request: SolveRequest) -> Answer[SriftSolution]:
    """Find the cheapest, or the fastest, fleet within the limits, with proof.

    Of fleets with the same objective the one with less of the other of time and cost, then the one with fewer VMs.
    A search that ends proves its bound by a tree, within the time that is left. Where time or memory runs out, the
    least bound of all that was not looked at is the bound. Infeasible: with the nearest limits, or the nearest
    global batches, that some fleet can keep.
    """
    goal, space = LeastGoal(instance), FleetSpace(instance)
    end = space.search(goal, request.stopwatch, gap=request.gap)
    counters = {"steps": float(end.steps), "partial_fleets": float(end.decided), "fleets": float(end.judged)}
    if goal.best is None:
        if end.termination is Termination.COMPLETED:
            return explain_shortfall(space, request, counters)
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
    certificates, warnings = _certify(space, bound, request) if closed else ((), (_say_open(instance, end, goal),))
    return Answer(
        status=Status.OPTIMAL if closed else Status.FEASIBLE,
        termination=Termination.COMPLETED if closed else end.termination,
        solution=SriftSolution(groups=goal.best.groups),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.TREE if certificates else BoundProof.SEARCHED,
        certificates=certificates,
        counters=counters,
        warnings=warnings,
    )


def _certify(
    space: FleetSpace, bound: float, request: SolveRequest
) -> tuple[tuple[TreeCertificate, ...], tuple[str, ...]]:
    """Return the certificate of a bound, or a warning where there can be none."""
    if not request.certify:
        return (), ()
    certificate = write_tree(space, bound, request.stopwatch)
    if certificate is None:
        return (), (say_uncertified(request),)
    return (certificate,), ()


def _say_open(instance: SriftInstance, end: SearchEnd, goal: LeastGoal) -> str:
    objective = goal.objective or 0.0
    percent = 100.0 * (relative_gap(objective, min(objective, end.bound)) or 0.0)
    return f"fleets that are up to {percent:.2g} % better are not excluded; {_say_what_helps(instance, end)}"


def _say_what_helps(instance: SriftInstance, end: SearchEnd) -> str:
    """Say what would leave less to be looked at, or let more of it be looked at."""
    means = ["more time"] if end.termination is Termination.TIME_LIMIT else []
    means.append("fewer types, or fewer choices of batches")
    if not instance.one_batch_per_type:
        means.append("one batch per type")
    if any(vm.available is None for vm in instance.types.values()):
        means.append("the number of VMs that can be had")
    return f"what would: {'; '.join(means)}"
