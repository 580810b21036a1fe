"""Whether any plan keeps BOA's budget, and what to say when none does. The same for all problems and all solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.contracts.result import (
    Answer,
    Hopeless,
    Infeasibility,
    Relaxation,
    SolveRequest,
    Status,
    Termination,
    status_of,
)
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, BoaSolution, Policy, Problem
from optplan.formulations.boa.exact.costs import cost_steps, find_least, list_amounts
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.limits import count_digits, most_within, write_digits, write_down, write_up
from optplan.solvers.paths import switching
from optplan.solvers.paths.families import Mixture, mix_columns
from optplan.solvers.paths.search import Effort
from optplan.units import Amount, BudgetUnit

if TYPE_CHECKING:
    from optplan.solvers.paths import families, linked_dual, run_problem

#: Amounts that differ by less, relatively, are the same.
_SAME = 1e-6
#: How messages call changes of which one is enough, and changes of which that is not known.
WOULD_DO, MAY_DO = "one of these would do", "one of these may do, and no less"
#: How messages call a problem.
PROBLEM_WORDS = {
    Problem.CONTINUOUS: "the problem with real widths",
    Problem.WHOLE: "the problem with whole widths",
    Problem.RESCALING: "the rescaling problem",
}


def least_budget(instance: BoaInstance) -> tuple[float, dict[str, float]]:
    """Return the least budget for which the problem has a plan, and what each class needs of it.

    In ``instance.budget_unit``, quotas not regarded. With one type it is the load for tables that are nowhere
    superlinear, less than it for others; with rescaling, the first starts are part of it.
    """
    weights = np.zeros(len(instance.limit_names))
    weights[0] = 1.0
    parts = find_least(instance, weights, value_weight=0.0)
    return sum(parts.values()), parts


def answer_if_infeasible(instance: BoaInstance, stopwatch: Stopwatch | None = None) -> Answer[BoaSolution] | None:
    """Answer that no plan keeps the limits, to a relative 1e-9; None when one does, or out of time."""
    from optplan.solvers.paths import linked_dual

    total, parts = least_budget(instance)
    if not instance.further_limits:
        fits = total <= most_within(instance.budget_amount())
        return None if fits else infeasible_answer(instance, total, parts)
    # Whole widths without pauses decide this for real widths, too: the least of what a type allows is at one of them.
    family = state_linked(instance)
    found = linked_dual.maximise_bound(family, effort=Effort(stopwatch if stopwatch is not None else Stopwatch()))
    return explain_shortfall(instance, family, found) if isinstance(found, linked_dual.LinkedShortfall) else None


def state_linked(instance: BoaInstance) -> switching.LinkedGraphs:
    """State whole widths as one layered graph per class, with the limits of the instance."""
    return switching.LinkedGraphs.from_costs(cost_steps(instance), list_amounts(instance))


def clear_mixture(instance: BoaInstance, mixture: Mixture) -> Mixture:
    """Return a mixture without the paths on types with a quota of nothing, which have next to no share of the jobs."""
    nothing = list_amounts(instance) > np.array(list(instance.limits.values()))
    kept = ~(mixture.columns.consumption[:, : nothing.size][:, nothing] > 0.0).any(axis=1)
    if kept.all():
        return mixture
    graph, fraction = mixture.graph[kept], mixture.fraction[kept]
    fraction = fraction / np.bincount(graph, weights=fraction)[graph]
    return mix_columns(graph, fraction, mixture.columns.take(np.flatnonzero(kept)))


def state_runs(instance: BoaInstance, costs: Sequence[PathCosts], limits: FloatArray) -> run_problem.RunProblem | None:
    """State graphs by runs on one GPU type, each of which has to fit into its quota; None where that is too large.

    In ``costs`` a run value of +inf forbids an option; ``limits`` (L,) are above 0.
    """
    from optplan.solvers.paths import run_problem

    names = list(costs[0].limits)
    every = [instance.options(name) for name in instance.classes]
    quotas = [[f"{QUOTA}{gpu_type}" for gpu_type in options.gpu_types] for options in every]
    own = [np.array([names.index(each) if each in names else -1 for each in own]) for own in quotas]
    return run_problem.state_runs(costs, [options.group for options in every], own, limits)


def raise_to_least(instance: BoaInstance) -> BoaInstance:
    """Return the instance with at least the least budget: engines have other tolerances of what falls short."""
    total, _ = least_budget(instance)
    if total <= instance.budget_amount():
        return instance
    return instance.replace(budget=Amount(total, instance.budget_unit))


def infeasible_answer(instance: BoaInstance, total: float, parts: dict[str, float]) -> Answer[BoaSolution]:
    """Say why no plan keeps the budget, and which would do, in the instance's own unit; from :func:`least_budget`."""
    given, unit = instance.limit_as_given(BUDGET)
    least = count_as_given(instance, BUDGET, total)
    parts = {name: count_as_given(instance, BUDGET, part) for name, part in parts.items()}
    weights = {limit: float(limit == BUDGET) for limit in instance.limit_names}
    relaxation = instance.relax(BUDGET, least, enough=least, parts=parts, multipliers=weights)
    digits = count_digits(least, given)
    each = ", ".join(f"{name} {write_digits(part, digits)}" for name, part in parts.items())
    reason = (
        f"the least budget for which {PROBLEM_WORDS[instance.problem]} has a plan is "
        f"{write_up(least, given)} {_name_unit(unit)} ({each}); "
        f"the budget is {write_digits(given, digits)}"
    )
    claim = Infeasibility(
        reason=reason, relaxations=(relaxation,), multipliers=weights, factor=total / instance.budget_amount()
    )
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)


