"""Declarative models as programs: their rows read from Pyomo, solved by engines, and what is known of their answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Every number that tunes how engines are called; their tolerances stand where they are set."""

    #: Columns from which on HiGHS runs in a process of its own, as it might not heed its limit.
    many_columns: int = 8_000
    #: Engines stop a little before the gap that was asked for, so that scaling back does not leave it a little after.
    gap_share: float = 0.999
    #: Columns that are no whole numbers count units that are so many times as small: bounds may be far from the best.
    finer: int = 16
    #: Seconds between looks at the stopwatch while CP-SAT runs.
    look_s: float = 0.05


TUNING = Tuning()
