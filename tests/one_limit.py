"""The costs of layered graphs with one limit, as tests state them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.contracts import PathCosts
from optplan.schema import FloatArray, IntArray


def cost_of_one_limit(
    name: str,
    nodes: Sequence[int] | IntArray,
    run_value: FloatArray,
    run_consumption: FloatArray,
    enter_value: FloatArray,
    enter_consumption: FloatArray,
) -> PathCosts:
    """Make the costs, (E, K) each, of a graph with one limit, one group and nodes (K,) called by numbers."""
    return PathCosts(
        name=name,
        labels=tuple(str(node) for node in nodes),
        group=np.zeros(len(nodes), dtype=np.int64),
        limits=("budget",),
        run_value=run_value,
        run_consumption=run_consumption[None],
        enter_value=enter_value[None],
        enter_consumption=enter_consumption[None, None],
    )
