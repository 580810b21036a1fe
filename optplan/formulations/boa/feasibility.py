"""Whether any plan keeps BOA's budget, and what to say when none does. The same for all problems and all solvers."""

from __future__ import annotations

import math

from optplan.contracts.result import Answer, Infeasibility, Relaxation, Status, Termination
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.evaluation import BUDGET, TOLERANCE, path_costs
from optplan.solvers.budgeted_paths import least_path
from optplan.units import Amount, BudgetUnit

_UNIT_WORDS = {BudgetUnit.GPU: "GPUs"}
_PROBLEM_WORDS = {
    Problem.CONTINUOUS: "the problem with real widths",
    Problem.WHOLE: "the problem with whole widths",
    Problem.RESCALING: "the rescaling problem",
}


def least_budget(instance: BoaInstance) -> tuple[float, dict[str, float]]:
    """Compute the least budget for which the problem has a plan.

    Parameters
    ----------
    instance
        The problem; its budget is not looked at.

    Returns
    -------
    total : float
        Time-average GPUs. The load for tables that are nowhere superlinear; less than it for others; with rescaling,
        the first starts are part of it.
    parts : dict of str to float
        What each class needs of it, in GPUs.
    """
    parts = {}
    for costs in path_costs(instance):
        # In the continuous problem pauses cost nothing and k / s(k) is least at a whole width: at a vertex of a table's
        # hull, and for the formulas, where it never falls, at the least width.
        parts[costs.name] = least_path(costs.run_consumption, costs.enter_consumption)[0]
    return sum(parts.values()), parts


def answer_if_infeasible(instance: BoaInstance) -> Answer[BoaSolution] | None:
    """Return the answer that no plan keeps the budget, or None when one does.

    Parameters
    ----------
    instance
        The problem, with its budget. A budget equal to the least one within a relative 1e-9 is enough.

    Raises
    ------
    UsageError
        When the instance has no budget.
    """
    budget_gpus = instance.budget_gpus()
    total_gpus, parts_gpus = least_budget(instance)
    if total_gpus <= budget_gpus * (1.0 + TOLERANCE):
        return None
    return infeasible_answer(instance, total_gpus, parts_gpus)


def raise_to_least(instance: BoaInstance) -> BoaInstance:
    """Return the instance with a budget of at least the least one.

    Parameters
    ----------
    instance
        The problem, with a budget that falls short of the least one by no more than rounding: it is feasible by the
        tolerance, and this says so to engines that have other tolerances.

    Raises
    ------
    UsageError
        When the instance has no budget.
    """
    total_gpus, _ = least_budget(instance)
    if total_gpus <= instance.budget_gpus():
        return instance
    return instance.replace(budget=Amount(total_gpus, BudgetUnit.GPU))


def infeasible_answer(instance: BoaInstance, total_gpus: float, parts_gpus: dict[str, float]) -> Answer[BoaSolution]:
    """Say why no plan keeps the budget, and which budget would do.

    Parameters
    ----------
    instance
        The problem, with a budget below the least one.
    total_gpus, parts_gpus
        The least budget and its parts, from :func:`least_budget`.

    Returns
    -------
    Answer
        With status INFEASIBLE; reason and relaxation are in the unit of the instance's own budget.

    Raises
    ------
    UsageError
        When the instance has no budget.
    """
    given_gpus = instance.budget_gpus()
    budget = instance.budget or Amount(given_gpus, BudgetUnit.GPU)
    least = total_gpus * (budget.value / given_gpus)
    parts = {name: part * (budget.value / given_gpus) for name, part in parts_gpus.items()}
    relaxation = Relaxation(limit=BUDGET, given=budget.value, least_feasible=least, unit=str(budget.unit), parts=parts)
    # Enough digits to tell the two apart: 74.62 against 60, but 74.6203 against 74.6201.
    digits = max(4, 2 - math.floor(math.log10(max(TOLERANCE, (least - budget.value) / least))))
    each = ", ".join(f"{name} {_write(part, digits)}" for name, part in parts.items())
    # Rounded up, so that the figure, given as a budget, is enough.
    unit = 10.0 ** (math.floor(math.log10(least)) + 1 - digits)
    reason = (
        f"the least budget for which {_PROBLEM_WORDS[instance.problem]} has a plan is "
        f"{_write(math.ceil(least / unit) * unit, digits)} {_UNIT_WORDS.get(budget.unit, str(budget.unit))} ({each}); "
        f"the budget is {_write(budget.value, digits)}"
    )
    return Answer(
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        infeasibility=Infeasibility(reason=reason, relaxations=(relaxation,)),
    )


def _write(number: float, digits: int) -> str:
    """Write a number to so many significant digits, without an exponent while it is readable: 53,270 or 74.62."""
    return f"{float(f'{number:.{digits}g}'):,.{max(digits, 12)}g}"
