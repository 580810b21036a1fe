"""The best choices within one budget, with their proof.

N choices are made independently, each may mix its options, and one budget links them: minimise the
total value subject to total consumption <= budget. Every choice moves along its lower-left hull;
all hull segments steeper than a multiplier are taken, those flatter are not, and the multiplier is
where the budget is spent. At most one choice ends between two options.

One budget needs no sort. A sample of the rows brackets the multiplier; rows whose best option is
the same at both ends of the bracket are settled, the segments of the others are halved by their
median slope until the one that spends the budget is found (a weighted quickselect). A bracket that
misses is replaced, so the answer never depends on the sample.

Where smooth choices take part, the same search runs on the table's slopes, and a root between two
of them on the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optplan.errors import UsageError
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.slopes.blocks import SplitUnit, Table, TableChoice
from optplan.solvers.slopes.crossing import Crossing, find_crossing, guess_bracket, stop_at_end
from optplan.solvers.slopes.segments import (
    EVERYTHING,
    Block,
    Bracket,
    Parts,
    Segments,
    collect_segments,
)
from optplan.solvers.slopes.smooth import SNAP_TOLERANCE, SmoothBlock, SmoothChoice

Choice = TableChoice | SmoothChoice

#: A budget below the least consumption by less than this share of it counts as the least
#: consumption.
FEASIBILITY_TOLERANCE = LIMIT_TOLERANCE


@dataclass(frozen=True)
class OutOfReach:
    """The answer when nothing fits: what was asked, and the least that is possible.

    Parameters
    ----------
    asked
        The budget (or the value) asked for.
    least
        The least consumption (or the least value) of any choice.
    """

    asked: float
    least: float


@dataclass(frozen=True, eq=False)
class SlopesSolution:
    """The best choices within a budget, and their proof.

    Parameters
    ----------
    value, consumption
        Totals, recomputed from the choices.
    bound
        ``dual_bound`` at ``multiplier_right``: no choices within the budget have less value.
    multiplier_left, multiplier_right
        Value lost per unit of budget taken away (``inf`` at the least consumption), and value saved
        per unit added.
    choices
        One per block, in the order of the blocks.
    """

    value: float
    consumption: float
    bound: float
    multiplier_left: float
    multiplier_right: float
    choices: tuple[Choice, ...]


def solve_budget(
    blocks: Sequence[Block], budget: float, *, bracket: Bracket | None = None
) -> SlopesSolution | OutOfReach:
    """Minimise total value subject to total consumption <= budget.

    Parameters
    ----------
    budget
        Finite, at least 0.
    bracket
        Multipliers between which the answer is expected; a wrong guess costs time, never exactness.
        None guesses from a sample of the rows.

    Returns
    -------
    SlopesSolution or OutOfReach
        The latter, carrying the least consumption, when that exceeds the budget.

    Raises
    ------
    UsageError
        When the budget is not a finite number of at least 0, the bracket is not in order, or there
        is no row.
    DataError
        When an entry is negative or NaN, or a row has no allowed option.
    """
    require_number("budget", budget)
    parts = Parts(blocks)
    if bracket is None:
        bracket = guess_bracket(parts, budget)
    elif not 0.0 <= bracket.low <= bracket.high:
        raise UsageError(f"bracket: got {bracket.low:g} to {bracket.high:g}; 0 <= low <= high is needed")
    while True:
        segments = collect_segments(parts, bracket)
        least = segments.base_consumption + parts.smooth.consumption(bracket.high)
        most = segments.base_consumption + segments.total_consumption
        most += parts.smooth.consumption(bracket.low)
        if bracket.shows(budget, least, most):
            if budget < least * (1.0 - FEASIBILITY_TOLERANCE):
                return OutOfReach(budget, least)
            if math.isinf(bracket.high) and budget <= least * (1.0 + SNAP_TOLERANCE):
                crossing = stop_at_end(segments, parts.smooth, bracket, math.inf)
            elif bracket.low == 0.0 and budget >= most * (1.0 - SNAP_TOLERANCE):
                crossing = stop_at_end(segments, parts.smooth, bracket, 0.0)
            else:
                crossing = find_crossing(segments, parts.smooth, bracket, budget)
            if crossing.multiplier_left is not None and crossing.multiplier_right is not None:
                break
        bracket = EVERYTHING
    choices = _spread_choices(parts, segments, crossing)
    consumption, value = evaluate_choices(blocks, choices)
    to_spare = budget > most * (1.0 + SNAP_TOLERANCE)
    return SlopesSolution(
        value=value,
        consumption=consumption,
        bound=dual_bound(blocks, crossing.multiplier_right, max(budget, least)),
        multiplier_left=0.0 if to_spare else crossing.multiplier_left,
        multiplier_right=crossing.multiplier_right,
        choices=choices,
    )


def dual_bound(blocks: Sequence[Block], multiplier: float, budget: float) -> float:
    """Return a lower bound on the total value of any choices within a budget.

    ``L(mu) = sum over choices of min(value + mu * consumption) - mu * budget`` is one for every mu
    >= 0; checking it takes one pass over the options and trusts no solver.

    Parameters
    ----------
    multiplier
        mu, finite, at least 0.
    budget
        Finite, at least 0.

    Raises
    ------
    UsageError
        When a number is not finite or negative.
    """
    require_number("multiplier", multiplier)
    require_number("budget", budget)
    least = math.fsum(block.least_reduced(multiplier) for block in blocks)
    return float(least - multiplier * budget)


def evaluate_choices(blocks: Sequence[Block], choices: Sequence[Choice]) -> tuple[float, float]:
    """Return the total consumption and the total value of given choices.

    Parameters
    ----------
    choices
        One per block, of its kind.

    Raises
    ------
    UsageError
        When a choice is not of its block's kind, or their numbers differ.
    """
    if len(blocks) != len(choices):
        raise UsageError(f"got {len(choices)} choices for {len(blocks)} blocks; one per block is needed")
    totals = [_total(block, choice) for block, choice in zip(blocks, choices, strict=True)]
    return math.fsum(pair[0] for pair in totals), math.fsum(pair[1] for pair in totals)


def require_number(name: str, number: float) -> None:
    """Raise unless a number is finite and at least 0.

    Parameters
    ----------
    name
        What the message calls it.
    number
        To be checked.

    Raises
    ------
    UsageError
        When it is not.
    """
    if not (number >= 0.0 and math.isfinite(number)):
        raise UsageError(f"{name}: got {number:g}; a finite number of at least 0 is needed")


def _total(block: Block, choice: Choice) -> tuple[float, float]:
    if isinstance(block, SmoothBlock) and isinstance(choice, SmoothChoice):
        return block.totals(choice)
    if isinstance(block, Table) and isinstance(choice, TableChoice):
        return block.totals(choice)
    raise UsageError(f"a {type(choice).__name__} was given for a {type(block).__name__}")


def _spread_choices(parts: Parts, segments: Segments, crossing: Crossing) -> tuple[Choice, ...]:
    """Turn the segments taken into choices, one per block."""
    # Of a unit's segments the last one wins, and they stand in order.
    column = segments.base_column
    column[segments.unit[crossing.taken]] = segments.column[crossing.taken]
    mixed_unit, mixed_column = -1, -1
    if crossing.partial is not None:
        mixed_unit = int(segments.unit[crossing.partial])
        mixed_column = int(segments.column[crossing.partial])
    choices: list[Choice] = []
    first = 0
    for block in parts.blocks:
        if isinstance(block, SmoothBlock):
            choices.append(SmoothChoice(block.widths(crossing.multiplier)))
            continue
        mixture = None
        if first <= mixed_unit < first + block.units:
            mixture = SplitUnit(mixed_unit - first, mixed_column, crossing.fraction)
        choices.append(block.spread(column[first : first + block.units], mixture))
        first += block.units
    return tuple(choices)
