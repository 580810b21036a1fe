"""What was estimated of a class when somebody looked, and how far it can have gone since: cheaper than to look again.

Rates are compared as they are. A speed is the base's, corrected by what was measured. Corrections are interpolated, so
that none moves further than twice the measurement that moved most: once by itself, once by what speeds are relative to.
The same holds for the speeds that sizes are counted with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from optplan.execution.online.estimates import ClassEstimate, estimate_size, find_speeds, is_fitted
from optplan.execution.online.hints import Hints
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.speedup import Speedup

#: What rounding may do to a logarithm.
_ROUNDING = 1e-9


class Seen(NamedTuple):
    """What is estimated of a class; ``speeds`` are mean speedups at each of its options."""

    rate_per_hour: float
    size_gpu_hours: float
    speeds: list[float]

    def distance(self, before: Self) -> float:
        """Return by how much the speed that moved most has moved, as a logarithm; infinite between other options."""
        if self.speeds is before.speeds:
            return 0.0
        if len(self.speeds) != len(before.speeds):
            return math.inf
        return float(np.abs(np.log(np.divide(self.speeds, before.speeds))).max())


def look(instance: BoaInstance, name: str) -> Seen:
    """Return what an instance says of a class."""
    job_class, options = instance.classes[name], instance.options(name)
    speeds = np.exp(np.log(options.speeds).mean(axis=0))
    return Seen(job_class.arrival_rate_per_hour, job_class.size_gpu_hours, speeds.tolist())


@dataclass
class Look:
    """A look at a class.

    ``stated`` is the class before anything was seen of it; ``levels`` are logarithms of measured speeds by place; it is
    ``exact`` where, a law being fitted, it holds only as long as nothing is measured.
    """

    stated: JobClass
    seen: Seen
    speedups: Mapping[str, Speedup]
    levels: Mapping[str, float]
    hints: Mapping[str, Hints]
    exact: bool
    _speeds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def at(cls, instance: BoaInstance, stated: JobClass, name: str, estimate: ClassEstimate) -> Self:
        """Look at a class of the instance that was estimated."""
        levels = {place: level.log_speed for place, level in estimate.levels.items()}
        speedups = instance.classes[name].speedup
        return cls(stated, look(instance, name), speedups, levels, dict(estimate.hints), is_fitted(stated, estimate))

    def most_moved(self, before: Seen, rate_per_hour: float, estimate: ClassEstimate) -> float:
        """Return by how much rate, size or a speed can have moved at most since it was ``before``, as a logarithm."""
        levels = estimate.levels
        if levels.keys() != self.levels.keys() or estimate.hints != self.hints:
            return math.inf
        drift = max((abs(level.log_speed - self.levels[place]) for place, level in levels.items()), default=0.0)
        if drift > _ROUNDING and self.exact:
            return math.inf
        if new := [place for place in estimate.hours if place not in self._speeds]:
            self._speeds |= find_speeds(self.speedups, new)
        size = estimate_size(self.stated, estimate, self._speeds)
        moved = max(abs(math.log(size / before.size_gpu_hours)), self.seen.distance(before)) + 2.0 * drift
        return max(abs(math.log(rate_per_hour / before.rate_per_hour)), moved) + _ROUNDING
