"""What a search may spend, and what it has spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from optplan.progress import Stopwatch


class OutOfEffortError(Exception):
    """A search met a limit; caught inside this package, where the search returns what it has."""

    def __init__(self, limit: str) -> None:
        self.limit = limit
        super().__init__(f"stopped by the {limit} limit")


@dataclass
class Effort:
    """Counters of a search with their limits; a charge above a limit raises.

    Parameters
    ----------
    stopwatch
        Wall time; looked at with every charge.
    max_labels
        Labels that one enumeration may keep; 8 bytes each.
    max_pairs
        Pairs of partial plans that one merge may look at.
    """

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    max_labels: int = 100_000_000
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

    def require_pairs(self, count: int) -> None:
        """Raise when a merge would make more pairs than one may."""
        if count > self.max_pairs:
            raise OutOfEffortError("pairs")

    def charge_pairs(self, count: int) -> None:
        """Count pairs before they are made."""
        self.pairs += count
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        if self.stopwatch.expired:
            raise OutOfEffortError("time")
