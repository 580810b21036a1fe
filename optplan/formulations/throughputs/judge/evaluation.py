"""The independent judge: speed, time, cost and every constraint from the choice alone.

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
"""

from __future__ import annotations

import math
from bisect import bisect_left

from optplan.contracts.judgement import Check, Evaluation
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.throughputs.data.instance import ThroughputsInstance, ThroughputsSolution
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
