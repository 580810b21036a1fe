"""The range of an answer: what the best plan, and the plan in hand, come to in truths within the bands of speedups.

The truths are the two ends of all bands, each band's own ends where these are few, and a Latin hypercube between
(McKay, Beckman and Conover, Technometrics 21, 1979): as many as :data:`TRUTHS`, whatever the instance, so that a range
takes so many solves.

What knowing one speedup can be worth at most, proven by weak duality.

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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.ranges import AnswerRange, Measurement, Truth
from optplan.contracts.result import MEETING, Result
from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.options import Options
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.paths import add_up, solve_costs
from optplan.formulations.boa.laws.bands import find_bands, list_pairs
from optplan.formulations.boa.planning import as_run
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.layered_graphs import least_path

#: Solves of a range, each at the coarser gap: ends are shown with two or three digits.
TRUTHS = 9
_GAP = 5e-3


def find_range(
    instance: BoaInstance, result: Result[BoaSolution], time_limit_s: float | None = None
) -> AnswerRange | None:
    """Return how an answer changes within the bands of speedups; None without a plan, bands, or time in peace."""
    if result.solution is None or not find_bands(instance):
        return None
    if instance.floors or instance.bound_by_law:
        why = "what faster jobs run on falls" if instance.floors else "other plans would not keep it"
        name = "least_mean_gpus" if instance.floors else instance.bound_by_law
        raise UnsupportedError(f"how the answer changes within the bands of speedups is not found with {name}: {why}")
    run, plan = as_run(instance, result.solution)
    costs = cost_steps(run)
    gap, watch = max(_GAP, result.gap_target), Stopwatch(time_limit_s)
    truths, limits = [], np.array(list(run.limits.values()))
    for shifts in _choose_truths(run, result.seed):
        true = [_cost_in_truth(run, graph, shifts.get(graph.name, {})) for graph in costs]
        best = solve_costs(run, true, gap=gap, stopwatch=watch)
        objective, used = add_up(run, true, plan)
        found = None if best is None else best.objective
        own_best = best is not None and bool((used <= limits * (1.0 + MEETING)).all())
        own_best = own_best and (found is None or objective <= found)
        truths.append(
            Truth(
                shifts=shifts,
                best_objective=objective if own_best else found,
                best_bound=None if best is None else best.bound,
                plan={} if best is None or best.solution is None or own_best else best.solution.to_json_data(),
                multipliers={} if best is None else dict(zip(run.limit_names, best.multipliers, strict=True)),
                objective=objective,
                consumption=dict(zip(run.limit_names, used.tolist(), strict=True)),
            )
        )
    if watch.interrupted:
        return None
    return derive_range(run, result.replace(solution=plan), AnswerRange(gap=gap, truths=tuple(truths), widths={}))


def derive_range(instance: BoaInstance, result: Result[BoaSolution], claimed: AnswerRange) -> AnswerRange:
    """Return a range with all that follows from the result and the plans of the truths: which these are, gap and rest.

    Widths of the instance are whole.
    """
    plan = result.solution
    if plan is None:
        raise ValueError("a range is of a plan")
    plans = [plan, *(BoaSolution.parse(truth.plan) for truth in claimed.truths if truth.plan)]
    known = {name: _span_widths(instance.options(name), name, [plan]) for name in instance.classes}
    widths = {name: _span_widths(instance.options(name), name, plans) for name in instance.classes}
    multipliers = next((one.multipliers for one in result.certificates if one.form != "tree"), {})
    worth = bound_worth(instance, cost_steps(instance), plan, multipliers)
    least = MEETING * claimed.truths[0].objective
    pairs = [pair for pair in list_pairs(instance) if worth[pair] > least]
    choices = list(_choose_truths(instance, result.seed))
    truths = [one.replace(shifts=shifts) for one, shifts in zip(claimed.truths, choices, strict=True)]
    return AnswerRange(
        gap=max(_GAP, result.gap_target),
        truths=tuple(truths),
        widths={name: each for name, each in widths.items() if each != known[name]},
        measurements=tuple(
            Measurement(
                subject=name,
                gpu_type=one,
                gpus=_choose_width(instance, name, one, widths[name]),
                worth=worth[name, one],
            )
            for name, one in sorted(pairs, key=lambda pair: -worth[pair])
        ),
    )


def _choose_truths(instance: BoaInstance, seed: int) -> Iterator[dict[str, dict[str, float]]]:
    """Yield the shifts of each truth, by class and GPU type."""
    pairs = list_pairs(instance)
    for shifts in _choose_shifts(len(pairs), seed):
        by_class: dict[str, dict[str, float]] = {}
        for (name, gpu_type), shift in zip(pairs, shifts.tolist(), strict=True):
            by_class.setdefault(name, {})[gpu_type] = shift
        yield by_class


def _choose_shifts(pairs: int, seed: int) -> Iterator[FloatArray]:
    """Yield :data:`TRUTHS` shifts (P,): both ends of all, both of each alone where these are few, others between."""
    ends = [np.ones(pairs), -np.ones(pairs)]
    if 1 < pairs <= (TRUTHS - len(ends)) // 2:
        ends += [row + 0.0 for each in np.eye(pairs) for row in (each, -each)]
    rng = np.random.default_rng(np.random.SeedSequence((seed, pairs)))
    cells = TRUTHS - len(ends)
    strata = np.array([rng.permutation(cells) for _ in range(pairs)])
    between = (2.0 * strata.T + 1.0) / max(1, cells) - 1.0
    return chain(ends, between)


def _cost_in_truth(instance: BoaInstance, graph: PathCosts, shifts: dict[str, float]) -> PathCosts:
    """Return what steps of a class cost if speeds are shifted by type: running takes as much longer, pauses do not."""
    if not shifts:
        return graph
    options = instance.options(graph.name)
    shift = np.array([shifts.get(gpu_type, 0.0) for gpu_type in options.gpu_types])
    spread = find_bands(instance)[graph.name].spread(shift[options.group])
    return replace(graph, run_value=graph.run_value / spread, run_consumption=graph.run_consumption / spread)


def _span_widths(options: Options, name: str, plans: list[BoaSolution]) -> dict[str, tuple[float, float]]:
    """Return by GPU type the least and the largest width that any of some plans gives jobs of a class."""
    found: dict[str, tuple[float, float]] = {}
    for branch in chain.from_iterable(plan.branches[name] for plan in plans):
        held = options.find(branch.gpu_types, branch.widths)
        for group in np.unique(options.group[held]).tolist():
            widths = branch.widths[options.group[held] == group]
            least, largest = found.get(options.gpu_types[group], (np.inf, 0.0))
            ends = min(least, float(widths.min())), max(largest, float(widths.max()))
            found[options.gpu_types[group]] = ends
    return dict(sorted(found.items()))


def _choose_width(instance: BoaInstance, name: str, gpu_type: str, widths: dict[str, tuple[float, float]]) -> int:
    """Return the width that is least known of those between the ends that plans hold; of all where these are exact."""
    options, band = instance.options(name), find_bands(instance)[name]
    pairs = options.of_type(gpu_type)
    allowed, unknown = options.widths[pairs], band.width[pairs]
    least, largest = widths.get(gpu_type, (0.0, 0.0))
    held = np.where((allowed >= least) & (allowed <= largest), unknown, 0.0)
    return int(allowed[(held if held.any() else unknown).argmax()])


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


def _find_above(instance: BoaInstance, graph: PathCosts, plan: BoaSolution, tried: FloatArray) -> FloatArray:
    """Return (M,) the plan's value of a class less the least reduced cost of its paths, at multipliers (M, L)."""
    value, _ = add_up(instance, [graph], plan)
    return value - np.array([least_path(*graph.weighted(weights), graph.group)[0] for weights in tried])


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
