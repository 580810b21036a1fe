"""When no fleet will do: why, and the nearest deadline, budget or global batch that some fleet can keep, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import Answer, Infeasibility, Relaxation, SolveRequest, Status, Termination
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Objective, SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.goals import Goal, LeastGoal
from optplan.formulations.srift.exact.incumbents import JudgedFleet
from optplan.formulations.srift.exact.reachability import find_neighbours, reaches_batch
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: The objective that a limit is on.
_OBJECTIVES = {DEADLINE: Objective.TIME, BUDGET: Objective.COST}


@dataclass(frozen=True)
class _Nearest:
    """The fleet with the least of what a limit is on, all other limits kept; None where no fleet keeps those."""

    limit: str
    fleet: JudgedFleet | None
    proven: bool

    @property
    def least(self) -> float:
        """How much of the limit the fleet takes."""
        if self.fleet is None:
            return math.inf
        return self.fleet.time_s if self.limit == DEADLINE else self.fleet.cost_usd


def explain_shortfall(
    instance: SriftInstance, request: SolveRequest, counters: dict[str, float] | None = None
) -> Answer[SriftSolution]:
    """Say why no fleet keeps the constraints, and what would do.

    Parameters
    ----------
    instance
        A problem without a fleet.
    request
        Time limit.
    counters
        Of the search that found none.

    Returns
    -------
    Answer
        With status INFEASIBLE. For each limit that can mend it alone, the least amount that does; the factor is the
        least by which all limits together would have to grow. What is not proven when time runs out is left out, with
        a warning.
    """
    if not reaches_batch(instance):
        return _answer(_explain_batch(instance), counters, ())
    if not instance.limits:
        reason = "no fleet ever ends: interruptions undo the work between two checkpoints again and again"
        return _answer(Infeasibility(reason=reason, relaxations=()), counters, ())
    found = [find_nearest(instance, limit, request.stopwatch) for limit in instance.limits]
    shared, proven = _find_factor(instance, request.stopwatch)
    warnings: tuple[str, ...] = ()
    if not (proven and all(one.proven for one in found)):
        warnings = ("time ran out before all that would help was known: give it more time",)
    return _answer(_explain_limits(instance, found, shared if proven else None), counters, warnings)


def find_nearest(instance: SriftInstance, limit: str, stopwatch: Stopwatch) -> _Nearest:
    """Find the fleet with the least of what one limit is on, all other limits kept.

    Parameters
    ----------
    instance
        The problem.
    limit
        ``deadline`` or ``budget``.
    stopwatch
        Time limit.
    """
    freed = {"deadline_s": None} if limit == DEADLINE else {"budget": None}
    question = instance.replace(objective=_OBJECTIVES[limit], **freed)
    goal = LeastGoal(question)
    end = FleetSpace(question).search(goal, stopwatch)
    return _Nearest(limit, goal.best, end.termination is Termination.COMPLETED)


def write_fleet(groups: tuple[VmGroup, ...]) -> str:
    """Write a fleet as the paper does: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return " + ".join(f"{group.count} {group.type}@{group.batch}" for group in groups)


class _FactorGoal(Goal):
    """The fleet that exceeds the limits by the least factor, the same for all."""

    def __init__(self, limits: dict[str, float]) -> None:
        self._most_s, self._most_usd = limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf)
        self.least = math.inf

    @property
    def found(self) -> bool:
        """Whether there is a fleet yet."""
        return math.isfinite(self.least)

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets could exceed the limits by less."""
        del vms
        return np.isfinite(cost_usd) & (self.rank(time_s, cost_usd) < self.least)

    def rank(self, time_s: FloatArray, cost_usd: FloatArray) -> FloatArray:
        """Return by which factor limits are exceeded."""
        excess = np.zeros(time_s.size)
        for used, most in ((time_s, self._most_s), (cost_usd, self._most_usd)):
            if math.isfinite(most):
                excess = np.maximum(excess, used / most)
        return excess

    def offer(self, fleet: JudgedFleet) -> None:
        """Note a lesser factor."""
        if math.isfinite(fleet.cost_usd):
            self.least = min(self.least, max(fleet.time_s / self._most_s, fleet.cost_usd / self._most_usd))

    def ends(self, rank: float) -> bool:
        """Whether the rank is no less."""
        return rank >= self.least


def _find_factor(instance: SriftInstance, stopwatch: Stopwatch) -> tuple[float, bool]:
    """Return by which factor all limits would have to grow together, and whether that is proven."""
    goal = _FactorGoal(instance.limits)
    end = FleetSpace(instance.replace(deadline_s=None, budget=None)).search(goal, stopwatch)
    return goal.least, goal.found and end.termination is Termination.COMPLETED


def _explain_limits(instance: SriftInstance, found: list[_Nearest], factor: float | None) -> Infeasibility:
    sentences, relaxations = [], []
    for one in found:
        others = [limit for limit in instance.limits if limit != one.limit]
        if one.fleet is None:
            if one.proven:
                sentences.append(f"no {one.limit} alone would do: no fleet keeps the {' and the '.join(others)}")
            continue
        if not one.proven:
            continue
        given, unit = instance.limit_as_given(one.limit)
        within = "".join(
            f" within {_write(instance.limits[other])} {instance.limit_as_given(other)[1]}" for other in others
        )
        which, verb = ("fastest", "takes") if one.limit == DEADLINE else ("cheapest", "costs")
        sentences.append(
            f"the {which} fleet{within}, {write_fleet(one.fleet.groups)}, {verb} {_write(one.least, given)} {unit}; "
            f"the {one.limit} is {_write(given, one.least)} {unit}"
        )
        relaxations.append(Relaxation(limit=one.limit, given=given, least_feasible=one.least, unit=unit))
    if not relaxations and factor is not None:
        limits = " and ".join(
            f"{_write(amount)} {instance.limit_as_given(limit)[1]}" for limit, amount in instance.limits.items()
        )
        sentences.append(f"{limits} would both have to grow by a factor of {factor:.4g}")
    return Infeasibility(
        reason="; ".join(sentences) or "no fleet keeps the limits",
        relaxations=tuple(relaxations),
        factor=1.0 if factor is None else max(1.0, factor),
    )


def _explain_batch(instance: SriftInstance) -> Infeasibility:
    """Say what is nearest to a global batch that no fleet has, and which VMs are missing."""
    near = find_neighbours(instance)
    sides = [str(side) for side in (near.below, near.above) if side is not None]
    reason = f"no fleet has a global batch of exactly {instance.global_batch}"
    if near.above is None and near.below is not None:
        reason += f": all that is available has {near.below} at most"
    elif sides:
        reason += f": the nearest {'is' if len(sides) == 1 else 'are'} {' and '.join(sides)}"
    if near.more and near.above is None:
        more = " or ".join(f"{count} more {name}" for name, count in near.more.items())
        reason += f"; {more} would do"
    return Infeasibility(reason=reason, relaxations=())


def _answer(
    infeasibility: Infeasibility, counters: dict[str, float] | None, warnings: tuple[str, ...]
) -> Answer[SriftSolution]:
    return Answer(
        status=Status.INFEASIBLE,
        termination=Termination.COMPLETED,
        infeasibility=infeasibility,
        counters=counters or {},
        warnings=warnings,
    )


def _write(number: float, other: float = math.inf) -> str:
    """Write a number with the digits that tell it from another, four at least."""
    digits = 4
    if math.isfinite(other) and number != other:
        digits = max(4, 2 - math.floor(math.log10(max(1e-9, abs(number - other) / max(number, other)))))
    return f"{float(f'{number:.{digits}g}'):,.{max(digits, 12)}g}"
