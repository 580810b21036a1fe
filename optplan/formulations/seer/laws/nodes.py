"""How many whole nodes the trials of a round take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def count_nodes(gpus_per_node: int, groups: tuple[tuple[float, int], ...]) -> int:
    """Count the nodes that hold all trials of a round.

    A trial of more GPUs than a node has takes whole nodes and a place for the rest; places are given out to the largest
    first, each on the fullest node that has room. With sizes that divide one another that is the least.

    ``groups`` are whole GPUs of a trial, and numbers of trials.
    """
    nodes, places = 0, dict.fromkeys(range(gpus_per_node + 1), 0)
    wanted: dict[int, int] = {}
    for gpus, trials in groups:
        whole, rest = divmod(round(gpus), gpus_per_node)
        nodes += whole * trials
        if rest:
            wanted[rest] = wanted.get(rest, 0) + trials
    for size in sorted(wanted, reverse=True):
        left = wanted[size]
        for room in range(size, gpus_per_node + 1):
            per_node = room // size
            taken = min(places[room], -(-left // per_node))
            if taken:
                left = _take(places, room, size, left, taken)
        fresh = -(-left // (gpus_per_node // size))
        nodes += fresh
        places[gpus_per_node] += fresh
        _take(places, gpus_per_node, size, left, fresh)
    return nodes


def divide_evenly(gpus_per_node: int, sizes: Sequence[float]) -> bool:
    """Say whether of sizes and node each divides the next larger one.

    Then a round is on as many nodes as its GPUs fill, rounded up.
    """
    chain = sorted({gpus_per_node, *map(round, sizes)})
    return all(larger % smaller == 0 for smaller, larger in pairwise(chain))


def _take(places: dict[int, int], room: int, size: int, left: int, nodes: int) -> int:
    """Fill so many nodes of as much room with trials of a size, the last one perhaps in part; return what is left."""
    if not nodes:
        return left
    per_node = room // size
    places[room] -= nodes
    full, rest = divmod(min(left, nodes * per_node), per_node)
    places[room - per_node * size] += full
    if rest:
        places[room - rest * size] += 1
    return left - full * per_node - rest
