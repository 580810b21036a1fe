"""What is said of the widths that a plan may not have."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts import Result, Solution
from optplan.reporting.phrases import ROUNDING, count_gpus, format_share, format_small_duration, relative_difference
from optplan.units import format_duration


def say_steps(result: Result[Solution], free: Result[Solution]) -> str:
    """Say what the steps between widths cost against all widths between them."""
    if free.objective is None or result.objective is None:
        return "What all widths would save is not known."
    saved = relative_difference(result.objective, free.objective) or 0.0
    if saved <= ROUNDING:
        return "With all widths between these, jobs would finish no earlier."
    sooner = f"in {format_duration(free.objective)} on average: these steps cost {format_share(saved)}"
    return f"With all widths between these, jobs would finish {sooner}."


def say_wider(result: Result[Solution], wider: Mapping[tuple[str, int], Result[Solution]]) -> str:
    """Say that more budget buys nothing, and which wider width would gain most.

    ``wider`` has by class and width the best plan with that width allowed, too.
    """
    nothing = "More budget buys nothing: every class has the widths that are best for it."
    gains = {
        choice: (result.objective or 0.0) - found.objective
        for choice, found in wider.items()
        if found.objective is not None
    }
    known = [name for name, _ in wider]
    if not known:
        return f"{nothing} Wider ones have no speedup in the data: measure them."
    (name, width), gain = max(gains.items(), key=lambda item: item[1], default=((known[0], 0), 0.0))
    if gain <= ROUNDING * (result.objective or 0.0):
        return f"{nothing} The next wider ones would gain nothing."
    sooner = f"jobs would finish {format_small_duration(gain)} earlier on average"
    return f"{nothing} The next width to allow is {count_gpus(width)} for {name}: {sooner}."
