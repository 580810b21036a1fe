"""What may follow the nodes of a bracket within the time that is left: bounds for labels with distributions."""

from __future__ import annotations

import numpy as np

from optplan.formulations.rubberband.exact.chance.grid_times import GridTimes
from optplan.schema import FloatArray
from optplan.solvers.paths.held.sweeps import Sweep

#: Options whose distributions are added up at once.
_AT_ONCE = 1 << 11


def _pay(price: float, usd: FloatArray) -> FloatArray:
    """Return what costs are worth at a price; minus infinity where nothing can be bought."""
    return np.where(np.isfinite(usd), -price * np.where(np.isfinite(usd), usd, 0.0), -np.inf)


def rise(values: FloatArray, late: FloatArray) -> FloatArray:
    """Return (K, G) by how much values exceed those of being late; nothing where there are none."""
    known = np.isfinite(values) & np.isfinite(late)[:, None]
    return np.where(known, np.where(known, values, 0.0) - np.where(np.isfinite(late), late, 0.0)[:, None], 0.0)


class Outlook:
    """What may follow each node at one price: by stage, (K, G) before and after the stage runs, and when it is late.

    With a price p, W[k] = the most of P(on time with k steps left) - p * cost; being late leaves ``late`` = -p * least
    cost. Growing is bounded by the quickest and cheapest growth there is from a node.
    """

    def __init__(self, times: GridTimes, price: float) -> None:
        self.price = price
        graph = times.chain.graph
        sweep = Sweep(graph, 1.0, 0.0)
        rows = times.stages[0]
        self.after: list[FloatArray] = [np.ones((graph.num_nodes, times.points))] * graph.num_layers
        self.before: list[FloatArray] = list(self.after)
        self.late_after, self.late_before = _pay(price, sweep.rest), _pay(price, sweep.ahead)
        for stage in range(graph.num_layers - 1, -1, -1):
            if stage + 1 < graph.num_layers:
                self.after[stage] = self._look_ahead(times, stage)
            surplus = rise(self.after[stage], self.late_after[stage])
            own = graph.options(stage)
            node = graph.node[own]
            values = np.full((graph.num_nodes, times.points), -np.inf)
            spectra = times.transform(surplus)
            for piece in np.array_split(np.arange(node.size), 1 + node.size // _AT_ONCE):
                times.effort.charge_labels(0, 0)
                ran = times.restore(times.stage_spectra[rows[own][piece]] * spectra[node[piece]])
                cost = price * graph.value[own][piece] - self.late_after[stage][node[piece]]
                there, starts = np.unique(node[piece], return_index=True)
                values[there] = np.maximum(values[there], np.maximum.reduceat(ran - cost[:, None], starts, axis=0))
            self.before[stage] = values

    def _look_ahead(self, times: GridTimes, stage: int) -> FloatArray:
        """Return W after a stage: shrink or stay for nothing, or grow."""
        graph, before = times.chain.graph, self.before[stage + 1]
        best = np.maximum.accumulate(before, axis=0)
        if graph.num_nodes == 1:
            return best
        above = np.maximum.accumulate(before[::-1], axis=0)[::-1][1:]
        late = np.maximum.accumulate(self.late_before[stage + 1][::-1])[::-1][1:]
        nodes = np.arange(graph.num_nodes - 1)
        usd, _ = graph.growth.between(nodes, nodes + 1)
        quickest = times.growth_spectra(np.ones(1, dtype=np.int64))
        grown = times.restore(times.transform(rise(above, late)) * quickest)
        best[:-1] = np.maximum(best[:-1], grown + (late - self.price * usd)[:, None])
        return best
