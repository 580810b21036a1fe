"""What knowing one speedup can be worth at most, proven by weak duality.

Let f(t) be the objective of the plan in hand if the speeds of one class on one GPU type are those of the truth t in
[-1, 1], all others as stated, and v(p, t) and u(p, t) value and use of another plan p. A plan that keeps the limits has
v(p, t) >= v(p, t) + m (u(p, t) - limits) for any multipliers m >= 0; so who knows t gains at most

    f(t) - min over p of [v(p, t) + m u(p, t)] + m limits.

That is a sum over classes, of which one depends on t. There it is the most, over paths p, of a sum over steps: what the
step costs in the plan less its reduced cost in p, A exp(a |t|) - B exp(b |t|) on either side of 0, with a and b how far
the logarithms of the speeds lie from the end of their band. The most of each step, at an end of the interval or where
the derivative is zero, adds up to no less than the most of the sum. So the larger one of the bounds of both sides, each
at the multipliers that are best for it, bounds the gain in any truth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.laws.bands import find_bands
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import least_path, path_totals

#: Multipliers that are tried, times those that the plan's own bound rests on.
_TRIED = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])


def bound_worth(
    instance: BoaInstance, costs: list[PathCosts], plan: BoaSolution, multipliers: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    """Return by class with a band, and GPU type, what knowing its speeds there can save of the objective at most."""
    prices = np.array([multipliers.get(limit, 0.0) for limit in instance.limit_names])
    tried = _TRIED[:, None] * prices
    graphs = {graph.name: graph for graph in costs}
    # (M,) by class: what the plan's own value is above the least reduced cost, as stated.
    above = {name: _find_above(instance, graph, plan, tried) for name, graph in graphs.items()}
    paid = tried @ np.array(list(instance.limits.values()))
    total = sum(above.values(), paid)
    worth = {}
    for name, band in find_bands(instance).items():
        options = instance.options(name)
        own = np.arange(len(options.gpu_types))[:, None] == options.group
        rates = np.array([[band.down * each, -band.up * each] for each in own])  # (F, 2, E or 1, K)
        most = _find_most(instance, graphs[name], plan, tried, rates.reshape(-1, *band.up.shape))
        sides = (total - above[name] + most).min(axis=1).reshape(-1, 2)
        for gpu_type, each in zip(options.gpu_types, sides.max(axis=1).tolist(), strict=True):
            worth[name, gpu_type] = max(0.0, each)
    return worth


def add_up(instance: BoaInstance, costs: list[PathCosts], plan: BoaSolution) -> tuple[float, FloatArray]:
    """Return a plan's value, and what it uses of the limits (L,), where steps cost so much."""
    value, used = 0.0, np.zeros(len(instance.limit_names))
    for graph in costs:
        options = instance.options(graph.name)
        for branch in plan.branches[graph.name]:
            own, consumption = path_totals(graph, options.find(branch.gpu_types, branch.widths))
            value, used = value + branch.fraction * own, used + branch.fraction * consumption
    return value, used


def _find_above(instance: BoaInstance, graph: PathCosts, plan: BoaSolution, tried: FloatArray) -> FloatArray:
    """Return (M,) the plan's value of a class less the least reduced cost of its paths, at multipliers (M, L)."""
    value, _ = add_up(instance, [graph], plan)
    group = graph.group if graph.num_groups > 1 else None
    return value - np.array([least_path(*graph.weighted(weights), group)[0] for weights in tried])


def _find_most(
    instance: BoaInstance, graph: PathCosts, plan: BoaSolution, tried: FloatArray, rates: FloatArray
) -> FloatArray:
    """Return (S, M) the most that the plan's value of a class is above the reduced cost of a path, on S sides."""
    options, layers = instance.options(graph.name), np.arange(len(graph.run_value))
    run = graph.run_value + np.tensordot(tried, graph.run_consumption, axes=1)  # (M, E, K)
    enter = graph.enter_value + np.tensordot(tried, graph.enter_consumption, axes=1)  # (M, F, E, K)
    rates = np.broadcast_to(rates, (len(rates), *graph.run_value.shape))
    gain, (entering, _) = np.zeros((len(rates), *run.shape)), add_up(instance, [graph], plan)
    for branch in plan.branches[graph.name]:
        held = options.find(branch.gpu_types, branch.widths)
        own = graph.run_value[layers, held]
        gain += branch.fraction * _find_largest(own, rates[:, layers, held], run, rates)
        entering -= branch.fraction * float(own.sum())
    return entering + _follow_most(gain, enter, graph)


def _find_largest(own: FloatArray, own_rate: FloatArray, run: FloatArray, rate: FloatArray) -> FloatArray:
    """Return (S, M, E, K) the most over 0 <= u <= 1 of own exp(own_rate u) - run exp(rate u)."""
    own, own_rate, rate = own[:, None], own_rate[:, None, :, None], rate[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.log(rate * run / (own_rate * own)) / (own_rate - rate)
    turn = np.clip(np.where(np.isfinite(turn), turn, 0.0), 0.0, 1.0)
    largest = np.maximum(own - run, own * np.exp(own_rate) - run * np.exp(rate))
    return np.maximum(largest, own * np.exp(own_rate * turn) - run * np.exp(rate * turn))


def _follow_most(gain: FloatArray, enter: FloatArray, graph: PathCosts) -> FloatArray:
    """Return (S, M) the most that paths gain, of nodes (S, M, E, K) less what entering them costs (M, F, E, K)."""
    group = graph.group if graph.num_groups > 1 else np.zeros(gain.shape[-1], dtype=np.int64)
    best = gain[:, :, 0] - enter[:, group, 0, np.arange(group.size)]
    known = np.unique(group)
    for layer in range(1, gain.shape[2]):
        left = np.stack([best[..., group == number].max(axis=-1) for number in known], axis=-1)  # (S, M, F)
        coming = (left[..., None] - enter[:, known, layer]).max(axis=2)
        best = gain[:, :, layer] + np.maximum(best, coming)
    most: FloatArray = best.max(axis=-1)
    return most
