"""Speedups of a log's classes from model cards, and where the log's own runs contradict these."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from optplan.errors import DataError
from optplan.instances.job_logs.records import Job
from optplan.instances.model_cards import CardSpeedup
from optplan.speedup import TableSpeedup

#: Half the width of a 90 % interval, in standard deviations.
_REACH = 1.645
#: Ratio from which measurements of one width contradict one another.
_SAME_WIDTH = 1.25


def choose_table(name: str, card: CardSpeedup, jobs: Sequence[Job]) -> TableSpeedup:
    """Return a card's table for the type of GPU on which a class ran; the only one is for whatever that is called."""
    if len(card.speedup) == 1:
        return next(iter(card.speedup.values()))
    types = sorted({job.gpu_type for job in jobs if job.gpu_type})
    if len(types) == 1 and types[0] in card.speedup:
        return card.speedup[types[0]]
    problem = f"is for {', '.join(card.speedup)}, and its jobs ran on {', '.join(types) or 'GPUs that have no name'}"
    raise DataError(f"classes.{name}.speedup: its card", problem, "compute it for that type, as in --gpu NAME=h100")


def find_contradiction(
    table: TableSpeedup, reference_width: int, points: Iterable[tuple[int, float]], what: str
) -> str:
    """Say on which two widths points contradict a table most: what both give for a ratio of speeds, each with its band.

    Points are widths with seconds, in any unit, of equal work; one for each width is exact. Nothing is said where the
    90 % interval of the points' ratio and the table's band meet.
    """
    logs: dict[int, list[float]] = defaultdict(list)
    for gpus, seconds in points:
        if gpus in table.gpus:
            logs[gpus].append(math.log(seconds))
    if len(logs) < 2:
        return ""
    widths = sorted(logs)
    speedup = dict(zip(widths, table.at(np.array(widths))[0].tolist(), strict=True))
    high = table.band_at(np.array(widths), reference_width)[1][0].tolist()
    errors = {width: math.log(most / speedup[width]) for width, most in zip(widths, high, strict=True)}
    freedom = sum(map(len, logs.values())) - len(logs)
    squares = sum(float(np.var(times)) * len(times) for times in logs.values())
    variance = squares / freedom if freedom else 0.0
    base = max(widths, key=lambda width: len(logs[width]))
    worst, said = 0.0, ""
    for other in widths:
        small, large = sorted((base, other))
        ratio = float(np.mean(logs[small]) - np.mean(logs[large]))
        reach = _REACH * math.sqrt(variance / len(logs[small]) + variance / len(logs[large]))
        promised, error = math.log(speedup[large] / speedup[small]), math.hypot(errors[small], errors[large])
        apart = abs(ratio - promised) - reach - error
        if apart > worst + 1e-9:
            low, most = math.exp(promised - error), math.exp(promised + error)
            worst = apart
            said = (
                f"{what} on {small} and {large} GPUs say {math.exp(ratio):.2g}, the card {math.exp(promised):.2g} "
                f"({low:.2g} to {most:.2g})"
            )
    return said


def find_disagreement(gpus: Sequence[int], rates: Sequence[float]) -> str:
    """Say on which width measurements contradict one another; their mean is what a table has."""
    for width in sorted(set(gpus)):
        own = [rate for each, rate in zip(gpus, rates, strict=True) if each == width]
        if max(own) > _SAME_WIDTH * min(own):
            return f"measurements on {width} GPUs differ, from {min(own):g} to {max(own):g}; their mean is taken"
    return ""
