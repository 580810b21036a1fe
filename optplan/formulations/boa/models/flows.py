"""From shares, which is what linear programs return, to mixtures of paths and to branches.

A path that stays at its node pays nothing for it. Where entering a node costs the same whatever node a path leaves, the
cheapest of all ways to take a flow apart into paths are those in which as much as possible stays. Where it depends on
the group left, the linear program says who goes where, and paths follow that (flow decomposition: Ahuja, Magnanti and
Orlin, Network Flows, theorem 3.5). Where epochs choose apart, cutting a class at all their fractions at once gives rows
over all epochs, one more than there are cuts (the north-west corner rule of transportation problems).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance, Branch
from optplan.formulations.boa.exact.costs import list_amounts
from optplan.formulations.boa.exact.feasibility import clear_mixture
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.layered_graphs import least_path, path_totals
from optplan.solvers.paths.column_generation import Master
from optplan.solvers.paths.families import Mixture, PathBatch, mix_columns

#: Flows below this are rounding noise of a linear program.
_NO_FLOW = 1e-9
#: By how much limits may be larger where they cannot be kept otherwise; less than LIMIT_TOLERANCE.
_SLACK = 8e-10


#: A path through a graph: the share of what flows there, and the column of the node in each layer.
Strand: TypeAlias = tuple[float, list[int]]


@dataclass(frozen=True, eq=False)
class Flow:
    """What flows through a graph: (E, K) at nodes, (E - 1, K) staying, (E - 1, F, K) entering by the old group."""

    at: FloatArray
    stay: FloatArray
    enter: FloatArray
    group: IntArray

    @classmethod
    def of_shares(cls, at: FloatArray) -> Flow:
        """Return the flow with given shares (E, K) at the nodes in which as much as possible stays; one group."""
        at = np.where(at < _NO_FLOW, 0.0, at)
        at = at / at.sum(axis=1, keepdims=True)
        stay = np.minimum(at[:-1], at[1:])
        return cls(at, stay, (at[1:] - stay)[:, None], np.zeros(at.shape[1], dtype=np.int64))


def list_strands(flow: Flow) -> list[Strand]:
    """Take a flow apart into paths, layer by layer; shares below a relative 1e-9 are taken for rounding noise."""
    strands = [(float(share), [int(node)]) for node, share in enumerate(flow.at[0]) if share > _NO_FLOW]
    for stay, enter in zip(flow.stay, flow.enter, strict=True):
        room = stay.copy()
        kept: list[Strand] = []
        leaving: list[list[Strand]] = [[] for _ in enter]
        for share, path in strands:
            stays = min(share, float(room[path[-1]]))
            room[path[-1]] -= stays
            if stays > _NO_FLOW:
                kept.append((stays, [*path, path[-1]]))
            if share - stays > _NO_FLOW:
                leaving[flow.group[path[-1]]].append((share - stays, path))
        strands = kept
        for paths, shares in zip(leaving, enter, strict=True):
            strands = strands + _redirect(paths, shares)
    total = sum(share for share, _ in strands)
    return [(share / total, path) for share, path in strands]


def _redirect(leaving: list[Strand], missing: FloatArray) -> list[Strand]:
    """Send what leaves its nodes to the nodes where something is missing, both in order."""
    strands = []
    entered = ((node, float(missing[node])) for node in np.flatnonzero(missing > _NO_FLOW).tolist())
    node, room = next(entered, (None, 0.0))
    for share, path in leaving:
        left = share
        while left > _NO_FLOW and node is not None:
            step = min(left, room)
            strands.append((step, [*path, node]))
            left, room = left - step, room - step
            if room <= _NO_FLOW:
                node, room = next(entered, (None, 0.0))
    return strands


def mix_strands(costs: Sequence[PathCosts], strands: Sequence[Sequence[Strand]]) -> Mixture:
    """Return the mixture of the paths of each graph."""
    paths = [(number, *strand) for number, own in enumerate(strands) for strand in own]
    totals = [path_totals(costs[number], np.array(columns)) for number, _, columns in paths]
    nodes = np.zeros((len(paths), max(len(columns) for *_, columns in paths)), dtype=np.int32)
    for place, (*_, columns) in enumerate(paths):
        nodes[place, : len(columns)] = columns
    batch = PathBatch(np.array([value for value, _ in totals]), np.array([used for _, used in totals]), nodes)
    return mix_columns(np.array([each[0] for each in paths]), np.array([each[1] for each in paths]), batch)


def mix_within(
    instance: BoaInstance, costs: Sequence[PathCosts], strands: Sequence[Sequence[Strand]]
) -> Mixture | None:
    """Return the best mixture of these paths, and those of least consumption, within the limits; None without any."""
    # Near the least budget an engine's tolerance may be worth more than rounding: this small basis is computed anew.
    least = [
        [
            (0.0, least_path(*each, graph.group)[1].tolist())
            for each in zip(graph.run_consumption, graph.enter_consumption, strict=True)
        ]
        for graph in costs
    ]
    known = mix_strands(costs, [[*own, *others] for own, others in zip(strands, least, strict=True)])
    known, amounts = clear_mixture(instance, known), list_amounts(instance)
    columns = known.columns
    for limits in (amounts, amounts * (1.0 + _SLACK)):
        master = Master(len(costs), limits, float(columns.value.max()) or 1.0, most=columns.consumption.max(axis=0))
        master.add(known.graph, columns.value, columns.consumption)
        found = master.solve(Stopwatch())
        if found is not None:
            kept = np.flatnonzero(found.fractions)
            return mix_columns(known.graph[kept], found.fractions[kept], columns.take(kept))
    return None


#: Cuts closer than this are the same, and a smaller fraction is none.
_SAME_CUT = 1e-12


class Share(NamedTuple):
    """A fraction of the jobs in one epoch, and what they hold."""

    fraction: float
    gpu_type: str
    width: float


def write_divisions(instance: BoaInstance, epochs: Sequence[Sequence[Share]]) -> tuple[Branch, ...]:
    """Write what the jobs of a class hold in each epoch (E,), in fractions that add up to 1, as branches."""
    ends = [np.cumsum([share.fraction for share in shares]) for shares in epochs]
    cuts = np.unique(np.concatenate([np.zeros(1), *(each[:-1] for each in ends)]))
    cuts = cuts[(np.diff(cuts, prepend=-1.0) > _SAME_CUT) & (cuts < 1.0 - _SAME_CUT)]
    branches = []
    for start, end in zip(cuts.tolist(), [*cuts[1:].tolist(), 1.0], strict=True):
        middle = 0.5 * (start + end)
        held = [
            shares[min(int(np.searchsorted(each, middle)), len(shares) - 1)]
            for shares, each in zip(epochs, ends, strict=True)
        ]
        branches.append(
            Branch(
                fraction=end - start,
                widths=np.array([share.width for share in held]),
                gpu_types=tuple(share.gpu_type for share in held) if len(instance.gpu_types) > 1 else None,
            )
        )
    return tuple(branches)
