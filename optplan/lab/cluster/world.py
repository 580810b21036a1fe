"""What makes a cluster less than ideal: interruptions, interference, stragglers.

All of it is off unless it is asked for, and each simulation draws its own from a seed.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from optplan.errors import DataError
from optplan.lab.cluster.jobs import Job, Places
from optplan.lab.cluster.nodes import Nodes
from optplan.lab.fields import WorldFields
from optplan.lab.spot.traces import SpotTrace, read_spot_trace
from optplan.schema import FloatArray, FrozenModel
from optplan.units import SECONDS_PER_HOUR

#: The least factor of a normal law, which would else go below zero.
_LEAST_FACTOR = 0.1


class Law(StrEnum):
    """How the times of epochs vary; the mean factor is 1, but for what a normal law loses below 0.1."""

    LOGNORMAL = "lognormal"
    NORMAL = "normal"


class World(FrozenModel, WorldFields):
    """What makes a cluster less than ideal: nodes that are paid longer or taken away, jobs that slow others down."""

    # Lost nodes are replaced at once; of a trace in which n of m VMs were lost, each is with probability n / m. Where a
    # job ``loses_epoch``, it begins one anew in which it was stopped, as processes do that store what they have done
    # between epochs.

    interruptions_per_node_hour: Annotated[float, Field(ge=0)] = 0.0
    spot_trace: str | None = None
    straggling: Annotated[float, Field(ge=0)] = 0.0
    straggling_law: Law = Law.LOGNORMAL

    @model_validator(mode="after")
    def _check(self) -> World:
        """Refuse what would change nothing."""
        if self.warm_start_s is not None and not self.reclaim_s:
            problem = f"got {self.warm_start_s:g}, and no node that was given back is there to be rented again"
            raise DataError("warm_start_s", problem, "say how long nodes stay (reclaim_s), or leave it out")
        return self

    def draw_factors(self, name: str, num_epochs: int, seed: int) -> FloatArray | None:
        """Draw the factors of a job's epochs, (epochs,), the same under every policy; None where all are 1."""
        if not self.straggling:
            return None
        stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if self.straggling_law is Law.NORMAL:
            return np.maximum(stream.normal(1.0, self.straggling, num_epochs), _LEAST_FACTOR)
        variance = np.log1p(self.straggling**2)
        return np.asarray(stream.lognormal(-variance / 2.0, np.sqrt(variance), num_epochs))


#: Events of the clock: the next losses of a trace, and below them the end of each node.
_LOSSES = -2
_FIRST_NODE = -3


class NodeLosses:
    """When nodes are taken away: numbers of -2 and below on the clock of a replay."""

    def __init__(self, world: World, seed: int, nodes: Nodes) -> None:
        self._clock, self._nodes = nodes.clock, nodes
        self._stream = np.random.default_rng([seed, 1])
        self._rate_per_s = world.interruptions_per_node_hour / SECONDS_PER_HOUR
        self._ends: dict[int, int] = {}
        self._losses = self._list_losses(read_spot_trace(world.spot_trace)) if world.spot_trace else iter(())
        self._share: float | None = None
        self._expect_losses()
        self.watch_nodes()

    @property
    def num_events(self) -> int:
        """Events on the clock: they go on for ever, and nothing comes of them alone."""
        return len(self._ends) + (self._share is not None)

    def watch_nodes(self) -> None:
        """Draw when nodes that came are to be taken away, and forget those that went."""
        if not self._rate_per_s:
            return
        names = self._nodes.names
        for node in names:
            if node not in self._ends:
                lifetime_s = float(self._stream.exponential(1.0 / self._rate_per_s))
                self._ends[node] = self._clock.schedule(self._clock.now + lifetime_s, _FIRST_NODE - node)
        for node in self._ends.keys() - names:
            self._clock.cancel(self._ends.pop(node))

    def list_lost(self, event: int) -> list[int]:
        """Return the nodes that an event takes away."""
        if event == _LOSSES:
            assert self._share is not None
            names = self._nodes.names
            drawn = self._stream.random(len(names)) < self._share
            self._expect_losses()
            return [node for node, is_lost in zip(names, drawn.tolist(), strict=True) if is_lost]
        node = _FIRST_NODE - event
        del self._ends[node]
        return [node]

    def _expect_losses(self) -> None:
        """Schedule the next losses of the trace."""
        at_s, self._share = next(self._losses, (0.0, None))
        if self._share is not None:
            self._clock.schedule(at_s, _LOSSES)

    def _list_losses(self, trace: SpotTrace) -> Iterator[tuple[float, float]]:
        """Yield when VMs were lost, ascending and without an end, and which share of them."""
        offset_s = float(self._stream.uniform(0.0, trace.duration_s))
        falls = np.flatnonzero(np.diff(trace.alive) < 0)
        shares = -np.diff(trace.alive)[falls] / trace.alive[falls]
        at_s = (falls + 1) * trace.tick_s - offset_s
        if falls.size:
            for turn in count():
                for one_s, share in zip((at_s + turn * trace.duration_s).tolist(), shares.tolist(), strict=True):
                    if one_s >= 0.0:
                        yield one_s, share


class Interference:
    """Who is slowed down: a job on several nodes loses a share of its speed while another such is on one of them."""

    def __init__(self, loss: float) -> None:
        self._stretch = 1.0 / (1.0 - loss)
        self._jobs_on: defaultdict[int, dict[Job, None]] = defaultdict(dict)
        self._slowed: dict[Job, bool] = {}

    def join(self, job: Job, places: Places) -> list[Job]:
        """Let a job be on its nodes; return those to :meth:`turn` once what they did so far is accounted for."""
        if self._stretch == 1.0 or len(places) < 2:
            return []
        self._slowed[job] = False
        for node, _ in places:
            self._jobs_on[node][job] = None
        return self._list_changes(places)

    def leave(self, job: Job) -> list[Job]:
        """Let a job be nowhere; returns the same."""
        if self._slowed.pop(job, None) is None:
            return []
        for node, _ in job.places:
            del self._jobs_on[node][job]
        return self._list_changes(job.places)

    def turn(self, job: Job) -> float:
        """Slow a job down, or no longer; return how much longer its epochs take from now on."""
        self._slowed[job] = not self._slowed[job]
        return self._stretch if self._slowed[job] else 1.0

    def _list_changes(self, places: Places) -> list[Job]:
        there = {job for node, _ in places for job in self._jobs_on[node]}
        beside = {job for job in there if any(len(self._jobs_on[node]) > 1 for node, _ in job.places)}
        return sorted((job for job in there if (job in beside) is not self._slowed[job]), key=lambda job: job.number)