def explain_shortfall(
    instance: BoaInstance,
    family: families.PathFamily,
    shortfall: linked_dual.LinkedShortfall,
    relax: Callable[[str], Relaxation | Hopeless | None] | None = None,
) -> Answer[BoaSolution]:
    """Say why no plan keeps the budget and the other limits, and which of them, raised alone, would do.

    Figures are in the units of the instance's own fields. ``relax`` finds what pure plans need of a limit, or None
    where the time is too short for that; where there is none, or mixed plans are asked for, it is what mixed plans
    need, of which pure ones are not known to have enough.
    """
    from optplan.solvers.paths import linked_dual

    if not instance.further_limits:
        return infeasible_answer(instance, *least_budget(instance))
    pure = instance.policy is Policy.PURE and instance.problem is not Problem.CONTINUOUS
    changes: list[Relaxation | Hopeless] = []
    for limit, found in zip(instance.limit_names, linked_dual.find_relaxations(family, shortfall), strict=True):
        change: Relaxation | Hopeless | None = None
        if np.isinf(found.least):
            named = dict(zip(instance.limit_names, found.multipliers.tolist(), strict=True))
            change = Hopeless(limit=limit, multipliers=named)
        elif pure and relax is not None:
            change = relax(limit)
        if change is None:
            change = _relax(instance, family, limit, found, is_enough=found.attained and not pure)
        changes += [] if change is None else [change]
    relaxations = [change for change in changes if isinstance(change, Relaxation)]
    hopeless = [change for change in changes if isinstance(change, Hopeless)]
    # The family's limits may be a little larger than the instance's: what is too low then is too low now.
    most = float(shortfall.multipliers @ np.array(list(instance.limits.values())))
    factor = shortfall.factor / most if most > 0.0 else 1.0
    growth = "; a quota of 0 does not grow with the others"
    if most > 0.0:
        least = " at least" if pure else ""
        growth = f"; all limits together would have to grow by{least} {write_up(100.0 * (factor - 1.0), 0.0)} %"
    growth = "" if instance.floors else growth  # a floor is kept by lowering it
    reason = (
        f"{PROBLEM_WORDS[instance.problem]} has no plan that keeps the budget and {name_others(instance)}; "
        f"{say_wishes(relaxations)}{growth}"
    )
    claim = Infeasibility(
        reason=reason,
        relaxations=tuple(relaxations),
        hopeless=tuple(hopeless),
        multipliers=dict(zip(instance.limit_names, shortfall.multipliers.tolist(), strict=True)),
        factor=factor,
    )
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=claim)


def weaken(claim: Infeasibility, condition: str) -> Infeasibility:
    """Take back that relaxations are enough: of what they leave out it is not known ``condition``."""
    changes = tuple(change.replace(enough=None, solution={}) for change in claim.relaxations)
    doubt = f"; {condition} is not known" if changes else ""
    return claim.replace(relaxations=changes, reason=claim.reason.replace(WOULD_DO, MAY_DO) + doubt)


