"""Totals: sums of chosen paths, with what is left to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.dominance import find_undominated_vectors
from optplan.solvers.paths.families import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Totals:
    """Choices of paths for some graphs and of blocks for others.

    Parameters
    ----------
    sums
        (N, D) Value and consumptions of the paths.
    chosen
        (N, G, 2) List of each graph's path and its place there; -1 where none is chosen yet.
    blocks
        (N, G) Block of each graph; 0 for any.
    """

    sums: FloatArray
    chosen: IntArray
    blocks: IntArray

    def __len__(self) -> int:
        return len(self.sums)

    def take(self, places: IntArray | NDArray[np.bool_] | slice) -> Totals:
        """Return some of them."""
        return Totals(self.sums[places], self.chosen[places], self.blocks[places])

    @classmethod
    def join(cls, parts: Sequence[Totals]) -> Totals:
        """Return the totals of several, at least one."""
        return cls(
            np.concatenate([part.sums for part in parts]),
            np.concatenate([part.chosen for part in parts]),
            np.concatenate([part.blocks for part in parts]),
        )

    @property
    def left(self) -> IntArray:
        """(N, G) Block of each graph of which no path is chosen yet; 0 for any, -1 where one is chosen."""
        return np.where(self.chosen[:, :, 0] < 0, self.blocks, -1)

    def undercut(self, unit: FloatArray) -> Totals:
        """Return the totals that no other with the same graphs left, and the same blocks of those, undercuts.

        Parameters
        ----------
        unit
            (D,) What value and consumptions are counted in, so that their sums make sense.
        """
        if not len(self):
            return self
        _, alike = np.unique(self.left, axis=0, return_inverse=True)
        return self.take(np.sort(find_undominated_vectors(alike.ravel(), self.sums / unit)))

    def divide(self, unit: FloatArray, grain: tuple[int, float]) -> list[Totals]:
        """Divide totals into parts of the same blocks left that leave about the same of value and limits.

        Parameters
        ----------
        unit
            (D,) What value and consumptions are counted in.
        grain
            A part is at most so many totals, and has at most this spread; see :meth:`halve`.
        """
        if not len(self):
            return []
        kinds, which = np.unique(self.left, axis=0, return_inverse=True)
        waiting, parts = [self.take(which.ravel() == number) for number in range(len(kinds))], []
        while waiting:
            part = waiting.pop()
            halves = part.halve(unit, *grain)
            waiting += halves
            parts += [] if halves else [part]
        return parts

    def halve(self, unit: FloatArray, few: int = 0, spread: float = 0.0) -> list[Totals]:
        """Divide totals by what they leave of value and limits; not at all where few are, or they leave the same."""
        scaled = self.sums / unit
        spreads = np.ptp(scaled, axis=0)
        widest = int(spreads.argmax())
        middle = 0.5 * (scaled[:, widest].min() + scaled[:, widest].max())
        low = scaled[:, widest] <= middle
        if (len(self) <= few and spreads[widest] < spread) or low.all():
            return []
        return [self.take(low), self.take(~low)]
