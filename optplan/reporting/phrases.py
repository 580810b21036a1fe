"""Numbers and findings in plain words: one place, so that terminal, figures and report say the same thing alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optplan.contracts import (
    BoundProof,
    Frontier,
    FrontierPoint,
    Result,
    ShadowPrice,
    Solution,
    Status,
    Termination,
)
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, Policy, Problem
from optplan.reporting.boa.breakdown import price_usd_per_hour
from optplan.units import HOURS_PER_MONTH, PERIOD_HOURS, Amount, BudgetUnit, format_duration

#: What tables show where there is no value.
NOTHING = "-"
#: Relative differences below this are rounding.
_ROUNDING = 1e-9
#: From here on nobody counts the digits of a number.
_MOST_IN_DIGITS = 1e12
#: The smallest share that is written as a number.
_LEAST_SHARE = 1e-5

_PERIOD_NAMES = {
    BudgetUnit.USD_PER_HOUR: "an hour",
    BudgetUnit.USD_PER_DAY: "a day",
    BudgetUnit.USD_PER_MONTH: "a month",
}

#: What each problem asks, for somebody who has read no paper.
PROBLEM_WORDS = {
    Problem.CONTINUOUS: "any width, fractions too, in every epoch; changes of width cost nothing",
    Problem.WHOLE: "whole GPUs in every epoch; changes of width cost nothing",
    Problem.RESCALING: "whole GPUs in every epoch; every start and every change of width pauses the job",
}

_FAMILY = {
    Policy.PURE: "plan that treats all jobs of a class alike",
    Policy.MIXED: "plan of widths by class and epoch, mixtures included,",
}

#: How each bound can be checked.
PROOF_WORDS = {
    BoundProof.LAGRANGIAN: "can be checked without the solver, in one pass",
    BoundProof.ENUMERATED: "can be checked without the solver, by a small enumeration",
    BoundProof.TREE: "can be checked without the solver, part by part",
    BoundProof.ENGINE: "is the word of a general engine and cannot be checked cheaply",
    BoundProof.SEARCHED: "rests on a search that left no plan out, and is checked only by searching again",
    BoundProof.NONE: "does not exist: this solver proves nothing",
}


#: The same in a word or two.
PROOF_NAMES = {
    BoundProof.LAGRANGIAN: "certificate",
    BoundProof.ENUMERATED: "certificate",
    BoundProof.TREE: "certificate",
    BoundProof.ENGINE: "engine's word",
    BoundProof.SEARCHED: "search to the end",
    BoundProof.NONE: "none",
}


def format_gpus(gpus: float) -> str:
    """Write a number of GPUs, whole or on average: ``8``, ``119.9``, ``3.42``, ``1e+30``."""
    if abs(gpus) >= _MOST_IN_DIGITS:
        return f"{gpus:.3g}"
    if abs(gpus - round(gpus)) <= _ROUNDING * max(1.0, abs(gpus)):
        return f"{round(gpus):,}"
    if abs(gpus) >= 10:
        return f"{gpus:,.1f}"
    return f"{gpus:.2f}" if abs(gpus) >= 0.1 else f"{gpus:.2g}"


def count_gpus(gpus: float) -> str:
    """Write a number of GPUs with its noun: ``1 GPU``, ``8 GPUs``."""
    text = format_gpus(gpus)
    return f"{text} GPU" if text == "1" else f"{text} GPUs"


def format_share(share: float) -> str:
    """Write a fraction as a percentage: ``0 %``, ``0.062 %``, ``3.4 %``, ``26 %``."""
    if abs(share) <= _ROUNDING:
        return "0 %"
    if abs(share) < _LEAST_SHARE:
        return "less than 0.001 %"
    percent = 100.0 * share
    return f"{percent:.0f} %" if abs(percent) >= 10 else f"{percent:.2g} %"


def compare_durations(above: float) -> str:
    """Write how far one duration lies above another, as a fraction: ``the same``, ``12 % longer``, ``3 % shorter``."""
    if abs(above) < _LEAST_SHARE:
        return "the same"
    return f"{format_share(abs(above))} {'longer' if above > 0 else 'shorter'}"


def format_usd(usd: float) -> str:
    """Write US dollars: ``$0.978``, ``$12.50``, ``$83,220``."""
    if usd >= 100:
        return f"${usd:,.0f}"
    return f"${usd:,.2f}" if round(usd, 2) == round(usd, 3) or usd >= 10 else f"${usd:,.3f}"


def format_seconds(seconds: float) -> str:
    """Write how long a computation took: ``12 ms``, ``3.4 s``, ``2 min 05 s``."""
    if seconds < 1.0:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"
    return format_duration(seconds)


def format_small_duration(seconds: float) -> str:
    """Write a duration that may be tiny, such as what one GPU is worth: ``19 s``, ``0.42 s``, ``less than 1 ms``."""
    return "nothing" if seconds == 0 else "less than 1 ms" if seconds < 1e-3 else format_duration(seconds)


def monthly_usd(instance: BoaInstance, gpus: float) -> float | None:
    """Return what a time-average number of GPUs costs in a month, None without a price."""
    price = price_usd_per_hour(instance)
    return None if price is None else price * gpus * HOURS_PER_MONTH


def price_words(gpu_type: GpuType) -> str:
    """Write a GPU's price with its source and date."""
    if gpu_type.price_usd_per_hour is None:
        return "none given"
    origin = ", ".join(part for part in (gpu_type.price_source, gpu_type.price_date) if part)
    return f"{format_usd(gpu_type.price_usd_per_hour)} an hour ({origin or 'no source stated'})"


