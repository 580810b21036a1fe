"""Problem (7) in the form in which convex and linear engines take it: points of tables, and curves, by (class, epoch).

A (class, epoch) is a row. Per unit of its work, running on k GPUs of a type takes time ``z`` and uses GPU-time ``u`` of
the type: ``z = wall / s`` and ``u = k held / s``. On a table that is one *point* per vertex of the type's own
lower-left hull; on a closed form a *curve* from the least to the largest width,

Amdahl, serial fraction f
    ``z = f + (1 - f) / k``, ``u = 1 - f + f k``;
power law, exponent a
    ``z = k^-a``, ``u = k^(1 - a)``.

The decisions are the fraction of a row's jobs at each point, and on each curve the fraction p together with its
GPU-time ``U = p u``. In these terms consumption is linear, and time, ``p z(U / p)``, is convex: the perspective of z.
Where a curve has nothing to decide (one width; s(k) = 1, where the least is as fast as any; s(k) = k, where the largest
uses as little as any) it is a point.

What a GPU and an hour cost is the statement of all solvers (:mod:`optplan.formulations.boa.exact.costs`); the rest
shares nothing with that of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, has_real_widths
from optplan.formulations.boa.exact.costs import count_types, list_amounts, list_closed, load_of, seconds_per_hour
from optplan.formulations.boa.models.flows import Share, write_divisions
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, lower_left_hull

if TYPE_CHECKING:
    import scipy.sparse as sp

#: A smaller fraction of a row's jobs, which engines leave everywhere, is dropped.
_LEAST_FRACTION = 1e-9


@dataclass(frozen=True, eq=False)
class _Table:
    """A record of columns, all as long."""

    def take(self, positions: IntArray) -> Self:
        """Return the rows at some positions, in that order."""
        return type(self)(*(column[positions] for column in vars(self).values()))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of some tables one after another."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True, eq=False)
class Points(_Table):
    """Vertices of tables' hulls (P,): row, GPU type (a position in the instance's), GPU-time, time and width."""

    row: IntArray
    gpu_type: IntArray
    use: FloatArray
    time: FloatArray
    width: FloatArray


@dataclass(frozen=True, eq=False)
class Curves(_Table):
    """Closed forms (C,), power laws or Amdahl's, in which a width is to be decided between different bounds."""

    row: IntArray
    gpu_type: IntArray
    is_power: NDArray[np.bool_]
    parameter: FloatArray
    least: FloatArray
    largest: FloatArray

    def use_at(self, width: FloatArray) -> FloatArray:
        """Return GPU-time per unit of work at widths (C,)."""
        return np.where(self.is_power, width ** (1.0 - self.parameter), 1.0 + self.parameter * (width - 1.0))

    def time_at(self, width: FloatArray) -> FloatArray:
        """Return time per unit of work at widths (C,)."""
        amdahl = self.parameter + (1.0 - self.parameter) / width
        return np.where(self.is_power, width**-self.parameter, amdahl)

    def width_at(self, use: FloatArray) -> FloatArray:
        """Return the widths (C,) of a GPU-time per unit of work."""
        power = np.maximum(use, 1e-300) ** np.where(self.is_power, 1.0 / (1.0 - self.parameter), 1.0)
        width = np.where(self.is_power, power, 1.0 + (use - 1.0) / self.parameter)
        return np.clip(width, self.least, self.largest)


