"""Which way through a width table each job takes, and how long it is still expected to take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optplan.contracts.plan import span
from optplan.execution.online.width_table import WidthTable
from optplan.formulations.boa.planning import BoaPlan
from optplan.schema import FloatArray


class Rows:
    """Deals the rows of a class out to its jobs, each once, by their shares."""

    def __init__(self) -> None:
        self._row: dict[str, int] = {}
        self._dealt: dict[str, list[int]] = {}

    def row_of(self, name: str, job_class: str, table: WidthTable) -> int:
        """Return the row of a job; the first time that is asked, it is dealt."""
        if name not in self._row:
            dealt = self._dealt.setdefault(job_class, [])
            rows = table.classes.get(job_class, ())
            dealt += [0] * (len(rows) - len(dealt))
            row = table.choose_row(job_class, dealt[: len(rows)])
            if rows:
                dealt[row] += 1
            self._row[name] = row
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
        self._left_s: Mapping[str, list[FloatArray]] = {
            name: [
                np.cumsum(
                    np.concatenate(
                        [
                            np.full(end - first, segment.expected.seconds / (end - first))
                            for segment in way
                            for first, end in [span(segment)]
                        ]
                    )[::-1]
                )[::-1]
                for way in ways
            ]
            for name, ways in plan.ways.items()
        }

    def left_s(self, job_class: str, epochs_done: int, row: int = 0) -> float:
        """Return the seconds from an epoch's beginning to the job's end; infinite for classes that are not known."""
        rows = self._left_s.get(job_class)
        if rows is None:
            return float("inf")
        epochs = rows[row if row < len(rows) else 0]
        return float(epochs[min(epochs_done, epochs.size - 1)])

    def epoch_s(self, job_class: str, epochs_done: int, row: int = 0) -> float | None:
        """Return the seconds of an epoch, the first of them 0; None for classes that are not known."""
        rows = self._left_s.get(job_class)
        if rows is None:
            return None
        left = np.append(rows[row if row < len(rows) else 0], 0.0)
        epoch = min(epochs_done, left.size - 2)
        return float(left[epoch] - left[epoch + 1])
