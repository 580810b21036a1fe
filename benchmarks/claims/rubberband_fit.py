"""Step times of ResNet101 that RubberBand's table 2 implies: what the paper does not print, fitted to what it does.

Every expected time is a sum over the stages of ``SHA(32, 1, 50, 3)``: waves of trials, times epochs, times the seconds
of an epoch on the GPUs of a trial. So a time of the table is an equation in such seconds. Within a machine of four GPUs
the speedups are table 1's, which leaves one unknown for each equation; nothing else of table 2 is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

#: Trials and epochs of the stages of SHA(32, 1, 50, 3).
STAGES = ((32, 1), (10, 3), (3, 9), (1, 37))
#: Until the first machines are there: 15 s to get them and 15 s to set them up (6.3.1).
OVERHEAD_S = 30.0
#: Table 1: samples a second of ResNet50 on 1, 2 and 4 GPUs with placement.
TABLE1 = {1: 749.58, 2: 1480.07, 4: 2773.04}
#: Table 2's simulated times that are fitted: seconds, and for each stage (GPUs of a trial, trials at a time).
_STATIC_2 = ((1, 8), (1, 8), (2, 3), (8, 1))
_STATIC_3 = ((1, 12), (1, 10), (4, 3), (12, 1))
_STATIC_6 = ((1, 24), (2, 10), (8, 3), (24, 1))
_TABLE_3 = ((1, 32), (2, 10), (4, 3), (8, 1))
_NAIVE_16 = ((16, 32), (16, 10), (16, 3), (16, 1))
FITTED = {
    "static, 2 machines, 40 min": (2213.0, _STATIC_2),
    "static, 3 machines, 30 min": (1749.0, _STATIC_3),
    "static, 6 machines, 20 min": (1164.0, _STATIC_6),
    "table 3's plan, 20 min": (1136.0, _TABLE_3),
    "naive elastic, 512 GPUs at first, 20 min": (879.0, _NAIVE_16),
}
_WIDTHS = (8, 12, 16, 24)
_Plan = Sequence[tuple[int, int]]


def predict_s(seconds: Callable[[int], float], plan: _Plan) -> float:
    """Return the time of a plan."""
    stages = zip(STAGES, plan, strict=True)
    waves = ((math.ceil(trials / slots) * epochs, gpus) for (trials, epochs), (gpus, slots) in stages)
    return OVERHEAD_S + sum(rounds * seconds(gpus) for rounds, gpus in waves)


def fit_seconds() -> dict[int, float]:
    """Solve the equations: seconds of an epoch by GPUs of a trial; they are linear in the five unknowns."""
    within = {gpus: TABLE1[1] / samples for gpus, samples in TABLE1.items()}
    matrix = np.zeros((len(FITTED), 1 + len(_WIDTHS)))
    for row, (_, plan) in enumerate(FITTED.values()):
        for (trials, epochs), (gpus, slots) in zip(STAGES, plan, strict=True):
            rounds = math.ceil(trials / slots) * epochs
            column = 0 if gpus in within else 1 + _WIDTHS.index(gpus)
            matrix[row, column] += rounds * within.get(gpus, 1.0)
    wanted = np.array([taken_s - OVERHEAD_S for taken_s, _ in FITTED.values()])
    one, *others = np.linalg.solve(matrix, wanted).tolist()
    return {gpus: one * share for gpus, share in within.items()} | dict(zip(_WIDTHS, others, strict=True))


def fit_law() -> dict[str, Any]:
    """Fit a smooth law to the same times, on m machines: w (s + (1 - s) / p) (1 + c (m - 1))."""

    def seconds(law: Sequence[float], gpus: int) -> float:
        one, serial, machine = law
        return one * (serial + (1.0 - serial) / gpus) * (1.0 + machine * (math.ceil(gpus / 4) - 1))

    def residuals(law: Sequence[float]) -> list[float]:
        return [math.log(predict_s(lambda p: seconds(law, p), plan) / taken_s) for taken_s, plan in FITTED.values()]

    found = least_squares(residuals, [106.0, 0.03, 0.1], bounds=([1.0, 0.0, 0.0], [500.0, 1.0, 2.0]))
    off = {name: math.exp(one) - 1.0 for name, one in zip(FITTED, residuals(found.x), strict=True)}
    return {"seconds_on_one": found.x[0], "serial_share": found.x[1], "for_each_machine": found.x[2], "off": off}


def measure_fit() -> dict[str, Any]:
    """Return both fits and what is left of the equations."""
    seconds = fit_seconds()
    left = {name: predict_s(seconds.__getitem__, plan) - taken_s for name, (taken_s, plan) in FITTED.items()}
    law = fit_law()
    return {
        "seconds": {str(gpus): round(taken_s, 4) for gpus, taken_s in seconds.items()},
        "left_s": {name: round(one, 6) + 0.0 for name, one in left.items()},
        "law": {key: round(float(law[key]), 4) for key in ("seconds_on_one", "serial_share", "for_each_machine")},
        "law_off": {name: round(one, 4) for name, one in law["off"].items()},
    }