def answer_beyond(
    base: Answer[BoaSolution],
    request: SolveRequest,
    best: tuple[float, BoaSolution] | None,
    solves: int,
    advice: list[str],
) -> Answer[BoaSolution]:
    """Answer with the bound of a relaxation, and the best plan found by a search that looks at more, if any."""
    ended = Termination.TIME_LIMIT if request.stopwatch.expired else Termination.COMPLETED
    answer = replace(base, termination=ended, shadow_prices={}, counters={"solves": float(solves)})
    if best is None:
        said = (*base.warnings, *advice)
        return replace(answer, status=Status.UNKNOWN, solution=None, objective=None, warnings=said)
    objective, solution = best
    return replace(answer, status=status_of(objective, base.bound, request.gap), solution=solution, objective=objective)


def say_wishes(relaxations: Sequence[Relaxation]) -> str:
    """Say which limits, changed alone, would do, and which may."""
    sure = [_say_wish(each) for each in relaxations if each.enough is not None]
    open_ones = [_say_wish(each) for each in relaxations if each.enough is None]
    said = [f"{WOULD_DO}: {'; '.join(sure)}"] if sure else []
    said += [f"{MAY_DO}: {'; '.join(open_ones)}"] if open_ones else []
    return "; ".join(said) or "no single limit can mend that"


def _say_wish(change: Relaxation) -> str:
    """Say what is enough of a limit, or is not known to be; and what no plan can do without where that is less."""
    is_floor, unit = change.limit.startswith(FLOOR), _name_unit(change.unit)
    amount = change.least_feasible if change.enough is None else change.enough

    def write(number: float) -> str:
        return write_down(number) if is_floor else write_up(number, change.given)

    known = f"given: {write_digits(change.given, 6)}"
    if abs(amount - change.least_feasible) > _SAME * abs(amount):
        known += f"; {'no more' if is_floor else 'no less'} than {write(change.least_feasible)} can"
    name = f"a floor of {change.limit.removeprefix(FLOOR)}" if is_floor else _name_limit(change.limit)
    return f"{name} of at {'most' if is_floor else 'least'} {write(amount)} {unit} ({known})"


def name_others(instance: BoaInstance) -> str:
    """Name the limits beside the budget."""
    kinds = ["all quotas"] * bool(instance.quotas) + ["all due dates"] * bool(instance.due_s)
    kinds += ["all floors"] * bool(instance.floors)
    return " and ".join(kinds)


def _relax(
    instance: BoaInstance, family: families.PathFamily, limit: str, found: linked_dual.LeastLimit, *, is_enough: bool
) -> Relaxation | None:
    """Write a relaxation in the unit of the instance's own field, made of what each class needs.

    None where no more is proven than that the limit has to be as it is: it is too low, which its weights do not show.
    """
    amounts, family_amounts = np.array(list(instance.limits.values())), family.limits
    others = np.array(instance.limit_names) != limit
    least = found.least + float(found.multipliers[others] @ (family_amounts - amounts)[others])
    if not least > most_within(instance.limits[limit]):
        return None
    named = dict(zip(instance.limit_names, found.multipliers.tolist(), strict=True))
    # Where other limits are part of the proof, what a class needs of them all is no amount of this one.
    alone = np.count_nonzero(found.multipliers) == 1 and not limit.startswith(FLOOR)
    needs = find_least(instance, found.multipliers, value_weight=0.0) if alone else {}
    parts = {name: count_as_given(instance, limit, part) for name, part in needs.items()}
    least = count_as_given(instance, limit, least)
    return instance.relax(limit, least, enough=least if is_enough else None, parts=parts, multipliers=named)


def count_as_given(instance: BoaInstance, limit: str, amount: float) -> float:
    """Return an amount of a limit, as solvers count it, in the unit of the instance's own field."""
    if limit.startswith(FLOOR):
        return instance.count_limit(limit, amount)
    counted = instance.limits[limit]
    return amount * (instance.limit_as_given(limit)[0] / counted if counted else 1.0)


def _name_limit(limit: str) -> str:
    if limit.startswith(DUE):
        return f"a due date of {limit.removeprefix(DUE)}"
    return "a budget" if limit == BUDGET else f"a quota of {limit.removeprefix(QUOTA)}"


def _name_unit(unit: str) -> str:
    return "GPUs" if unit == BudgetUnit.GPU.value else unit


def too_little(instance: BoaInstance, least: float, budget: float) -> str:
    """Say that a frontier does not reach down to a budget."""
    unit = _name_unit(instance.budget_unit.value)
    return f"the frontier starts at a budget of {least:.6g} {unit}; got {budget:.6g}"


def too_fast(least_s: float, asked_s: float) -> str:
    """Say that no budget reaches a mean completion time."""
    return f"no budget brings the mean completion time below {least_s:.6g} s; got {asked_s:.6g} s"
