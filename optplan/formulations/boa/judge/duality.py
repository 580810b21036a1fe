"""The independent judge of BOA's bounds: what no widths can beat, re-derived from multipliers.

Written from Lemma 4.5, Lemma 4.8 and problem (7) alone; it imports no solver and no algebraic model, so that a user can
check a proof without trusting either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from optplan.contracts.judgement import PathCosts, keep_latest, repeat_layers
from optplan.contracts.result import BoundProof
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem, has_real_widths
from optplan.formulations.boa.data.options import Options
from optplan.formulations.boa.laws.bands import best_width, formula_speed
from optplan.formulations.boa.laws.demand import Stay
from optplan.judging.enumeration import least_path
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup
from optplan.units import SECONDS_PER_HOUR

#: Weights of the jobs of a class while they hold numbers of GPUs.
Weigh: TypeAlias = Callable[[str, FloatArray], FloatArray]


@keep_latest
def path_costs(instance: BoaInstance, weigh: Sequence[Weigh] = ()) -> list[PathCosts]:
    """Compute what each step of a class's path costs, from Lemma 4.8: seconds of value, and units of each limit."""
    # Each of ``weigh`` adds a limit behind the others: mean numbers of jobs that hold GPUs, weighted by class and GPUs.
    return [_path_costs(instance, name, weigh) for name in instance.classes]


def list_stays_at_least(instance: BoaInstance) -> list[Stay]:
    """List, by class, jobs that hold the least GPUs of any option, for the shortest time of any path."""
    stays = []
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        wall, held = options.wall, options.held
        hours = (job_class.epoch_size_gpu_hours[:, None] / options.speeds * wall).min(axis=1).sum()
        # The first start is in no job's way but its own, and is the least there is.
        pauses = np.diag(_list_pauses(instance, name))[options.group] / SECONDS_PER_HOUR
        stays.append(
            Stay(
                job_class=name,
                gpu_type=options.gpu_types[0],
                gpus=np.array([float(_count_paid(instance, options).min())]),
                rate_per_hour=job_class.arrival_rate_per_hour,
                begins_h=np.zeros(1),
                lasts_h=np.array([hours + float((pauses * wall).min())]),
                held=np.array([float((held / wall).min())]),
            )
        )
    return stays


def _path_costs(instance: BoaInstance, name: str, weigh: Sequence[Weigh]) -> PathCosts:
    job_class, options = instance.classes[name], instance.options(name)
    hours = job_class.epoch_size_gpu_hours[:, None] / options.speeds
    pause_s = _list_pauses(instance, name)
    by_group = len(pause_s) > 1 and bool((pause_s != pause_s[:1]).any())
    pauses = (pause_s if by_group else pause_s[:1])[:, options.group] / SECONDS_PER_HOUR
    share = job_class.arrival_rate_per_hour * job_class.weight / instance.total_weighted_rate_per_hour
    wall, held = options.wall, options.held
    value = share * SECONDS_PER_HOUR * wall
    paid = _count_paid(instance, options)
    use = job_class.arrival_rate_per_hour * paid * held * _count(instance, options.gpu_types)[:, options.group]
    if instance.due_s:
        own_s = [wall * (SECONDS_PER_HOUR if name == due else 0.0) for due in instance.due_s]
        use = np.concatenate([use, own_s])
    run_use = use[:, None, :] * hours
    pause_use = use[:, None, :] * pauses
    if instance.floors:
        # From below: what is missing to the most that each epoch can run, with the floor itself in the first one. An
        # epoch that runs the floor keeps it alone, unless only a share of the jobs runs so much.
        running = job_class.arrival_rate_per_hour * (paid * held * hours)
        own = instance.floors.get(name, 0.0)
        if instance.policy is not Policy.MIXED:
            running = np.minimum(running, own)
        missing = running.max(axis=1, keepdims=True) - running
        missing[0] += own
        run_use = np.concatenate([run_use, [missing if name == floor else 0.0 * missing for floor in instance.floors]])
        pause_use = np.concatenate([pause_use, np.zeros((len(instance.floors), *pause_use.shape[1:]))])
    for one in weigh:
        jobs = job_class.arrival_rate_per_hour * held * one(name, paid.astype(float))
        run_use = np.concatenate([run_use, (jobs * hours)[None]])
        pause_use = np.concatenate([pause_use, (jobs * pauses)[None]])
    return PathCosts(
        name=name,
        labels=options.labels,
        group=options.group if by_group else np.zeros(options.group.size, dtype=np.intp),
        limits=(*instance.limit_names, *(f"most_gpus.{number}" for number in range(len(weigh)))),
        run_value=value * hours,
        run_consumption=run_use,
        enter_value=repeat_layers(value * pauses, len(hours)),
        enter_consumption=repeat_layers(pause_use, len(hours)),
    )


