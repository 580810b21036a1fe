"""What BOA's choices cost, as the solvers see it: the one statement that all exact solvers and models start from.

An hour of one job an hour on an option, running or pausing, counts (weighted) seconds of mean completion time in the
objective, the time-average GPUs paid for in the budget and in the quota of their type, and the seconds that it adds to
the mean completion time that each due date is about. What keeps a floor is counted by what it leaves: each epoch's most
running GPUs less those of the option, and the floor; of pure plans no epoch counts for more than the floor. The rest is
how many such hours there are: load over speed in every epoch (problem (1)), and with rescaling a pause of each job in
each epoch in which it comes to hold other GPUs (Lemma 4.8). The judge has a statement of its own.

What solvers are matched against, and in which order they look at the parts of a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

import numpy as np

from optplan.contracts import Answer, SolveRequest
from optplan.contracts.judgement import PathCosts, repeat_layers
from optplan.contracts.parts import Description
from optplan.formulations.boa.data.instance import QUOTA, BoaInstance, BoaSolution, Policy, Problem, has_real_widths
from optplan.formulations.boa.laws.bands import best_width, formula_speed
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import least_path
from optplan.speedup import AmdahlSpeedup, PowerSpeedup
from optplan.units import SECONDS_PER_HOUR

#: The least quota that solvers keep, as a fraction of the least use of its type: a plan cannot tell it from nothing.
_NEXT_TO_NOTHING = 5e-10


def seconds_per_hour(instance: BoaInstance, name: str) -> float:
    """Return by how many seconds of (weighted) mean completion time an hour of one job an hour counts."""
    return SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour * instance.classes[name].weight


def load_of(instance: BoaInstance, name: str) -> FloatArray:
    """Return the load (E,) that the epochs of a class contribute, rho: GPUs if all ran at speed 1 on one GPU."""
    job_class = instance.classes[name]
    return job_class.arrival_rate_per_hour * job_class.epoch_size_gpu_hours


def count_types(instance: BoaInstance) -> FloatArray:
    """Return (B, F) what one GPU of each type of the instance counts in the budget and in each quota."""
    prices = instance.prices_in_budget
    rows = [[prices[t] for t in instance.gpu_types]]
    rows += [[float(limited == t) for t in instance.gpu_types] for limited in instance.quotas]
    return np.array(rows)


def _cost_options(instance: BoaInstance, name: str) -> tuple[FloatArray, FloatArray]:
    """Return what an hour of one job an hour costs on each option: seconds (K,), and of limits but floors (L, K)."""
    options, known = instance.options(name), list(instance.gpu_types)
    counts = count_types(instance)[:, [known.index(gpu_type) for gpu_type in options.gpu_types]][:, options.group]
    own_s = SECONDS_PER_HOUR / instance.classes[name].arrival_rate_per_hour * options.wall
    due = [own_s * (due == name) for due in instance.due_s]
    return seconds_per_hour(instance, name) * options.wall, np.array([*(options.paid * options.held * counts), *due])


def cost_steps(instance: BoaInstance) -> list[PathCosts]:
    """Return what each step of a path through each class's epochs costs, whatever the amounts of limits."""
    return [_cost_class(instance, name) for name in instance.classes]


def _cost_class(instance: BoaInstance, name: str) -> PathCosts:
    options, (seconds, use) = instance.options(name), _cost_options(instance, name)
    hours = load_of(instance, name)[:, None] / options.speeds
    by_type = options.changes_cost
    pauses = options.pause_h + options.change_h if by_type else options.pause_h[None]
    pauses = instance.classes[name].arrival_rate_per_hour * pauses
    run_use, enter_use = use[:, None, :] * hours, use[:, None, :] * pauses
    if instance.floors:
        left = np.array([_count_left(instance, name) * (name == floor) for floor in instance.floors])
        run_use = np.concatenate([run_use, left])
        enter_use = np.concatenate([enter_use, np.zeros((len(left), *enter_use.shape[1:]))])
    return PathCosts(
        name=name,
        labels=options.labels,
        group=options.group if by_type else np.zeros(options.group.size, dtype=np.intp),
        limits=instance.limit_names,
        run_value=seconds * hours,
        run_consumption=run_use,
        enter_value=repeat_layers(seconds * pauses, len(hours)),
        enter_consumption=repeat_layers(enter_use, len(hours)),
    )


def _count_left(instance: BoaInstance, name: str) -> FloatArray:
    """Return (E, K) by how many GPUs fewer run than could; the first epoch has the floor on top."""
    floor, running = instance.floors.get(name, 0.0), instance.running(name)
    counted = running if instance.policy is Policy.MIXED else np.minimum(running, floor)
    left: FloatArray = counted.max(axis=1, keepdims=True) - counted
    left[0] += floor
    return left


def find_least(instance: BoaInstance, multipliers: FloatArray, *, value_weight: float = 1.0) -> dict[str, float]:
    """Return by class the least of ``value_weight`` times its objective plus consumptions weighted by (L,)."""
    if instance.problem is Problem.CONTINUOUS:
        return {name: _find_least_apart(instance, name, multipliers, value_weight) for name in instance.classes}
    return find_least_paths((_cost_class(instance, name) for name in instance.classes), multipliers, value=value_weight)


def find_least_paths(costs: Iterable[PathCosts], weights: FloatArray, *, value: float = 0.0) -> dict[str, float]:
    """Return by class the least of ``value`` times what a path is worth plus its consumptions weighted by (L,)."""
    return {each.name: least_path(*each.weighted(weights, value=value), each.group)[0] for each in costs}


