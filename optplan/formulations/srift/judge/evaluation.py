"""The independent judge of Srift: objective, time, cost and every constraint from the fleet alone.

Written from the sheet (sections 4.3 and 4.4 of the paper) and apart from the solvers; what an iteration takes belongs
to the problem and not to any solver. Constraint families, by the names used in every message:

``type``
    Every group is of a type on offer, and no two groups are of one type with one batch.
``choices``
    A VM's batch is one of its type's choices.
``one-batch``
    All VMs of a type get the same batch, where the instance asks for that.
``mixed``
    All VMs are of one type, where the instance asks for that.
``availability``
    No more VMs of a type than are available.
``running``
    At least the VMs of a type that are running.
``batch``
    Samples over all VMs are the global batch.
``deadline``
    The time does not exceed it.
``budget``
    The cost does not exceed it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from optplan.contracts.judgement import Check, Evaluation
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup, count_vms
from optplan.formulations.srift.laws.iteration import IterationModel, expect_training, interruption_rate_per_s


def evaluate(instance: SriftInstance, solution: SriftSolution) -> Evaluation:
    """Recompute objective, time, cost and every constraint from a fleet, which may break any rule.

    The objective is the cost in US dollars, N t_iter sum over i of counts_i P_i, or the time in seconds, N t_iter, with
    launch and interruptions where the instance has them. Consumption: ``deadline`` in seconds, ``budget`` in US
    dollars, whether limited or not.
    """
    groups = solution.groups
    checks = _check_groups(instance, groups)
    if not all(check.holds for check in checks):
        return Evaluation(math.nan, {DEADLINE: math.nan, BUDGET: math.nan}, {}, tuple(checks))
    counts = Counter(count_vms(groups))
    checks += _check_fleet(instance, groups, counts)
    measures = measure_fleet(IterationModel(instance), groups)
    consumption = {DEADLINE: measures["time_s"], BUDGET: measures["cost_usd"]}
    for limit, amount in instance.limits.items():
        message = f"the {'time' if limit == DEADLINE else 'cost'} must not exceed the {limit}"
        checks.append(Check.at_most(limit, consumption[limit], amount, message))
    objective = consumption[BUDGET if instance.objective is Objective.COST else DEADLINE]
    return Evaluation(objective, consumption, measures, tuple(checks))


def _check_groups(instance: SriftInstance, groups: Sequence[VmGroup]) -> list[Check]:
    """Check what must hold before the fleet can be evaluated at all."""
    message = "a fleet must have at least one group"
    checks = [_check("type", "", 1, len(groups), message, holds=bool(groups))]
    seen = Counter((group.type, group.batch) for group in groups)
    for name, batch in seen:
        message = "groups must be of types on offer, and of each type and batch there must be one"
        holds = name in instance.types and seen[name, batch] == 1
        checks.append(_check("type", name, seen[name, batch], 1, message, holds=holds))
        choices = instance.batches_of.get(name, ())
        message = "the batch must be one of the type's choices"
        nearest = min(choices, key=lambda choice: abs(choice - batch), default=0)
        checks.append(_check("choices", name, batch, nearest, message, holds=batch in choices))
    return checks


def _check_fleet(instance: SriftInstance, groups: Sequence[VmGroup], counts: Counter[str]) -> list[Check]:
    checks = []
    if instance.one_batch_per_type:
        for name, batches in Counter(group.type for group in groups).items():
            message = "all VMs of a type must get the same batch"
            checks.append(_check("one-batch", name, batches, 1, message, holds=batches == 1))
    present = sum(1 for count in counts.values() if count)
    if not instance.mixed:
        message = "all VMs must be of one type"
        checks.append(_check("mixed", "", present, 1, message, holds=present == 1))
    for name, vm in instance.types.items():
        if vm.available is not None:
            message = "no more VMs than are available"
            holds = counts[name] <= vm.available
            checks.append(_check("availability", name, counts[name], vm.available, message, holds=holds))
        if vm.running:
            message = "the VMs that are running must be kept"
            holds = counts[name] >= vm.running
            checks.append(_check("running", name, vm.running, counts[name], message, holds=holds))
    samples = sum(group.count * group.batch for group in groups)
    message = "the samples of all VMs must be the global batch (equality)"
    holds = samples == instance.global_batch
    checks.append(_check("batch", "", samples, instance.global_batch, message, holds=holds))
    return checks


def measure_fleet(model: IterationModel, groups: Sequence[VmGroup]) -> dict[str, float]:
    """Measure the iteration, the time and the cost of a fleet, by the model of its instance's iterations."""
    instance, iteration = model.instance, model.predict(groups)
    counts = Counter(count_vms(groups))
    work_s = instance.iterations * iteration.total_s
    rate_per_s = interruption_rate_per_s(instance, groups)
    training_s, trained_s = map(float, expect_training(work_s, rate_per_s, instance.interruptions))
    launches = any(counts[name] > vm.running for name, vm in instance.types.items())
    launch_s = instance.launch_s if launches else 0.0
    rate_usd_per_s = sum(group.count * instance.types[group.type].price_usd_per_s for group in groups)
    billed_s = trained_s + (launch_s if instance.launch_billed else 0.0)
    samples = sum(group.count * group.batch for group in groups)
    return {
        "forward_s": iteration.forward_s,
        "backward_s": iteration.backward_s,
        "exchange_s": iteration.exchange_s,
        "iteration_s": iteration.total_s,
        "work_s": work_s,
        "training_s": training_s,
        "launch_s": launch_s,
        "time_s": launch_s + training_s,
        "billed_s": billed_s,
        "price_usd_per_hour": sum(group.count * instance.types[group.type].price_usd_per_hour for group in groups),
        "cost_usd": rate_usd_per_s * billed_s,
        "cost_usd_per_iteration": rate_usd_per_s * iteration.total_s,
        "ranks": float(iteration.ranks),
        "vms": float(sum(counts.values())),
        "samples_per_s": samples / iteration.total_s,
    }


def _check(family: str, index: str, left: float, right: float, message: str, *, holds: bool) -> Check:
    return Check.exactly(family, message, holds=holds, sides=(left, right), index=index)
