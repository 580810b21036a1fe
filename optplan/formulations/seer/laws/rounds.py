"""When the rounds of a search begin and end, and who trains in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution


def count_nodes(gpus_per_node: int, groups: tuple[tuple[float, int], ...]) -> int:
    """Count the nodes that hold all trials of a round: largest first, each on the fullest node that has room."""
    # A trial of more GPUs than a node has takes whole nodes and a place for the rest. With sizes that divide one
    # another that is the least.
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
    """Say whether of sizes and node each divides the next larger one: then rounds fill their nodes, rounded up."""
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


@dataclass(frozen=True)
class Round:
    """One round of a search."""

    number: int  # from 1
    start_min: float  # when it begins, with its pause
    #: Minutes without training, and after that with it.
    pause_min: float
    training_min: float
    #: GPUs of a trial and number of trials, by increasing GPUs; those without trials are left out.
    groups: tuple[tuple[float, int], ...]

    @property
    def duration_min(self) -> float:
        """Minutes of the round, pause included."""
        return self.pause_min + self.training_min

    @property
    def stop_min(self) -> float:
        """When it ends."""
        return self.start_min + self.duration_min

    @property
    def gpus(self) -> float:
        """GPUs of all its trials together."""
        return sum(gpus * trials for gpus, trials in self.groups)


def list_rounds(instance: SeerInstance, solution: SeerSolution) -> list[Round]:
    """List the rounds of a search whose brackets have a number of trials for each, with their times."""
    rounds: list[Round] = []
    for number in range(solution.rounds):
        rounds.append(
            Round(
                number=number + 1,
                start_min=rounds[-1].stop_min if rounds else 0.0,
                pause_min=instance.resize_min if rounds else 0.0,
                training_min=solution.round_min * instance.eta**number,
                groups=tuple((b.gpus, b.trials[number]) for b in solution.brackets if b.trials[number]),
            )
        )
    return rounds


def sum_spent(instance: SeerInstance, rounds: Sequence[Round]) -> float:
    """Return the GPU-minutes of rounds, pauses included, as the budget counts them: of GPUs held, or of whole nodes."""
    per_node = instance.nodes_paid
    if per_node is None:
        return sum(each.gpus * each.duration_min for each in rounds)
    return per_node * sum(count_nodes(per_node, each.groups) * each.duration_min for each in rounds)
