"""The exact solver: every choice at once, as arrays; the best within the limits, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.parts import Description
from optplan.contracts.proofs import BoundProof, Hopeless, Infeasibility, Relaxation, TreeCertificate
from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.throughputs.data import Setup, ThroughputsInstance, ThroughputsSolution
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.units import SECONDS_PER_HOUR

#: As the judge reads certificates.
_RULE = "throughputs-enumeration"
#: Times and costs that differ by less than this, relatively, are equal.
SAME = 1e-10


@dataclass(frozen=True)
class VmChoices:
    """All choices (C,): number of the setup, VMs, and ``used``, seconds and US dollars by the limit on them."""

    setups: list[Setup]
    setup: IntArray
    vms: IntArray
    used: dict[str, FloatArray]

    def solution(self, number: int) -> ThroughputsSolution:
        """Return a choice."""
        name, configuration = self.setups[self.setup[number]]
        return ThroughputsSolution(type=name, vms=int(self.vms[number]), configuration=configuration)

    def keep(self, limits: dict[str, float]) -> NDArray[np.bool_]:
        """Say which choices keep the limits."""
        kept = np.ones(self.vms.size, dtype=bool)
        for name, amount in limits.items():
            kept &= self.used[name] <= amount * (1.0 + LIMIT_TOLERANCE)
        return kept

    def find_least(self, name: str, kept: NDArray[np.bool_]) -> int | None:
        """Return the choice with the least of one; of equal ones the least of the other, then the fewest VMs."""
        numbers = np.flatnonzero(kept)
        if not numbers.size:
            return None
        for values in (self.used[name], self.used[BUDGET if name == DEADLINE else DEADLINE], self.vms):
            own = values[numbers]
            numbers = numbers[own <= own.min() * (1.0 + SAME)]
        return int(numbers[0])


def describe(instance: ThroughputsInstance) -> Description:
    """Return what solvers are matched against; cells are choices."""
    return Description(problem=instance.problem.value, policy="one-type", cells=list_choices(instance).vms.size)


def list_choices(instance: ThroughputsInstance) -> VmChoices:
    """List all choices that can be had, whatever the limits."""
    setups, vms, setup, speed, price = list(instance.tables), [], [], [], []
    for number, ((name, _), table) in enumerate(instance.tables.items()):
        measured, vm = np.array(list(table)), instance.types[name]
        counts = np.arange(measured[0], measured[-1] + 1) if instance.interpolate else measured
        counts = counts if vm.available is None else counts[counts <= vm.available]
        vms.append(counts)
        setup.append(np.full(counts.size, number))
        speed.append(np.interp(counts, measured, list(table.values())))
        price.append(np.full(counts.size, vm.price_usd_per_hour))
    count, training_s = np.concatenate(vms), instance.samples / np.concatenate(speed)
    paid_s = training_s + instance.launch_s * instance.launch_billed
    cost_usd = count * np.concatenate(price) * paid_s / SECONDS_PER_HOUR
    used = {DEADLINE: training_s + instance.launch_s, BUDGET: cost_usd}
    return VmChoices(setups, np.concatenate(setup), count, used)


def solve_choices(instance: ThroughputsInstance, request: SolveRequest) -> Answer[ThroughputsSolution]:
    """Look at every choice, as its proof does; infeasible with the least of each limit that mends it alone."""
    choices, goal = list_choices(instance), goal_of(instance)
    best = choices.find_least(goal, choices.keep(instance.limits))
    counters = {"choices": float(choices.vms.size)}
    if best is None:
        claim = _explain(instance, choices, certify=request.certify)
        return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim, counters=counters)
    least = float(choices.used[goal][best])
    return Answer(
        Status.OPTIMAL,
        Termination.COMPLETED,
        solution=choices.solution(best),
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


def _explain(instance: ThroughputsInstance, choices: VmChoices, *, certify: bool) -> Infeasibility:
    """Say why no choice keeps the limits, and the least of each limit that would do with the others as they are."""
    limits = instance.limits
    certificate = TreeCertificate(rule=_RULE) if certify else None
    if not choices.vms.size:
        fewest = ", ".join(
            name_choice(ThroughputsSolution(type=name, vms=min(table), configuration=configuration))
            for (name, configuration), table in instance.tables.items()
        )
        reason = f"fewer VMs are available than were measured (at least {fewest})"
        each = tuple(_write_hopeless(limit, certify=certify) for limit in limits)
        return Infeasibility(reason=reason, relaxations=(), hopeless=each, certificate=certificate)
    sentences, relaxations, hopeless = list[str](), list[Relaxation](), list[Hopeless]()
    for limit, amount in limits.items():
        others = {name: other for name, other in limits.items() if name != limit}
        near = choices.find_least(limit, choices.keep(others))
        if near is None:
            sentences.append(f"no {limit} alone would do: no choice keeps the {' and the '.join(others)}")
            hopeless.append(_write_hopeless(limit, certify=certify))
            continue
        least, unit = float(choices.used[limit][near]), instance.limit_as_given(limit)[1]
        which, verb = ("fastest", "takes") if limit == DEADLINE else ("cheapest", "costs")
        within = "".join(f" within {other:,.6g} {instance.limit_as_given(name)[1]}" for name, other in others.items())
        sentences.append(
            f"the {which} choice{within}, {name_choice(choices.solution(near))}, {verb} {least:,.6g} {unit}; the "
            f"{limit} is {amount:,.6g} {unit}"
        )
        proof = TreeCertificate(rule=_RULE, bound=least, limit=limit) if certify else None
        relaxations.append(instance.relax(limit, least, enough=least, certificate=proof))
    if len(hopeless) == len(limits):
        needed = np.max([choices.used[name] / amount for name, amount in limits.items()], axis=0)
        known = " and ".join(f"{amount:,.6g} {instance.limit_as_given(name)[1]}" for name, amount in limits.items())
        sentences.append(f"{known} would both have to grow by a factor of {needed.min():.4g}")
    return Infeasibility(
        reason="; ".join(sentences),
        relaxations=tuple(relaxations),
        hopeless=tuple(hopeless),
        certificate=certificate,
    )


def _write_hopeless(limit: str, *, certify: bool) -> Hopeless:
    return Hopeless(limit=limit, certificate=TreeCertificate(rule=_RULE, limit=limit) if certify else None)
