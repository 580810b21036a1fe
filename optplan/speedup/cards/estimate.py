"""Step times from a model card: the fastest layout that fits the memory, by width, and how wrong the speedup may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optplan.speedup.cards.layouts import Layout, list_layouts, stack_layouts
from optplan.speedup.cards.records import Cluster, Constants, ModelCard, load_constants
from optplan.speedup.cards.steps import Workload, find_memory, find_seconds

#: Between which widths, parameters, GPUs a node and bytes a second of a GPU's network step times were compared with
#: measured ones.
VALID_GPUS = (8, 256)
VALID_PARAMETERS = (100e6, 100e9)
VALID_NODES = (8, 8)
VALID_NETWORK = (12.5e9, 100e9)
#: How often a batch that may grow is doubled.
_DOUBLINGS = 10


class StepEstimate(NamedTuple):
    """A step on one width."""

    gpus: int
    seconds: float  #: Of a step; of a larger one than the card's, for as much progress as the card's makes.
    layout: Layout
    memory_bytes: float  #: Of the fullest GPU.
    global_batch: int  #: Sequences.


def estimate_steps(card: ModelCard, cluster: Cluster, widths: Sequence[int]) -> list[StepEstimate | None]:
    """Return for each width its fastest layout, at the best batch; None where none fits the memory."""
    return [_find_best_batch(card, cluster, gpus) for gpus in widths]


def find_fastest(card: ModelCard, cluster: Cluster, gpus: int, constants: Constants) -> StepEstimate | None:
    """Return the fastest step on that many GPUs; None where no layout fits the memory."""
    work = Workload.of(card, cluster)
    layouts = list_layouts(card, cluster, gpus)
    columns = stack_layouts(layouts)
    memory = find_memory(work, columns, constants)
    fits = memory <= constants.usable_memory * cluster.accelerator.memory_bytes
    if not fits.any():
        return None
    seconds = np.where(fits, find_seconds(work, columns, constants), np.inf)
    best = int(np.argmin(seconds))
    return StepEstimate(gpus, float(seconds[best]), layouts[best], float(memory[best]), card.global_batch)


def _find_best_batch(card: ModelCard, cluster: Cluster, gpus: int) -> StepEstimate | None:
    """Return the step of the most progress a second: at the card's batch, or where it may grow at doublings of it."""
    critical, doublings = card.critical_batch or math.inf, 0 if card.critical_batch is None else _DOUBLINGS
    found = []
    for batch in (card.global_batch << power for power in range(doublings + 1)):
        step = find_fastest(card.model_copy(update={"global_batch": batch}), cluster, gpus, load_constants())
        # At batch B it makes the progress of B / (1 + B / B_crit) samples of a small batch (McCandlish et al. 2018).
        progress = (1.0 / card.global_batch + 1.0 / critical) / (1.0 / batch + 1.0 / critical)
        found += [] if step is None else [step._replace(seconds=step.seconds / progress)]
    return min(found, key=lambda step: step.seconds, default=None)


def find_error(card: ModelCard, cluster: Cluster, gpus: int, reference: int) -> float:
    """Return how wrong the speedup between two widths may be, in 9 of 10 cases, as curves state it."""
    # Up to a doubling it grows with the root of the doublings; beyond the widths that were compared, and by each doubt.
    if gpus == reference:
        return 0.0
    constants = load_constants()
    least, most = (math.log2(width) for width in VALID_GPUS)
    ends = sorted(math.log2(width) for width in (gpus, reference))
    below = max(0.0, min(ends[1], least) - ends[0])
    beyond = max(0.0, ends[1] - max(ends[0], most))
    among = constants.pair_error + constants.error_elsewhere * len(list_doubts(card, cluster))
    log_factor = math.log1p(among * math.sqrt(min(ends[1] - ends[0], 1.0)))
    log_factor += below * math.log1p(constants.error_below) + beyond * math.log1p(constants.error_beyond)
    return math.expm1(log_factor)


def list_doubts(card: ModelCard, cluster: Cluster) -> tuple[str, ...]:
    """Return in words what about a card and its cluster was never compared with measured step times."""
    kind = cluster.accelerator
    network = cluster.network_bytes_per_s_per_gpu
    doubts = {
        f"{kind.name} GPUs": not kind.validated,
        f"models of {card.parameters:,.3g} parameters": not _within(card.parameters, VALID_PARAMETERS),
        f"nodes of {cluster.gpus_per_node} GPUs": not _within(cluster.gpus_per_node, VALID_NODES),
        f"networks of {network * 8e-9:,.3g} Gbit/s a GPU": not _within(network, VALID_NETWORK),
    }
    return tuple(words for words, doubtful in doubts.items() if doubtful)


def _within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]
