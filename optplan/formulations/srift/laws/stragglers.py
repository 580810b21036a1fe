"""The slowest of several VMs: the mean of a maximum of independent normals (4.3).

A synchronous iteration waits for its straggler. The paper samples a compute time for each VM and takes the mean of the
largest; here that mean is computed by quadrature, and the sampling is the check.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri

from optplan.errors import UsageError
from optplan.schema import FloatArray

#: Nodes of the Gauss-Legendre rule on each panel.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
#: Log-probabilities of the maximum of a group at which panels end: below the first it is as good as never.
_LEVELS = (-46.0, -12.0, -2.0, -0.4, -0.02)
#: Upper tail of a group beyond which nothing is integrated.
_TAIL = 1e-17
#: Deviation over mean up to which a variable is as good as constant.
_CONSTANT = 1e-12


def expected_maximum(means: Sequence[float], deviations: Sequence[float], counts: Sequence[int]) -> float:
    """Return the mean of the largest of independent normal variables, in groups (G,) of equal ones, by quadrature.

    The relative error is below 1e-9.
    """
    groups = [group for group in zip(means, deviations, counts, strict=True) if group[2]]
    if not groups:
        raise UsageError("the largest of no variables is not defined; give at least one")
    if len(groups) == 1:
        (mean, deviation, count) = groups[0]
        return mean + deviation * standard_maximum(count)
    return _integrate(groups)


@lru_cache(maxsize=4096)
def standard_maximum(count: int) -> float:
    """Return the mean of the largest of so many independent standard normal variables."""
    return 0.0 if count == 1 else _integrate([(0.0, 1.0, count)])


def _integrate(groups: Sequence[tuple[float, float, int]]) -> float:
    """Integrate the distribution: E[max] = a + integral from a of (1 - F), where F(a) is as good as zero."""
    moving = [group for group in groups if group[1] > _CONSTANT * abs(group[0])]
    floor = max((group[0] for group in groups if group not in moving), default=-np.inf)
    if not moving:
        return floor
    points = np.concatenate([_quantiles(*group) for group in moving])
    lowest = max(floor, *(float(_quantiles(*group)[0]) for group in moving))
    highest = float(points.max())
    if highest <= lowest:
        return lowest
    inner = np.unique(points[(points > lowest) & (points < highest)])
    ends = np.concatenate(([lowest], inner, [highest]))
    half = np.diff(ends) / 2.0
    at = (ends[:-1] + half)[:, None] + half[:, None] * _NODES
    logarithm = np.zeros(at.shape)
    for mean, deviation, count in moving:
        logarithm += count * log_ndtr((at - mean) / deviation)
    return lowest + float(((-np.expm1(logarithm)) @ _WEIGHTS) @ half)


def _quantiles(mean: float, deviation: float, count: int) -> FloatArray:
    """Return points between which the distribution of a group's maximum is smooth, from never to surely."""
    return mean + deviation * _standard_quantiles(count)


@lru_cache(maxsize=4096)
def _standard_quantiles(count: int) -> FloatArray:
    inner = ndtri(np.exp(np.array(_LEVELS) / count))
    last = -ndtri(_TAIL / count)
    return np.asarray(np.append(inner, last), dtype=np.float64)
