"""The records of the placement controller: what has to be placed, where trials are, and what changes.

The rules are in :mod:`optplan.formulations.rubberband.published.placement`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field

from optplan.schema import ByName, FrozenModel

#: By trial, the GPUs that it uses on each of its nodes.
Places = dict[str, dict[str, int]]


class Placement(FrozenModel):
    """Where trials run.

    Parameters
    ----------
    trials
        By trial, the GPUs that it uses on each of its nodes.
    """

    trials: ByName[Annotated[ByName[Annotated[int, Field(ge=1)]], Field(min_length=1)]] = Field(default_factory=dict)

    def gpus(self, trial: str) -> int:
        """Return how many GPUs a trial has; 0 where it has no place."""
        return sum(self.trials.get(trial, {}).values())


@dataclass(frozen=True)
class PlacementChange:
    """A new placement, and what has to happen for it.

    Parameters
    ----------
    placement
        The new one.
    started
        Trials that had no place before.
    resized
        Trials that get another number of GPUs; they start anew from their checkpoints.
    moved
        Trials that keep their number of GPUs and change their place.
    left
        Trials without a place.
    deferred
        Reserved trials that keep their GPUs although another number was asked for.
    released
        Nodes that were asked to be emptied, and are.
    empty
        All nodes without a trial: those released, and those that could be as well.
    proven
        Whether it is proven that no placement leaves fewer GPUs of trials without a place, and that none that leaves
        as few moves fewer trials.
    """

    placement: Placement
    started: tuple[str, ...]
    resized: tuple[str, ...]
    moved: tuple[str, ...]
    left: tuple[str, ...]
    deferred: tuple[str, ...]
    released: tuple[str, ...]
    empty: tuple[str, ...]
    proven: bool


@dataclass(frozen=True)
class PlacementTask:
    """What has to be placed, checked: of reserved trials the GPUs that they have; ``last`` has none that ended."""

    trials: Mapping[str, int]
    nodes: tuple[str, ...]
    node_gpus: int
    last: Placement
    reserved: frozenset[str]

    @cached_property
    def unchanged(self) -> tuple[str, ...]:
        """Trials that keep their number of GPUs and are not reserved: they should stay."""
        return tuple(
            trial
            for trial in sorted(self.last.trials)
            if trial not in self.reserved and self.last.gpus(trial) == self.trials[trial]
        )

    def span(self, gpus: int) -> int:
        """Return how many nodes a trial is on."""
        return -(-gpus // self.node_gpus)

    def taken(self, gpus: int) -> int:
        """Return the GPUs that a trial takes from each of its nodes: what it has, or the whole node."""
        return min(gpus, self.node_gpus)

    def spread(self, gpus: int, nodes: Sequence[str]) -> dict[str, int]:
        """Divide a trial's GPUs over the first of the nodes, as many as it needs; the last gets the rest."""
        span = self.span(gpus)
        rest = gpus - (span - 1) * self.node_gpus
        return {node: self.node_gpus if number < span - 1 else rest for number, node in enumerate(nodes[:span])}


def rank_places(task: PlacementTask, places: Mapping[str, Mapping[str, int]]) -> tuple[int, int, int, int]:
    """Return what a placement should have little of, the most important first.

    GPUs of trials without a place; trials that have to leave their place; nodes in use; GPUs of those trials.
    """
    left = sum(gpus for trial, gpus in task.trials.items() if trial not in places)
    leaving = [trial for trial in task.unchanged if set(places.get(trial, {})) != set(task.last.trials[trial])]
    used = {node for own in places.values() for node in own}
    return left, len(leaving), len(used), sum(task.trials[trial] for trial in leaving)
