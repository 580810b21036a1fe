"""What the tests of RubberBand's laws share: the published simulator's walk of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Later

from .execution_graphs import Node

if TYPE_CHECKING:
    import networkx
else:
    networkx = Later("networkx")


@pytest.fixture(scope="session")
def finish_times() -> Callable[[Any, Mapping[Node, float]], dict[Node, float]]:
    """Return what walks a graph once (Algorithm 1): when each task ends, by the seconds that tasks take, else none."""

    def walk(graph: Any, latencies: Mapping[Node, float]) -> dict[Node, float]:  # noqa: ANN401 - networkx has no types
        ends: dict[Node, float] = {}
        for node in networkx.topological_sort(graph):
            ready = max((ends[earlier] for earlier in graph.predecessors(node)), default=0.0)
            ends[node] = ready + latencies.get(node, 0.0)
        return ends

    return walk
