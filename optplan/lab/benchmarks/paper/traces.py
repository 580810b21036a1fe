"""The traces of the evaluation: the published ones, sub-traces of them, and ones that arrive in bursts.

Sub-traces and bursts are written as CSV files in the format of the Sia artifact, outside the repository.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optplan.instances.files import write_text
from optplan.schema import FloatArray

#: The three smaller applications, of which filterTrace and the 85 jobs of figure 4 consist (sections 6.1, 6.3).
FILTERED = ("bert", "cifar10", "deepspeech2")
#: Jobs in a cycle of a high and a low rate, on average; with 20 C^2 can go up to 41 (see :func:`make_bursts`), and
#: newTrace's cycles are an hour long.
CYCLE_JOBS = 20.0


@dataclass(frozen=True)
class Trace:
    """A CSV file of jobs, and the hours over which they arrive, the divisor of averages."""

    name: str
    path: Path
    span_h: float


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of a trace."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_trace(name: str, rows: Sequence[Mapping[str, object]], folder: Path, span_h: float) -> Trace:
    """Write a trace into a folder, replacing what is there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(text.getvalue(), folder / f"{name}.csv", overwrite=True)
    return Trace(name, folder / f"{name}.csv", span_h)


def filter_trace(
    trace: Trace, name: str, folder: Path, *, applications: Collection[str] | None = None, most: int | None = None
) -> Trace:
    """Make the sub-trace of some applications, or of the first jobs."""
    rows = [row for row in read_rows(trace.path) if applications is None or row["application"] in applications]
    return write_trace(name, rows[:most], folder, trace.span_h)


def make_bursts(trace: Trace, variation: float, seed: int, folder: Path) -> Trace:
    """Make a trace of the same jobs in the same order, at the same mean rate, that arrive in bursts (figure 9).

    Jobs arrive at a high rate or not at all: an interrupted Poisson process, whose interarrival times have
    C^2 = 1 + 2 n (1 - p)^2 where n jobs arrive in a cycle on average and a share p of the time is on. Cycles
    stay as long as they are, so that larger C^2 are shorter and more intense bursts. The last arrival is scaled to that
    of the trace.
    """
    rows = read_rows(trace.path)
    on_share = 1.0 - np.sqrt((variation - 1.0) / (2.0 * CYCLE_JOBS))
    cycle_h = CYCLE_JOBS * trace.span_h / len(rows)
    generator = np.random.default_rng(seed)
    arrivals: list[float] = []
    now_h, rate = 0.0, len(rows) / trace.span_h / on_share
    while len(arrivals) < len(rows):
        ends_h = now_h + generator.exponential(on_share * cycle_h) if on_share < 1.0 else np.inf
        while len(arrivals) < len(rows):
            now_h += generator.exponential(1.0 / rate)
            if now_h >= ends_h:
                break
            arrivals.append(now_h)
        if on_share < 1.0:
            now_h = ends_h + generator.exponential((1.0 - on_share) * cycle_h)
    times_s = np.array(arrivals) * (float(rows[-1]["time"]) / arrivals[-1])
    changed = [row | {"time": f"{time_s:.2f}"} for row, time_s in zip(rows, times_s.tolist(), strict=True)]
    return write_trace(f"bursts-{variation:g}-seed{seed}", changed, folder, trace.span_h)


def read_arrivals(trace: Trace) -> FloatArray:
    """Return the seconds at which jobs arrive, (jobs,)."""
    return np.array([float(row["time"]) for row in read_rows(trace.path)])


def measure_variation(trace: Trace) -> float:
    """Return C^2: the variance of the interarrival times over their squared mean."""
    between = np.diff(np.concatenate([[0.0], read_arrivals(trace)]))
    return float(between.var() / between.mean() ** 2)
