"""Which deadlines no plan keeps with the wanted probability: labels in which cost is nothing.

Times are rounded down to a grid, so that what is too late there is too late.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from optplan.contracts.result import (
    Answer,
    Infeasibility,
    Relaxation,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.formulations.rubberband.data.instance import DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.data.rules import LABELS
from optplan.formulations.rubberband.exact.chains import Chain
from optplan.formulations.rubberband.exact.chance.grid_times import GridTimes
from optplan.formulations.rubberband.exact.chance.time_labels import bound_chance, find_timed_plans
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.held import HeldGraph

#: Points of the grid on which deadlines are decided, and labels that may be kept.
POINTS = 512
_MOST_LABELS = 20_000
#: By what a limit grows until it is not too low, and how near, relatively, the ends of a search for it come.
_GROWTH, _NEAR = 1.5, 1e-3
#: Of deadlines: how often they grow, and how near the ends come while none later than the one given is too early.
_MOST_GROWTHS, _NEAREST = 60, 1e-8


def is_too_early(
    instance: RubberBandInstance,
    chains: tuple[Chain, ...],
    deadline_s: float,
    wanted: float,
    effort: Effort,
    points: int = POINTS,
) -> bool:
    """Say whether it is certain that no plan completes by a deadline with the wanted probability.

    Parameters
    ----------
    instance
        The problem; its own deadline is not looked at.
    chains
        Its brackets, with all options.

    Raises
    ------
    OutOfEffortError
        When a limit is met.
    """
    free = [replace(chain, graph=_without_values(chain.graph), charges=None) for chain in chains]
    times = [GridTimes(instance, number, chain, deadline_s, points, effort) for number, chain in enumerate(free)]
    if math.prod(bound_chance(one) for one in times) < wanted:
        return True
    best = [find_timed_plans(one, math.inf, wanted, effort).chance.max(initial=0.0) for one in times]
    return bool(math.prod(best) < wanted)


def refuse(
    instance: RubberBandInstance, chains: tuple[Chain, ...], wanted: float, points: int, request: SolveRequest
) -> Answer[RubberBandSolution]:
    """Say that no plan is on time often enough, and before which deadline none is.

    Parameters
    ----------
    instance
        The problem, of which that is proven.
    chains
        Its brackets, with all options.
    wanted
        The probability at which plans count.
    points
        Of the grid that proves it.
    request
        Time limit, and whether certificates are wanted.
    """
    given_s, points = instance.limits[DEADLINE], max(points, POINTS)

    def decide(deadline_s: float) -> bool:
        effort = Effort(request.stopwatch, max_labels=_MOST_LABELS)
        return is_too_early(instance, chains, deadline_s, wanted, effort, points)

    least_s = find_too_low(given_s, decide, most_growths=_MOST_GROWTHS, nearest=_NEAREST)
    wished = instance.confidence or 0.0
    relaxations: tuple[Relaxation, ...] = ()
    reason = f"no plan completes within {given_s:,.6g} s with a probability of {wished:g}"
    if least_s > given_s:
        reason = (
            f"no plan completes within {least_s:,.6g} s with a probability of {wished:g}; "
            f"the deadline is {given_s:,.6g} s"
        )
        certificate = TreeCertificate(rule=LABELS, bound=least_s, limit=DEADLINE, content={"points": points})
        relaxations = (instance.relax(DEADLINE, least_s, certificate=certificate if request.certify else None),)
    certificate = TreeCertificate(rule=LABELS, content={"points": points})
    return Answer(
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        infeasibility=Infeasibility(
            reason=reason, relaxations=relaxations, certificate=certificate if request.certify else None
        ),
    )


def find_too_low(
    given: float, decide: Callable[[float], bool], *, most_growths: int, nearest: float, endless: bool = False
) -> float:
    """Return an amount of a limit that is too low, near one that may not be: by growing, then by halving.

    Parameters
    ----------
    given
        An amount that is too low.
    decide
        Says whether an amount is certainly too low. Where that takes too much work, it is taken not to be; at the end
        of the time, what is known by then is returned.
    most_growths
        How often the amount grows.
    nearest
        How near, relatively, the ends of the search come while nothing beyond ``given`` is known to be too low.
    endless
        Whether infinity is tried first; it is returned where that is too low.
    """
    low = high = given

    def is_too_low(amount: float) -> bool:
        try:
            return decide(amount)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
            return False

    try:
        if endless and is_too_low(math.inf):
            return math.inf
        for _ in range(most_growths):
            high *= _GROWTH
            if not is_too_low(high):
                break
            low = high
        while high - low > (_NEAR if low > given else nearest) * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if is_too_low(middle) else (low, middle)
    except OutOfEffortError:
        return low
    return low


def _without_values(graph: HeldGraph) -> HeldGraph:
    """Return the graph in which nothing costs anything but time."""
    nothing = np.zeros(graph.num_nodes)
    growth = replace(
        graph.growth,
        leave_value=nothing,
        enter_value=nothing,
        value_factor=None if graph.growth.value_factor is None else nothing,
    )
    return replace(graph, start_value=nothing, value=np.zeros(graph.value.size), growth=growth)
