"""Executors that hand operations to somebody who chooses machines: nodes only bound what is handed over at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optplan.execution.folders import FolderExecutor, FolderSettings, Handle
from optplan.execution.protocol import NodeRequest
from optplan.execution.records import NodeChanged
from optplan.execution.run_state import Phase
from optplan.execution.supervision import require_support


class QueueExecutor(FolderExecutor[Handle]):
    """Has every node that is asked for at once; the folder of the run has to be one that all machines share.

    Raises
    ------
    MissingExtraError
        When psutil is not installed, which operations need.
    UsageError
        On another system than Linux.
    """

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        require_support()
        super().__init__(gpus_per_node, settings, now_s=now_s)
        #: By node, its resource.
        self._nodes: dict[str, str] = {}

    def ensure_nodes(self, requests: Sequence[NodeRequest]) -> None:
        """Let operations be handed over for them."""
        for request in requests:
            if request.node not in self._nodes:
                self._nodes[request.node] = request.resource
                self._events.append(NodeChanged(self.now_s(), request.node, Phase.READY))

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Let no more be handed over for them."""
        for node in nodes:
            self._nodes.pop(node, None)

    def _find_nodes(self, nodes: Sequence[NodeRequest]) -> frozenset[str]:
        self.ensure_nodes(nodes)
        self._look_around()
        return frozenset(self._nodes)
