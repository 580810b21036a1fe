"""The independent judge: speed, time, cost and every constraint from the choice alone, and that no choice is better.

Constraint families:

``type``
    The type is on offer.
``measured``
    The number of VMs was measured in that configuration, or lies between two that were, where those are interpolated.
``availability``
    No more VMs than are available.
``deadline``
    The time does not exceed it.
``budget``
    The cost does not exceed it.

Certificates have the rule ``throughputs-enumeration``: the judge looks at every choice itself. Their content is empty,
as nothing could spare it any of the work. Where ``limit`` names a limit, that one is dropped, and the bound is about it
instead of the objective.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

from optplan.contracts.judgement import JUDGE_TOLERANCE, Check, Evaluation, RefutedError
from optplan.contracts.proofs import BoundProof, TreeCertificate
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.progress import Stopwatch
from optplan.units import SECONDS_PER_HOUR

_LIMITS = {DEADLINE: "the time must not exceed the deadline", BUDGET: "the cost must not exceed the budget"}


def evaluate(instance: ThroughputsInstance, solution: ThroughputsSolution) -> Evaluation:
    """Recompute objective, time, cost and every constraint from the choice, which may break any rule.

    Consumption is seconds of ``deadline`` and US dollars of ``budget``, whether limited or not; the measure
    ``is_interpolated`` is 1 where the speed was not measured.
    """
    vm, vms = instance.types.get(solution.type), solution.vms
    speed = _samples_per_s(instance, solution)
    checks = [
        Check.exactly("type", "the type must be on offer", holds=vm is not None, sides=(float(vm is not None), 1)),
        Check.exactly(
            "measured",
            "so many VMs must have been measured in that configuration, or lie between two such numbers if asked for",
            holds=speed is not None,
            sides=(float(speed is not None), 1),
            index=f"{solution.type} {solution.configuration}".strip(),
        ),
    ]
    if vm is None or speed is None:
        return Evaluation(math.nan, {DEADLINE: math.nan, BUDGET: math.nan}, {}, tuple(checks))
    if vm.available is not None:
        message = "no more VMs than are available"
        checks.append(Check.exactly("availability", message, holds=vms <= vm.available, sides=(vms, vm.available)))
    training_s = instance.samples / speed
    billed_s = training_s + (instance.launch_s if instance.launch_billed else 0.0)
    used = {
        DEADLINE: instance.launch_s + training_s,
        BUDGET: vms * vm.price_usd_per_hour * billed_s / SECONDS_PER_HOUR,
    }
    checks += [Check.at_most(name, used[name], amount, _LIMITS[name]) for name, amount in instance.limits.items()]
    measures = {
        "samples_per_s": speed,
        "is_interpolated": float(vms not in instance.tables[solution.type, solution.configuration]),
        "training_s": training_s,
        "launch_s": instance.launch_s,
        "time_s": used[DEADLINE],
        "billed_s": billed_s,
        "price_usd_per_hour": vms * vm.price_usd_per_hour,
        "cost_usd": used[BUDGET],
        "gpus": float(vms * vm.gpus),
    }
    objective = used[BUDGET] if instance.objective is Objective.COST else used[DEADLINE]
    return Evaluation(objective, used, measures, tuple(checks))


def _samples_per_s(instance: ThroughputsInstance, solution: ThroughputsSolution) -> float | None:
    """Return the measured speed, or that on the line between its neighbours; None where there is none."""
    table = instance.tables.get((solution.type, solution.configuration), {})
    if solution.vms in table or not instance.interpolate:
        return table.get(solution.vms)
    counts = list(table)
    place = bisect_left(counts, solution.vms)
    if place in (0, len(counts)):
        return None
    below, above = counts[place - 1], counts[place]
    slope = (table[above] - table[below]) / (above - below)
    return slope * (solution.vms - below) + table[below]


RULE = "throughputs-enumeration"


def list_proofs(_: ThroughputsInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything here, whatever is asked."""
    return frozenset({BoundProof.TREE})


def list_choices(instance: ThroughputsInstance) -> Iterator[ThroughputsSolution]:
    """List every choice that was measured, or lies between two that were where that is allowed; without any limit."""
    for (name, configuration), table in instance.tables.items():
        counts = range(min(table), max(table) + 1) if instance.interpolate else table
        for vms in counts:
            yield ThroughputsSolution.model_construct(type=name, vms=vms, configuration=configuration)


def check_tree(instance: ThroughputsInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check what a certificate claims against every choice there is."""
    if certificate.rule != RULE:
        raise RefutedError(f"trees of this problem are read by the rule {RULE}, not {certificate.rule!r}")
    if certificate.content:
        raise RefutedError("the content must be empty: every choice is looked at anyway")
    dropped, bound = certificate.limit, certificate.bound
    if dropped and dropped not in instance.limits:
        raise RefutedError(f"the instance has no limit {dropped!r} to drop")
    if bound is not None and not math.isfinite(bound):
        raise RefutedError("the bound is no finite number")
    for choice in list_choices(instance):
        stopwatch.require()
        judged = evaluate(instance, choice)
        if not all(check.holds for check in judged.checks if check.family != dropped):
            continue
        reached = judged.consumption[dropped] if dropped else judged.objective
        if bound is None or reached < bound * (1.0 - JUDGE_TOLERANCE):
            raise RefutedError(
                f"{choice.vms} {choice.type} {choice.configuration}".strip() + f" keeps the limits, with {reached:.9g}"
            )
