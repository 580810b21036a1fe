"""Interference: jobs on several nodes that share one of them slow one another down."""

from __future__ import annotations

from collections import defaultdict

from optplan.lab.cluster.jobs import Places


class Interference:
    """Who is slowed down: a job on several nodes loses a share of its speed while another such is on one of them."""

    def __init__(self, loss: float) -> None:
        self.stretch = 1.0 / (1.0 - loss)
        self._jobs_on: defaultdict[int, set[int]] = defaultdict(set)
        self._places: dict[int, Places] = {}
        self.slowed: set[int] = set()

    def join(self, job: int, places: Places) -> list[int]:
        """Let a job be on its nodes.

        Returns jobs that come to be slowed down, or cease to be: :meth:`turn` changes that once what they did so far is
        accounted for.
        """
        if self.stretch == 1.0 or len(places) < 2:
            return []
        self._places[job] = places
        for node, _ in places:
            self._jobs_on[node].add(job)
        return self._list_changes(places)

    def leave(self, job: int) -> list[int]:
        """Let a job be nowhere; returns the same."""
        places = self._places.pop(job, ())
        self.slowed.discard(job)
        for node, _ in places:
            self._jobs_on[node].discard(job)
        return self._list_changes(places)

    def turn(self, job: int) -> None:
        """Slow a job down, or no longer."""
        self.slowed ^= {job}

    def _list_changes(self, places: Places) -> list[int]:
        there = sorted(set().union(*(self._jobs_on[node] for node, _ in places)))
        return [job for job in there if self._is_beside_others(job) is not (job in self.slowed)]

    def _is_beside_others(self, job: int) -> bool:
        return any(len(self._jobs_on[node]) > 1 for node, _ in self._places[job])
