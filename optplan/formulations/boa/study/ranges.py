"""The range of an answer: what the best plan, and the plan in hand, come to in truths within the bands of speedups.

The truths are the two ends of all bands, each band's own ends where these are few, and a Latin hypercube between
(McKay, Beckman and Conover, Technometrics 21, 1979): as many as :data:`TRUTHS`, whatever the instance, so that a range
takes so many solves.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from optplan.formulations.boa.exact.paths import solve_costs
from optplan.formulations.boa.laws.bands import find_bands, list_pairs
from optplan.formulations.boa.planning import as_run
from optplan.formulations.boa.study.worth import add_up, bound_worth
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: Solves of a range, each at the coarser gap: ends are shown with two or three digits.
TRUTHS = 9
_GAP = 5e-3


def find_range(
    instance: BoaInstance, result: Result[BoaSolution], *, time_limit_s: float | None = None
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
