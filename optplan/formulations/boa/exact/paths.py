"""BOA's plans as one path per class: from step costs to the engine that takes them, and back to widths.

With one limit and changes that cost the same whatever one leaves, that is the engine of budgeted layered paths;
otherwise it is the one of linked paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import EnumeratedCertificate, LagrangianCertificate, ShadowPrice
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.exact.costs import bound_at, list_amounts
from optplan.formulations.boa.exact.feasibility import clear_mixture, state_runs
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import path_totals
from optplan.solvers.limits import is_lost
from optplan.solvers.paths import families, single, switching
from optplan.solvers.paths.choices import MergeTarget, list_choices
from optplan.solvers.paths.search import Effort, Exhaustion


@dataclass(frozen=True)
class PathsAnswer:
    """The best plan for some step costs."""

    solution: BoaSolution | None  # None, as the objective, where a limit on the search came before any plan
    objective: float | None
    bound: float  # no plan within the limits has less
    multipliers: tuple[float, ...] = ()  # of the limits: those at which the bound was derived, if any


def solve_costs(
    instance: BoaInstance,
    costs: Sequence[PathCosts],
    *,
    limits: FloatArray | None = None,
    gap: float = 1e-6,
    stopwatch: Stopwatch | None = None,
) -> PathsAnswer | None:
    """Find the best plan under step costs, one per class, of which a run value of +inf forbids a node.

    The instance's own costs are not looked at; ``limits`` (L,) are its own when None, and ``gap`` is that of pure
    plans. None when it is proven that no plan keeps the limits.
    """
    amounts = list_amounts(instance, limits)
    effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
    if amounts.size > 1 or any(graph.num_groups > 1 for graph in costs):
        return _solve_linked(instance, costs, amounts, gap, effort)
    graphs = switching.LinkedGraphs.from_costs(costs)
    budget = float(amounts[0])
    if instance.policy is Policy.MIXED:
        bound = single.maximise_bound(graphs, budget, effort=effort)
        if isinstance(bound, single.BudgetShortfall):
            return None
        plan = single.mix_paths(bound)
        least = min(bound.bound, plan.value)
        return PathsAnswer(write_mixture(instance, plan), plan.value, least, (bound.multiplier,))
    found = single.solve_pure(graphs, budget, gap=gap, effort=effort)
    if isinstance(found, single.BudgetShortfall):
        return None
    multipliers = (found.lagrangian.multiplier,)
    return PathsAnswer(write_columns(instance, found.paths.payload), found.value, found.bound, multipliers)


def list_better(
    instance: BoaInstance,
    costs: Sequence[PathCosts],
    value: float,
    most: float,
    weigh: Callable[[str, Branch], float],
    effort: Effort,
) -> Iterator[tuple[float, Callable[[], BoaSolution]]]:
    """Yield the pure plans of less than a value within an amount of the one limit that no other one dominates.

    By value, the least first, each as the sum of what its classes' paths weigh, and a function that writes it. Raises
    OutOfEffortError, before the first one.
    """
    graphs = switching.LinkedGraphs.from_costs(costs)
    bound = single.maximise_bound(graphs, most, effort=effort)
    if isinstance(bound, single.BudgetShortfall) or bound.bound >= value:
        return
    # Whatever is better within the amount has a reduced cost below this.
    multipliers, cost = np.array([bound.multiplier]), value + bound.multiplier * most
    sets = graphs.find_path_sets(multipliers, value - bound.bound, effort)
    choices = list_choices(sets, MergeTarget(multipliers, np.array([most]), value, cost), effort)[::-1]
    weighed: dict[tuple[int, int], float] = {}

    def write(chosen: IntArray) -> BoaSolution:
        return write_columns(instance, sets.trace(chosen).payload)

    for choice in choices:
        total = 0.0
        for place, (name, job_class) in enumerate(instance.classes.items()):
            key = place, int(choice[place])
            if key not in weighed:
                columns = sets.trace(choice).payload[place, : job_class.num_epochs]
                weighed[key] = weigh(name, write_branch(instance, name, columns))
            total += weighed[key]
        yield total, partial(write, choice)


def _solve_linked(
    instance: BoaInstance, costs: Sequence[PathCosts], amounts: FloatArray, gap: float, effort: Effort
) -> PathsAnswer | None:
    from optplan.solvers.paths import closing, linked_dual

    if any(np.isinf(each.run_value).all(axis=1).any() for each in costs):  # a layer in which no node is left
        return None
    family = switching.LinkedGraphs.from_costs(costs, amounts)
    if instance.policy is Policy.MIXED:
        bound = linked_dual.maximise_bound(family, effort=effort)
        if isinstance(bound, linked_dual.LinkedShortfall):
            return None
        multipliers = tuple(bound.multipliers.tolist())
        if bound.mixture is None:
            return PathsAnswer(None, None, bound.bound, multipliers)
        mixture = clear_mixture(instance, bound.mixture)
        least = min(bound.bound, mixture.value)
        return PathsAnswer(write_mixture(instance, mixture), mixture.value, least, multipliers)
    found = closing.solve_pure(family, gap=gap, effort=effort, runs=lambda: state_runs(instance, costs, amounts))
    if isinstance(found, linked_dual.LinkedShortfall):
        return None
    multipliers = tuple(found.lagrangian.multipliers.tolist())
    if found.paths is None:  # only a search that ran to its end proves that there is no plan
        return PathsAnswer(None, None, found.bound, multipliers) if found.stopped_by is not None else None
    value = found.paths.total_value
    return PathsAnswer(write_columns(instance, found.paths.payload), value, min(found.bound, value), multipliers)


def add_up(instance: BoaInstance, costs: Sequence[PathCosts], solution: BoaSolution) -> tuple[float, FloatArray]:
    """Return the value of a solution with whole widths, and what it uses of the limits (L,), under step costs."""
    value, used = 0.0, np.zeros(len(costs[0].limits))
    for each in costs:
        for branch in solution.branches[each.name]:
            own, consumption = path_totals(each, instance.options(each.name).find(branch.gpu_types, branch.widths))
            value, used = value + branch.fraction * own, used + branch.fraction * consumption
    return value, used


def write_branch(instance: BoaInstance, name: str, columns: NDArray[np.integer], fraction: float = 1.0) -> Branch:
    """Write positions (E,) in a class's options as a branch."""
    options = instance.options(name)
    types = None
    if len(instance.gpu_types) > 1:
        types = tuple(options.gpu_types[group] for group in options.group[columns].tolist())
    return Branch(fraction=fraction, widths=options.widths[columns].astype(float), gpu_types=types)


