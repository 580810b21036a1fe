"""Closing a gap above a Lagrangian bound: what the searches for pure plans have in common.

Any plan's value is the bound + the excesses of its paths over the least reduced costs + multipliers . (unused limits).
So the plans of at most a given value above the bound consist of paths with small excess; they are few, and are
enumerated. The allowance starts small and grows until the best plan found lies within it, which proves it, or until the
wanted gap is reached. How paths are enumerated, and what else is tried, differs by the kind of graph and by the number
of limits.

Handler and Zang, "A dual algorithm for the constrained shortest path problem", Networks 10, 1980, close the gap by the
next shortest paths; Carlyle, Royset and Wood (Networks 52, 2008) enumerate within an allowance, as here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray


@dataclass(frozen=True, eq=False)
class Exhaustion:
    """Proof by enumeration.

    Parameters
    ----------
    multipliers
        (L,) Multipliers of the reduced costs.
    allowance
        All plans with excesses + multipliers . (unused limits) up to this were covered, in units of value.
    optimum
        The least value among them; None when none of them keeps the limits.
    """

    multipliers: FloatArray
    allowance: float
    optimum: float | None


def relative_gap(value: float, bound: float) -> float:
    """Return (value - bound) / value; values are never negative, so a value of zero is optimal."""
    return max(0.0, value - bound) / value if value > 0 else 0.0


class GapClosing(ABC):
    """The state of closing one gap: what was covered, and the loop of growing allowances.

    Parameters
    ----------
    least, multipliers
        The Lagrangian bound, and the multipliers (L,) that attain it.
    rounding
        Values closer than this are the same.
    gap
        Relative gap at which to stop.
    effort
        Limits, and who listens.
    """

    def __init__(self, least: float, multipliers: FloatArray, rounding: float, gap: float, effort: Effort) -> None:
        self.least = least
        self.multipliers = multipliers
        self.gap = gap
        self.effort = effort
        self.exhaustion: Exhaustion | None = None
        self._rounding = rounding

    @property
    @abstractmethod
    def value(self) -> float:
        """The incumbent's value; +inf without one."""

    @abstractmethod
    def enumerate_within(self, allowance: float) -> bool:
        """Look at the plans within an allowance; return whether it is worth going on with greater ones."""

    @property
    def rounding(self) -> float:
        """Values closer than this are the same."""
        return self._rounding

    @property
    def beyond(self) -> float:
        """What is proven by other means than enumeration; -inf where nothing is."""
        return -math.inf

    @property
    def bound(self) -> float:
        """The best bound so far, at most the incumbent's value."""
        bound = self.least
        if self.exhaustion is not None:
            bound = self.value if self.exhaustion.optimum is not None else bound + self.exhaustion.allowance
        bound = max(bound, self.beyond)
        # The tolerance on the limits may put a plan a hair below the bound, and rounding one a hair above.
        return self.value if self.value <= bound + self.rounding else bound

    @property
    def closed(self) -> bool:
        """Whether the wanted gap is reached."""
        return self.value < math.inf and relative_gap(self.value, self.bound) <= self.gap

    def grow(self, allowance: float, growth: float, *, most_unfounded: float = math.inf) -> None:
        """Enumerate within growing allowances until the gap is closed, or that is no longer worth while.

        Parameters
        ----------
        allowance
            The first, in units of value.
        growth
            By how much each next one is greater.
        most_unfounded
            Largest allowance without an incumbent.
        """
        while not self.closed and (self.value < math.inf or allowance < most_unfounded):
            allowance = min(max(allowance, self.rounding), self.value - self.least + self.rounding)
            if not self.enumerate_within(allowance):
                return
            self.report("labels")
            allowance *= growth

    def note_covered(self, allowance: float) -> None:
        """Take down that all plans within an allowance were looked at."""
        excess = self.value - self.least
        if excess <= allowance + self.rounding:
            self.exhaustion = Exhaustion(self.multipliers, max(0.0, excess) + self.rounding, self.value)
        else:
            self.exhaustion = Exhaustion(self.multipliers, allowance, None)

    def report(self, stage: str) -> None:
        """Tell the listener where the search is."""
        objective = self.value if self.value < math.inf else None
        self.effort.stopwatch.emit(stage, objective=objective, bound=self.bound)