@dataclass(frozen=True, eq=False)
class Division:
    """Fractions of the jobs of all rows at points (P,) and on curves (C,), and there GPU-time per unit of work."""

    points: FloatArray
    curves: FloatArray
    use: FloatArray

    def move(self, other: Division, step: float) -> Division:
        """Return the division that is a step from 0 to 1 on the way to another; consumption moves in proportion."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Division(*((1.0 - step) * here + step * there for here, there in pairs))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Problem (7): points and curves for rows (N,), of which a unit of u counts ``gpus`` and of z ``seconds``."""

    instance: BoaInstance
    gpus: FloatArray
    seconds: FloatArray
    points: Points
    curves: Curves

    @cached_property
    def limits(self) -> FloatArray:
        """(L,) Amounts of the limits."""
        return list_amounts(self.instance)

    @cached_property
    def rows(self) -> dict[str, slice]:
        """The rows of each class."""
        ends = np.cumsum([job_class.num_epochs for job_class in self.instance.classes.values()]).tolist()
        return {name: slice(*ends) for name, ends in zip(self.instance.classes, pairwise([0, *ends]), strict=True)}

    @cached_property
    def counts(self) -> FloatArray:
        """(L, F) What one GPU of each type counts in each limit."""
        return count_types(self.instance)

    @property
    def point_consumption(self) -> FloatArray:
        """(L, P) Consumption when all jobs of the row run at a point."""
        return self.counts[:, self.points.gpu_type] * (self.gpus[self.points.row] * self.points.use)

    @property
    def curve_consumption(self) -> FloatArray:
        """(L, C) Consumption per unit of GPU-time on a curve."""
        return self.counts[:, self.curves.gpu_type] * self.gpus[self.curves.row]

    def consumption(self, division: Division) -> FloatArray:
        """Return the totals (L,) of a division."""
        return self.point_consumption @ division.points + self.curve_consumption @ division.use

    def value(self, division: Division) -> float:
        """Return the objective of a division, in seconds; on each curve at the width that its GPU-time stands for."""
        at = self.seconds[self.points.row] * self.points.time
        used = np.flatnonzero(division.curves > 0.0)
        share = division.curves[used]
        curves = self.curves.take(used)
        on = self.seconds[curves.row] * curves.time_at(curves.width_at(division.use[used] / share))
        return float(at @ division.points + on @ share)

    def find_leanest(self) -> tuple[Division, float]:
        """Return a division of the least common factor of the limits, and that factor: a linear program."""
        from scipy.optimize import linprog

        least_use = self.curves.use_at(self.curves.least)
        use = np.concatenate([self.point_consumption, self.curve_consumption * least_use], axis=1)
        row = np.concatenate([self.points.row, self.curves.row])
        factor = np.append(np.zeros(row.size), 1.0)
        within = np.concatenate([use / self.limits[:, None], -np.ones((self.limits.size, 1))], axis=1)
        whole = self.add_up(row, 1)
        found = linprog(factor, A_ub=within, b_ub=np.zeros(self.limits.size), A_eq=whole, b_eq=np.ones(self.gpus.size))
        fraction = np.asarray(found.x[:-1])
        points, curves = fraction[: self.points.row.size], fraction[self.points.row.size :]
        return self.settle(Division(points, curves, curves * least_use)), float(found.x[-1])

    def add_up(self, row: IntArray, more: int = 0) -> sp.csr_array:
        """Return the matrix that adds up the columns of each row; some more columns belong to none."""
        import scipy.sparse as sp

        shape = (self.gpus.size, row.size + more)
        return sp.csr_array((np.ones(row.size), (row, np.arange(row.size))), shape=shape)

    def find_steepest(self) -> float:
        """Return the highest decrease of the objective per GPU at the least widths of one type."""
        use = np.concatenate([self.points.use, self.curves.use_at(self.curves.least)])
        time = np.concatenate([self.points.time, self.curves.time_at(self.curves.least)])
        row = np.concatenate([self.points.row, self.curves.row])
        order = np.lexsort((use, row))
        next_in_row = np.flatnonzero(np.diff(row[order]) == 0)
        here, there = order[next_in_row], order[next_in_row + 1]
        scalable = np.where(self.curves.is_power, self.curves.parameter, 1.0 - self.curves.parameter)
        falls = scalable / ((1.0 - scalable) * self.curves.least ** np.where(self.curves.is_power, 1.0, 2.0))
        slopes = np.concatenate([(time[here] - time[there]) / (use[there] - use[here]), falls])
        worth = self.seconds / self.gpus
        return float((slopes * worth[np.concatenate([row[here], self.curves.row])]).max(initial=0.0))

    def settle(self, division: Division) -> Division:
        """Return a division within its bounds, which engines keep up to their tolerance; small fractions go."""
        points, curves = (np.where(f > _LEAST_FRACTION, f, 0.0) for f in (division.points, division.curves))
        total = np.bincount(self.points.row, weights=points, minlength=self.gpus.size)
        total = total + np.bincount(self.curves.row, weights=curves, minlength=self.gpus.size)
        each = np.divide(division.use, curves, out=np.zeros(curves.size), where=curves > 0.0)
        each = np.clip(each, self.curves.use_at(self.curves.least), self.curves.use_at(self.curves.largest))
        curves = curves / total[self.curves.row]
        return Division(points / total[self.points.row], curves, curves * each)

    def keep_limits(self, division: Division, leanest: Division) -> Division:
        """Return a division moved towards the leanest one by as much as limits are exceeded."""
        used, least = self.consumption(division), self.consumption(leanest)
        over = (used > self.limits) & (used > least)
        steps = (used[over] - self.limits[over]) / (used[over] - least[over])
        return division.move(leanest, min(1.0, float(steps.max(initial=0.0))))

    @property
    def are_plain(self) -> bool:
        """Whether there is one GPU type, and no limit but the budget."""
        return not self.instance.is_typed and not self.instance.quotas

    def write(self, division: Division) -> BoaSolution:
        """Write a division as widths."""
        return self._write_widths(division) if self.are_plain else self._write_branches(division)

    def _write_widths(self, division: Division) -> BoaSolution:
        """Write a division among the widths of one GPU type as one real width of each row, k = u / z."""
        on = np.flatnonzero(division.curves > 0.0)
        curves, share = self.curves.take(on), division.curves[on]
        row = np.concatenate([self.points.row, curves.row])
        curve_time = share * curves.time_at(curves.width_at(division.use[on] / share))
        use = np.bincount(row, np.concatenate([division.points * self.points.use, division.use[on]]))
        time = np.bincount(row, np.concatenate([division.points * self.points.time, curve_time]))
        branches: dict[str, tuple[Branch, ...]] = {}
        for name, rows in self.rows.items():
            widths = self.instance.allowed_widths(name)
            branches[name] = (Branch(widths=np.clip(use[rows] / time[rows], widths[0], widths[-1])),)
        return BoaSolution(branches=branches)

    def _write_branches(self, division: Division) -> BoaSolution:
        at, on = np.flatnonzero(division.points > 0.0), np.flatnonzero(division.curves > 0.0)
        points, curves = self.points.take(at), self.curves.take(on)
        widths = curves.width_at(division.use[on] / division.curves[on])
        parts = (
            (points.row, curves.row),
            (division.points[at], division.curves[on]),
            (points.gpu_type, curves.gpu_type),
            (points.width, widths),
        )
        types = list(self.instance.gpu_types)
        shares: list[list[Share]] = [[] for _ in self.gpus]
        for row, fraction, which, width in zip(*(np.concatenate(part).tolist() for part in parts), strict=True):
            shares[row].append(Share(fraction, types[which], width))
        return BoaSolution(
            branches={
                name: write_divisions(self.instance, [sorted(row, reverse=True) for row in shares[rows]])
                for name, rows in self.rows.items()
            }
        )