def describe_amount(amount: Amount) -> str:
    """Write a budget in words: ``120 GPUs on average``, ``$30,000 a month``."""
    if amount.unit is BudgetUnit.GPU:
        return f"{count_gpus(amount.value)} on average"
    return f"{format_usd(amount.value)} {_PERIOD_NAMES[amount.unit]}"


def describe_budget(instance: BoaInstance) -> str:
    """Write the instance's budget in words, a budget in money with the GPUs that it pays.

    Where GPUs of several types cost different prices, no number of GPUs can be told, and the money is told for another
    period as well.

    Raises
    ------
    UsageError
        When there is none.
    """
    amount = instance.budget_amount()
    if instance.budget is None or instance.budget.unit not in PERIOD_HOURS:
        return f"{count_gpus(amount)} on average"
    if instance.budget_unit is BudgetUnit.GPU:
        return f"{describe_amount(instance.budget)} ({count_gpus(amount)} on average)"
    monthly = instance.budget.unit is BudgetUnit.USD_PER_MONTH
    again = f"{format_usd(amount)} an hour" if monthly else f"{format_usd(amount * HOURS_PER_MONTH)} a month"
    return f"{describe_amount(instance.budget)} ({again})"


def describe_limits(instance: BoaInstance) -> str:
    """Write the instance's budget and quotas in words: ``$90.00 an hour ($65,700 a month) and at most 16 a100``.

    Raises
    ------
    UsageError
        When there is no budget.
    """
    quotas = [f"{format_gpus(quota)} {gpu_type}" for gpu_type, quota in instance.quotas.items()]
    budget = describe_budget(instance)
    if not quotas:
        return budget
    if instance.budget_unit is BudgetUnit.GPU:
        return f"{budget}, at most {join_words(quotas)} among them"
    return f"{budget} and at most {join_words(quotas)} on average"


def join_words(words: Sequence[str]) -> str:
    """Join words as a sentence does: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def name_objective(instance: BoaInstance) -> str:
    """Name the objective: the mean completion time, ``weighted`` where classes have different weights."""
    weights = {c.weight for c in instance.classes.values()}
    return "mean completion time" if len(weights) == 1 else "weighted mean completion time"


def name_family(instance: BoaInstance) -> str:
    """Name the plans that a bound speaks of."""
    mixed = instance.problem is Problem.CONTINUOUS or instance.policy is Policy.MIXED
    return _FAMILY[Policy.MIXED if mixed else Policy.PURE]


def say_answer(instance: BoaInstance, result: Result[Solution]) -> str:
    """Answer the question in one sentence.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        Its result, of any status.
    """
    limit = describe_limits(instance)
    if result.status is Status.INFEASIBLE:
        return f"No plan keeps to {limit}."
    if result.objective is None:
        return f"No plan for {limit} was found {_say_stop(result.termination)}."
    if name_objective(instance) == "mean completion time":
        return f"With {limit}, jobs finish in {format_duration(result.objective)} on average."
    return f"With {limit}, the weighted mean completion time is {format_duration(result.objective)}."


def say_how_good(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say how far the answer is from the best possible, and what that rests on.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, of any status.
    """
    if result.infeasibility is not None:
        return f"{result.infeasibility.reason[0].upper()}{result.infeasibility.reason[1:]}."
    if result.bound is None:
        return "This solver proves nothing: how far its plan is from the best possible is not known."
    family, bound = name_family(instance), format_duration(result.bound)
    checked = PROOF_WORDS[result.bound_proof]
    gap = result.gap
    if gap is None:
        return f"No {family} can be better than {bound}; this bound {checked}."
    if result.status is Status.OPTIMAL and gap <= _LEAST_SHARE:
        return f"No {family} can be better: proven. The proof {checked}."
    lower = f"the best possible is at most {format_share(gap)} lower"
    return f"No {family} can be better than {bound}, so {lower}. The bound {checked}."


def say_marginal(price: ShadowPrice) -> str:
    """Say what a little more and a little less budget would change, per GPU."""
    more = f"one more GPU on average saves {format_small_duration(price.more)}"
    if price.less is None:
        return f"{more}; with less budget there is no plan"
    if price.less == price.more:
        return more
    return f"{more}, one fewer costs {format_small_duration(price.less)}"


def shadow_price(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> ShadowPrice | None:
    """Return the budget's shadow price: the result's own, else the frontier's at the same budget, else None."""
    if BUDGET in result.shadow_prices:
        own: ShadowPrice = result.shadow_prices[BUDGET]
        return own
    point = look_up(frontier, instance.budget_amount())
    return None if point is None else point.shadow_price


def look_up(frontier: Frontier | None, budget: float) -> FrontierPoint | None:
    """Return the frontier's point at a budget, None where there is no frontier or no plan keeps the budget."""
    if frontier is None or budget < float(frontier.budgets[0]) * (1.0 - _ROUNDING):
        return None
    return frontier.at(max(budget, float(frontier.budgets[0])))


def relative_difference(objective: float | None, reference: float | None) -> float | None:
    """Return how far one objective lies above another, as a fraction; None unless there are both."""
    if objective is None or reference is None or not math.isfinite(objective) or reference == 0:
        return None
    return objective / reference - 1.0


def _say_stop(termination: Termination) -> str:
    return {
        Termination.COMPLETED: "by this solver",
        Termination.TIME_LIMIT: "within the time limit",
        Termination.WORK_LIMIT: "within the solver's limit on its work",
    }[termination]
