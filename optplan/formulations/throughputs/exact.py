"""The exact solver: every choice with what it takes; the best within the limits, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.parts import Description
from optplan.contracts.proofs import BoundProof, Hopeless, Infeasibility, TreeCertificate
from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.solvers.limits import LIMIT_TOLERANCE, Nearest, explain_limits
from optplan.units import SECONDS_PER_HOUR

#: As the judge reads certificates.
_RULE = "throughputs-enumeration"
#: Times and costs that differ by less than this, relatively, are equal.
SAME = 1e-10


@dataclass(frozen=True)
class VmChoice:
    """What can be chosen, and what comes of it."""

    solution: ThroughputsSolution
    samples_per_s: float
    used: dict[str, float]  # seconds and US dollars, by the limit on them


def find_least(choices: Sequence[VmChoice], limit: str) -> VmChoice | None:
    """Return the choice with the least of one; of equal ones the least of the other, then the fewest VMs."""
    other = BUDGET if limit == DEADLINE else DEADLINE
    amounts: list[Callable[[VmChoice], float]] = [
        lambda each: each.used[limit],
        lambda each: each.used[other],
        lambda each: each.solution.vms,
    ]
    for amount in amounts:
        least = min(map(amount, choices), default=0.0)
        choices = [each for each in choices if amount(each) <= least * (1.0 + SAME)]
    return choices[0] if choices else None


def describe(instance: ThroughputsInstance) -> Description:
    """Return what solvers are matched against; cells are choices."""
    return Description(problem=instance.problem.value, policy="one-type", cells=len(list_choices(instance)))


def list_choices(instance: ThroughputsInstance) -> list[VmChoice]:
    """List all choices that can be had, whatever the limits."""
    choices, billed_launch_s = [], instance.launch_s * instance.launch_billed
    for (name, configuration), table in instance.tables.items():
        measured, vm = list(table), instance.types[name]
        counts = range(measured[0], measured[-1] + 1) if instance.interpolate else measured
        speeds = np.interp(counts, measured, list(table.values())).tolist()
        for vms, speed in zip(counts, speeds, strict=True):
            if vm.available is None or vms <= vm.available:
                training_s = instance.samples / speed
                cost_usd = vms * vm.price_usd_per_hour * (training_s + billed_launch_s) / SECONDS_PER_HOUR
                used = {DEADLINE: training_s + instance.launch_s, BUDGET: cost_usd}
                solution = ThroughputsSolution(type=name, vms=vms, configuration=configuration)
                choices.append(VmChoice(solution, speed, used))
    return choices


def solve_choices(instance: ThroughputsInstance, request: SolveRequest) -> Answer[ThroughputsSolution]:
    """Look at every choice, as its proof does; infeasible with the least of each limit that mends it alone."""
    choices, goal = list_choices(instance), goal_of(instance)
    best = find_least(_keep(choices, instance.limits), goal)
    counters = {"choices": float(len(choices))}
    if best is None:
        claim = _explain(instance, choices, certify=request.certify)
        return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim, counters=counters)
    least = best.used[goal]
    return Answer(
        Status.OPTIMAL,
        Termination.COMPLETED,
        solution=best.solution,
        objective=least,
        bound=least,
        bound_proof=BoundProof.TREE if request.certify else BoundProof.SEARCHED,
        certificates=(TreeCertificate(rule=_RULE, bound=least),) if request.certify else (),
        counters=counters,
    )


def goal_of(instance: ThroughputsInstance) -> str:
    """Return the limit that would be on what is made least."""
    return BUDGET if instance.objective is Objective.COST else DEADLINE


def name_choice(solution: ThroughputsSolution) -> str:
    """Write a choice: ``8 p3.2xlarge``, ``2 p4d (tp8 pp2)``."""
    words = f" ({solution.configuration})" if solution.configuration else ""
    return f"{solution.vms:,} {solution.type}{words}"


def _keep(choices: Sequence[VmChoice], limits: dict[str, float]) -> list[VmChoice]:
    most = {name: amount * (1.0 + LIMIT_TOLERANCE) for name, amount in limits.items()}
    return [each for each in choices if all(each.used[name] <= amount for name, amount in most.items())]


def _explain(instance: ThroughputsInstance, choices: Sequence[VmChoice], *, certify: bool) -> Infeasibility:
    """Say why no choice keeps the limits, and the least of each limit that would do with the others as they are."""
    limits = instance.limits

    def prove(limit: str = "", bound: float | None = None) -> TreeCertificate | None:
        return TreeCertificate(rule=_RULE, bound=bound, limit=limit) if certify else None

    if not choices:
        fewest = ", ".join(
            name_choice(ThroughputsSolution(type=name, vms=min(table), configuration=configuration))
            for (name, configuration), table in instance.tables.items()
        )
        reason = f"fewer VMs are available than were measured (at least {fewest})"
        each = tuple(Hopeless(limit=limit, certificate=prove(limit)) for limit in limits)
        return Infeasibility(reason=reason, relaxations=(), hopeless=each, certificate=prove())
    nearest = []
    for limit in limits:
        near = find_least(_keep(choices, {name: most for name, most in limits.items() if name != limit}), limit)
        least = None if near is None else near.used[limit]
        nearest.append(Nearest(limit, least, "" if near is None else name_choice(near.solution), prove(limit, least)))
    factor = None
    if all(one.least is None for one in nearest):
        factor = min(max(each.used[name] / most for name, most in limits.items()) for each in choices)
    return explain_limits(instance, nearest, "choice", factor=factor, certificate=prove())
