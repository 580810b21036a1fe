"""Independent choices linked by several limits: rows of options, and of real widths on curves in closed form.

A row makes one choice among *alternatives*: the options of a table, or any width on one of several curves. That is a
graph of one layer, with the difference that a curve has a continuum of nodes; under given multipliers its best one is
in closed form, so the family answers exactly what the bounds ask of it, and no width is ever rounded to a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import DataError
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch
from optplan.solvers.paths.mixing import Mixture, mix_columns
from optplan.solvers.slopes import SmoothBlock, SmoothForm


@dataclass(frozen=True, eq=False)
class TableOptions:
    """Options of some rows, as many for each.

    Parameters
    ----------
    rows
        (R,) The rows, each once.
    value
        (R, K) Value of each option.
    amount
        (R, K) How much of its own kind an option takes.
    counts
        (L, K) What one unit of that kind counts in each limit.
    """

    rows: IntArray
    value: FloatArray
    amount: FloatArray
    counts: FloatArray

    def find_best(self, multipliers: FloatArray, value_weight: float) -> FloatArray:
        """Return (R,) the option of least weighted cost in each row."""
        price = multipliers @ self.counts
        reduced = self.amount * price
        reduced += value_weight * self.value
        if not price.any():  # of options as good as each other those that take least
            tied = reduced == reduced.min(axis=1, keepdims=True)
            reduced = np.where(tied, self.amount * self.counts.sum(axis=0), np.inf)
        return np.asarray(reduced.argmin(axis=1), dtype=np.float64)

    def follow(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value (R,) and consumption (R, L) of an option in each row."""
        column = position.astype(np.intp)
        own = np.arange(column.size)
        return self.value[own, column], self.amount[own, column, None] * self.counts.T[column]


@dataclass(frozen=True, eq=False)
class CurveWidths:
    """Real widths of some rows on curves in closed form.

    Parameters
    ----------
    rows
        (R,) The rows, each once.
    block
        Their curves.
    counts
        (L,) What one unit of the block's consumption counts in each limit.
    """

    rows: IntArray
    block: SmoothBlock
    counts: FloatArray

    def find_best(self, multipliers: FloatArray, value_weight: float) -> FloatArray:
        """Return (R,) the width of least weighted cost in each row; the narrowest where only consumption counts."""
        price = float(multipliers @ self.counts)
        return self.block.widths(price / value_weight if value_weight > 0.0 else np.inf)

    def follow(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value (R,) and consumption (R, L) of a width in each row."""
        return self.block.value(position), self.block.consumption(position)[:, None] * self.counts

    def follow_one(self, row: int, width: float) -> tuple[float, FloatArray]:
        """Return value and consumption (L,) of a width in one row."""
        widths = np.full(self.rows.size, width)
        value, consumption = self.follow(widths)
        return float(value[row]), consumption[row]

    def average(self, row: int, width: FloatArray, fraction: FloatArray) -> float:
        """Return the width that consumes what a mixture of widths of one row does; it has no more value.

        Parameters
        ----------
        row
            Position in ``rows``.
        width, fraction
            (P,) The mixture; fractions add up to 1.
        """
        parameter = float(self.block.parameter[row])
        if self.block.form is SmoothForm.AMDAHL:
            mean = float(fraction @ width)  # consumption is linear in the width
        elif parameter == 1.0:
            mean = float(width.max())
        else:
            mean = float(fraction @ width ** (1.0 - parameter)) ** (1.0 / (1.0 - parameter))
        return min(max(mean, float(width.min())), float(width.max()))


Alternative = TableOptions | CurveWidths


@dataclass(frozen=True, eq=False)
class LinkedChoices:
    """Rows of alternatives, with L limits: a family of graphs of one layer.

    Parameters
    ----------
    num_rows
        How many rows there are.
    limits
        (L,) For each limit the most that the total consumption may be.
    alternatives
        What the rows choose among; a row may occur in several.

    Raises
    ------
    DataError
        When a row has no alternative.
    """

    num_rows: int
    limits: FloatArray
    alternatives: tuple[Alternative, ...]

    def __post_init__(self) -> None:
        """Check that every row has something to choose."""
        served = np.zeros(self.num_rows, dtype=np.bool_)
        for alternative in self.alternatives:
            served[alternative.rows] = True
        if not served.all():
            raise DataError(f"rows[{int(served.argmin())}]", "no alternative has it", "give each row one at least")

    @property
    def num_graphs(self) -> int:
        """How many rows there are."""
        return self.num_rows

    def best_paths(self, multipliers: FloatArray, *, value_weight: float = 1.0) -> PathBatch:
        """Return for each row the choice of least value_weight * value + multipliers . consumption.

        Ties go to the alternative that takes least of all limits together, then to the first one.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions, at least 0.
        value_weight
            Weight of the value, at least 0.

        Returns
        -------
        PathBatch
            One choice per row; the payload is (rows, 2) the alternative's number, and the option or the width there.
        """
        least = np.full(self.num_rows, np.inf)
        value, consumption = np.empty(self.num_rows), np.full((self.num_rows, self.limits.size), np.inf)
        payload = np.empty((self.num_rows, 2))
        for number, alternative in enumerate(self.alternatives):
            position = alternative.find_best(multipliers, value_weight)
            own_value, own_consumption = alternative.follow(position)
            cost = value_weight * own_value + own_consumption @ multipliers
            rows = alternative.rows
            leaner = own_consumption.sum(axis=1) < consumption[rows].sum(axis=1)
            better = (cost < least[rows]) | ((cost == least[rows]) & leaner)
            rows = rows[better]
            least[rows], value[rows], consumption[rows] = cost[better], own_value[better], own_consumption[better]
            payload[rows, 0], payload[rows, 1] = number, position[better]
        return PathBatch(value, consumption, payload)

    def merge_widths(self, mixture: Mixture) -> Mixture:
        """Return a mixture in which no row has several widths on one curve: their consumption's mean takes their place.

        Consumption stays what it was, but for rounding; value does not grow, because curves are convex.
        """
        number = mixture.columns.payload[:, 0].astype(np.intp)
        keys, first, group = np.unique(
            np.stack([mixture.graph, number]), axis=1, return_index=True, return_inverse=True
        )
        value, consumption = mixture.columns.value.copy(), mixture.columns.consumption.copy()
        payload, fraction = mixture.columns.payload.copy(), mixture.fraction.copy()
        kept = np.ones(fraction.size, dtype=np.bool_)
        for place in np.flatnonzero(np.bincount(group.ravel()) > 1).tolist():
            alternative, graph = self.alternatives[int(keys[1, place])], int(keys[0, place])
            if isinstance(alternative, TableOptions):
                continue
            members, head = np.flatnonzero(group.ravel() == place), int(first[place])
            share = float(fraction[members].sum())
            row = int(np.flatnonzero(alternative.rows == graph)[0])
            width = alternative.average(row, payload[members, 1], fraction[members] / share)
            value[head], consumption[head] = alternative.follow_one(row, width)
            payload[head, 1], fraction[head] = width, share
            kept[members] = members == head
        columns = PathBatch(value, consumption, payload).take(kept)
        return mix_columns(mixture.graph[kept], fraction[kept], columns)
