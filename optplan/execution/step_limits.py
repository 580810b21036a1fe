"""Iterations that hang: after what time one is taken to, and how that is said beforehand."""

from __future__ import annotations

from collections.abc import Iterable

from optplan.units import format_duration

#: How many times what is planned an iteration may take, and how many seconds it may take at least.
_TIMES, _LEAST_STEP_S = 20, 300.0


def limit_step(planned_s: float | None, asked_s: float | None) -> float | None:
    """Return the seconds after which an iteration hangs that is planned to take so long; None where nobody knows.

    What is asked for counts, or else many times what is planned.
    """
    if asked_s is not None or planned_s is None:
        return asked_s
    return max(_LEAST_STEP_S, _TIMES * planned_s)


def tell_step_limit(planned_s: Iterable[float | None], asked_s: float | None) -> str:
    """Say beforehand after what time trials are taken to hang, whose iterations are planned to take so long."""
    limits = [limit_step(each, asked_s) for each in planned_s]
    known = [each for each in limits if each is not None]
    if not known:
        return "nobody knows how long iterations take: trials that hang are not noticed; --step-timeout limits them"
    span = " to ".join(dict.fromkeys(format_duration(each) for each in (min(known), max(known))))
    rule = f"{_TIMES} times what is planned, at least {format_duration(_LEAST_STEP_S)}; " if asked_s is None else ""
    rest = "" if len(known) == len(limits) else ", where that is planned"
    return f"a trial fails when an iteration takes longer than {span}{rest} ({rule}--step-timeout)"
