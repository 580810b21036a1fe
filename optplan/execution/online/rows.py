"""Which way through a width table each job takes, and how long it is still expected to take."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.plan import span
from optplan.execution.online.width_table import WidthTable, look_up
from optplan.formulations.boa.planning import BoaPlan, choose_way


class Rows:
    """Deals the rows of a class out to its jobs, each once, by their shares."""

    def __init__(self) -> None:
        self._row: dict[str, int] = {}
        self._dealt: dict[str, list[int]] = {}

    def row_of(self, name: str, job_class: str, table: WidthTable) -> int:
        """Return the row of a job; the first time that is asked, it is dealt."""
        if name not in self._row:
            dealt = self._dealt.setdefault(job_class, [])
            rows, self._row[name] = table.classes.get(job_class, ()), 0  # of classes that are not known
            dealt += [0] * (len(rows) - len(dealt))
            if rows:
                row = self._row[name] = choose_way([each.share for each in rows], dealt[: len(rows)])
                dealt[row] += 1
        return self._row[name]

    def restore(self, name: str, job_class: str, row: int) -> None:
        """Take note of a row that was dealt before."""
        dealt = self._dealt.setdefault(job_class, [])
        dealt += [0] * (row + 1 - len(dealt))
        dealt[row] += 1
        self._row[name] = row


class RemainingTimes:
    """How long jobs are expected to go on under a plan; within a segment all epochs are taken to be equally long."""

    def __init__(self, plan: BoaPlan) -> None:
        # By class and row, for each epoch: until the job's end, and of the epoch alone.
        self._times_s: dict[str, list[list[tuple[float, float]]]] = {}
        for name, ways in plan.ways.items():
            for way in ways:
                counts = [end - first for first, end in map(span, way)]
                means_s = [segment.expected.seconds / count for segment, count in zip(way, counts, strict=True)]
                left_s = np.cumsum(np.repeat(means_s, counts)[::-1])[::-1]
                times_s = zip(left_s.tolist(), (-np.diff(left_s, append=0.0)).tolist(), strict=True)
                self._times_s.setdefault(name, []).append(list(times_s))

    def left_s(self, job_class: str, epochs_done: int, row: int = 0) -> float:
        """Return the seconds from an epoch's beginning to the job's end; infinite for classes that are not known."""
        found = look_up(self._times_s, job_class, epochs_done, row)
        return math.inf if found is None else found[0]

    def epoch_s(self, job_class: str, epochs_done: int, row: int = 0) -> float | None:
        """Return the seconds of an epoch, the first of them 0; None for classes that are not known."""
        found = look_up(self._times_s, job_class, epochs_done, row)
        return None if found is None else found[1]
