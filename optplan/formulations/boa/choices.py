"""Problem (1) as independent choices for the sorted-slopes engine: a row per (class, epoch).

Classes with tables of the same widths share a block, so that the engine works on thousands of rows at a time however
many classes they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch
from optplan.schema import FloatArray
from optplan.solvers import slopes
from optplan.speedup import AmdahlSpeedup, PowerSpeedup
from optplan.units import SECONDS_PER_HOUR

Choice = slopes.TableChoice | slopes.SmoothChoice


@dataclass(frozen=True, eq=False)
class StatedChoices:
    """Problem (1), stated.

    Parameters
    ----------
    instance
        Whose problem it is.
    blocks
        Values in seconds of (weighted) mean completion time, consumption in time-average GPUs.
    places
        By class: the block, and the row of its first epoch in it.
    """

    instance: BoaInstance
    blocks: tuple[slopes.Block, ...]
    places: dict[str, tuple[int, int]]

    @property
    def any_smooth(self) -> bool:
        """Whether a class has a closed form, which makes the frontier curved."""
        return any(isinstance(block, slopes.SmoothBlock) for block in self.blocks)

    def write_solution(self, choices: tuple[Choice, ...]) -> BoaSolution:
        """Turn the engine's choices, one per block, into real widths by class."""
        return BoaSolution(
            branches={
                name: (Branch(widths=self._real_widths(name, choices[block], first)),)
                for name, (block, first) in self.places.items()
            }
        )

    def _real_widths(self, name: str, choice: Choice, first: int) -> FloatArray:
        """Turn a class's rows of a choice into widths (E,): the GPU-hours of a mixture over its hours."""
        rows = slice(first, first + self.instance.classes[name].num_epochs)
        if isinstance(choice, slopes.SmoothChoice):
            return choice.width[rows]
        lower, upper, fraction = choice.lower[rows], choice.upper[rows], choice.fraction[rows]
        allowed = self.instance.allowed_widths(name)
        widths = allowed[lower].astype(float)
        mixed = np.flatnonzero(fraction)
        if mixed.size:
            speeds = np.broadcast_to(self.instance.speeds(name), (widths.size, allowed.size))
            hours_lower = (1.0 - fraction[mixed]) / speeds[mixed, lower[mixed]]
            hours_upper = fraction[mixed] / speeds[mixed, upper[mixed]]
            gpu_hours = hours_lower * widths[mixed] + hours_upper * allowed[upper[mixed]]
            widths[mixed] = gpu_hours / (hours_lower + hours_upper)
        return widths


@dataclass(frozen=True, eq=False)
class _TableGroup:
    """Classes with a table row of their own for each epoch, over the same widths.

    Parameters
    ----------
    widths
        (K,) GPUs.
    speeds, loads, seconds_per_hour
        Per class: (E, K) speeds, (E,) loads in GPUs, and the value of an hour.
    first
        (classes + 1,) Row of each class's first epoch.
    """

    widths: FloatArray
    speeds: tuple[FloatArray, ...]
    loads: tuple[FloatArray, ...]
    seconds_per_hour: tuple[float, ...]
    first: FloatArray

    def make(self, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        """Return consumption and value of the rows from ``start`` to before ``stop``."""
        consumption = np.empty((stop - start, self.widths.size))
        value = np.empty_like(consumption)
        at = int(np.searchsorted(self.first, start, side="right")) - 1
        while start < stop:
            offset = int(self.first[at])
            end = min(stop, int(self.first[at + 1]))
            rows, out = slice(start - offset, end - offset), slice(start - stop, end - stop or None)
            hours = self.loads[at][rows, None] / self.speeds[at][rows]
            np.multiply(hours, self.widths, out=consumption[out])
            np.multiply(hours, self.seconds_per_hour[at], out=value[out])
            start, at = end, at + 1
        return consumption, value


def state_choices(instance: BoaInstance) -> StatedChoices:
    """State problem (1): every (class, epoch) chooses a width, and may mix two.

    Parameters
    ----------
    instance
        Problem continuous; its budget is not looked at.
    """
    seconds_per_hour = SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour
    blocks: list[slopes.Block] = []
    places: dict[str, tuple[int, int]] = {}
    grouped: dict[bytes, list[str]] = {}
    for name, job_class in instance.classes.items():
        curve = job_class.speedup[instance.only_gpu_type]
        if curve.num_epochs is not None and not isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            grouped.setdefault(instance.allowed_widths(name).tobytes(), []).append(name)
            continue
        places[name] = (len(blocks), 0)
        blocks.append(_state_class(instance, name, seconds_per_hour * job_class.weight))
    for names in grouped.values():
        group = _group_tables(instance, names, seconds_per_hour)
        places |= {name: (len(blocks), int(row)) for name, row in zip(names, group.first[:-1], strict=True)}
        blocks.append(slopes.LazyTableBlock(int(group.first[-1]), group.widths.size, group.make))
    return StatedChoices(instance, tuple(blocks), {name: places[name] for name in instance.classes})


def _load(instance: BoaInstance, name: str) -> FloatArray:
    job_class = instance.classes[name]
    return job_class.arrival_rate_per_hour * job_class.epoch_size_gpu_hours


def _group_tables(instance: BoaInstance, names: list[str], seconds_per_hour: float) -> _TableGroup:
    loads = tuple(_load(instance, name) for name in names)
    return _TableGroup(
        widths=instance.allowed_widths(names[0]).astype(float),
        speeds=tuple(instance.speeds(name) for name in names),
        loads=loads,
        seconds_per_hour=tuple(seconds_per_hour * instance.classes[name].weight for name in names),
        first=np.concatenate(([0], np.cumsum([load.size for load in loads]))),
    )


def _state_class(instance: BoaInstance, name: str, seconds_per_hour: float) -> slopes.Block:
    """State a class with a closed form, or with one curve for all its epochs."""
    curve = instance.classes[name].speedup[instance.only_gpu_type]
    load = _load(instance, name)
    weight = np.full(load.size, seconds_per_hour)
    widths = instance.allowed_widths(name).astype(float)
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        amdahl = isinstance(curve, AmdahlSpeedup)
        parameter = curve.serial_fraction if isinstance(curve, AmdahlSpeedup) else curve.exponent
        return slopes.SmoothBlock(
            form=slopes.SmoothForm.AMDAHL if amdahl else slopes.SmoothForm.POWER_LAW,
            scale=load,
            weight=weight,
            parameter=np.broadcast_to(parameter, load.shape).astype(float),
            width_min=np.full(load.size, widths[0]),
            width_max=np.full(load.size, widths[-1]),
        )
    speeds = instance.speeds(name)[0]
    return slopes.SharedTableBlock(widths / speeds, 1.0 / speeds, load, weight)
