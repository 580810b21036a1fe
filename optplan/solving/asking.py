"""What may be asked: settings in range, results that belong to their instance, and whose bug wrong records are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TypeGuard

from optplan.contracts import Instance, Result, Solution, Verification
from optplan.contracts.result import require_gap
from optplan.errors import DataError, InternalError, UsageError, show_value
from optplan.formulations import formulation_of
from optplan.verification import require_own

#: Lets the first solver that takes the instance solve it.
AUTO = "auto"


@contextmanager
def blaming_nobody(who: str) -> Iterator[None]:
    """Call a record that is not valid a bug of whoever made it, an InternalError: the instance had been validated."""
    try:
        yield
    except DataError as error:
        where = f"{error.path}: " if error.path else ""
        message = f"{who} made a record that is not valid ({where}{error.problem}); please report this bug"
        raise InternalError(message) from error


def require_sound(instance: Instance, result: Result[Solution]) -> Solution:
    """Return a result's solution, which belongs to the instance and keeps its rules and limits."""
    require_own(instance, result)
    if result.solution is None:
        message = f"the result has no solution (status {result.status}); there is nothing to look into"
        raise UsageError(message)
    checks = formulation_of(instance).evaluate(instance, result.solution).checks
    for check in Verification(checks=checks).failures:
        where = f"{check.family} {check.index}".strip()
        message = f"the result's plan does not hold: {where}: {check.message}; `optplan verify` shows all that is wrong"
        raise UsageError(message)
    return result.solution


def require_settings(solver: object, gap: object, time_limit_s: object, seed: object, on_event: object) -> None:
    """Refuse settings of another type or out of their range, before anything starts."""
    if not (isinstance(solver, str) or callable(solver)):
        message = f"solver: got {show_value(solver)}; the name of a solver is needed, {AUTO!r}, or a function"
        raise UsageError(message)
    require_gap(gap)
    require_time_limit(time_limit_s)
    require_whole("seed", seed, 0)
    require_listener(on_event)


def require_time_limit(time_limit_s: object) -> None:
    """Refuse what is no time above zero, in seconds; None is no limit."""
    if not (time_limit_s is None or (_is_number(time_limit_s) and time_limit_s > 0)):
        message = f"time_limit_s: got {show_value(time_limit_s)}; seconds above zero are needed"
        raise UsageError(message)


def require_whole(name: str, number: object, least: int) -> None:
    """Refuse what is no whole number, or below the least that is allowed."""
    if isinstance(number, bool) or not (isinstance(number, Integral) and int(number) >= least):
        message = f"{name}: got {show_value(number)}; a whole number of at least {least} is needed"
        raise UsageError(message)


def require_listener(on_event: object) -> None:
    """Refuse what cannot be called with events; None is nobody who listens."""
    if not (on_event is None or callable(on_event)):
        message = f"on_event: got {show_value(on_event)}; a function that takes an Event is needed"
        raise UsageError(message)


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number, of Python or NumPy; truth values are none."""
    return isinstance(value, Real) and not isinstance(value, bool)
