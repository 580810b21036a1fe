"""How trials are ranked, wherever that is decided: while a plan is followed, and between jobs of a scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from optplan.contracts.conditions import Mode


def read_metric(value: object) -> float:
    """Return what a trial showed as a number; NaN where it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        number = float(value)
    except OverflowError:  # whole numbers of JSON have no end
        return math.nan
    return number if math.isfinite(number) else math.nan


def rank(
    trials: Iterable[str], value_of: Callable[[str], float], mode: Mode, dropped: Callable[[str], bool]
) -> list[str]:
    """Return trials, the best first; equal ones stay in order.

    Those without a number (NaN) are behind the others, those that were dropped behind all.
    """

    def merit(trial: str) -> tuple[bool, float]:
        value = value_of(trial)
        return dropped(trial), math.inf if math.isnan(value) else value if mode is Mode.MIN else -value

    return sorted(trials, key=merit)