def _list_pauses(instance: BoaInstance, name: str) -> FloatArray:
    """Return (F, F) the seconds without progress when a job comes from a type, by row, to hold GPUs of a type."""
    job_class, types = instance.classes[name], instance.options(name).gpu_types
    if instance.problem is not Problem.RESCALING:
        return np.zeros((len(types), len(types)))
    pauses = np.array([[job_class.rescale_s_of(to) for to in types]] * len(types))
    if job_class.type_change_s or job_class.type_change_s_from:
        pauses += [[job_class.type_change_s_of(left, to) if left != to else 0.0 for to in types] for left in types]
    return pauses


def _count_paid(instance: BoaInstance, options: Options) -> IntArray:
    """Return (K,) the GPUs that are paid for: all of each node that a job is on, where jobs share none."""
    if not instance.whole_nodes:
        return options.widths
    nodes = np.array([instance.gpu_types[gpu_type].gpus_per_node for gpu_type in options.gpu_types])[options.group]
    paid: IntArray = nodes * (-(-options.widths // nodes))
    return paid


def _count(instance: BoaInstance, types: Sequence[str]) -> FloatArray:
    """Return (B, F) what a GPU of types (F,) counts in budget and quotas: its price, and 1 in its own quota."""
    prices = instance.prices_in_budget
    rows = [[prices[gpu_type] for gpu_type in types]]
    return np.array(rows + [[float(gpu_type == limited) for gpu_type in types] for limited in instance.quotas])


def dual_bound(instance: BoaInstance, multipliers: dict[str, float], stopwatch: Stopwatch | None = None) -> float:
    """Re-derive the Lagrangian bound: best paths at the multipliers (seconds a unit), less multipliers times limits."""
    # It bounds every plan within the limits, of a pure instance without floors mixed plans included.
    weights = np.array([multipliers[limit] for limit in instance.limit_names])
    priced = sum(multipliers[limit] * amount for limit, amount in instance.whole_limits.items())
    return sum(least_weighted(instance, weights, stopwatch=stopwatch).values()) - priced


def least_weighted(
    instance: BoaInstance, weights: FloatArray, *, value: float = 1.0, stopwatch: Stopwatch | None = None
) -> dict[str, float]:
    """Return by class the least of ``value`` times its objective plus weighted consumptions, weights (L,)."""
    watch, least, every = stopwatch or Stopwatch(), {}, np.append(value, weights)
    paths = {} if instance.problem is Problem.CONTINUOUS else {costs.name: costs for costs in path_costs(instance)}
    for name in instance.classes:
        watch.require()
        found = least_path(paths[name], every) if paths else None
        least[name] = _least_continuous(instance, name, weights, value) if found is None else found
    return least


def least_consumption(
    instance: BoaInstance, weights: FloatArray, stopwatch: Stopwatch | None = None
) -> dict[str, float]:
    """Return by class the least weighted consumption (weights (L,)) of any plan: what infeasibility is judged by."""
    return least_weighted(instance, weights, value=0.0, stopwatch=stopwatch)


def _least_continuous(instance: BoaInstance, name: str, weights: FloatArray, value: float) -> float:
    """Least weighted cost of a class over real widths, type by type: closed forms, or the best option."""
    job_class, options = instance.classes[name], instance.options(name)
    weight = value * SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour * job_class.weight
    per_hour = np.full(job_class.num_epochs, np.inf)
    wall, held = options.wall, options.held
    for gpu_type in options.gpu_types:
        pairs = options.of_type(gpu_type)
        curve, widths = job_class.speedup[gpu_type], options.widths[pairs]
        price = float((weights @ _count(instance, [gpu_type]))[0])
        if has_real_widths(instance, name, gpu_type) and isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            width = best_width(curve, weight, price, float(widths[0]), float(widths[-1]))
            best = (weight + price * width) / formula_speed(curve, width)
        else:
            costs = weight * wall[pairs] + price * widths * held[pairs]
            best = (costs / options.speeds[:, pairs]).min(axis=1)
        per_hour = np.minimum(per_hour, best)
    return job_class.arrival_rate_per_hour * float(np.sum(job_class.epoch_size_gpu_hours * per_hour))


def list_proofs(instance: BoaInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: a tree, but of one part, is of whole, pure plans."""
    if instance.problem is Problem.CONTINUOUS:
        return frozenset({BoundProof.LAGRANGIAN})
    if instance.policy is Policy.MIXED:
        trees = set() if instance.most_gpus is None else {BoundProof.TREE}
        return frozenset({BoundProof.LAGRANGIAN, *trees})
    return frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED, BoundProof.TREE})
