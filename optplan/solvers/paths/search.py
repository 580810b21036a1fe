"""What searches for pure plans have in common: what they may spend, how they close a gap, and what they hand back.

Any plan's value is the bound + the excesses of its paths over the least reduced costs + multipliers . (unused limits).
So the plans of at most a given value above the bound consist of paths with small excess; they are few, and are
enumerated. The allowance starts small and grows until the best plan found lies within it, which proves it, or until the
wanted gap is reached. How paths are enumerated, and what else is tried, differs by the kind of graph and by the number
of limits.

Handler and Zang, "A dual algorithm for the constrained shortest path problem", Networks 10, 1980, close the gap by the
next shortest paths; Carlyle, Royset and Wood ("Lagrangian relaxation and enumeration for solving constrained
shortest-path problems", Networks 52, 2008) enumerate within an allowance. Here that is done for many graphs that share
the limits, with Pareto sets instead of single paths.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from optplan.progress import Stopwatch
from optplan.schema import FloatArray


class OutOfEffortError(Exception):
    """A search met a limit; caught inside this package, where the search returns what it has."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        super().__init__(f"stopped by the {limit} limit")


@dataclass
class Effort:
    """Counters of a search with their limits; a charge above a limit raises."""

    #: Wall time; looked at with every charge.
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    #: Labels that one enumeration may keep; 8 bytes each.
    max_labels: int = 100_000_000
    #: Pairs of partial plans that one merge may look at.
    max_pairs: int = 200_000_000
    #: Shortest-path passes, labels and pairs so far.
    passes: int = 0
    labels: int = 0
    pairs: int = 0

    def charge_pass(self) -> None:
        """Count a pass over all graphs."""
        self.passes += 1
        self._look_at_clock()

    def charge_labels(self, count: int, kept: int) -> None:
        """Count new labels; ``kept`` is what the current enumeration holds with them."""
        self.labels += count
        if kept > self.max_labels:
            raise OutOfEffortError("labels")
        self._look_at_clock()

    def charge_pairs(self, count: int) -> None:
        """Count pairs before they are made."""
        self.pairs += count
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        if self.stopwatch.expired:
            raise OutOfEffortError("time")


@dataclass(frozen=True, eq=False)
class Exhaustion:
    """Proof by enumeration."""

    #: (L,) Multipliers of the reduced costs.
    multipliers: FloatArray
    #: All plans with excesses + multipliers . (unused limits) up to this were covered, in units of value.
    allowance: float
    #: The least value among them; None when none of them keeps the limits.
    optimum: float | None
    #: Graphs each of whose paths were looked at apart, one graph within the other, with one limit; and multipliers of
    #: what was left.
    divided: tuple[int, ...] = ()
    further: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Finding:
    """What a search has proven, and what it took."""

    #: No plan of one path per graph has less value. It equals the incumbent's when proven by exhaustion, and is +inf
    #: when it is proven that no such plan keeps the limits.
    bound: float
    #: What ``bound`` rests on where that can be checked by enumerating once more; None where it is the Lagrangian
    #: bound, or rests on branch and price.
    exhaustion: Exhaustion | None
    #: Whether the wanted gap was reached, or no plan exists.
    proven: bool
    #: ``time``, ``labels``, ``pairs`` or ``branches`` when a limit ended the search, else None.
    stopped_by: str | None
    #: Work done.
    passes: int
    labels: int
    pairs: int


def relative_gap(value: float, bound: float) -> float:
    """Return (value - bound) / value; values are never negative, so a value of zero is optimal."""
    return max(0.0, value - bound) / value if value > 0 else 0.0


class GapClosing(ABC):
    """The state of closing one gap, at multipliers (L,) of the least bound: what was covered, and what is next."""

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
        """Enumerate within growing allowances until the gap is closed, or that is no longer worth while."""
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

    def sum_up(self, stopped_by: str | None) -> dict[str, Any]:
        """Return what a :class:`Finding` says of the search as it is now."""
        return {
            "bound": self.bound,
            "exhaustion": self.exhaustion,
            "proven": self.closed,
            "stopped_by": stopped_by,
            "passes": self.effort.passes,
            "labels": self.effort.labels,
            "pairs": self.effort.pairs,
        }
