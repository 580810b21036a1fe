"""How problems of time and money are put into words: their limits, objectives and the least amounts that are enough."""

from __future__ import annotations

import math

from optplan.contracts import Instance
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.reporting.phrases import ROUNDING
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_duration

#: Up to so many seconds a figure keeps three digits; longer ones are written in minutes, hours and days.
_SHORT_S = 10.0


def format_cost(usd: float) -> str:
    """Write dollars as a price tag: ``$15.68``, ``$0.380``, ``$1,204``, ``$0.00321``, ``$0``."""
    if usd == 0:
        return "$0"
    if usd < 0.01:
        return f"${usd:.3g}"
    return f"${usd:,.{0 if usd >= 1000 else 2 if usd >= 1 else 3}f}"


def format_amount(limit: str, amount: float) -> str:
    """Write an amount of one of the limits with its unit."""
    if limit == DEADLINE:
        return format_duration(amount)
    return format_cost(amount) if limit == BUDGET else f"{amount:,g}"


def format_least(limit: str, amount: float) -> str:
    """Write the least amount of a limit that is enough, rounded up, so that it is still enough when typed in."""
    if limit == DEADLINE:
        steps = ((_SHORT_S, 0.01), (SECONDS_PER_HOUR, 1.0), (HOURS_PER_DAY * SECONDS_PER_HOUR, SECONDS_PER_MINUTE))
        step = next((step for below, step in steps if amount < below), SECONDS_PER_HOUR)
    elif limit == BUDGET:
        step = 1.0 if amount >= 1000 else 0.01 if amount >= 1 else 0.001 if amount >= 0.01 else 0.0
    else:
        step = 1.0
    if step == 0.0:
        step = 10.0 ** (math.floor(math.log10(amount)) - 2)
    return format_amount(limit, step * math.ceil(amount / step * (1 - ROUNDING)))


def frontier_limit(instance: Instance) -> str:
    """Return which limit the frontier runs along: that on what is not made least."""
    return DEADLINE if instance.objective_unit == "usd" else BUDGET


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of a limit with its unit; without a name, of the frontier's."""
    return format_amount(limit or frontier_limit(instance), amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit: dollars or seconds."""
    return format_cost(objective) if instance.objective_unit == "usd" else format_duration(objective)


def say_limits(instance: Instance, said: str) -> str:
    """End a sentence with the limits, where there are any."""
    limits = ", ".join(f"the {limit} is {format_amount(limit, amount)}" for limit, amount in instance.limits.items())
    return f"{said}; {limits}." if limits else f"{said}."