def list_amounts(instance: BoaInstance, limits: FloatArray | None = None) -> FloatArray:
    """Return the amounts (L,) of limits, the instance's own or others, as solvers keep them: nothing is tiny."""
    # So multipliers say what a type of none is worth; mixed plans' share of it is taken out again by ``clear_mixture``.
    amounts = np.array(list(instance.limits.values()) if limits is None else limits, dtype=np.float64)
    for gpu_type in instance.quotas:
        place = instance.limit_names.index(f"{QUOTA}{gpu_type}")
        amounts[place] = max(amounts[place], _NEXT_TO_NOTHING * find_least_use(instance, gpu_type))
    return amounts


def list_closed(instance: BoaInstance) -> list[str]:
    """Return the GPU types with a quota of nothing."""
    quotas = instance.quotas.items()
    return [gpu_type for gpu_type, most in quotas if most < _NEXT_TO_NOTHING * find_least_use(instance, gpu_type)]


def find_least_use(instance: BoaInstance, gpu_type: str) -> float:
    """Return the least time-average GPUs that any use of a type takes; 1 where no class runs on it."""
    uses = []
    for name in instance.classes:
        options, own = instance.options(name), instance.options(name).of_type(gpu_type)
        used = load_of(instance, name)[:, None] * (options.paid * options.held)[own] / options.speeds[:, own]
        uses.append(float(used.min(initial=np.inf)))
    least = min(uses)
    return least if np.isfinite(least) else 1.0


def bound_at(instance: BoaInstance, multipliers: FloatArray) -> float:
    """Return the Lagrangian bound at multipliers (L,) of the limits: no plan within them has less."""
    paid = float(multipliers @ np.array(list(instance.whole_limits.values())))
    return sum(find_least(instance, multipliers).values()) - paid


def _find_least_apart(instance: BoaInstance, name: str, multipliers: FloatArray, value_weight: float) -> float:
    """Return the least weighted cost of a class whose epochs choose apart, on any real width."""
    options, (seconds, use) = instance.options(name), _cost_options(instance, name)
    cost = value_weight * seconds + multipliers @ use
    best = (cost / options.speeds).min(axis=1)
    second = value_weight * seconds_per_hour(instance, name)
    for gpu_type in options.gpu_types:
        curve = instance.classes[name].speedup[gpu_type]
        if not has_real_widths(instance, name, gpu_type) or not isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            continue
        # Where consumption alone counts no real width is better than the least one: k / s(k) never falls.
        if value_weight > 0.0:
            pairs = options.of_type(gpu_type)
            least, largest = options.widths[pairs][[0, -1]].astype(float).tolist()
            price = float(multipliers @ use[:, pairs.start]) / float(options.paid[pairs.start])
            width = best_width(curve, second, price, least, largest)
            best = np.minimum(best, (second + price * width) / formula_speed(curve, width))
    return float((best * load_of(instance, name)).sum())


def describe(instance: BoaInstance) -> Description:
    """Return what solvers are matched against: problem, policy, the number of (class, epoch, option) choices, features.

    The features are what an instance has beyond one GPU type and one budget: ``gpu-types`` for several types or
    interruptions, ``quotas`` for limits on types, ``due-dates`` for limits on classes' mean completion times,
    ``floors`` for the least GPUs on which a class's jobs run, ``type-changes`` where leaving a type costs extra,
    ``real-widths`` where speedups have closed forms between whole widths, ``whole-nodes`` where jobs share none,
    ``most-gpus`` for a limit on the GPUs in use at once, ``commitments`` where the budget counts committed GPUs.
    """
    cells = sum(c.num_epochs * instance.options(n).widths.size for n, c in instance.classes.items())
    features = {
        "gpu-types": instance.is_typed,
        "quotas": bool(instance.quotas),
        "due-dates": bool(instance.due_s),
        "floors": bool(instance.floors),
        "type-changes": any(instance.options(name).changes_cost for name in instance.classes),
        "whole-nodes": bool(instance.whole_nodes),
        "most-gpus": instance.most_gpus is not None,
        "commitments": instance.commits,
        "real-widths": instance.problem is Problem.CONTINUOUS
        and any(has_real_widths(instance, name, one) for name, c in instance.classes.items() for one in c.speedup),
    }
    return Description(
        problem=instance.problem.value,
        policy=(Policy.MIXED if instance.is_mixed else Policy.PURE).value,
        cells=int(cells),
        features=frozenset(name for name, needed in features.items() if needed),
    )


Solve = Callable[[BoaInstance, SolveRequest], Answer[BoaSolution]]


def in_order(solve: Solve) -> Solve:
    """Make a solver look at classes and types in the order of their names."""

    @wraps(solve)
    def solve_in_order(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
        return solve(put_in_order(instance), request)

    return solve_in_order


def put_in_order(instance: BoaInstance) -> BoaInstance:
    """Return the instance with classes and types by name, so that of equal choices the same one comes first."""
    if len(instance.gpu_types) == 1 or instance.problem is not Problem.CONTINUOUS:
        return instance
    fields = {name: getattr(instance, name) for name in type(instance).model_fields}
    fields["gpu_types"] = dict(sorted(instance.gpu_types.items()))
    fields["classes"] = {
        name: job_class.model_copy(update={"speedup": dict(sorted(job_class.speedup.items()))})
        for name, job_class in sorted(instance.classes.items())
    }
    # What was validated in one order is valid in any.
    return BoaInstance.model_construct(**fields)
