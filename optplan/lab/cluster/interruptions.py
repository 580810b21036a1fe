"""Interruptions: nodes that are taken away, by a rate or a trace of spot VMs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from optplan.execution.clock import VirtualClock
from optplan.instances.spot_traces import SpotTrace, read_spot_trace
from optplan.lab.cluster.nodes import Nodes
from optplan.lab.cluster.world import World
from optplan.units import SECONDS_PER_HOUR

#: Events of the clock: the next losses of a trace, and below them the end of each node.
_LOSSES = -2
_FIRST_NODE = -3


class NodeLosses:
    """When nodes are taken away: numbers of -2 and below on the clock of a replay."""

    def __init__(self, world: World, seed: int, clock: VirtualClock[int], nodes: Nodes) -> None:
        self._clock, self._nodes = clock, nodes
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
        nodes = self._nodes
        if self._rate_per_s:
            for node in nodes.came:
                lifetime_s = float(self._stream.exponential(1.0 / self._rate_per_s))
                self._ends[node] = self._clock.schedule(self._clock.now + lifetime_s, _FIRST_NODE - node)
            for node in nodes.went:
                ticket = self._ends.pop(node, None)
                if ticket is not None:
                    self._clock.cancel(ticket)
        nodes.came.clear()
        nodes.went.clear()

    def list_lost(self, event: int) -> list[int]:
        """Return the nodes that an event takes away."""
        if event == _LOSSES:
            assert self._share is not None
            drawn = self._stream.random(len(self._nodes.names)) < self._share
            self._expect_losses()
            return [node for node, is_lost in zip(self._nodes.names, drawn.tolist(), strict=True) if is_lost]
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