def write_columns(instance: BoaInstance, nodes: NDArray[np.int32]) -> BoaSolution:
    """Write the nodes (classes, E) of one path per class as widths."""
    return BoaSolution(
        branches={
            name: (write_branch(instance, name, nodes[position, : job_class.num_epochs]),)
            for position, (name, job_class) in enumerate(instance.classes.items())
        }
    )


def write_mixture(instance: BoaInstance, mixture: families.Mixture) -> BoaSolution:
    """Write paths with fractions as widths; in the problem with real widths, on one type, as one row of these."""
    nodes, ends = mixture.columns.payload, np.searchsorted(mixture.graph, np.arange(len(instance.classes) + 1))
    averages = instance.problem is Problem.CONTINUOUS and not instance.is_typed
    branches: dict[str, tuple[Branch, ...]] = {}
    for (name, job_class), first, behind in zip(instance.classes.items(), ends[:-1], ends[1:], strict=True):
        columns, fraction = nodes[first:behind, : job_class.num_epochs], mixture.fraction[first:behind]
        if averages:
            branches[name] = (Branch(widths=_average(instance, name, columns, fraction)),)
        else:
            pairs = zip(columns, fraction.tolist(), strict=True)
            branches[name] = tuple(write_branch(instance, name, column, share) for column, share in pairs)
    return BoaSolution(branches=branches)


def _average(instance: BoaInstance, name: str, columns: NDArray[np.int32], fraction: FloatArray) -> FloatArray:
    """Return the real widths (E,) that take the GPU-hours, and the hours, of fractions (P,) of jobs on rows (P, E)."""
    options, epochs = instance.options(name), np.arange(columns.shape[1])
    widths = options.widths[columns].astype(float)
    hours = fraction[:, None] / np.broadcast_to(options.speeds, (epochs.size, options.widths.size))[epochs, columns]
    average: FloatArray = (hours * widths).sum(axis=0) / hours.sum(axis=0)
    return np.where((widths == widths[0]).all(axis=0), widths[0], average)


def certify_bound(instance: BoaInstance, *multipliers: float, bound: float | None = None) -> LagrangianCertificate:
    """Return the certificate of the bound at multipliers (L,), or at zeros where rounding leaves nothing of it."""
    weights = np.array(multipliers)
    bound = bound_at(instance, weights) if bound is None else bound
    if is_lost(bound, float(weights @ np.array(list(instance.limits.values())))):
        weights = np.zeros(weights.size)
        bound = bound_at(instance, weights)
    return LagrangianCertificate(
        multipliers=dict(zip(instance.limit_names, weights.tolist(), strict=True)), bound=bound
    )


def certify_listing(instance: BoaInstance, listed: Exhaustion, bound: float) -> EnumeratedCertificate:
    """Return the certificate of a bound that plans were listed for."""
    return EnumeratedCertificate(
        multipliers=dict(zip(instance.limit_names, listed.multipliers.tolist(), strict=True)),
        allowance=listed.allowance,
        optimum=listed.optimum,
        bound=bound,
        divided=tuple(list(instance.classes)[graph] for graph in listed.divided),
        further=tuple({BUDGET: multiplier} for multiplier in listed.further),
    )


def price_of(instance: BoaInstance, less: float, more: float, limit: str = BUDGET) -> ShadowPrice:
    """Return the shadow price of a limit; infinite on the side on which nothing is feasible becomes None."""
    # Where the two are the same, rounding may turn their order.
    ends = (max(less, more), more)
    return ShadowPrice(less=ends[0] if math.isfinite(less) else None, more=ends[1], unit=instance.price_unit(limit))


def price_at(instance: BoaInstance, limit: str, multipliers: dict[str, float]) -> ShadowPrice:
    """Return the shadow price of a limit that has the same slope on both sides, at multipliers of all limits."""
    ends = multipliers if len(multipliers) > 1 else {}
    price = multipliers[limit]
    unit = instance.price_unit(limit)
    return ShadowPrice(less=price, more=price, unit=unit, less_multipliers=ends, more_multipliers=ends)