def collect_pieces(instance: BoaInstance) -> Pieces:
    """State problem (7); of an instance with a budget."""
    points, curves, gpus, seconds, first = [], [], [], [], 0
    closed = set(list_closed(instance))
    for name, job_class in instance.classes.items():
        usable = set(instance.options(name).gpu_types)
        usable = usable - closed or usable
        gpus.append(load_of(instance, name))
        seconds.append(seconds_per_hour(instance, name) * gpus[-1])
        rows = np.arange(first, first + job_class.num_epochs)
        first += rows.size
        for which, gpu_type in enumerate(instance.gpu_types):
            if gpu_type in usable:
                split = _split_curve if has_real_widths(instance, name, gpu_type) else _list_vertices
                at, on = split(instance, name, which, rows)
                points.append(at)
                curves.append(on)
    return Pieces(instance, np.concatenate(gpus), np.concatenate(seconds), Points.join(points), Curves.join(curves))


def _list_vertices(instance: BoaInstance, name: str, which: int, rows: IntArray) -> tuple[Points, Curves]:
    """Return the vertices of a table on a GPU type, and no curves."""
    options = instance.options(name)
    own = options.of_type(list(instance.gpu_types)[which])
    widths = options.widths[own]
    speeds = np.broadcast_to(options.speeds[:, own], (rows.size, widths.size))
    use, time = widths * options.held[own] / speeds, options.wall[own] / speeds
    row, column = np.nonzero(lower_left_hull(use, time))
    at = (use[row, column], time[row, column], widths[column].astype(np.float64))
    none = np.zeros(0)
    return Points(rows[row], np.full(row.size, which), *at), Curves(rows[:0], rows[:0], none > 0.0, none, none, none)


def _split_curve(instance: BoaInstance, name: str, which: int, rows: IntArray) -> tuple[Points, Curves]:
    """Return the epochs of a closed form on a GPU type that are points, and those that are curves."""
    gpu_type = list(instance.gpu_types)[which]
    curve, widths = instance.classes[name].speedup[gpu_type], instance.allowed_widths(name, gpu_type)
    is_amdahl = isinstance(curve, AmdahlSpeedup)
    given = curve.serial_fraction if isinstance(curve, AmdahlSpeedup) else getattr(curve, "exponent")  # noqa: B009
    parameter = np.broadcast_to(given, rows.shape).astype(np.float64)
    least, largest = float(widths[0]), float(widths[-1])
    scalable = 1.0 - parameter if is_amdahl else parameter
    fixed = (scalable == 0.0) | (scalable == 1.0) | (least == largest)
    width = np.where(scalable[fixed] == 0.0, least, largest)
    speed = 1.0 / (1.0 - scalable[fixed] * (1.0 - 1.0 / width)) if is_amdahl else width ** scalable[fixed]
    every = np.full(rows.size, which)
    points = Points(rows[fixed], every[fixed], width / speed, 1.0 / speed, width)
    bounds = (np.full(rows.size, least), np.full(rows.size, largest))
    curves = Curves(rows, every, np.full(rows.size, not is_amdahl), parameter, *bounds)
    return points, curves.take(np.flatnonzero(~fixed))
