"""What a job may hold: every allowed pair of a GPU type and a width, with all that its costs are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR


@dataclass(frozen=True, eq=False)
class Options:
    """The K pairs of GPU type and width that jobs of one class may hold, type by type, widths increasing.

    ``group`` (K,) is a pair's position in ``gpu_types``, the F types that the class can run on; ``paid`` are GPUs, more
    than held where jobs share no nodes, and ``price`` what one counts in the budget. Interruptions are not in
    ``speeds``, (E, K) or (1, K), but stretch the time by ``wall``, and that for which GPUs are held by ``held``.
    ``pause_h`` is what coming to hold the pair takes, ``change_h`` (F, K) what it takes more from another type; zero
    without rescaling.
    """

    gpu_types: tuple[str, ...]
    group: IntArray
    widths: IntArray
    paid: FloatArray
    price: FloatArray
    speeds: FloatArray
    wall: FloatArray
    held: FloatArray
    pause_h: FloatArray
    change_h: FloatArray

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """(K,) Names of the pairs: the width, with the type in front where there are several."""
        if len(self.gpu_types) == 1:
            return tuple(str(width) for width in self.widths.tolist())
        return tuple(
            f"{self.gpu_types[group]}.{width}"
            for group, width in zip(self.group.tolist(), self.widths.tolist(), strict=True)
        )

    @cached_property
    def changes_cost(self) -> bool:
        """Whether it matters which type a job comes from."""
        return bool(self.change_h.any())

    def of_type(self, gpu_type: str) -> slice:
        """Return where the pairs of a type are; empty when the class cannot run on it."""
        if self.gpu_types == (gpu_type,):
            return slice(0, self.widths.size)
        position = self.gpu_types.index(gpu_type) if gpu_type in self.gpu_types else len(self.gpu_types)
        first, last = np.searchsorted(self.group, [position, position + 1]).tolist()
        return slice(first, last)

    def find(self, gpu_types: tuple[str, ...] | None, widths: FloatArray) -> IntArray:
        """Return the positions of pairs (P,), or -1 where one is not allowed; types are None where there is one."""
        group = np.zeros(widths.size, dtype=np.int64)
        if gpu_types is not None:
            groups = {gpu_type: position for position, gpu_type in enumerate(self.gpu_types)}
            group = np.array([groups.get(gpu_type, -1) for gpu_type in gpu_types])
        most = int(self.widths.max()) + 1
        found = np.searchsorted(self.group * most + self.widths, group * most + widths)
        found = np.minimum(found, self.widths.size - 1)
        allowed = (self.group[found] == group) & (self.widths[found] == widths)
        positions: IntArray = np.where(allowed, found, -1)
        return positions


def list_options(
    job_class: JobClass,
    gpu_types: Mapping[str, GpuType],
    widths: Mapping[str, IntArray],
    prices: Mapping[str, float],
    paid: Mapping[str, FloatArray],
    *,
    rescaling: bool,
) -> Options:
    """List the options of a class, by the types on which it can run: widths where it finishes, and GPUs paid."""
    names = tuple(name for name in gpu_types if name in widths)
    scale = 1.0 / SECONDS_PER_HOUR if rescaling else 0.0
    sizes = [widths[name].size for name in names]
    group = np.repeat(np.arange(len(names)), sizes)
    curves = [job_class.speedup[name].at(widths[name]) for name in names]
    rows = max(len(curve) for curve in curves)
    stretches = [gpu_types[name].stretch(widths[name]) for name in names]
    pause_h = scale * np.array([job_class.rescale_s_of(name) for name in names])
    change_h = scale * np.array(
        [[0.0 if left == name else job_class.type_change_s_of(left, name) for name in names] for left in names]
    )
    return Options(
        gpu_types=names,
        group=group,
        widths=np.concatenate([widths[name] for name in names]),
        paid=np.concatenate([paid[name] for name in names]),
        price=np.array([prices[name] for name in names])[group],
        speeds=np.concatenate([np.broadcast_to(c, (rows, c.shape[1])) for c in curves], axis=1),
        wall=np.concatenate([wall for wall, _ in stretches]),
        held=np.concatenate([held for _, held in stretches]),
        pause_h=pause_h[group],
        change_h=change_h[:, group],
    )
