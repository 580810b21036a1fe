"""Pollux with autoscaling as the paper on BOA describes it, where optplan's is stronger.

optplan's finds the size whose efficiency is closest to the target exactly and at once. The paper's takes 23.58 s on
average for that (5.4), so that a size counts in the round after; and it searches, with NSGA-II, for divisions and for
what each size would come to.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from typing import Any

from claims.genetic import PolluxNsga2, search, state_of
from optplan.lab.cluster.bounding import tell_least
from optplan.lab.cluster.jobs import Job, Places, Sight
from optplan.lab.cluster.policies.pollux import PolluxAutoscaled
from optplan.lab.cluster.pollux.fitness import Round
from optplan.lab.cluster.replaying import replay
from optplan.lab.fields import Knowledge
from optplan.lab.sweeps import Cell

#: Divisions that change at once, and how often; 100 and 100 as published, which takes 25 times as long.
SEARCH = 20, 20


class Late(PolluxAutoscaled):
    """A size counts in the round after that in which it was decided."""

    _wish: int | None = None

    def choose_nodes(self, sight: Sight) -> int:
        """Return what the round before decided."""
        wish, self._wish = self._wish, super().choose_nodes(sight)
        return int(sight.gpus) // sight.gpus_per_node if wish is None else wish


class Searched(Late):
    """Late, and what NSGA-II finds decides: who holds what, and which size is the best."""

    def __init__(self, target: str, size: tuple[int, int] = SEARCH) -> None:
        super().__init__(target)
        self._size = size
        self._nsga2 = PolluxNsga2(Knowledge.TRUTH, *size)

    def _search(self, jobs: Sequence[Job], task: Round) -> Sequence[Places]:
        return self._nsga2._search(jobs, task)

    def _search_nodes(self, jobs: Sequence[Job], sight: Sight) -> int:
        size, (population, generations) = sight.gpus_per_node, self._size
        most = max(sum(claim.most_gpus for claim in self._claim(jobs, sight, size)) // size, 1)
        found: dict[int, float] = {}

        def miss(nodes: int) -> float:
            if nodes not in found:
                names = [*sight.nodes, *range(-1, -nodes - 1, -1)][:nodes]
                task = Round(self._claim(jobs, sight, nodes * size), tuple(names), size)
                best, _ = search(task, state_of(task)[None], seed=nodes, population=population, generations=generations)
                held = [(sum(count for _, count in places), len(places)) for places in best]
                found[nodes] = self._measure(jobs, held, nodes * size) - self._target
            return found[nodes]

        few = bisect.bisect_right(range(1, most + 1), 0.0, key=lambda nodes: -miss(nodes))
        return min((max(few, 1), min(few + 1, most)), key=lambda nodes: abs(miss(nodes)))


def replay_as_described(cell: Cell, target: float, size: tuple[int, int] | None = None) -> dict[str, Any]:
    """Replay the cell of autoscaling a round late, and searched with so many divisions and changes, if any.

    Returns what a sweep writes of a cell.
    """
    begun = time.process_time()
    jobs, gpus_per_node, start_s = cell.make_jobs()
    policy = Late(f"{target:g}") if size is None else Searched(f"{target:g}", size)
    outcome = replay(jobs, policy, gpus_per_node=gpus_per_node, start_s=start_s, world=cell.world, seed=cell.seed)
    seconds = time.process_time() - begun
    return {"cpu_s": seconds, **outcome.to_json_data(), **tell_least(outcome, cell.world)}
