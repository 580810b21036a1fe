"""What limits buy: the whole trade-off between a limit and the objective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optplan.contracts import Instance, SolveRequest
from optplan.errors import UsageError, show_value
from optplan.formulations import formulation_of
from optplan.progress import Listener, Stopwatch
from optplan.solving.asking import AUTO, blaming_nobody, require_settings, require_time_limit

if TYPE_CHECKING:
    from optplan.contracts import Frontier, ParetoFrontier


def frontier(instance: Instance, *, time_limit_s: float | None = None) -> Frontier:
    """Compute the whole trade-off between the limit and the objective; later queries are look-ups.

    Parameters
    ----------
    instance
        The problem; its own limit is ignored.
    time_limit_s
        Seconds after which points that take long to find (BOA's with quotas) are left out, ``exact_between`` is false,
        and queries between the others are solved.

    Returns
    -------
    Frontier
        Of the convexified problem (mixed plans); every breakpoint is a pure plan.

    Raises
    ------
    UsageError
        When the time limit is no number above zero.
    """
    require_time_limit(time_limit_s)
    formulation = formulation_of(instance)
    with blaming_nobody(f"the frontier of {formulation.name}"):
        make = formulation.build_frontier
        return replace(make(instance, Stopwatch(time_limit_s)), origin=(make, instance))


def pareto(
    instance: Instance,
    *,
    limit: str = "",
    time_limit_s: float | None = None,
    seed: int = 0,
    on_event: Listener | None = None,
) -> ParetoFrontier:
    """Find every plan that no other beats in both the limit and the objective, where plans cannot be mixed.

    Parameters
    ----------
    instance
        The problem; its own limit is ignored.
    limit
        Which of its limits varies, the others kept; empty for the usual one.
    time_limit_s
        Seconds after which what is known by then is returned, with ``exact`` false.
    seed
        For everything random.
    on_event
        Called with progress events.

    Raises
    ------
    UsageError
        When an argument is out of its range, or the instance has no such limit.
    UnsupportedError
        When the formulation has no such frontier.
    """
    require_settings(AUTO, 0.0, time_limit_s, seed, on_event)
    if limit and limit not in instance.limits:
        message = f"limit: got {show_value(limit)}; {instance.name!r} has {' and '.join(instance.limits)}"
        raise UsageError(message)
    request = SolveRequest(seed=seed, stopwatch=Stopwatch(time_limit_s, on_event), limit=limit)
    formulation = formulation_of(instance)
    with blaming_nobody(f"the frontier of {formulation.name}"):
        return formulation.build_pareto(instance, request)
