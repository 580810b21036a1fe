"""What an explanation says, as sentences and a table."""

from __future__ import annotations

from optplan.contracts import Alternative, Explanation, Instance, Result, Solution
from optplan.contracts.result import closes_gap
from optplan.formulations.boa.data.instance import BUDGET, QUOTA, BoaInstance
from optplan.reporting.boa.breakdown import require_boa, require_own
from optplan.reporting.boa.phrases import name_objective
from optplan.reporting.pages import Block, Reading, Section
from optplan.reporting.phrases import NOTHING, format_share, join_words
from optplan.reporting.tables import Column, Row, Table, numbers, numeric
from optplan.units import BudgetUnit

#: Objectives this close, relatively, to their bounds are written as exact.
_EXACT = 1e-5
#: From here on changes are written without decimals.
_MOST_WITH_DECIMALS = 999.5
#: Rows that a table of a page shows before it says how many more there are.
_MOST_ROWS = 300
_READ_CHOICES = (
    "Alone: the change of the mean completion time and of the use of the budget if this one choice changes and nothing "
    "else does. Forced: by how much the mean completion time grows when the choice is forced for all jobs of the "
    "class, the limits stay, and everything else is decided anew; these are solved, not estimated."
)


def unit_words(explanation: Explanation) -> str:
    """Name the unit of the budget in a table's head."""
    return "GPU" if explanation.budget_unit == BudgetUnit.GPU.value else "$/h"


def say_rates(instance: Instance, explanation: Explanation) -> str:
    """Say against which plan and which rate the choices are held."""
    boa = require_boa(instance)
    said = [f"{explanation.solver}: {name_objective(boa)} {explanation.objective:,.1f} s."]
    best, bound = explanation.best_objective, explanation.best_bound
    if best is not None and best < explanation.objective:
        said.append(f"The best plan takes {best:,.1f} s; what is forced is compared with that one.")
    if best is not None and (bound is None or not closes_gap(best, bound, _EXACT)):
        least = "unknown" if bound is None else f"at least {bound:,.1f} s"
        said.append(f"That is the best plan known; what is possible is {least}.")
    rate = explanation.multipliers.get(BUDGET)
    if rate is not None:
        unit = unit_words(explanation)
        said.append(
            f"At the margin one {unit} of budget is worth {rate:,.4g} s: as far as the budget has room, a choice that "
            f"uses more pays if it saves more than that for each {unit}, and one that uses less if it costs less."
        )
    return " ".join([*said, *_say_quotas(explanation), *_say_unproven(explanation)])


def _say_quotas(explanation: Explanation) -> list[str]:
    """Say what quotas are worth, which the exchange of objective for budget does not show."""
    worth = [
        f"one {limit.removeprefix(QUOTA)} {rate:,.4g} s"
        for limit, rate in explanation.multipliers.items()
        if limit.startswith(QUOTA) and rate > 0.0
    ]
    if not worth:
        return []
    said = f"GPUs whose quota is used up are worth more than their price: {join_words(worth)}. The exchange for budget "
    return [f"{said}leaves that out, the forced costs do not."]


def _say_unproven(explanation: Explanation) -> list[str]:
    """Say how many re-solves stopped before they had proven what they found."""
    forced = [one for choice in explanation.choices for one in choice.alternatives]
    lost = [one for one in forced if one.forced_objective is None and one.forced_bound is not None]
    unproven = len(lost) + sum(not _is_exact(one) for one in forced)
    if not unproven:
        return []
    said = f"Not proven: {unproven:,} of the {len(forced):,} forced costs. Where a re-solve stopped at its limit, or "
    said += "at the gap asked for, a range is given"
    return [f"{said}, or only from what on, as no plan was found by then." if lost else f"{said}."]


def list_explanations(explanation: Explanation, most: int | None = None) -> Table:
    """List every alternative of every choice, in order; of more than ``most`` rows the first ones."""
    unit = unit_words(explanation)
    held, instead = (Column(name, style="whole") for name in ("holds", "instead"))
    changes = (*numbers("alone: s", f"alone: {unit}"), numeric(f"s per {unit}", "name"), numeric("forced: s"))
    columns = (Column("class"), numeric("epochs"), held, instead, *changes)
    rows: list[Row] = []
    for choice in explanation.choices:
        subject = choice.subject if choice.share == 1.0 else f"{choice.subject} ({format_share(choice.share)})"
        epochs = str(choice.first) if choice.first == choice.last else f"{choice.first}-{choice.last}"
        head = (subject, epochs, choice.label)
        alternatives = [_write_alternative(explanation, one) for one in choice.alternatives]
        for number, cells in enumerate(alternatives or [("nothing else is allowed", *[NOTHING] * 4)]):
            rows.append(Row((*("", "", ""), *cells)) if number else Row((*head, *cells), "next" if rows else ""))
    more = 0 if most is None else len(rows) - most
    rest = f"{more} more rows are in the JSON of optplan explain." if more > 0 else ""
    return Table("Every choice and its neighbours", columns, rows[:most], 4, rest)


def _write_alternative(explanation: Explanation, alternative: Alternative) -> tuple[str, ...]:
    rate = alternative.exchange_rate
    both_worse = alternative.objective_change is not None and rate is None
    return (
        alternative.label,
        _write_change(alternative.objective_change),
        _write_change(alternative.budget_change),
        "no trade" if both_worse else NOTHING if rate is None else write_signed(rate).removeprefix("+"),
        write_forced(explanation, alternative),
    )


def _write_change(change: float | None) -> str:
    return NOTHING if change is None else write_signed(change)


def write_forced(explanation: Explanation, alternative: Alternative) -> str:
    """Write what it costs to force an alternative, in seconds; where that is not proven, from what to what."""
    cost, objective, bound = alternative.forced_cost, alternative.forced_objective, alternative.forced_bound
    if cost is None and bound is None:
        return "no plan fits"
    if cost is not None and _is_exact(alternative):
        return write_signed(cost)
    if bound is None or explanation.best_objective is None:
        return "not known"
    least = max(0.0, bound - explanation.best_objective)
    if objective is None or cost is None:
        return f"at least {write_signed(least)}" if least > 0.0 else "not known"
    low, high = write_signed(least), write_signed(cost)
    return high if low == high else f"{low} to {high}"


def _is_exact(alternative: Alternative) -> bool:
    """Whether a forced objective is close to its bound, if there are both."""
    objective, bound = alternative.forced_objective, alternative.forced_bound
    return objective is None or bound is None or closes_gap(objective, bound, _EXACT)


def write_signed(change: float) -> str:
    """Write a change with its sign: ``-0.427``, ``+22.2``, ``+1,713``."""
    return f"{change:+,.0f}" if abs(change) >= _MOST_WITH_DECIMALS else f"{change:+.3g}"


def tell_explanation(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> Section:
    """Tell why each class gets its GPUs."""
    require_own(explanation, result)
    blocks: list[Block] = [
        say_rates(instance, explanation),
        list_explanations(explanation, _MOST_ROWS),
        Reading(_READ_CHOICES),
    ]
    return Section("why", "Why each class gets these GPUs", blocks, link="Why these GPUs")
