"""The independent judge of BOA's bounds: what no widths can beat, re-derived from multipliers.

Written from Lemma 4.5, Lemma 4.8 and problem (7) alone; it imports no solver and no algebraic model, so that a user can
check a proof without trusting either.
"""

from __future__ import annotations

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import BoundProof
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem, has_real_widths
from optplan.formulations.boa.data.options import Options
from optplan.schema import FloatArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup
from optplan.units import SECONDS_PER_HOUR


def path_costs(instance: BoaInstance) -> list[PathCosts]:
    """Compute what each step of a class's path costs, from Lemma 4.8.

    Returns
    -------
    list of PathCosts
        One per class, with the limits of ``instance.limit_names``: values in seconds of (weighted) mean completion
        time, consumption in the limits' units. Without rescaling (problem whole) entering costs nothing.
    """
    costs, limits = [], instance.limit_names
    scale = SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour
    for name, job_class in instance.classes.items():
        options = instance.options(name)
        hours = job_class.epoch_size_gpu_hours[:, None] / options.speeds
        pauses = options.pause_h + options.change_h if options.changes_cost else options.pause_h[None]
        rate = job_class.arrival_rate_per_hour
        value = scale * job_class.weight * rate * options.wall
        use = rate * options.widths * options.held * weigh_limits(instance, options)
        costs.append(
            PathCosts(
                name=name,
                labels=options.labels,
                group=options.group if len(pauses) > 1 else np.zeros_like(options.group),
                limits=limits,
                run_value=value * hours,
                run_consumption=use[:, None, :] * hours,
                enter_value=_repeat_layers((value * pauses)[:, None, :], len(hours)),
                enter_consumption=_repeat_layers((use[:, None, :] * pauses)[:, :, None, :], len(hours)),
            )
        )
    return costs


def _repeat_layers(costs: FloatArray, layers: int) -> FloatArray:
    """Return (..., E, K) costs that are the same in each layer, given once, without a copy."""
    return costs if layers == 1 else np.broadcast_to(costs, (*costs.shape[:-2], layers, costs.shape[-1]))


def weigh_limits(instance: BoaInstance, options: Options) -> FloatArray:
    """Return (L, K) what one GPU of each option counts in each limit."""
    if not instance.quotas:
        return options.price[None]
    quotas = [[float(gpu_type == limited) for gpu_type in options.gpu_types] for limited in instance.quotas]
    return np.concatenate([options.price[None]] + [np.array(row)[None, options.group] for row in quotas])


def dual_bound(instance: BoaInstance, multipliers: dict[str, float]) -> float:
    """Re-derive the Lagrangian bound: sum of best paths at the multipliers, less multipliers times limits.

    Parameters
    ----------
    instance
        The problem, with its budget.
    multipliers
        By limit, in seconds per unit of the limit, at least zero; all limits of the instance.

    Returns
    -------
    float
        A lower bound, in seconds, on the objective of every plan within the limits, mixed ones included.
    """
    weights = np.array([multipliers[limit] for limit in instance.limit_names])
    priced = sum(multipliers[limit] * amount for limit, amount in instance.limits.items())
    return sum(least_weighted(instance, weights).values()) - priced


def least_weighted(instance: BoaInstance, weights: FloatArray, *, value: float = 1.0) -> dict[str, float]:
    """Return by class the least of ``value`` times its part of the objective plus weighted consumptions.

    Parameters
    ----------
    instance
        The problem; its limits are not looked at.
    weights
        (L,) Of the consumptions, in the order of ``instance.limit_names``.
    value
        Weight of the objective; 0 asks what plans need at least.
    """
    if instance.problem is Problem.CONTINUOUS:
        return {name: _least_continuous(instance, name, weights, value) for name in instance.classes}
    return {costs.name: least_path(costs, weights, value=value) for costs in path_costs(instance)}


def least_consumption(instance: BoaInstance, weights: FloatArray) -> dict[str, float]:
    """Return by class the least weighted consumption (weights (L,)) of any plan: what infeasibility is judged by."""
    return least_weighted(instance, weights, value=0.0)


def least_path(costs: PathCosts, weights: FloatArray, *, value: float = 1.0) -> float:
    """Return the least weighted cost of a path, by going through the layers one by one.

    Parameters
    ----------
    costs
        What steps cost.
    weights
        (L,) Of the consumptions.
    value
        Weight of the value.
    """
    run, enter = costs.weighted(weights, value=value)
    members = [np.flatnonzero(costs.group == group) for group in range(len(enter))]
    best = enter[costs.group, 0, np.arange(costs.group.size)] + run[0]
    for layer in range(1, run.shape[0]):
        entered = [best[nodes].min(initial=np.inf) + cost for nodes, cost in zip(members, enter[:, layer], strict=True)]
        best = run[layer] + np.minimum(best, np.min(entered, axis=0))
    return float(best.min())


def _least_continuous(instance: BoaInstance, name: str, weights: FloatArray, value: float) -> float:
    """Least weighted cost of a class over real widths, type by type: closed forms, or the best option."""
    job_class, options = instance.classes[name], instance.options(name)
    per_gpu = weights @ weigh_limits(instance, options)
    weight = value * SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour * job_class.weight
    per_hour = np.full(job_class.num_epochs, np.inf)
    for gpu_type in options.gpu_types:
        pairs = options.of_type(gpu_type)
        curve = job_class.speedup[gpu_type]
        widths = options.widths[pairs].astype(float)
        if has_real_widths(instance, name, gpu_type) and isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            mu = float(per_gpu[pairs][0])
            width = _best_real_width(curve, weight, mu, widths[0], widths[-1])
            best = (weight + mu * width) / formula_speed(curve, width)
        else:
            cost = weight * options.wall[pairs] + per_gpu[pairs] * widths * options.held[pairs]
            best = (cost / options.speeds[:, pairs]).min(axis=1)
        per_hour = np.minimum(per_hour, best)
    return job_class.arrival_rate_per_hour * float(np.sum(job_class.epoch_size_gpu_hours * per_hour))


def _best_real_width(
    curve: AmdahlSpeedup | PowerSpeedup, weight: float, mu: float, least: float, largest: float
) -> FloatArray:
    """Minimise (weight + mu k) / s(k) over [least, largest]; the derivative vanishes where s'(weight + mu k) = mu s."""
    if mu == 0.0:
        return np.array(largest)
    if weight == 0.0:
        return np.array(least)  # k / s(k) never falls
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            stationary = np.sqrt(weight * (1.0 - serial) / (mu * serial))
    else:
        exponent = np.asarray(curve.exponent, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            stationary = exponent * weight / (mu * (1.0 - exponent))
    return np.clip(stationary, least, largest)


def formula_speed(curve: AmdahlSpeedup | PowerSpeedup, width: FloatArray) -> FloatArray:
    """Return the speed (E,) of a closed form at real widths (E,)."""
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        return np.asarray(1.0 / (serial + (1.0 - serial) / width))
    return np.asarray(width ** np.asarray(curve.exponent, dtype=float))


def list_proofs(instance: BoaInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: an enumeration of whole widths says nothing of mixtures."""
    if instance.problem is Problem.CONTINUOUS or instance.policy is Policy.MIXED:
        return frozenset({BoundProof.LAGRANGIAN})
    return frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED})
