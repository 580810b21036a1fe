"""How each form of speedup is written as a convex program, and how its solution is read (BOA, Theorem B.1).

Per unit of work a width k takes time ``z = 1 / s(k)`` and uses GPU-time ``u = k / s(k)``. Each form has a variable y of
its own in which z and u are both convex:

table
    (u, z) is a mixture of the vertices of the lower-left hull of (k / s, 1 / s), and y are the weights: the same as u
    at least every line through two neighbouring vertices, without the steep slopes of flat tables.
Amdahl, serial fraction f
    With y = 1 / k, ``z = f + (1 - f) y`` and ``u = (1 - f) + f / y``.
power law, exponent a
    With y = log k, ``z = exp(-a y)`` and ``u = exp((1 - a) y)``. That is better conditioned than the paper's
    ``u >= z^(1 - 1 / a)`` as it stands, whose exponent is anything below zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from optplan.schema import FloatArray, IntArray

if TYPE_CHECKING:
    import cvxpy as cp


class ConvexSpeedup(Protocol):
    """Some epochs of one class in which a width is to be decided, and the variable y that decides it."""

    @property
    def light(self) -> FloatArray:
        """The y of least consumption; its size is that of y."""

    @property
    def steepness(self) -> FloatArray:
        """(epochs,) Decrease of z per increase of u there: the highest price at which more GPUs pay."""

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        """Return z and u by epoch, and what y has to keep."""

    def settle(self, y: FloatArray) -> FloatArray:
        """Return y within its constraints, which an engine keeps up to its tolerance."""

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k and u by epoch at a settled y."""

    def time_at(self, width: FloatArray) -> FloatArray:
        """Return z by epoch at widths within their bounds."""


@dataclass(frozen=True)
class ConvexTables:
    """Tables, as the vertices of all epochs' hulls in order of the widths.

    Parameters
    ----------
    epoch
        (vertices,) Which epoch a vertex belongs to, ascending; each epoch has two vertices or more.
    use, time
        (vertices,) ``k / s`` and ``1 / s`` at the vertices.
    """

    epoch: IntArray
    use: FloatArray
    time: FloatArray

    @property
    def _first(self) -> IntArray:
        """First vertex of each epoch."""
        return np.flatnonzero(np.diff(self.epoch, prepend=-1))

    @property
    def light(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return (np.diff(self.epoch, prepend=-1) > 0).astype(np.float64)

    @property
    def steepness(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        first = self._first
        return (self.time[first] - self.time[first + 1]) / (self.use[first + 1] - self.use[first])

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        """As in :class:`ConvexSpeedup`."""
        import scipy.sparse as sp

        by_epoch = sp.csr_array((np.ones(self.epoch.size), (self.epoch, np.arange(self.epoch.size))))
        return (by_epoch * self.time) @ y, (by_epoch * self.use) @ y, [y >= 0.0, by_epoch @ y == 1.0]

    def settle(self, y: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        weight = np.maximum(y, 0.0)
        return weight / np.add.reduceat(weight, self._first)[self.epoch]

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in :class:`ConvexSpeedup`."""
        first, widths = self._first, self.use / self.time
        use, time = np.add.reduceat(y * self.use, first), np.add.reduceat(y * self.time, first)
        # Rounding must not carry a width past the ends of its hull.
        return np.clip(use / time, np.minimum.reduceat(widths, first), np.maximum.reduceat(widths, first)), use

    def time_at(self, width: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`: on the hull, along which k = u / z grows from vertex to vertex."""
        widths = self.use / self.time
        first = self._first
        last = np.append(first[1:], self.epoch.size) - 1
        reached = np.add.reduceat((widths <= width[self.epoch]).astype(np.intp), first)
        lower = np.clip(first + reached - 1, first, last - 1)
        # A share p at the upper vertex has k = ((1 - p) u + p u') / ((1 - p) z + p z').
        use, time = self.use[lower], self.time[lower]
        more, less = self.use[lower + 1] - use, time - self.time[lower + 1]
        share = np.clip((width * time - use) / (more + width * less), 0.0, 1.0)
        return time - share * less


@dataclass(frozen=True)
class ConvexAmdahl:
    """Amdahl's law.

    Parameters
    ----------
    serial
        (epochs,) Serial fractions f, between zero and one, exclusively.
    least, largest
        Bounds of the width, different.
    """

    serial: FloatArray
    least: float
    largest: float

    @property
    def light(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return np.full(self.serial.size, 1.0 / self.least)

    @property
    def steepness(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return (1.0 - self.serial) / (self.serial * self.least**2)

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        """As in :class:`ConvexSpeedup`."""
        import cvxpy as cp

        parallel = 1.0 - self.serial
        bounds = [y >= 1.0 / self.largest, y <= 1.0 / self.least]
        return self.serial + cp.multiply(parallel, y), parallel + cp.multiply(self.serial, cp.inv_pos(y)), bounds

    def settle(self, y: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return np.clip(y, 1.0 / self.largest, 1.0 / self.least)

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in :class:`ConvexSpeedup`."""
        k = np.clip(1.0 / y, self.least, self.largest)
        return k, (1.0 - self.serial) + self.serial * k

    def time_at(self, width: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return self.serial + (1.0 - self.serial) / width


@dataclass(frozen=True)
class ConvexPower:
    """Power laws.

    Parameters
    ----------
    exponent
        (epochs,) Exponents a, between zero and one, exclusively.
    least, largest
        Bounds of the width, different.
    """

    exponent: FloatArray
    least: float
    largest: float

    @property
    def light(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return np.full(self.exponent.size, np.log(self.least))

    @property
    def steepness(self) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return self.exponent / ((1.0 - self.exponent) * self.least)

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        """As in :class:`ConvexSpeedup`."""
        import cvxpy as cp

        bounds = [y >= np.log(self.least), y <= np.log(self.largest)]
        return cp.exp(cp.multiply(-self.exponent, y)), cp.exp(cp.multiply(1.0 - self.exponent, y)), bounds

    def settle(self, y: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return np.clip(y, np.log(self.least), np.log(self.largest))

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in :class:`ConvexSpeedup`."""
        k = np.clip(np.exp(y), self.least, self.largest)
        return k, k ** (1.0 - self.exponent)

    def time_at(self, width: FloatArray) -> FloatArray:
        """As in :class:`ConvexSpeedup`."""
        return np.asarray(width**-self.exponent)
