"""Where the GPUs of a division are: jobs of one node fill gaps, jobs of several nodes never meet on one."""

from __future__ import annotations

from collections.abc import Iterable

from optplan.lab.cluster.jobs import Places
from optplan.lab.cluster.pollux.fitness import MOST_NODES


class Floor:
    """The nodes of a cluster, by their names, while its GPUs are handed out."""

    def __init__(self, nodes: Iterable[int], gpus_per_node: int) -> None:
        self._size = gpus_per_node
        self._free = dict.fromkeys(nodes, gpus_per_node)
        self._open = dict.fromkeys(self._free, True)

    def put(self, places: Places) -> None:
        """Let a job hold GPUs that are free."""
        for node, count in places:
            self._free[node] -= count
            if len(places) > 1:
                self._open[node] = False

    def lift(self, places: Places) -> None:
        """Take the GPUs of a job away again."""
        for node, count in places:
            self._free[node] += count
            if len(places) > 1:
                self._open[node] = True

    def has_room(self, places: Places) -> bool:
        """Whether a job may hold these GPUs."""
        alone = len(places) == 1
        return all(self._free.get(node, 0) >= count and (alone or self._open[node]) for node, count in places)

    @property
    def free(self) -> int:
        """GPUs that nobody holds."""
        return sum(self._free.values())

    @property
    def most_within(self) -> int:
        """The most GPUs that are free on one node."""
        return max(self._free.values(), default=0)

    @property
    def most_across(self) -> int:
        """The most GPUs for one more job of several nodes; 0 where there are not two nodes for it."""
        free = sorted((count for node, count in self._free.items() if count and self._open[node]), reverse=True)
        return sum(free[:MOST_NODES]) if len(free) > 1 else 0

    def find_within(self, gpus: int) -> Places | None:
        """Return the fullest node with so many free GPUs; one that is of no use to jobs of several nodes, if any."""
        fits = [(count, self._open[node], node) for node, count in self._free.items() if count >= gpus]
        return ((min(fits)[2], gpus),) if fits else None

    def find_across(self, gpus: int) -> Places | None:
        """Return GPUs of several nodes: of few nodes if that can be, and of those that the rest just fits on."""
        free = {node: count for node, count in self._free.items() if count and self._open[node]}
        places: list[tuple[int, int]] = []
        while gpus and len(places) < MOST_NODES and free:
            # The first node of a job must leave something for a second one.
            wanted = gpus if places else min(gpus - 1, self._size)
            fits = [(count, node) for node, count in free.items() if count >= min(wanted, self._size)]
            count, node = min(fits) if fits else max((count, -node) for node, count in free.items())
            node = abs(node)
            taken = min(count, wanted)
            places.append((node, taken))
            del free[node]
            gpus -= taken
        return tuple(sorted(places)) if not gpus and len(places) > 1 else None
