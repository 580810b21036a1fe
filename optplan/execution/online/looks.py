"""What was estimated of a class when it was looked at, and what its jobs amount to: cheaper than to solve again.

Mean completion time and GPUs are sums over classes that are linear in the rates, and under a given table linear in the
size of a class's jobs, pauses being constant. What the best widths take at prices of GPUs is the least of such, and so
concave: between two sizes it is above the line. So two sizes, a little below and above, do for all between.

Speeds are the base's, corrected by what was measured and interpolated: none moves further than twice the measurement
that moved most, once by itself, once by what speeds are relative to; nor does a size, which is counted with speeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from optplan.contracts import PathCosts
from optplan.execution.online.estimates import ClassEstimate, estimate_size, find_speeds, is_fitted
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.planning import WidthRow
from optplan.judging.enumeration import least_path
from optplan.schema import FloatArray

#: What rounding may do to a logarithm.
_ROUNDING = 1e-9
#: Least relative change of an estimate that is told.
_TOLD = 1e-3
#: By how much a size or a speed may have moved since a look, relatively.
_REACH = 0.05
#: The sizes for which jobs are weighed.
_ENDS = (1.0 - _REACH, 1.0 + _REACH)


class Seen(NamedTuple):
    """What is estimated of a class; ``speeds`` are mean speedups at each of its options."""

    rate_per_hour: float
    size_gpu_hours: float
    speeds: list[float]

    def find_faster(self, before: Self) -> float:
        """Return by how much the speed that moved most has moved, as a logarithm; infinite between other options."""
        if self.speeds is before.speeds:
            return 0.0
        if len(self.speeds) != len(before.speeds):
            return math.inf
        return float(np.abs(np.log(np.divide(self.speeds, before.speeds))).max())

    def find_moved(self, before: Self) -> float:
        """Return by how much rate, size or a speed has moved at most, as a logarithm."""
        rate = math.log(self.rate_per_hour / before.rate_per_hour)
        return max(abs(rate), abs(math.log(self.size_gpu_hours / before.size_gpu_hours)), self.find_faster(before))


@dataclass
class Look:
    """A look at a class, whose present estimates are within ``factor`` of the size and e to the ``drift`` of speeds.

    By type and width, ``levels`` are logarithms of measured speeds, and ``at_places`` mean speedups where jobs ran. It
    was made after so many ``changes`` and ``breaks`` of the estimate. Figures are of one job an hour, for a size at
    either end: ``taken`` has its seconds under the table and what it takes of each limit, empty where the table does
    not fit, and ``least`` the least seconds, what it takes at the prices included, on any widths. ``needs`` is what it
    takes of the budget, at the size itself, on the widths that need least.
    """

    size_gpu_hours: float
    speeds: list[float]
    at_places: dict[str, dict[int, float]]
    levels: dict[str, dict[int, float]]
    changes: int
    breaks: int
    factor: float = 1.0
    drift: float = 0.0
    taken: list[tuple[float, float]] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    needs: float = 0.0

    @classmethod
    def at(cls, graph: Graph, job_class: JobClass, estimate: ClassEstimate) -> Self:
        """Look at a class as it is estimated."""
        return cls(
            size_gpu_hours=job_class.size_gpu_hours,
            speeds=np.exp(np.log(graph.speeds).mean(axis=0)).tolist(),
            at_places=find_speeds(job_class.speedup, estimate.hours),
            levels={
                on: {gpus: level.log_speed for gpus, level in points.items()} for on, points in estimate.levels.items()
            },
            changes=estimate.changes,
            breaks=estimate.breaks,
        )

    @property
    def is_exact(self) -> bool:
        """Whether nothing has moved since."""
        return abs(self.factor - 1.0) <= _ROUNDING and not self.drift

    def follow(self, stated: JobClass, estimate: ClassEstimate) -> bool:
        """Take note of what was seen since; return whether the look is still good for anything."""
        if estimate.changes == self.changes:
            return True
        ran = all(held.keys() <= self.at_places.get(on, {}).keys() for on, held in estimate.hours.items())
        if estimate.is_new or estimate.breaks != self.breaks or not ran:  # of a new class, speeds believed in grow
            return False
        points = [
            (level, self.levels[on][gpus]) for on, each in estimate.levels.items() for gpus, level in each.items()
        ]
        drift = max((abs(level.log_speed - before) for level, before in points), default=0.0)
        self.changes, self.drift = estimate.changes, 2.0 * drift
        self.factor = estimate_size(stated, estimate, self.at_places) / self.size_gpu_hours
        # Where a law is fitted, a look holds only as long as nothing is measured.
        return abs(self.factor - 1.0) <= _REACH and self.drift <= (0.0 if is_fitted(stated, estimate) else _REACH)

    def seen(self, rate_per_hour: float) -> Seen:
        """Return what is estimated now, to within the drift."""
        return Seen(rate_per_hour, self.size_gpu_hours * self.factor, self.speeds)

    def weigh(self, graph: Graph, rows: Sequence[WidthRow], only: str, prices: FloatArray | None) -> None:
        """Weigh a job as it was looked at, under a table's rows (of type ``only`` without one) and at prices (L,)."""
        ends, taken = [graph.resize(factor) for factor in _ENDS], list[list[float]]()
        for end in ends:
            ways = [row.share * took for row in rows if (took := end.follow(row, only)) is not None]
            taken += [np.sum(ways, axis=0).tolist()] if len(ways) == len(rows) > 0 else []
        self.taken = list(zip(*taken, strict=True))
        self.least = [] if prices is None else [least_path(end.costs, np.append(1.0, prices)) for end in ends]
        self.needs = least_path(graph.costs, np.eye(len(graph.costs.limits) + 1)[1])

    def bound(self, ends: Sequence[float]) -> tuple[float, float]:
        """Return between which a figure lies by now that is known for a size at either end."""
        between = ends[0] + (self.factor - _ENDS[0]) / (_ENDS[1] - _ENDS[0]) * (ends[1] - ends[0])
        most = math.exp(2.0 * self.drift)
        return between / most, most * between

    def bound_needs(self) -> tuple[float, float]:
        """Return what a job needs at least and at most by now: pauses are as long where it is larger."""
        most = math.exp(2.0 * self.drift)
        return self.needs * min(1.0, self.factor) / most, self.needs * max(1.0, self.factor) * most


