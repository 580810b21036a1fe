"""What searches for pure plans hand back: one path per graph, with what is proven about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optplan.solvers.paths.families import PathBatch
from optplan.solvers.paths.gap import Exhaustion, relative_gap
from optplan.solvers.paths.single_dual import LagrangianBound

if TYPE_CHECKING:
    from optplan.solvers.paths.branch_price import Part
    from optplan.solvers.paths.linked_dual import LinkedBound


@dataclass(frozen=True, eq=False, kw_only=True)
class PathSolution:
    """One path per graph, with what is proven about it.

    Parameters
    ----------
    paths
        G paths that keep the limits; None where none was found.
    bound
        No plan of one path per graph has less value. It equals the paths' when proven by exhaustion, and is +inf when
        it is proven that no such plan keeps the limits.
    exhaustion
        What ``bound`` rests on where that can be checked by enumerating once more; None where it is the Lagrangian
        bound, or rests on branch and price.
    proven
        Whether the wanted gap was reached, or no plan exists.
    stopped_by
        ``time``, ``labels``, ``pairs`` or ``branches`` when a limit ended the search, else None.
    passes, labels, pairs
        Work done.
    """

    paths: PathBatch | None
    bound: float
    exhaustion: Exhaustion | None
    proven: bool
    stopped_by: str | None
    passes: int
    labels: int
    pairs: int

    @property
    def gap(self) -> float:
        """(value - bound) / value, 0 when both agree; +inf without paths."""
        return math.inf if self.paths is None else relative_gap(self.paths.total_value, self.bound)


@dataclass(frozen=True, eq=False, kw_only=True)
class PureSolution(PathSolution):
    """A solution under one budget, where there is a plan always when one exists.

    Parameters
    ----------
    lagrangian
        The bound of the convexified problem, which holds for mixed plans too.
    """

    paths: PathBatch
    lagrangian: LagrangianBound

    @property
    def value(self) -> float:
        """Sum of the values."""
        return self.paths.total_value

    @property
    def consumption(self) -> float:
        """Sum of the consumptions."""
        return self.paths.total_used


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedSolution(PathSolution):
    """A solution under several limits.

    Parameters
    ----------
    lagrangian
        The bound of the convexified problem, which holds for mixed plans too.
    part
        All choices, divided by branch and price so that each part proves ``bound``; None where it rests on something
        else.
    branches
        Parts that branch and price looked at.
    """

    lagrangian: LinkedBound
    part: Part | None
    branches: int
