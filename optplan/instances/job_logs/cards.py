"""Speedups of a log's classes from model cards, and where the log's own runs contradict these."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.errors import DataError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.model_cards import CardSpeedup
from optplan.schema import FloatArray, IntArray
from optplan.speedup import TableSpeedup
from optplan.speedup.curves import DEVIATIONS

#: Ratio from which measurements of one width contradict one another.
_SAME_WIDTH = 1.25
#: Logarithms closer than this differ by rounding.
_ROUNDING = 1e-9


def list_types(jobs: Jobs) -> list[str]:
    """List the types of GPU on which jobs ran, as far as the log says them."""
    return sorted(word for word in jobs.list_words(np.unique(jobs.gpu_type)) if word)


def choose_card(name: str, card: CardSpeedup, types: Sequence[str], gpus: IntArray) -> tuple[TableSpeedup, int]:
    """Return a card's table for the type of GPU on which a class ran, relative to the width of most runs (N,)."""
    if len(card.speedup) > 1 and not (len(types) == 1 and types[0] in card.speedup):
        problem = (
            f"is for {', '.join(card.speedup)}, and its jobs ran on {', '.join(types) or 'GPUs that have no name'}"
        )
        raise DataError(f"classes.{name}.speedup: its card", problem, "compute it for that type, as in --gpu NAME=h100")
    gpu = types[0] if len(card.speedup) > 1 else next(iter(card.speedup))
    widths, counts = np.unique(gpus[np.isin(gpus, card.speedup[gpu].gpus)], return_counts=True)
    base = int(widths[np.argmax(counts)]) if widths.size else int(card.speedup[gpu].gpus[0])
    return card.relative_to(gpu, base).speedup[gpu], base


def find_contradiction(
    table: TableSpeedup, reference_width: int, gpus: IntArray, seconds: FloatArray, what: str
) -> tuple[str, float]:
    """Say on which two widths times (N,) of equal work contradict a table most, beyond both their 90 % bands."""
    # Also how many times as wide, in logarithms, the table's band has to be so that nothing contradicts it.
    known = np.isin(gpus, table.gpus)
    widths, which, counts = np.unique(gpus[known], return_inverse=True, return_counts=True)
    if widths.size < 2:
        return "", 1.0
    logs = np.log(seconds[known])
    means = np.bincount(which, weights=logs) / counts
    freedom = logs.size - widths.size
    variance = float(((logs - means[which]) ** 2).sum()) / freedom if freedom else 0.0
    promised = np.log(table.at(widths)[0])
    errors = np.log(table.band_at(widths, reference_width)[1][0]) - promised
    base = int(np.argmax(counts))
    gains, promised = means[base] - means, promised - promised[base]
    bands = np.hypot(errors, errors[base])
    beyond = np.abs(gains - promised) - DEVIATIONS * np.sqrt(variance / counts + variance / counts[base])
    apart = beyond - bands
    apart[base] = 0.0
    worst = int(np.argmax(apart))
    if apart[worst] <= _ROUNDING:
        return "", 1.0
    wider = float(np.max(beyond[bands > 0.0] / bands[bands > 0.0], initial=1.0))
    sign = 1.0 if worst > base else -1.0  # speedups of the wider one
    said, stated = float(sign * gains[worst]), float(sign * promised[worst])
    low, high = (math.exp(stated + way * float(bands[worst])) for way in (-1.0, 1.0))
    small, large = sorted((int(widths[base]), int(widths[worst])))
    message = (
        f"{what} on {small} and {large} GPUs say {math.exp(said):.2g}, the card {math.exp(stated):.2g} "
        f"({low:.2g} to {high:.2g})"
    )
    return message, wider


def find_disagreement(gpus: IntArray, rates: FloatArray) -> str:
    """Say on which width measurements contradict one another; their mean is what a table has."""
    for width in np.unique(gpus).tolist():
        own = rates[gpus == width]
        if own.max() > _SAME_WIDTH * own.min():
            return f"measurements on {width} GPUs differ, from {own.min():g} to {own.max():g}; their mean is taken"
    return ""
