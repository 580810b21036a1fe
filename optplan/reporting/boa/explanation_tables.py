"""What an explanation says, as sentences and a table."""

from __future__ import annotations

from optplan.contracts import Alternative, Direction, ExplainedChoice, Explanation, Instance, Result, Solution
from optplan.contracts.result import closes_gap
from optplan.formulations.boa.data.instance import BUDGET, QUOTA, BoaInstance, BoaSolution
from optplan.formulations.boa.judge.following import types_along
from optplan.reporting.boa.breakdown import has_types, require_boa, require_own
from optplan.reporting.boa.phrases import name_objective
from optplan.reporting.pages import Block, Reading, Section
from optplan.reporting.phrases import NOTHING, count_gpus, format_share, join_words
from optplan.reporting.tables import Cell, Column, Content, Row, Table
from optplan.units import BudgetUnit

#: Objectives this close, relatively, to their bounds are written as exact.
_EXACT = 1e-5
#: From here on changes are written without decimals.
_MOST_WITH_DECIMALS = 999.5


#: Rows that a table of a page shows before it says how many more there are.
_MOST_ROWS = 300
_READ_PLACES = (
    "Shaded: the GPUs that the plan gives a job of the class in these epochs. Elsewhere: what it costs to force the "
    "class to that type there, at its best width, within the same limits and with everything else decided anew."
)
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
    columns = (
        Column("class"),
        Column("epochs", is_number=True),
        Column("holds", style="whole"),
        Column("instead", style="whole"),
        Column("alone: s", is_number=True),
        Column(f"alone: {unit}", is_number=True),
        Column(f"s per {unit}", is_number=True, style="name"),
        Column("forced: s", is_number=True),
    )
    rows: list[Row] = []
    for choice in explanation.choices:
        head = (name_subject(choice), name_epochs(choice), choice.label)
        alternatives = [_write_alternative(explanation, one) for one in choice.alternatives]
        for number, cells in enumerate(alternatives or [("nothing else is allowed", *[NOTHING] * 4)]):
            rows.append(Row((*("", "", ""), *cells)) if number else Row((*head, *cells), "next" if rows else ""))
    more = 0 if most is None else len(rows) - most
    rest = f"{more} more rows are in the JSON of optplan explain." if more > 0 else ""
    return Table("Every choice and its neighbours", columns, rows[:most], 4, rest)


def name_subject(choice: ExplainedChoice) -> str:
    """Name whose choice it is, with the share of its jobs where they differ."""
    return choice.subject if choice.share == 1.0 else f"{choice.subject} ({format_share(choice.share)})"


def name_epochs(choice: ExplainedChoice) -> str:
    """Name the epochs of a choice: ``3`` or ``1-24``."""
    return str(choice.first) if choice.first == choice.last else f"{choice.first}-{choice.last}"


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
    """Tell why each class gets its GPUs, and where it runs."""
    require_own(explanation, result)
    places = list_places(instance, result, explanation)
    heading = "Why each class gets these GPUs" if places is None else "Which class runs where, and why"
    blocks: list[Block] = [] if places is None else [places, Reading(_READ_PLACES)]
    blocks += [say_rates(instance, explanation), list_explanations(explanation, _MOST_ROWS), Reading(_READ_CHOICES)]
    return Section("why", heading, blocks, link="Why these GPUs")


def list_places(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> Table | None:
    """List by choice its GPU type, and what each other one costs when forced; None where there is one type."""
    if not has_types(instance) or not isinstance(result.solution, BoaSolution):
        return None
    rows: list[list[Content]] = []
    before = None
    for choice in explanation.choices:
        branch = result.solution.branches[choice.subject][choice.branch - 1]
        own = str(types_along(instance, branch)[choice.first - 1])
        held = Cell(count_gpus(float(branch.widths[choice.first - 1])), "own")
        cells = _write_others(instance, explanation, choice, own) | {own: held}
        subject = "" if before == (choice.subject, choice.branch) else name_subject(choice)
        places = (cells.get(name, Cell("cannot run", "never")) for name in instance.gpu_types)
        rows.append([subject, name_epochs(choice), *places])
        before = (choice.subject, choice.branch)
    columns = (Column(name, is_number=True, style="name") for name in instance.gpu_types)
    caption = "Where each class runs, and by how much the mean completion time of all jobs would grow elsewhere"
    more = len(rows) - _MOST_ROWS
    rest = f"{more} more rows are in the JSON of optplan explain." if more > 0 else ""
    return Table(caption, (Column("class"), Column("epochs", is_number=True), *columns), rows[:_MOST_ROWS], 2, rest)


def _write_others(
    instance: BoaInstance, explanation: Explanation, choice: ExplainedChoice, own: str
) -> dict[str, Cell]:
    """Write what it costs to force a choice to each other type; they come in the order of the class's types."""
    others = [name for name in instance.options(choice.subject).gpu_types if name != own]
    forced = [one for one in choice.alternatives if one.direction is Direction.OTHER_TYPE]
    costs = [write_forced(explanation, one) for one in forced]
    return {
        name: Cell(f"{cost} s" if cost[-1].isdigit() else cost, "other")
        for name, cost in zip(others, costs, strict=True)
    }
