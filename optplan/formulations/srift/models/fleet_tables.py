"""What bounds the iteration of a fleet from below, by tables: the relaxation that the models of Srift share.

How long an iteration takes depends on the whole fleet. It is no shorter than

* the slowest of n VMs of one type and batch, for every n (no fleet with such a group computes faster);
* the shortest transfer of all gradients, for every number of ranks, by the capacity of each type present (the transfers
  in flight never get more than the capacity together), after the earliest gradient that any forward and backward pass
  of that length has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.formulations.srift.data.bandwidth import volume_factor
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.stragglers import standard_maximum
from optplan.schema import FloatArray

#: What rounding may add to a computed time.
ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class FleetCell:
    """One type with one batch: counts of VMs from 0 to ``most``, and the least compute seconds (most + 1,) of each."""

    name: str
    batch: int
    most: int
    compute_s: FloatArray


def list_cells(instance: SriftInstance) -> list[FleetCell]:
    """List the types and batches that a fleet can have, the largest batch of a type first."""
    cells = []
    for name, batches in instance.batches_of.items():
        vm = instance.types[name]
        profile = instance.job.devices[vm.gpu]
        for batch in reversed(batches):
            most = min(instance.most_of(name), instance.global_batch // batch)
            if most:
                raw_s = profile.forward_after(batch / vm.gpus) + profile.backward_after(batch / vm.gpus)
                slowest = [1.0 + profile.deviation * standard_maximum(count) for count in range(1, most + 1)]
                cells.append(FleetCell(name, batch, most, raw_s * np.array([0.0, *slowest])))
    return cells


def list_volumes(instance: SriftInstance) -> FloatArray:
    """Return (R + 1,) bytes that a rank exchanges in an iteration, by the number of ranks."""
    most_ranks = min(instance.global_batch, sum(vm.gpus * instance.most_of(n) for n, vm in instance.types.items()))
    layers = instance.job.layers
    chance = np.ones(layers.ready.size) if layers.probability is None else layers.probability
    total = float(layers.gradient_bytes @ chance)
    return np.array([0.0, 0.0, *(volume_factor(ranks) * total for ranks in range(2, most_ranks + 1))])


def find_least_share(instance: SriftInstance, cells: Sequence[FleetCell]) -> float:
    """Return the least share of an iteration's compute time after which any gradient can be ready."""
    shares = []
    for cell in cells:
        vm = instance.types[cell.name]
        profile, batch = instance.job.devices[vm.gpu], cell.batch / vm.gpus
        forward, backward = profile.forward_after(batch), profile.backward_after(batch)
        first = float(instance.job.ready_on(vm.gpu)[0])
        shares.append((forward + first * backward) / (forward + backward) if forward + backward else 0.0)
    return min(shares, default=0.0)