@dataclass(frozen=True)
class Graph:
    """What each step of a job's way costs where one job of a class, of the stated size, comes an hour and no other."""

    costs: PathCosts
    speeds: FloatArray
    nodes: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, instance: BoaInstance, name: str, job_class: JobClass) -> Self:
        """Return the graph of a class of an instance, at the speeds of ``job_class``."""
        one = instance.classes[name].replace(speedup=job_class.speedup, arrival_rate_per_hour=1.0, weight=1.0)
        alone = instance.replace(classes={name: one})
        options = alone.options(name)
        types = np.array(options.gpu_types)[options.group].tolist()
        pairs = zip(types, options.widths.tolist(), strict=True)
        nodes = {pair: node for node, pair in enumerate(pairs)}
        return cls(path_costs(alone)[0], options.speeds, nodes)

    def resize(self, factor: float) -> Self:
        """Return the graph of jobs that are larger by a factor: pauses stay as they are."""
        run = {name: factor * getattr(self.costs, name) for name in ("run_value", "run_consumption")}
        return replace(self, costs=replace(self.costs, **run))

    def follow(self, row: WidthRow, only: str) -> FloatArray | None:
        """Return what a job that follows a row (of type ``only`` without one) amounts to: value, consumptions (1 + L,).

        None where the class has other epochs, or may not hold that.
        """
        costs, types = self.costs, row.gpu_types or (only,) * row.gpus.size
        path = [self.nodes[pair] for pair in zip(types, row.gpus.tolist(), strict=True) if pair in self.nodes]
        if not len(path) == row.gpus.size == len(costs.run_value):
            return None
        epochs, nodes = np.arange(len(path)), np.array(path)
        before = np.append(nodes[0], nodes[:-1])
        enters = np.flatnonzero(np.append(True, nodes[1:] != nodes[:-1]))
        came = (costs.group[before[enters]], enters, nodes[enters])
        value = costs.run_value[epochs, nodes].sum() + costs.enter_value[came].sum()
        used = costs.run_consumption[:, epochs, nodes].sum(axis=1) + costs.enter_consumption[:, *came].sum(axis=1)
        return np.append(value, used)


def tell_changes(seen: Mapping[str, Seen], last: Mapping[str, Seen]) -> list[str]:
    """Say in words what has changed by class since what was seen last."""
    changes = []
    for name, now in seen.items():
        before = last.get(name)
        if before is None:
            continue
        words = [
            f"{what} {old:.4g} to {new:.4g} {unit}"
            for what, old, new, unit in (
                ("rate", before.rate_per_hour, now.rate_per_hour, "an hour"),
                ("size", before.size_gpu_hours, now.size_gpu_hours, "GPU-hours"),
            )
            if abs(math.log(new / old)) > _TOLD
        ]
        speed = now.find_faster(before)
        if speed > _TOLD:
            words.append("other widths" if math.isinf(speed) else f"speeds by up to {math.expm1(speed):.1%}")
        if words:
            changes.append(f"{name}: {', '.join(words)}")
    return changes
